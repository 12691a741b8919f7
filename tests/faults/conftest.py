"""Fixtures: a fault server with an empty table, and two clients of it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.request_helpers import DEFINITION, client_of
from tests.faults.server import FaultServer


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer(drip_seconds=0.2, stall_seconds=0.3) as running:
        running.dynamodb.create_table(**DEFINITION)
        yield running


@pytest.fixture
def connection(server) -> Iterator[http.client.HTTPConnection]:
    made = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    yield made
    made.close()


@pytest.fixture
def client(server) -> Iterator[Any]:
    made = client_of(server.port)
    yield made
    made.close()
