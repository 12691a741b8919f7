"""Broken bodies of the fake raise what botocore raises for broken connections."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from tests.contract.conftest import ACCOUNT
from tests.fakes.s3 import FakeS3
from tests.fakes.s3_faults import Fault, ends_after, resets_after, stalls_after

BODY = bytes(range(200))
SENT = 50


def close(_: socket.socket) -> None:
    """End a connection with a FIN, by the close that follows."""


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextlib.contextmanager
def breaking_s3(end: Callable[[socket.socket], object]) -> Iterator[Any]:
    """Make a client of a server that sends a head, SENT bytes of the body, and then ``end``."""
    done = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while b"\r\n\r\n" not in connection.recv(65536):
                pass
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY))
            connection.sendall(BODY[:SENT])
            if end is stall:
                done.wait(10)
            elif end is reset:
                # The client has read what was sent: a reset would throw it away otherwise.
                done.wait(0.5)
                end(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
        config=Config(
            retries={"total_max_attempts": 1}, read_timeout=0.3 if end is stall else 30.0
        ),
        **ACCOUNT,
    )
    try:
        yield client
    finally:
        done.set()
        thread.join()
        listener.close()
        client.close()


def stall(_: socket.socket) -> None:
    """End a body by silence on an open connection."""


def fake_s3(fault: Fault) -> FakeS3:
    s3 = FakeS3()
    s3.create_bucket(Bucket="bucket")
    s3.put_object(Bucket="bucket", Key="key", Body=BODY)
    s3.faults.add("get_object", fault)
    return s3


def outcome(s3: Any, piece: int | None) -> tuple[bytes, type[Exception] | None]:
    """Read a body; returns the bytes, and the class of the error at its end."""
    body = s3.get_object(Bucket="bucket", Key="key")["Body"]
    read = b""
    try:
        while data := body.read(piece):
            read += data
    except BotoCoreError as error:
        return read, type(error)
    return read, None


@pytest.mark.parametrize(
    ("end", "fault", "whole", "in_pieces"),
    [
        (close, ends_after(SENT), ResponseStreamingError, IncompleteReadError),
        (reset, resets_after(SENT), ResponseStreamingError, ResponseStreamingError),
        (stall, stalls_after(SENT), ReadTimeoutError, ReadTimeoutError),
    ],
)
@pytest.mark.parametrize("piece", [None, 10, 30])
def test_broken_body_raises(end, fault, whole, in_pieces, piece):
    with breaking_s3(end) as real:
        expected = outcome(real, piece)
    assert outcome(fake_s3(fault), piece) == expected
    assert expected[1] is (in_pieces if piece else whole)
