"""A connection handles each result of a socket call. No socket is opened here."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections import deque
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

import pytest

from ddbload.aws.http_client import connection as module
from ddbload.aws.http_client.connection import Address, Connection, ConnectionBroken

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
BOTH = EVENT_READ | EVENT_WRITE
WANT_READ, WANT_WRITE = ssl.SSLWantReadError(), ssl.SSLWantWriteError()
PIPE = BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
RESET = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))


class Socket:
    """Fake socket with scripted results: received bytes, counts of sent bytes, exceptions."""

    def __init__(self, *_: Any) -> None:
        self.receives: deque[Any] = deque()
        self.sends: deque[Any] = deque()
        self.sent: list[bytes] = []
        self.connects: Any = errno.EINPROGRESS
        self.error = 0
        self.is_closed = False

    def setblocking(self, _is_blocking: bool) -> None:
        pass

    def setsockopt(self, *_: Any) -> None:
        pass

    def getsockopt(self, *_: Any) -> int:
        return self.error

    def connect_ex(self, _address: Any) -> int:
        return int(self.connects)

    def fileno(self) -> int:
        return 99

    def recv(self, _size: int) -> bytes:
        data = self.receives.popleft() if self.receives else BlockingIOError()
        if isinstance(data, Exception):
            raise data
        return bytes(data)

    def send(self, data: Any) -> int:
        count = self.sends.popleft() if self.sends else len(data)
        if isinstance(count, Exception):
            raise count
        self.sent.append(bytes(data[:count]))
        return int(count)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def sock(monkeypatch) -> Socket:
    made = Socket()
    monkeypatch.setattr(module.socket, "socket", lambda *_: made)
    return made


@pytest.fixture
def connection(sock) -> Connection:
    made = Connection(Address(socket.AF_INET, ("127.0.0.1", 1)), None, "host")
    assert made.wants == BOTH
    assert made.connect()
    assert made.is_open
    assert made.wants == EVENT_READ
    return made


@pytest.mark.parametrize("blocks", [BlockingIOError(), WANT_WRITE])
def test_rest_of_a_request_is_sent_when_the_socket_is_writable(sock, connection, blocks):
    sock.sends.extend([3, blocks])
    connection.send(b"request")
    assert (connection.left, connection.wants) == (4, BOTH)
    sock.sends.extend([1, blocks])
    assert connection.on_ready() is None
    assert (connection.left, connection.wants) == (3, BOTH)
    assert connection.on_ready() is None
    assert (connection.left, connection.wants) == (0, EVENT_READ)
    assert b"".join(sock.sent) == b"request"


def test_tls_send_waits_for_readable_socket(sock, connection):
    sock.sends.append(WANT_READ)
    connection.send(b"request")
    assert (connection.left, connection.wants) == (7, EVENT_READ)
    sock.sends.append(WANT_WRITE)
    assert connection.on_ready() is None
    assert (connection.left, connection.wants) == (7, BOTH)
    sock.sends.append(WANT_READ)
    assert connection.on_ready() is None
    assert (connection.left, connection.wants) == (7, EVENT_READ)
    assert connection.on_ready() is None
    assert b"".join(sock.sent) == b"request"


def test_large_request_is_sent_in_pieces(sock, connection):
    """TLS needs the same bytes again after a send that took none."""
    big = bytes(200_000)
    sock.sends.extend([module._PIECE_BYTES, WANT_WRITE])
    connection.send(big)
    assert connection.left == 200_000 - module._PIECE_BYTES
    assert connection.on_ready() is None
    assert b"".join(sock.sent) == big
    assert max(map(len, sock.sent)) == module._PIECE_BYTES


def test_early_response_is_read_when_sending_fails(sock, connection):
    sock.sends.append(BlockingIOError())
    connection.send(b"request")
    sock.receives.extend([BlockingIOError(), OK])
    sock.sends.append(PIPE)
    assert connection.on_ready() is not None
    assert connection.left


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "ConnectionClosed"),
        (RESET, "ConnectionReset"),
        (OSError(errno.ETIMEDOUT, "x"), "ConnectionLost"),
        (OSError(errno.EHOSTUNREACH, "x"), "HostUnreachable"),
        (ssl.SSLEOFError(8, "x"), "ConnectionClosed"),
        (ssl.SSLZeroReturnError(6, "x"), "ConnectionClosed"),
        (ssl.SSLError(1, "x"), "TLSError"),
        (b"garbage", "BadResponse"),
    ],
)
def test_lost_connection_has_a_named_reason(sock, connection, said, reason):
    connection.send(b"request")
    sock.receives.append(said)
    with pytest.raises(ConnectionBroken) as raised:
        connection.on_ready()
    assert raised.value.reason == reason


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.ECONNREFUSED, "ConnectionRefused"),
        (errno.ENETUNREACH, "HostUnreachable"),
        (errno.EADDRNOTAVAIL, "ConnectionLost"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_failed_connect_is_reported(sock, code, reason, at_once):
    if at_once:
        sock.connects = code
        with pytest.raises(ConnectionBroken) as raised:
            Connection(Address(socket.AF_INET, None), None, "host")
        assert sock.is_closed
    else:
        made = Connection(Address(socket.AF_INET, None), None, "host")
        sock.error = code
        with pytest.raises(ConnectionBroken) as raised:
            made.connect()
    assert raised.value.reason == reason
