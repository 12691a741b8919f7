"""HTTP/1.1 server of the fake services: connections with keep-alive, latency and lost answers.

A service subclasses `Service` and is run by `run`. The server listens on 127.0.0.1, prints one line
of JSON ({"endpoint": ...}) when it is ready, and ends when its standard input closes. POST /reset
gives settings to the service, GET /counters returns its counters and two of the server's own:
`most_in_flight`, the most requests that waited for an answer at once since the last reset, and
`cpu_seconds`, the CPU time of the server's process since it began. Requests that wait for their
turn, because the service works on `most_at_once` others, are in flight too.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from localaws.processes import on_stdin_eof

_LENGTH = re.compile(rb"\ncontent-length: *([0-9]+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\ntransfer-encoding: *chunked", re.IGNORECASE)
_CONTINUE = re.compile(rb"\nexpect: *100-continue", re.IGNORECASE)


@dataclass(frozen=True)
class Request:
    """One request; `head` ends with the empty line."""

    method: str
    target: str
    head: bytes
    body: bytes


@dataclass(frozen=True)
class Answer:
    """One answer. `headers` are whole lines, each with its line end."""

    status: int
    body: bytes = b""
    headers: str = ""
    delay: float = 0.0
    lost: bool = False
    """Whether the connection is closed in place of the answer, after the delay."""
    reset: bool = False
    """True to reset the connection in place of the answer, after the delay."""


class Service:
    """What a fake service does with requests. `control` serves what tests and measurements ask."""

    most_at_once: int | None = None
    """Number of requests that are served at a time; others wait for their turn."""

    def reset(self, settings: dict[str, Any]) -> None:
        """Take new settings, and clear the counters."""
        raise NotImplementedError

    def counters(self) -> dict[str, Any]:
        """Return the counters since the last reset."""
        raise NotImplementedError

    def serve(self, request: Request) -> Answer:
        """Answer a request."""
        raise NotImplementedError

    def control(self, target: str) -> Any:  # noqa: ARG002 - for those that override it
        """Answer another GET request of a test as JSON; None where `target` is none of these."""
        return None


class Load:
    """Count of the requests that wait for an answer, and the queue of those to be served later."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._queue: deque[Callable[[], None]] = deque()
        self._is_serving = False
        self.now = self.most = 0

    def begin(self, serve: Callable[[], None]) -> None:
        """Count a request that has arrived whole, and serve it when its turn comes."""
        self.now += 1
        self.most = max(self.most, self.now)
        self._queue.append(serve)
        self._serve()

    def end(self) -> None:
        """Count an answer, and serve what waited for it."""
        self.now -= 1
        self._serve()

    def _serve(self) -> None:
        if self._is_serving:
            # This is the end of a request that was answered at once; the loop below goes on.
            return
        self._is_serving = True
        try:
            limit = self._service.most_at_once
            while self._queue and (limit is None or self.now - len(self._queue) < limit):
                self._queue.popleft()()
        finally:
            self._is_serving = False


class Connection(asyncio.Protocol):
    """Server side of one connection. Answers leave in the order of their delays."""

    def __init__(self, service: Service, load: Load) -> None:
        self._service = service
        self._load = load
        self._buffer = bytearray()
        self._continued = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for type checkers
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each complete request."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n") + 4) > 3:
            head = bytes(self._buffer[:end])
            found = self._body(head, end)
            if found is None:
                if not self._continued and _CONTINUE.search(head):
                    self._continued = True
                    self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            body, end = found
            del self._buffer[:end]
            self._continued = False
            method, target, _ = head.split(b" ", 2)
            self._answer(Request(method.decode(), target.decode(), head, body))

    def _body(self, head: bytes, begin: int) -> tuple[bytes, int] | None:
        """Return the body that begins at `begin`, and its end; None while some is missing."""
        if _CHUNKED.search(head):
            return read_chunks(self._buffer, begin)
        found = _LENGTH.search(head)
        end = begin + (int(found[1]) if found else 0)
        return (bytes(self._buffer[begin:end]), end) if len(self._buffer) >= end else None

    def _answer(self, request: Request) -> None:
        controlled = self._control(request)
        if controlled is not None:
            self._send(request, Answer(200, json.dumps(controlled).encode()))
            return
        self._load.begin(partial(self._serve, request))

    def _serve(self, request: Request) -> None:
        answer = self._service.serve(request)
        if answer.delay:
            asyncio.get_running_loop().call_later(answer.delay, self._end, request, answer)
        else:
            self._end(request, answer)

    def _control(self, request: Request) -> Any:
        if request.method == "POST" and request.target == "/reset":
            self._service.reset(json.loads(request.body))
            self._load.most = self._load.now
            return {}
        if request.method == "GET" and request.target == "/counters":
            own = {"most_in_flight": self._load.most, "cpu_seconds": time.process_time()}
            return {**self._service.counters(), **own}
        return self._service.control(request.target) if request.method == "GET" else None

    def _end(self, request: Request, answer: Answer) -> None:
        if answer.reset:
            self._reset()
        elif not answer.lost:
            self._send(request, answer)
        elif self._transport is not None:
            self._transport.close()
        self._load.end()

    def _reset(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            # Without lingering, a socket that is closed resets its connection.
            opened = self._transport.get_extra_info("socket")
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def _send(self, request: Request, answer: Answer) -> None:
        length = f"Content-Length: {len(answer.body)}\r\n\r\n"
        head = f"HTTP/1.1 {answer.status} .\r\n{answer.headers}{length}".encode()
        self._write(head if request.method == "HEAD" else head + answer.body)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


def read_chunks(data: bytes | bytearray, begin: int) -> tuple[bytes, int] | None:
    """Read a body in HTTP's chunks, and return it and its end; None while some is missing."""
    parts: list[bytes] = []
    at = begin
    while (line := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line].partition(b";")[0], 16)
        at = line + 2
        if size == 0:
            # Without trailers, the last chunk's line and an empty line end the body.
            end = at if data[at : at + 2] == b"\r\n" else data.find(b"\r\n\r\n", at) + 2
            return (b"".join(parts), end + 2) if end > 1 and len(data) >= end + 2 else None
        if len(data) < at + size + 2:
            return None
        parts.append(bytes(data[at : at + size]))
        at += size + 2
    return None


async def _serve(service: Service) -> None:
    loop = asyncio.get_running_loop()
    load = Load(service)
    server = await loop.create_server(
        lambda: Connection(service, load), "127.0.0.1", 0, backlog=1024
    )
    ended = asyncio.Event()

    def stop() -> None:
        loop.call_soon_threadsafe(ended.set)

    on_stdin_eof(stop)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"endpoint": f"http://127.0.0.1:{port}"}), flush=True)
    await ended.wait()
    server.close()


def run(service: Service) -> None:
    """Serve until standard input closes."""
    # Ctrl-C reaches the terminal's whole process group; the parent ends this process itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_serve(service))
