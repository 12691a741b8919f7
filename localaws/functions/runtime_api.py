"""Serve the Lambda Runtime API to one process, which fetches events and posts results.

Source: the Lambda Developer Guide, "Using the Lambda runtime API".
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any

from localaws.browser_guard import BrowserGuard
from localaws.settings import HOST

# Maximum response size: slightly over 6 MB, as Lambda's own error message says.
RESPONSE_BYTES = 6_291_556


@dataclass(frozen=True)
class Invocation:
    """Event for a process. `deadline`: seconds since the epoch, by the function's clock."""

    request_id: str
    payload: bytes
    deadline: float
    function_arn: str


@dataclass(frozen=True)
class ReadyForEvent:
    """Message: the process has started and requests an event."""


@dataclass(frozen=True)
class HandlerResult:
    """Message: the handler's result, or an error of the handler or of importing its module."""

    body: bytes
    failed: bool


@dataclass(frozen=True)
class ResponseTooLarge:
    """Message: the result exceeded Lambda's limit."""


class RuntimeApi:
    """Runtime API for one process at `address`, until `close`. Its messages go to `messages`."""

    def __init__(self, messages: SimpleQueue[Any]) -> None:
        self._messages = messages
        self._next: SimpleQueue[Invocation | None] = SimpleQueue()
        self._server = _Server((HOST, 0), self)
        self.address = f"{HOST}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve, name="runtime API", daemon=True)
        self._thread.start()

    def send_event(self, invocation: Invocation) -> None:
        self._next.put(invocation)

    def next_event(self) -> Invocation | None:
        """Wait for an event; None after `close`."""
        self._messages.put(ReadyForEvent())
        return self._next.get()

    def receive_result(self, kind: str, body: bytes) -> None:
        if kind == "response" and len(body) > RESPONSE_BYTES:
            self._messages.put(ResponseTooLarge())
        else:
            self._messages.put(HandlerResult(body, failed=kind == "error"))

    def close(self) -> None:
        self._next.put(None)
        self._server.end()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], api: RuntimeApi) -> None:
        self.api = api
        self._ended = False
        super().__init__(address, _Handler)

    def serve(self) -> None:
        """Accept connections without serve_forever's polling, because each process has a server."""
        while True:
            connection, address = self.socket.accept()
            if self._ended:
                connection.close()
                return
            self.process_request(connection, address)

    def end(self) -> None:
        self._ended = True
        with suppress(OSError):
            socket.create_connection(self.server_address[:2]).close()  # type: ignore[arg-type]


class _Handler(BrowserGuard, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def refusal(self, headers: Mapping[str, str]) -> str | None:
        """Refuse web pages, and clients other than a Lambda runtime that request events.

        An event is handed out only once, and some browsers send a GET without identifying headers.
        """
        if self.command == "GET" and not headers.get("user-agent", "").startswith("aws-lambda-"):
            return "localaws: only a Lambda runtime (User-Agent aws-lambda-...) may fetch events"
        return super().refusal(headers)

    def do_GET(self) -> None:
        invocation = self.server.api.next_event()
        if invocation is None:
            self._answer(410, b"{}", {})
            return
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Deadline-Ms": str(int(invocation.deadline * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": invocation.function_arn,
        }
        self._answer(200, invocation.payload, headers)

    def do_POST(self) -> None:
        body = self._body()
        # Answer first, because the result may trigger the next event at once.
        self._answer(202, b'{"status":"OK"}', {})
        self.server.api.receive_result(self.path.rsplit("/", 1)[-1], body)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            # The process was ended meanwhile by its worker, which reports the outcome.
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Drop request logs: the function's log holds the function's output only."""
