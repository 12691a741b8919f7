"""Incremental parser of HTTP/1.1 responses to GET, POST and PUT requests. No I/O.

The rules are those of RFC 9112, "HTTP/1.1": lengths and chunks in sections 6 and 7, the end of a
connection in section 9. A response whose length is given neither by Content-Length nor by chunks is
refused, as the RFC allows: one that was cut short would look whole. AWS does not send any.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 32 * 1024 * 1024
"""Body limit. DynamoDB may return the items of a 16 MB request in a longer spelling."""
MAX_ERROR_BYTES = 4 * 1024 * 1024
"""Body limit of a response that is not a success. DynamoDB may return an item with an error."""
LEAST_BYTES_PER_SECOND = 16 * 1024
"""Rate that a transfer must have on the average, beyond its time-out."""
_MAX_CHUNK_LINE_BYTES = 4096
# Bytes of the lines between chunks, for each byte of them.
_LINE_SHARE = 8
_NO_BODY = (204, 304)
# Headers that determine the end of the response, and so must not contradict each other.
_LENGTHS = frozenset({"content-length", "transfer-encoding"})
_HEX = frozenset(b"0123456789abcdefABCDEF")


class BadResponse(Exception):
    """Received bytes are not a whole HTTP response. The text does not quote them."""


class Response(NamedTuple):
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    """Values by lower-case name; of repeated headers the last value."""
    body: bytes
    keep_alive: bool
    """True if the connection may be reused."""
    resent: bool = False
    """True if the request was sent twice, because the first connection broke."""


class _Head(NamedTuple):
    status: int
    headers: Mapping[str, str]
    keep_alive: bool
    length: int | None
    """Bytes of the body; None for a chunked body."""


class ResponseReader:
    """Parser for the responses of one connection, one after the other.

    Feed it only while a response is expected. Bytes after the end of a response make its
    `keep_alive` false.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._chunks: _Chunks | None = None
        # Bytes of interim responses (1xx), so that `begun` stays true until the final one.
        self._interim_bytes = 0

    @property
    def begun(self) -> bool:
        """True if the first bytes of a response were received."""
        return bool(self._buffer) or self._head is not None or self._interim_bytes > 0

    def feed(self, data: bytes) -> Response | None:
        """Parse received bytes; returns the response that they complete. Raises `BadResponse`."""
        if self._head is None and not self._buffer:
            # Fast path for a whole response in one piece, which is usual.
            end = data.find(b"\r\n\r\n")
            if 0 <= end <= MAX_HEAD_BYTES:
                head = _head_of(data[:end])
                if head is not None and head.length == len(data) - end - 4:
                    self._interim_bytes = 0
                    return Response(head.status, head.headers, data[end + 4 :], head.keep_alive)
        # Headers that come byte by byte are searched once.
        searched = max(0, len(self._buffer) - 3)
        self._buffer += data
        return self._read(searched)

    def eof(self) -> None:
        """Handle the end of the connection. Raises `BadResponse` in the middle of a response."""
        if self.begun:
            raise BadResponse("the connection was closed in the middle of the answer")

    def partial_response(self) -> Response | None:
        """Return the received part of a response; None before its body begins."""
        head = self._head
        if head is None:
            return None
        body = self._buffer
        if head.length is None:
            body = self._chunks.received if self._chunks is not None else bytearray()
        return Response(head.status, head.headers, bytes(body), keep_alive=False)

    def _read(self, searched: int) -> Response | None:
        buffer = self._buffer
        while self._head is None:
            end = buffer.find(b"\r\n\r\n", searched, MAX_HEAD_BYTES + 4)
            if end < 0:
                start = bytes(buffer[:7])
                if not b"HTTP/1.".startswith(start):
                    raise BadResponse("the answer is not HTTP/1.1")
                if len(buffer) >= MAX_HEAD_BYTES + 4:
                    raise BadResponse("the answer's headers do not end")
                return None
            self._head = _head_of(bytes(buffer[:end]))
            if self._head is None:
                self._interim_bytes += end + 4
                if self._interim_bytes > MAX_HEAD_BYTES:
                    raise BadResponse("the answer's headers do not end")
            searched = 0
            del buffer[: end + 4]
        head = self._head
        if head.length is None:
            if self._chunks is None:
                self._chunks = _Chunks(_max_body(head.status))
            used = self._chunks.feed(buffer)
            if not self._chunks.done:
                del buffer[:used]
                return None
            return self._end(head, bytes(self._chunks.received), used, head.keep_alive)
        if len(buffer) < head.length:
            return None
        return self._end(head, bytes(buffer[: head.length]), head.length, head.keep_alive)

    def _end(self, head: _Head, body: bytes, used: int, keep_alive: bool) -> Response:
        # Bytes after the response belong to no request, so the connection cannot be trusted.
        keep_alive = keep_alive and used == len(self._buffer)
        self._buffer = bytearray()
        self._head, self._chunks, self._interim_bytes = None, None, 0
        return Response(head.status, head.headers, body, keep_alive)


