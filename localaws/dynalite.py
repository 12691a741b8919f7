"""Run dynalite, a strict DynamoDB for Node.js, as a child process.

moto's DynamoDB is not used: it accepts batches, keys and numbers that AWS refuses, and refuses an
item of the full 400 KB. `ADDITIONS` have what dynalite
lacks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from localaws.browser_guard import NODE_GUARD
from localaws.processes import end_process
from localaws.settings import HOST

# The process ends when its standard input closes, so it cannot outlive its parent. ECONNRESET and
# EPIPE are ignored because dynalite would otherwise crash when a client disconnects during a
# request. Tables are created at once: AWS's creation delay is not emulated.
_SCRIPT = (
    NODE_GUARD
    + """
process.stdin.on('close', () => process.exit()).resume()
process.on('uncaughtException', error => {
  if (error.code === 'ECONNRESET' || error.code === 'EPIPE') return
  console.error(error)
  process.exit(1)
})
const options = {createTableMs: 0, deleteTableMs: 0, updateTableMs: 0}
const server = guard(require(process.argv[1])(options))
server.listen(0, process.argv[2], () => console.log(server.address().port))
"""
)


ADDITIONS = [
    Path(__file__).resolve().with_name(name) for name in ("show_items.cjs", "insert_statements.cjs")
]
"""Scripts to preload before dynalite; they find the package by the variable DYNALITE."""


class DynaliteMissing(Exception):
    """Error for a missing Node.js or npm package. The message says what to install."""


class Dynalite:
    """Empty DynamoDB at `endpoint` until `close`. Raises DynaliteMissing."""

    def __init__(self) -> None:
        node = shutil.which("node")
        if node is None:
            raise DynaliteMissing("Node.js was not found on PATH: install Node.js 22 or newer")
        package = str(_package())
        preloaded = [word for path in ADDITIONS for word in ("--require", str(path))]
        self._process = subprocess.Popen(  # noqa: S603 - our own script, and Node from PATH
            [node, *preloaded, "-e", _SCRIPT, package, HOST],
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
