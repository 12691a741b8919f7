"""Script of a server whose answer never ends, slowly or as fast as it can."""

from __future__ import annotations

import socket
from typing import Any

from tests.faults.scripted import Script, Scripted

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"

PLACES: dict[str, tuple[bytes, bytes]] = {
    "status line": (b"HTTP/1.1 200 ", b"OK"),
    "header": (HEAD + b"x-long: ", b"a"),
    "headers": (HEAD, b"x-many: a\r\n"),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunk size line": (CHUNKED + b"5;", b"a"),
    "chunks": (CHUNKED, b"1\r\na\r\n"),
    "trailer": (CHUNKED + b"0\r\nx-long: ", b"a"),
    "trailers": (CHUNKED + b"0\r\n", b"x-many: a\r\n"),
    "body": (HEAD + b"content-length: 30000000\r\n\r\n", b"a"),
    "error body": (b"HTTP/1.1 503 Slow Down\r\ncontent-length: 1000000000\r\n\r\n", b"a"),
    "error body in chunks": (
        b"HTTP/1.1 403 Forbidden\r\ntransfer-encoding: chunked\r\n\r\n",
        b"400\r\n" + b"a" * 1024 + b"\r\n",
    ),
}
"""By the place in an answer: what comes before it at once, and what is repeated for ever."""
_PIECE_BYTES = 64 * 1024


def drips(place: str, pause: float) -> Script:
    """Make a script that sends one byte every `pause` seconds; with 0, as many as the socket takes.

    `place` is one of `PLACES`, or "handshake": a TLS record that does not end.
    """
    at_once, again = PLACES.get(place, (b"\x16\x03\x03\x40\x00", b"\x02"))

    def script(server: Scripted, connection: Any) -> None:
        connection.recv(65536)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(at_once)
        while not server.ended.is_set():
            if not pause:
                connection.sendall(again * (_PIECE_BYTES // len(again)))
                continue
            for byte in again:
                connection.sendall(bytes([byte]))
                if server.ended.wait(pause):
                    return

    return script
