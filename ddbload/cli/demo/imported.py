"""dynalite, a strict DynamoDB in Node, on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ddbload.cli.demo.deployed import ROOT
from ddbload.cli.demo.output import proven, show_rejects, text_format
from ddbload.cli.demo.verify_table import TABLE, Keys, create
from ddbload.cli.options import cores
from ddbload.contracts.results import DONE
from ddbload.errors import DemoUnavailable

# The server ends when its standard input does: so it never outlives who started it, however
# that ends. Port 0 lets the system choose, and the line on standard output says which. Left to
# itself, dynalite would throw when a client goes away in the middle of a request, and answer any
# web page that the browser on this machine shows: those are told by what browsers add, and by
# names of others for this machine (DNS rebinding).
_SCRIPT = """
process.stdin.on('close', () => process.exit()).resume()
process.on('uncaughtException', error => {
  if (error.code === 'ECONNRESET') return
  console.error(error)
  process.exit(1)
})
const server = require('dynalite')({createTableMs: 0, deleteTableMs: 0})
const refusal = ({method, headers}) => {
  if (method === 'OPTIONS') return 'OPTIONS is what browsers ask for pages'
  for (const name of ['origin', 'referer', 'sec-fetch-site'])
    if (name in headers) return `the header ${name} comes from a web page`
  const host = (headers.host || '').toLowerCase(), port = server.address().port
  if (host !== `127.0.0.1:${port}` && host !== `localhost:${port}`)
    return `the Host is ${host || 'missing'}, and must be 127.0.0.1:${port}`
}
const [serve] = server.listeners('request')
server.removeAllListeners('request').on('request', (request, response) => {
  const why = refusal(request)
  if (why === undefined) return serve(request, response)
  request.resume()
  response.writeHead(403, {'Content-Type': 'application/json', 'Connection': 'close'})
  response.end(JSON.stringify({__type: 'AccessDeniedException', message: why}))
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
"""


def _shown_items() -> list[str]:
    """Have dynalite show the item that a condition failed on, as DynamoDB does."""
    script = ROOT / "localaws" / "show_items.cjs"
    return ["--require", str(script)] if script.exists() else []


@contextmanager
def dynalite() -> Iterator[str]:
    """Start dynalite, empty; its endpoint. Raises `DemoUnavailable`."""
    node = shutil.which("node")
    if node is None:
        raise DemoUnavailable("the demo needs Node.js 20 or later; install it and try again")
    modules = _modules()
    process = subprocess.Popen(  # noqa: S603 - our own script, and Node from PATH
        [node, *_shown_items(), "-e", _SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "NODE_PATH": str(modules), "DYNALITE": str(modules / "dynalite")},
        start_new_session=True,
    )
    try:
        port = process.stdout.readline().strip() if process.stdout else b""
        if not port.isdigit():
            raise DemoUnavailable("dynalite did not start; its own words are above")
        yield f"http://127.0.0.1:{port.decode()}"
    finally:
        process.kill()
        process.communicate()


def _modules() -> Path:
    """The node_modules that dynalite is in: of this folder, or of ddbload's checkout."""
    for folder in (Path.cwd(), ROOT):
        modules = folder / "node_modules"
        if (modules / "dynalite").is_dir():
            return modules
    raise DemoUnavailable("dynalite is not installed here; run 'make demo', or 'npm ci' first")


def import_and_prove(path: Path, keys: Keys, folder: Path) -> int:
    """Import a file; the exit status. `folder` is for the ledger. Raises `DemoUnavailable`."""
    with dynalite() as endpoint:
        click.echo(f"DynamoDB (dynalite) listens at {endpoint}")
        return _import(path, keys, endpoint, folder / "ledger")


def _import(path: Path, keys: Keys, endpoint: str, ledger: Path) -> int:
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.aws.clients import Clients
    from ddbload.cli.import_command import run_and_tell
    from ddbload.runs.local_settings import LocalSettings
    from ddbload.runs.retry_rejects import iter_rejects
    from ddbload.runs.run_import import new_run_id

    # Made up, and all that an emulator wants: nobody's own credentials take part.
    os.environ.update(AWS_ACCESS_KEY_ID="demo", AWS_SECRET_ACCESS_KEY="demo")  # noqa: S106
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        os.environ.pop(name, None)
    aws = AwsSettings(region="us-east-1", endpoint_url=endpoint)
    client = Clients(aws).dynamodb
    create(client, keys)
    payload: dict[str, Any] = {
        "source": {"path": str(path), "format": text_format(path.name)},
        "target": {"table": TABLE},
        # Small chunks, so that there is something to hand to each worker.
        "options": {"workers": cores(), "chunk_bytes": 64 * 1024},
    }
    settings = LocalSettings(str(ledger), aws)
    run = new_run_id()
    result = run_and_tell(payload, settings, run=run, processes=cores())
    if result.rows.read or result.error is None:
        click.echo("\n".join(line for line in result.lines() if "rejects  " not in line))
    if result.status not in DONE:
        return result.exit_code
    lines = list(iter_rejects(run, settings.context()))
    show_rejects(lines)
    return proven(client, keys, path, lines, otherwise=result.exit_code)
