"""Reading HTTP/1.1 responses to GET and POST requests, whatever pieces they come in. No I/O.

The rules are those of RFC 9112, "HTTP/1.1": lengths and chunks in sections 6 and 7, the end of a
connection in section 9. What is not certainly a whole response is none. So an answer that would
end with its connection is refused, which the RFC allows: nobody can tell it from one that was cut
short, as not every TLS library says that its end was not announced. AWS sends none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 32 * 1024 * 1024
"""DynamoDB may return what a request of 16 MB asked for, spelt longer."""
_MAX_CHUNK_LINE_BYTES = 4096
_NO_BODY = (204, 304)
_LENGTHS = frozenset({"content-length", "transfer-encoding"})
"""Headers that say where the answer ends, and so may not say two things."""
_HEX = frozenset(b"0123456789abcdefABCDEF")


class BadResponse(Exception):
    """What came is not a response, or not the whole of one. The text has none of it."""


class Response(NamedTuple):
    """One whole response."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case; the last of equal ones."""
    body: bytes
    keep_alive: bool
    """Whether the connection may take another request."""
    resent: bool = False
    """Whether the request went twice, because the connection that it first went over broke."""


class _Head(NamedTuple):
    status: int
    headers: Mapping[str, str]
    keep_alive: bool
    length: int | None
    """Bytes of the body; None: it comes in chunks."""


class ResponseReader:
    """Takes the bytes of one connection, one response after the other.

    It is fed only while an answer is awaited; what comes after one answer, unasked, makes the
    connection one not to be used again.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._chunks: _Chunks | None = None
        # So that `begun` is true also between an interim response and the answer.
        self._interim = False

    @property
    def begun(self) -> bool:
        """Whether some of a response has come."""
        return bool(self._buffer) or self._head is not None or self._interim

    def feed(self, data: bytes) -> Response | None:
        """The response that these bytes complete, if any. Raises `BadResponse`."""
        if self._head is None and not self._buffer:
            # The usual case: the whole answer in one piece.
            end = data.find(b"\r\n\r\n")
            if 0 <= end <= MAX_HEAD_BYTES:
                head = _head_of(data[:end])
                if head is not None and head.length == len(data) - end - 4:
                    self._interim = False
                    return Response(head.status, head.headers, data[end + 4 :], head.keep_alive)
        self._buffer += data
        return self._read()

    def eof(self) -> None:
        """Take the connection's end. Raises `BadResponse` where some of a response had come."""
        if self.begun:
            raise BadResponse("the connection was closed in the middle of the answer")

    def part(self, most: int | None = None) -> Response | None:
        """What has come of a response that is not whole; None before its body begins.

        `most`: bytes of the body.
        """
        head = self._head
        if head is None:
            return None
        body = self._buffer
        if head.length is None:
            body = self._chunks.so_far if self._chunks is not None else bytearray()
        return Response(head.status, head.headers, bytes(body[:most]), keep_alive=False)

    def _read(self) -> Response | None:
        buffer = self._buffer
        while self._head is None:
            end = buffer.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES + 4)
            if end < 0:
                start = bytes(buffer[:7])
                if not b"HTTP/1.".startswith(start):
                    raise BadResponse("the answer is not HTTP/1.1")
                if len(buffer) >= MAX_HEAD_BYTES + 4:
                    raise BadResponse("the answer's headers do not end")
                return None
            self._head = _head_of(bytes(buffer[:end]))
            self._interim = self._head is None
            del buffer[: end + 4]
        head = self._head
        if head.length is None:
            if self._chunks is None:
                self._chunks = _Chunks()
            used = self._chunks.feed(buffer)
            if not self._chunks.done:
                del buffer[:used]
                return None
            return self._end(head, self._chunks.body(), used, head.keep_alive)
        if len(buffer) < head.length:
            return None
        return self._end(head, bytes(buffer[: head.length]), head.length, head.keep_alive)

    def _end(self, head: _Head, body: bytes, used: int, keep_alive: bool) -> Response:
        # What nobody asked for spoils the connection.
        keep_alive = keep_alive and used == len(self._buffer)
        self._buffer = bytearray()
        self._head, self._chunks, self._interim = None, None, False
        return Response(head.status, head.headers, body, keep_alive)


