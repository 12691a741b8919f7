"""Proxy in front of dynalite that passes DynamoDB calls to the observers.

Functions use it only if calls are observed. Otherwise they call dynalite directly, which is faster.
"""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from localaws.browser_guard import BrowserGuard
from localaws.call_observers import check_signed_request
from localaws.iam.requests import Request
from localaws.server import denied_response
from localaws.settings import HOST

# Connection headers belong to one hop. The Host would name the proxy, which dynalite refuses.
_HOP_BY_HOP_HEADERS = frozenset(
    {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
)


class DynamoDBProxy:
    """HTTP proxy at `endpoint`, running until `close`."""

    def __init__(self, target: str) -> None:
        self._server = _Server((HOST, 0), target)
        self.endpoint = f"http://{HOST}:{self._server.server_port}"
        threading.Thread(
            target=self._server.serve_forever, name="DynamoDB proxy", daemon=True
        ).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], target: str) -> None:
        self.target = urlsplit(target).netloc
        super().__init__(address, _Handler)


class _Handler(BrowserGuard, BaseHTTPRequestHandler):
    """Client connection, paired with one connection to dynalite."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    _onward: http.client.HTTPConnection

    def setup(self) -> None:
        super().setup()
        self._onward = http.client.HTTPConnection(self.server.target)

    def finish(self) -> None:
        self._onward.close()
        super().finish()

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            # The client was killed before it sent the whole request: do not observe half a call.
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        path, _, query = self.path.partition("?")
        request = Request("POST", path, query, headers, lambda: body)
        refused = check_signed_request(request)
        if refused is not None:
            denied = denied_response(request, refused)
            self._answer(denied.status, [*denied.headers.items()], denied.body)
            return
        try:
            passed = {k: v for k, v in headers.items() if k not in _HOP_BY_HOP_HEADERS}
            self._onward.request("POST", self.path, body, passed)
            response = self._onward.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException):
            # dynalite closed an idle connection or has ended. Clients retry a dropped connection.
            self.close_connection = True
            return
        self._answer(response.status, response.getheaders(), answer)

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP_HEADERS:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Drop request logs."""
