"""HTTP/1.1 server for fake services with keep-alive and latency, and a launcher for it.

A service subclasses `Service` and is run by `run`. The server listens on 127.0.0.1, prints one line
of JSON ({"endpoint": ...}) when it is ready, and ends when its standard input closes. POST /reset
passes settings to the service. GET /counters returns the service's counters and two of the server:
`most_in_flight`, the maximum of unanswered requests at one time since the last reset, and
`cpu_seconds`, the CPU time of the server's process since its start. Requests that wait because the
service already handles `most_at_once` others also count as in flight.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from localaws.processes import end_process, on_stdin_eof

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_LENGTH = re.compile(rb"\ncontent-length: *([0-9]+)", re.IGNORECASE)
_CONTINUE = re.compile(rb"\nexpect: *100-continue", re.IGNORECASE)


@contextmanager
def serving(module: str) -> Iterator[str]:
    """Start a fake service as a process, yield its URL, and end it."""
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None  # noqa: S101 - for type checkers
        yield json.loads(process.stdout.readline())["endpoint"]
    finally:
        end_process(process)


def control(endpoint: str, path: str, settings: dict[str, Any] | None = None) -> Any:
    """Send a control request to a fake service, bypassing proxies."""
    data = None if settings is None else json.dumps(settings).encode()
    with _DIRECT.open(f"{endpoint}{path}", data) as answer:
        return json.load(answer)


@dataclass(frozen=True)
class Request:
    """HTTP request; `head` ends with the empty line."""

    method: str
    target: str
    head: bytes
    body: bytes


@dataclass(frozen=True)
class Answer:
    """HTTP response. `headers` are whole lines, each with its line end."""

    status: int
    body: bytes = b""
    headers: str = ""
    delay: float = 0.0


class Service:
    """Base class of fake services."""

    most_at_once: int | None = None
    """Maximum requests served at a time; others wait for their turn."""

    def __init__(self) -> None:
        self.reset({})

    def reset(self, settings: dict[str, Any]) -> None:
        """Apply new settings, and clear the counters."""
        raise NotImplementedError

    def counters(self) -> dict[str, Any]:
        """Return the counters since the last reset."""
        raise NotImplementedError

    def serve(self, request: Request) -> Answer:
        """Answer a request."""
        raise NotImplementedError


class Load:
    """Counter of unanswered requests, and queue of those to serve later."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._queue: deque[Callable[[], None]] = deque()
        self._is_serving = False
        self.now = self.most = 0

    def begin(self, serve: Callable[[], None]) -> None:
        """Count a complete request, and serve it when its turn comes."""
        self.now += 1
        self.most = max(self.most, self.now)
        self._queue.append(serve)
        self._serve()

    def end(self) -> None:
        """Count an answer, and serve waiting requests."""
        self.now -= 1
        self._serve()

    def _serve(self) -> None:
        if self._is_serving:
            # A request was answered at once; the loop below continues.
            return
        self._is_serving = True
        try:
            limit = self._service.most_at_once
            while self._queue and (limit is None or self.now - len(self._queue) < limit):
                self._queue.popleft()()
        finally:
            self._is_serving = False


class Connection(asyncio.Protocol):
    """Server side of one connection. Answers are sent in the order of their delays."""

    def __init__(self, service: Service, load: Load) -> None:
        self._service = service
        self._load = load
        self._buffer = bytearray()
        self._continued = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for type checkers
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each complete request."""
        self._buffer += data
        while (begin := self._buffer.find(b"\r\n\r\n") + 4) > 3:
            head = bytes(self._buffer[:begin])
            found = _LENGTH.search(head)
            end = begin + (int(found[1]) if found else 0)
            if len(self._buffer) < end:
                if not self._continued and _CONTINUE.search(head):
                    self._continued = True
                    self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            body = bytes(self._buffer[begin:end])
            del self._buffer[:end]
            self._continued = False
            method, target, _ = head.split(b" ", 2)
            self._answer(Request(method.decode(), target.decode(), head, body))

    def _answer(self, request: Request) -> None:
        if request.method == "POST" and request.target == "/reset":
            self._service.reset(json.loads(request.body))
            self._load.most = self._load.now
            self._send(Answer(200, b"{}"))
        elif request.target == "/counters":
            own = {"most_in_flight": self._load.most, "cpu_seconds": time.process_time()}
            self._send(Answer(200, json.dumps({**self._service.counters(), **own}).encode()))
        else:
            self._load.begin(partial(self._serve, request))

    def _serve(self, request: Request) -> None:
        answer = self._service.serve(request)
        if answer.delay:
            asyncio.get_running_loop().call_later(answer.delay, self._end, answer)
        else:
            self._end(answer)

    def _end(self, answer: Answer) -> None:
        self._send(answer)
        self._load.end()

    def _send(self, answer: Answer) -> None:
        length = f"Content-Length: {len(answer.body)}\r\n\r\n"
        head = f"HTTP/1.1 {answer.status} .\r\n{answer.headers}{length}".encode()
        self._write(head + answer.body)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


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
