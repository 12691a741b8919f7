"""Run dynalite, a strict DynamoDB emulator for Node.js, as a child process.

moto's DynamoDB is not used: it accepts batches, keys and numbers that AWS refuses, and refuses an
item of the full 400 KB. `dynalite_server.cjs` adds features that dynalite lacks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from localaws.processes import end_process
from localaws.settings import HOST

_SERVER = Path(__file__).resolve().with_name("dynalite_server.cjs")


class DynaliteMissing(Exception):
    """Raised if Node.js or the npm package is missing. The message names what to install."""


class Dynalite:
    """Empty DynamoDB at `endpoint`, running until `close`. Raises DynaliteMissing."""

    def __init__(self) -> None:
        node = shutil.which("node")
        if node is None:
            raise DynaliteMissing("Node.js was not found on PATH: install Node.js 22 or newer")
        package = str(_package())
        self._process = subprocess.Popen(  # noqa: S603 - our own script, and Node from PATH
            [node, str(_SERVER), HOST],
            env={**os.environ, "DYNALITE": package},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C reaches the terminal's whole process group; the parent ends this child itself.
            start_new_session=True,
        )
        pipe = self._process.stdout
        port = pipe.readline().strip() if pipe else b""
        if not port:
            end_process(self._process)
            raise DynaliteMissing("dynalite did not start: see its error above, or run `npm ci`")
        self.endpoint = f"http://{HOST}:{int(port)}"

    def close(self) -> None:
        end_process(self._process)


def _package() -> Path:
    """Find dynalite's npm package above this file or above the working directory."""
    here = Path(__file__).resolve().parent
    for folder in (*here.parents, Path.cwd(), *Path.cwd().parents):
        package = folder / "node_modules" / "dynalite"
        if package.is_dir():
            return package
    raise DynaliteMissing(
        f"the npm package dynalite was not found in a folder node_modules above {here} or above "
        f"{Path.cwd()}: run `npm ci` or `npm install dynalite`"
    )
