"""Runs commands as a user's shell does, in a folder of their own, against servers on 127.0.0.1."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("ddbload")
SECONDS = 240.0
"""A command that takes longer hangs. (A whole demo takes a minute on a busy machine.)"""


@dataclass(frozen=True)
class Ended:
    """How a command ended. Negative codes are signals'."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> str:
        """Standard error after its first line, which names the run."""
        named, end, rest = self.err.partition("\n")
        assert re.fullmatch(r"ddbload: run \S+ \((ledger|stack) .+\)", named), self.err
        assert end
        return rest


@dataclass
class Console:
    """A folder to run commands in, and their environment, to which nothing of ours leaks."""

    folder: Path
    aws: Mapping[str, str]
    env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        for name in ("home", "tmp"):
            (self.folder.parent / name).mkdir(exist_ok=True)
        self.env = {
            "PATH": os.pathsep.join([str(PROGRAM.parent), os.environ["PATH"]]),
            "HOME": str(self.folder.parent / "home"),
            "TMPDIR": str(self.folder.parent / "tmp"),
            "LC_ALL": "C.UTF-8",
            # This checkout, whatever the environment has installed.
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "always::ResourceWarning",
            "AWS_EC2_METADATA_DISABLED": "true",
            **self.aws,
        }

    def path(self, name: str) -> Path:
        """A file of the folder."""
        return self.folder / name

    def write(self, name: str, data: str | bytes) -> str:
        """Make a file; its name."""
        self.path(name).write_bytes(data.encode() if isinstance(data, str) else data)
        return name

    def shell(self, line: str, **env: str | None) -> Ended:
        """Run a line of bash. An environment variable that is None is unset."""
        return self.run(["bash", "-c", line], **env)

    def ddbload(self, *arguments: str, **env: str | None) -> Ended:
        """Run ddbload."""
        return self.run([str(PROGRAM), *arguments], **env)

    def run(self, command: Sequence[str], **env: str | None) -> Ended:
        """Run a program to its end, with nothing on its standard input."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        ended = Ended(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in ended.err, ended.err
        assert "Warning" not in ended.err, ended.err
        return ended

    def environment(self, changes: Mapping[str, str | None]) -> dict[str, str]:
        """The environment, with changes."""
        changed = {**self.env, **changes}
        return {name: value for name, value in changed.items() if value is not None}

    def leftovers(self) -> list[str]:
        """What commands have left among the temporary files."""
        return sorted(path.name for path in (self.folder.parent / "tmp").iterdir())
