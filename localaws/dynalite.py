"""dynalite, a strict DynamoDB in Node, as a process of its own.

moto's own DynamoDB is not used: it takes batches, keys and numbers that AWS refuses, and
refuses an item of the full 400 KB. What dynalite lacks, `show_items.cjs` adds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from localaws.browser_guard import NODE_GUARD
from localaws.processes import end_process
from localaws.settings import HOST

# It ends when its standard input does, however that comes. Left to itself, dynalite throws when
# a client goes away in the middle of a request. A table is there at once: nothing here is
# about how long AWS takes to create one.
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


SHOW_ITEMS = Path(__file__).resolve().with_name("show_items.cjs")
"""Loaded before dynalite, whose package the environment's DYNALITE names."""


class DynaliteMissing(Exception):
    """Node or the npm package is not there. The message says what to install."""


class Dynalite:
    """An empty DynamoDB at `endpoint`, until `close`. Raises DynaliteMissing."""

    def __init__(self) -> None:
        node = shutil.which("node")
        if node is None:
            raise DynaliteMissing("Node.js was not found: install Node.js 20 or later")
        package = str(_package())
        self._process = subprocess.Popen(  # noqa: S603 - our own script, and Node from PATH
            [node, "--require", str(SHOW_ITEMS), "-e", _SCRIPT, package, HOST],
            env={**os.environ, "DYNALITE": package},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Signals for a whole terminal are the parent's business; it ends this one in order.
            start_new_session=True,
        )
        pipe = self._process.stdout
        port = pipe.readline().strip() if pipe else b""
        if not port:
            end_process(self._process)
            raise DynaliteMissing("dynalite did not start: run `npm ci`, and see above")
        self.endpoint = f"http://{HOST}:{int(port)}"

    def close(self) -> None:
        end_process(self._process)


def _package() -> Path:
    """The npm package beside us, or in the working directory or above it."""
    here = Path(__file__).resolve().parent
    for folder in (*here.parents, Path.cwd(), *Path.cwd().parents):
        package = folder / "node_modules" / "dynalite"
        if package.is_dir():
            return package
    raise DynaliteMissing(
        f"the npm package dynalite was not found beside {here} or in {Path.cwd()} "
        "(node_modules): run `npm ci` or `npm install dynalite`"
    )
