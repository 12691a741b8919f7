"""HTTP loops under test, whose sockets must all be closed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ddbload.aws.http_client import event_loop as module
from ddbload.aws.http_client.connection import Connection, Endpoint
from ddbload.aws.http_client.event_loop import HttpLoop, RequestLost
from ddbload.aws.http_client.http1 import Response
from ddbload.aws.signing.sigv4 import Credentials, RequestSigner

PATIENCE = 30.0
"""Seconds after which a test counts as hung."""


class Clock:
    """Clock of real time that tests can advance."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@contextmanager
def looping(
    port: int,
    connections: int = 4,
    tls: Any = None,
    host: str = "127.0.0.1",
    look_up: Any = None,
    **more: Any,
) -> Iterator[HttpLoop]:
    """Make a loop, and check that it closes all its sockets."""
    made: list[Connection] = []

    class Watched(Connection):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    endpoint = Endpoint("http" if tls is None else "https", host, port, "us-east-1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Connection", Watched)
        loop = HttpLoop(endpoint, connections, tls, **more)
        loop._dns._look_up = look_up or loop._dns._look_up
        try:
            yield loop
            open_now = [each for each in made if each._sock.fileno() != -1]
            assert len(open_now) <= connections
        finally:
            loop.close()
            loop.close()
    assert all(each._sock.fileno() == -1 for each in made)


def request(body: bytes = b"{}", host: str = "127.0.0.1") -> bytes:
    headers = {
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": "DynamoDB_20120810.BatchWriteItem",
    }
    signer = RequestSigner(service="dynamodb", region="us-east-1", host=host, headers=headers)
    return signer.post(body, Credentials("made-up", "made-up"), time.time())


def outcomes(loop: HttpLoop, count: int) -> dict[Any, Response | RequestLost]:
    """Wait for `count` outcomes, by token, and check that no more come."""
    found: dict[Any, Response | RequestLost] = {}
    give_up = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < give_up, found
        for token, outcome in loop.wait(0.2):
            assert token not in found
            found[token] = outcome
    assert loop.wait(0) == []
    return found


def outcome(loop: HttpLoop, body: bytes = b"{}") -> Response | RequestLost:
    """Send one request and return its outcome."""
    loop.send("only", request(body))
    return outcomes(loop, 1)["only"]


def said(loop: HttpLoop, body: bytes = b"{}") -> int | str:
    """Send one request; returns the response's status, or the reason of its loss."""
    found = outcome(loop, body)
    return found.reason if isinstance(found, RequestLost) else found.status
