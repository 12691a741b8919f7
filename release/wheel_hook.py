"""Build hook of hatchling: put `infra` into the wheel as `ddbload_cdk`, with the app's files.

So there is one copy in the repository, and no package `infra` in anybody's site-packages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CONSTRUCT = "ddbload_cdk"
"""Package of the construct, whose modules import each other by relative names."""
APP = f"{CONSTRUCT}/app"
"""Folder that `ddbload/deploy/toolchain.py` and the construct read."""
PARTS = {
    "infra": CONSTRUCT,
    **{
        part: f"{APP}/{part}"
        for part in (
            *("app.py", "cdk.json", "package.json", "package-lock.json"),
            *("lambdas", "localaws", "statemachine"),
            *("locks/demo.txt", "locks/deploy.txt"),
        )
    },
}
"""Files and folders of the repository, and where they are in the wheel."""


class WheelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hook that adds the files to a wheel, but not to an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, in a fixed order."""
        if version == "editable":
            return
        for part, target in PARTS.items():
            path = Path(self.root, part)
            files = [path] if path.is_file() else sorted(path.rglob("*"))
            for file in files:
                if file.is_file() and "__pycache__" not in file.parts:
                    below = file.relative_to(path).as_posix()
                    name = target if file == path else f"{target}/{below}"
                    build_data["force_include"][str(file)] = name
