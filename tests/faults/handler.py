"""Socket side of the fault server: sends responses, or breaks connections."""

from __future__ import annotations

import socket
import socketserver
import struct
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.faults import wire
from tests.faults.wire import Response

if TYPE_CHECKING:
    from tests.faults.server import FaultServer

HOST = "127.0.0.1"
STAMP = "%Y%m%dT%H%M%SZ"
HTML = b"<html><head><title>502 Bad Gateway</title></head><body>Bad Gateway</body></html>\n"


@dataclass(frozen=True)
class Request:
    """A received request, its connection and its fault."""

    operation: str
    connection: int
    body_bytes: int
    fault: str | None


class Server(ThreadingHTTPServer):
    """HTTP server on a free port of 127.0.0.1, with a thread for each connection."""

    # Threads are joined when the server closes: no test leaves one behind.
    daemon_threads = False
    request_queue_size = 256

    def __init__(self, owner: FaultServer) -> None:
        self.owner = owner
        self.accepted = 0
        self.resets: set[socket.socket] = set()
        self._open: dict[Any, int] = {}
        self._lock = threading.Lock()
        super().__init__((HOST, 0), Handler)

    def server_bind(self) -> None:
        # HTTPServer would look up the host's name here.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self.accepted += 1
            self._open[request] = self.accepted
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
            is_reset = request in self.resets
            self.resets.discard(request)
        if is_reset:
            # Closing with a linger time of zero sends RST; a shutdown first would send FIN.
            request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that hangs up in the middle is what many tests do.
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def number_of(self, request: Any) -> int:
        """Count the connections; returns the number of this one, from 1."""
        with self._lock:
            return self._open[request]

    def cut_connections(self) -> None:
        """Close all connections, so that their threads end."""
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # the peer was faster
                    pass


class Handler(BaseHTTPRequestHandler):
    """Handler of one connection, which is kept open between requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        super().setup()
        self.owner = self.server.owner
        self.number = self.server.number_of(self.request)

    def do_GET(self) -> None:
        # What AWS answers to a look at its endpoint.
        self._send(Response(200, b"healthy: dynamodb.us-east-1.amazonaws.com "))

    def do_POST(self) -> None:
        operation = self.headers.get("X-Amz-Target", "").removeprefix("DynamoDB_20120810.")
        length = int(self.headers.get("Content-Length", "0"))
        fault = self.owner.faults.next(operation, {})
        self.owner.requests.append(Request(operation, self.number, length, fault))
        if fault == "reset_before":
            self._reset()
            return
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return
        if not self.headers.get("Authorization", "").startswith("AWS4-HMAC-SHA256 "):
            message = "Request is missing Authentication Token"
            self._send(wire.failure("MissingAuthenticationTokenException", 400, message))
            return
        response = self._doubt() or self.owner.call(operation, body, fault)
        if response is not None and response.status != 200:
            # What the service refuses it refuses, and an error that was asked for is one.
            self._send(response)
        else:
            self._send_with(fault, response or Response(200, b""))

    def _doubt(self) -> Response | None:
        """Return the refusal of a request with a wrong key or time, else None."""
        keys, now = self.owner.keys, time.time() + self.owner.ahead
        if keys is not None:
            signed_by = self.headers["Authorization"].partition("Credential=")[2].partition("/")[0]
            if signed_by not in keys:
                message = "The security token included in the request is expired"
                return wire.failure("ExpiredTokenException", 400, message)
        stamp = self.headers.get("X-Amz-Date", "")
        told = datetime.strptime(stamp, STAMP).replace(tzinfo=UTC).timestamp() if stamp else now
        if abs(told - now) <= 300:
            return None
        at = datetime.fromtimestamp(now, UTC).strftime(STAMP)
        early, verb = ("expired", "earlier") if told < now else ("not yet current", "later")
        message = f"Signature {early}: {stamp} is now {verb} than {at}"
        return wire.failure("InvalidSignatureException", 400, message)

    def _send_with(self, fault: str | None, response: Response) -> None:
        half = len(response.body) // 2
        match (fault or "").removesuffix("_landed"):
            case "reset":
                self._reset()
            case "reset_mid_response":
                self.wfile.write(self._head(response) + response.body[:half])
                self._reset()
            case "closed":
                self.close_connection = True
            case "stall":
                self.owner.stopping.wait(self.owner.stall_seconds)
                self.close_connection = True
            case "truncated":
                self.wfile.write(self._head(response) + response.body[:half])
                self.close_connection = True
            case "wrong_crc":
                self._send(response, crc32=response.crc32 ^ 1)
            case "garbage_200":
                self._send(Response(200, b"\x00\xff{]garbage"))
            case "html_200":
                self._send(Response(200, HTML), "text/html")
            case "html_502":
                self._send(Response(502, HTML), "text/html")
            case "empty_200":
                self._send(Response(200, b""))
            case "slow_drip":
                self._drip(self._head(response) + response.body)
            case "connection_close":
                self.wfile.write(self._head(response, "Connection: close") + response.body)
                self.close_connection = True
            case "closes_after":
                self._send(response)
                self.close_connection = True
            case "chunked":
                self._send_chunked(response)
            case "doubled":
                self.wfile.write((self._head(response) + response.body) * 2)
            case "interim_100":
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                self._send(response)
            case _:
                self._send(response)

    def _send(
        self, response: Response, content_type: str = wire.CONTENT_TYPE, crc32: int | None = None
    ) -> None:
        head = self._head(response, content_type=content_type, crc32=crc32)
        self.wfile.write(head + response.body)

    def _head(
        self,
        response: Response,
        *more: str,
        content_type: str = wire.CONTENT_TYPE,
        crc32: int | None = None,
        is_chunked: bool = False,
    ) -> bytes:
        reason = self.responses[response.status][0]
        size = len(response.body)
        lines = [
            f"HTTP/1.1 {response.status} {reason}",
            "Server: Server",
            f"Date: {self.date_time_string(time.time() + self.owner.ahead)}",
            f"Content-Type: {content_type}",
            "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {size}",
            f"x-amzn-RequestId: {len(self.owner.requests):052d}",
            f"x-amz-crc32: {response.crc32 if crc32 is None else crc32}",
            *more,
        ]
        return "\r\n".join([*lines, "", ""]).encode("ascii")

    def _send_chunked(self, response: Response) -> None:
        self.wfile.write(self._head(response, is_chunked=True))
        for start in range(0, len(response.body), 7):
            piece = response.body[start : start + 7]
            self.wfile.write(b"%X\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _drip(self, data: bytes) -> None:
        drops = 20
        size = -(-len(data) // drops)
        for start in range(0, len(data), size):
            self.wfile.write(data[start : start + size])
            self.owner.stopping.wait(self.owner.drip_seconds / drops)

    def _reset(self) -> None:
        self.server.resets.add(self.connection)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because ``requests`` has every request."""
