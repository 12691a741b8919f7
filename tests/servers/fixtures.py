"""Fixtures for all tests: servers, and a `ddbload` that starts at once, of each test process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.console import PROGRAM, ROOT
from tests.cli.fork_server import fork_server
from tests.servers.dynalite import dynalite


@pytest.fixture(scope="session")
def dynalite_endpoint() -> Iterator[str]:
    """Endpoint URL of one dynalite for the whole run; each test uses unique table names."""
    with dynalite() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """Start a moto server for S3; return its URL."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture(scope="session")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a `ddbload` that needs no time to start. A fork does not survive signals."""
    env = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "always::ResourceWarning",
    }
    with fork_server(tmp_path_factory.mktemp("forked"), PROGRAM, env) as program:
        yield program