class _Chunks:
    """A body in chunks."""

    def __init__(self) -> None:
        self.done = False
        self._body = self.so_far = bytearray()
        # Bytes of the present chunk that are still to come, with its line end; 0: a line is next.
        self._left = 0
        self._trailers = False

    def body(self) -> bytes:
        return bytes(self._body)

    def feed(self, data: bytearray) -> int:
        """Take what is complete; how many bytes that was."""
        at = 0
        while not self.done:
            if self._left:
                # All of the chunk that is there, but none of its line end before that is whole.
                take = min(self._left - 2, len(data) - at)
                self._body += data[at : at + take]
                at += take
                self._left -= take
                if self._left > 2 or len(data) - at < 2:
                    return at
                if data[at : at + 2] != b"\r\n":
                    raise BadResponse("a chunk of the answer does not end where it should")
                at += 2
                self._left = 0
                continue
            end = data.find(b"\r\n", at, at + _MAX_CHUNK_LINE_BYTES + 2)
            if end < 0:
                if len(data) - at >= _MAX_CHUNK_LINE_BYTES + 2:
                    raise BadResponse("a line between chunks of the answer does not end")
                return at
            line = bytes(data[at:end])
            at = end + 2
            if self._trailers:
                self.done = not line
            else:
                self._begin_chunk(line)
        return at

    def _begin_chunk(self, line: bytes) -> None:
        size = line.partition(b";")[0].strip(b" \t")
        if not size or len(size) > 8 or not _HEX.issuperset(size):
            raise BadResponse("a chunk of the answer has no length")
        length = int(size, 16)
        if len(self._body) + length > MAX_BODY_BYTES:
            raise BadResponse("the answer is too long")
        if length:
            self._left = length + 2
        else:
            self._trailers = True


def _head_of(head: bytes) -> _Head | None:
    """What status line and headers say; None for an interim response."""
    first, *lines = head.decode("latin-1").split("\r\n")
    version, status = _status(first)
    headers = dict(map(_field, lines))
    if len(headers) < len(lines):
        lengths = {_field(line) for line in lines if _field(line)[0] in _LENGTHS}
        if len(lengths) > len(_LENGTHS & headers.keys()):
            raise BadResponse("the answer has two lengths")
    if status < 200:
        if status == 101:
            raise BadResponse("the answer is of another protocol")
        return None
    coding, told = headers.get("transfer-encoding"), headers.get("content-length")
    length = _measure(version, status, coding, told)
    keep_alive = _keep_alive(version, headers.get("connection"))
    return _Head(status, headers, keep_alive, length)


@lru_cache(maxsize=16)
def _status(line: str) -> tuple[str, int]:
    """The version and the code."""
    version, _, rest = line.partition(" ")
    code = rest[:3]
    if (
        version not in ("HTTP/1.1", "HTTP/1.0")
        or not (len(code) == 3 and code.isascii() and code.isdigit() and "1" <= code[0] <= "5")
        or rest[3:4] not in ("", " ")
    ):
        raise BadResponse("the answer is not HTTP/1.1")
    return version, int(code)


@lru_cache(maxsize=256)
def _field(line: str) -> tuple[str, str]:
    """A header's name and value. Most lines are those of the answer before."""
    name, colon, value = line.partition(":")
    name = name.lower()
    if not colon or not name or name != name.strip():
        raise BadResponse("the answer's headers are none")
    return name, value.strip()


@lru_cache(maxsize=256)
def _measure(version: str, status: int, coding: str | None, length: str | None) -> int | None:
    """The body's length; None for a body in chunks."""
    if coding is not None:
        if coding.lower() != "chunked" or length is not None or version == "HTTP/1.0":
            raise BadResponse("the answer's transfer encoding is unknown")
        return 0 if status in _NO_BODY else None
    if length is not None and not (length.isascii() and length.isdigit() and len(length) <= 18):
        raise BadResponse("the answer's length is no number")
    if status in _NO_BODY:
        return 0
    if length is None:
        raise BadResponse("the answer does not say how long it is")
    if int(length) > MAX_BODY_BYTES:
        raise BadResponse("the answer is too long")
    return int(length)


@lru_cache(maxsize=16)
def _keep_alive(version: str, connection: str | None) -> bool:
    if connection is None:
        return version == "HTTP/1.1"
    words = {word.strip().lower() for word in connection.split(",")}
    return "close" not in words and (version == "HTTP/1.1" or "keep-alive" in words)
