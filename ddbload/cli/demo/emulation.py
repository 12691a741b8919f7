"""AWS on this machine: `python -m localaws`, as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click

from ddbload.cli.demo.checkout import ROOT
from ddbload.cli.output import tell
from ddbload.errors import DemoUnavailable

ENDS_WITHIN = 15.0
"""Seconds that it is given to end its functions and servers."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """One that is starting: `ready` waits for it."""

    process: subprocess.Popen[bytes]
    words: IO[bytes]
    """What it writes to its standard error."""

    def ready(self) -> Mapping[str, Any]:
        """What it says of itself: account, region, endpoints, environment.

        Raises `DemoUnavailable` when it ended instead.
        """
        line = self.process.stdout.readline() if self.process.stdout else b""
        if not line:
            self.process.wait()
            self.words.seek(0)
            click.echo(self.words.read().decode(errors="replace"), err=True, nl=False)
            raise DemoUnavailable("AWS on this machine did not start; its own words are above")
        found: Mapping[str, Any] = json.loads(line)
        return found


@contextmanager
def emulation(folder: Path) -> Iterator[Emulation]:
    """Start it; `folder` is for its words and the functions' logs. It ends with the block.

    However this process ends, it ends too: its standard input is closed then.
    """
    with (folder / "localaws.log").open("w+b") as words:
        process = subprocess.Popen(
            [sys.executable, "-m", "localaws", "--exit-on-stdin-eof"],
            cwd=ROOT,
            env={**_without_aws(), "TMPDIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            # Ctrl-C is for this process, which ends that one in order.
            start_new_session=True,
        )
        try:
            yield Emulation(process, words)
        finally:
            _end(process)


def _without_aws() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(ENDS_WITHIN)
    except subprocess.TimeoutExpired:
        tell("ddbload: AWS on this machine did not end in time, and was killed")
    finally:
        # Nothing where it has ended. Else at a second Ctrl-C, too.
        process.kill()
        process.wait()
