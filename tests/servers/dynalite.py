"""Start dynalite, a DynamoDB for Node.js that enforces the service's limits."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "node_modules" / ".bin" / "dynalite"
PACKAGE = ROOT / "node_modules" / "dynalite"
PRELOADED = [
    *(Path(__file__).with_name(name) for name in ("exit_with_parent.cjs", "outlive_clients.cjs")),
    # The emulator preloads them too, so that failed conditions and statements behave as on AWS.
    ROOT / "localaws" / "show_items.cjs",
]
STATEMENTS = ROOT / "localaws" / "insert_statements.cjs"
HOST = "127.0.0.1"


class DynaliteError(Exception):
    """Error for a dynalite that is not installed or does not start."""


@contextmanager
def dynalite(start_seconds: float = 30.0, *, statements: bool = True) -> Iterator[str]:
    """Yield the endpoint URL of a new, empty, in-memory dynalite.

    Without ``statements`` it does not know BatchExecuteStatement.

    It ends with the block, and with this process however that ends. Raises DynaliteError if it is
    not installed or does not answer within ``start_seconds``.
    """
    with tempfile.TemporaryFile() as log:
        process, port = _started(log, time.monotonic() + start_seconds, statements)
        try:
            yield f"http://{HOST}:{port}"
        finally:
            _end(process)


def _started(
    log: IO[bytes], deadline: float, statements: bool
) -> tuple[subprocess.Popen[bytes], int]:
    node = shutil.which("node")
    if node is None or not PROGRAM.exists():
        missing = "node" if node is None else PROGRAM.relative_to(ROOT)
        raise DynaliteError(f"{missing} was not found: run `make node_modules` (npm ci)")
    preloaded = [*PRELOADED, STATEMENTS] if statements else PRELOADED
    while True:
        port = _free_port()
        process = subprocess.Popen(
            [
                *(node, *(word for path in preloaded for word in ("--require", path)), PROGRAM),
                *("--host", HOST, "--port", str(port)),
                *("--createTableMs", "1", "--deleteTableMs", "1", "--updateTableMs", "1"),
            ],
            env={**os.environ, "DYNALITE": str(PACKAGE)},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
        try:
            if _answers(process, port, deadline):
                return process, port
        except BaseException:
            _end(process)
            raise
        log.seek(0)
        said = log.read().decode(errors="replace")
        # Another process may have taken the port since it was chosen.
        if "EADDRINUSE" not in said or time.monotonic() > deadline:
            _end(process)
            raise DynaliteError(f"dynalite does not answer on {HOST}:{port}. Its output: {said}")
        _end(process)
        log.truncate(0)


def _answers(process: subprocess.Popen[bytes], port: int, deadline: float) -> bool:
    """Return True once the server answers; False at ``deadline`` or when the process has ended."""
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection(HOST, port, timeout=1)
        try:
            connection.request("GET", "/")
            return connection.getresponse().read().startswith(b"healthy: dynamodb")
        except OSError:
            time.sleep(0.02)
        finally:
            connection.close()
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdin is not None
    process.stdin.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
