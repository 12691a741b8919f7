"""Run commands in a folder of the test, against servers on 127.0.0.1."""

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
"""Seconds after which a command counts as hanging; a demo takes a minute on a busy machine."""


_PROGRESS = re.compile(r"(?m)^ddbload: (checking the source|([a-z ]+, )?\d+ % .* rows\b.*)\n")


def without_progress(err: str) -> str:
    """Remove lines of progress, which a command prints where it takes seconds."""
    return _PROGRESS.sub("", err)


@dataclass(frozen=True)
class Ended:
    """Result of a command; a negative exit code is a signal."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> str:
        """Standard error without progress and its first line, which has the run id."""
        named, end, rest = without_progress(self.err).partition("\n")
        assert re.fullmatch(r"ddbload: run \S+ \((ledger|stack) .+\)", named), self.err
        assert end
        return rest


@dataclass
class Console:
    """Folder to run commands in, with an environment without the developer's settings."""

    folder: Path
    aws: Mapping[str, str]
    program: Path = PROGRAM
    """Command that runs as `ddbload`."""
    env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        for name in ("home", "tmp"):
            (self.folder.parent / name).mkdir(exist_ok=True)
        self.env = {
            "PATH": os.pathsep.join(
                [
                    *dict.fromkeys((str(self.program.parent), str(PROGRAM.parent))),
                    os.environ["PATH"],
                ]
            ),
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
        """Return the path of a file in the folder."""
        return self.folder / name

    def write(self, name: str, data: str | bytes) -> str:
        """Write a file; return its name."""
        self.path(name).write_bytes(data.encode() if isinstance(data, str) else data)
        return name

    def shell(self, line: str, **env: str | None) -> Ended:
        """Run a line of bash; a variable with the value None is unset."""
        return self.run(["bash", "-c", line], **env)

    def ddbload(self, *arguments: str, **env: str | None) -> Ended:
        """Run ddbload with arguments."""
        return self.run([str(self.program), *arguments], **env)

    def run(self, command: Sequence[str], **env: str | None) -> Ended:
        """Run a program to its end, with empty standard input."""
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
        """Return the environment with changes."""
        changed = {**self.env, **changes}
        return {name: value for name, value in changed.items() if value is not None}

    def leftovers(self) -> list[str]:
        """List temporary files that commands have left."""
        return sorted(path.name for path in (self.folder.parent / "tmp").iterdir())
