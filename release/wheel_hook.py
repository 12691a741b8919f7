"""Build hook of hatchling: put the CDK app into the wheel, as data of ddbload.

So there is one copy in the repository, and no package `infra` in anybody's site-packages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

APP = "ddbload/deploy/app"
"""Folder of the wheel that `ddbload/deploy/toolchain.py` looks into."""
PARTS = (
    *("app.py", "cdk.json", "package.json", "package-lock.json"),
    *("infra", "lambdas", "localaws", "statemachine"),
    *("locks/demo.txt", "locks/deploy.txt"),
)


class WheelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hook that adds the app's files to a wheel, but not to an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, in a fixed order."""
        if version == "editable":
            return
        root = Path(self.root)
        for part in PARTS:
            path = root / part
            files = [path] if path.is_file() else sorted(path.rglob("*"))
            for file in files:
                if file.is_file() and "__pycache__" not in file.parts:
                    name = file.relative_to(root).as_posix()
                    build_data["force_include"][str(file)] = f"{APP}/{name}"
