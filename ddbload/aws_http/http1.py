"""Reading HTTP/1.1 responses to POST requests, whatever pieces they come in. No I/O.

The rules are those of RFC 9112, "HTTP/1.1": lengths and chunks in sections 6 and 7, the end of a
connection in section 9. What is not certainly a whole response is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 32 * 1024 * 1024
"""DynamoDB may return what a request of 16 MB asked for, spelt longer."""
_MAX_CHUNK_LINE_BYTES = 4096
_NO_BODY = (204, 304)
_HEX = frozenset(b"0123456789abcdefABCDEF")


class BadResponse(Exception):
    """What came is not a response, or not the whole of one. The text has none of it."""


@dataclass(frozen=True, slots=True)
class Response:
    """One whole response."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case; the last of equal ones."""
    body: bytes
    keep_alive: bool
    """Whether the connection may take another request."""


class ResponseReader:
    """Takes the bytes of one connection, one response after the other.

    It is fed only while an answer is awaited; what comes after one answer, unasked, is an error.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._head: tuple[int, dict[str, str], bool] | None = None
        # None: the body ends with the connection.
        self._length: int | None = 0
        self._chunks: _Chunks | None = None

    @property
    def begun(self) -> bool:
        """Whether some of a response has come."""
        return bool(self._buffer) or self._head is not None

    def feed(self, data: bytes) -> Response | None:
        """The response that these bytes complete, if any. Raises `BadResponse`."""
        self._buffer = self._buffer + data if self._buffer else data
        while self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > MAX_HEAD_BYTES:
                    raise BadResponse("the answer's headers do not end")
                return None
            self._begin(self._buffer[:end])
            self._buffer = self._buffer[end + 4 :]
        if self._chunks is not None:
            self._buffer = self._chunks.feed(self._buffer)
            return self._end(self._chunks.body()) if self._chunks.done else None
        have = len(self._buffer)
        if have > MAX_BODY_BYTES:
            raise BadResponse("the answer is too long")
        if self._length is None or have < self._length:
            return None
        body, self._buffer = self._buffer[: self._length], self._buffer[self._length :]
        return self._end(body)

    def eof(self) -> Response | None:
        """The response that the connection's end completes. Raises `BadResponse`.

        None: nothing had come.
        """
        if not self.begun:
            return None
        if self._head is None or self._length is not None or self._chunks is not None:
            raise BadResponse("the connection was closed in the middle of the answer")
        body, self._buffer = self._buffer, b""
        return self._end(body)

    def _begin(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        status = rest[:3]
        if version not in ("HTTP/1.1", "HTTP/1.0") or not (status.isascii() and status.isdigit()):
            raise BadResponse("the answer is not HTTP/1.1")
        code = int(status)
        if 100 <= code < 200:
            # An interim response; the answer follows.
            return
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            name = name.lower()
            if not colon or not name or name != name.strip():
                raise BadResponse("the answer's headers are none")
            value = value.strip()
            if name == "content-length" and headers.get(name, value) != value:
                raise BadResponse("the answer has two lengths")
            headers[name] = value
        self._head = (code, headers, _keep_alive(version, headers))
        self._measure(code, headers)

    def _measure(self, code: int, headers: Mapping[str, str]) -> None:
        coding = headers.get("transfer-encoding")
        length = headers.get("content-length")
        self._chunks = None
        if code in _NO_BODY:
            self._length = 0
        elif coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise BadResponse("the answer's transfer encoding is unknown")
            self._chunks = _Chunks()
        elif length is None:
            self._length = None
        elif length.isascii() and length.isdigit() and len(length) <= 18:
            self._length = int(length)
            if self._length > MAX_BODY_BYTES:
                raise BadResponse("the answer is too long")
        else:
            raise BadResponse("the answer's length is no number")

    def _end(self, body: bytes) -> Response:
        if self._head is None:
            raise AssertionError("a response without a head")
        status, headers, keep_alive = self._head
        # A body that the connection's end completes leaves none; what nobody asked for spoils it.
        bounded = self._length is not None or self._chunks is not None
        response = Response(status, headers, body, keep_alive and bounded and not self._buffer)
        self._head, self._buffer = None, b""
        return response


class _Chunks:
    """A body in chunks."""

    def __init__(self) -> None:
        self.done = False
        self._pieces: list[bytes] = []
        self._size = 0
        self._left: int | None = None
        self._trailers = False

    def body(self) -> bytes:
        return b"".join(self._pieces)

    def feed(self, data: bytes) -> bytes:
        """Take what is complete; the rest."""
        while not self.done:
            if self._left is not None:
                # A chunk's bytes and the line end behind them.
                if len(data) < self._left + 2:
                    return data
                if data[self._left : self._left + 2] != b"\r\n":
                    raise BadResponse("a chunk of the answer does not end where it should")
                self._pieces.append(data[: self._left])
                data = data[self._left + 2 :]
                self._left = None
                continue
            end = data.find(b"\r\n")
            if end < 0:
                if len(data) > _MAX_CHUNK_LINE_BYTES:
                    raise BadResponse("a chunk of the answer has no length")
                return data
            line, data = data[:end], data[end + 2 :]
            if self._trailers:
                self.done = not line
            else:
                self._begin_chunk(line)
        return data

    def _begin_chunk(self, line: bytes) -> None:
        size = line.partition(b";")[0].strip()
        if not size or len(size) > 8 or not _HEX.issuperset(size):
            raise BadResponse("a chunk of the answer has no length")
        length = int(size, 16)
        self._size += length
        if self._size > MAX_BODY_BYTES:
            raise BadResponse("the answer is too long")
        if length:
            self._left = length
        else:
            self._trailers = True


def _keep_alive(version: str, headers: Mapping[str, str]) -> bool:
    words = {word.strip().lower() for word in headers.get("connection", "").split(",")}
    return "close" not in words and (version == "HTTP/1.1" or "keep-alive" in words)