class _Chunks:
    """Decoder of a chunked body."""

    def __init__(self, max_bytes: int) -> None:
        self.done = False
        self._max_bytes = max_bytes
        # Bytes of lines between chunks and after them.
        self._line_bytes = 0
        self.received = bytearray()
        # Bytes of the present chunk still to come, line end included; 0 if a line comes next.
        self._left = 0
        self._trailers = False

    def feed(self, data: bytearray) -> int:
        """Decode complete parts; returns the number of bytes used."""
        at = 0
        while not self.done:
            if self._left:
                # All received bytes of the chunk, but its line end only as a whole.
                take = min(self._left - 2, len(data) - at)
                self.received += data[at : at + take]
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
            self._line_bytes += end + 2 - at
            if self._line_bytes > MAX_HEAD_BYTES + _LINE_SHARE * len(self.received):
                raise BadResponse("the lines between chunks of the answer do not end")
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
        if len(self.received) + length > self._max_bytes:
            raise BadResponse("the answer is too long")
        if length:
            self._left = length + 2
        else:
            self._trailers = True


def _head_of(head: bytes) -> _Head | None:
    """Parse status line and headers; None for an interim response."""
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
    coding, declared = headers.get("transfer-encoding"), headers.get("content-length")
    length = _measure(version, status, coding, declared)
    keep_alive = _keep_alive(version, headers.get("connection"))
    return _Head(status, headers, keep_alive, length)


@lru_cache(maxsize=16)
def _status(line: str) -> tuple[str, int]:
    """Parse a status line into version and code."""
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
    """Split a header line into name and value. Cached, because most lines repeat."""
    name, colon, value = line.partition(":")
    name = name.lower()
    if not colon or not name or name != name.strip():
        raise BadResponse("the answer's headers are malformed")
    return name, value.strip()


@lru_cache(maxsize=256)
def _measure(version: str, status: int, coding: str | None, length: str | None) -> int | None:
    """Determine the body's length; None for a chunked body."""
    if coding is not None:
        if coding.lower() != "chunked" or length is not None or version == "HTTP/1.0":
            raise BadResponse("the answer's transfer encoding is unknown")
        return 0 if status in _NO_BODY else None
    if length is not None and not (length.isascii() and length.isdigit() and len(length) <= 18):
        raise BadResponse("the answer's length is not a number")
    if status in _NO_BODY:
        return 0
    if length is None:
        raise BadResponse("the answer does not say how long it is")
    if int(length) > _max_body(status):
        raise BadResponse("the answer is too long")
    return int(length)


def _max_body(status: int) -> int:
    return MAX_BODY_BYTES if status < 300 else MAX_ERROR_BYTES


@lru_cache(maxsize=16)
def _keep_alive(version: str, connection: str | None) -> bool:
    if connection is None:
        return version == "HTTP/1.1"
    words = {word.strip().lower() for word in connection.split(",")}
    return "close" not in words and (version == "HTTP/1.1" or "keep-alive" in words)
