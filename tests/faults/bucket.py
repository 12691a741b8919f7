"""S3 bucket over real sockets on 127.0.0.1, with scripted faults."""

from __future__ import annotations

import calendar
import hashlib
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.faults.handler import Server
from tests.unit.source.listing_helpers import page_of

BUCKET = "bucket"
SECONDS = 30.0
"""Time after which a test counts as hung."""


def etag_of(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


class BucketServer:
    """Bucket with `objects`, served while its block runs.

    `faults` has the faults of the next requests, None for one that works; `decide` chooses a fault
    for any other. The clock is `ahead` by some seconds. `targets` records the requests. A page of a
    listing has `page` keys.
    """

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self.stopping = threading.Event()
        self.reset(objects)
        self._server = Server(self)  # type: ignore[arg-type]
        self._server.RequestHandlerClass = _Handler
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def reset(self, objects: Mapping[str, bytes]) -> None:
        """Restore the initial state, with these objects."""
        self.objects = dict(objects)
        self.faults: deque[str | None] = deque()
        self.decide: Callable[[str], str | None] = lambda _: None
        self.keys: set[str] | None = None
        self.ahead = 0.0
        self.has_clock = True
        self.page = 3
        self.targets: list[tuple[str, dict[str, str]]] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def pinned(self) -> list[dict[str, Any]]:
        """Pin all objects in their present version."""
        return [
            {"bucket": BUCKET, "key": key, "etag": etag_of(data), "size": len(data)}
            for key, data in self.objects.items()
        ]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.cut_connections()
        self._thread.join()
        self._server.server_close()

    def next_fault(self, target: str) -> str | None:
        return self.faults.popleft() if self.faults else self.decide(target)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        owner: Any = self.server.owner
        fault = owner.next_fault(self.path)
        owner.targets.append((self.path, dict(self.headers.items())))
        refusal = self._refusal(fault)
        if refusal is not None:
            self._send(*refusal)
            return
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        if "list-type" in query:
            assert path == f"/{BUCKET}"
            self._list(query, fault)
        else:
            self._get(path.removeprefix(f"/{BUCKET}/"), fault)

    def _refusal(self, fault: str | None) -> tuple[int, bytes, dict[str, str]] | None:
        owner: Any = self.server.owner
        signed_by = self.headers["Authorization"].partition("Credential=")[2].partition("/")[0]
        stamp = time.strptime(self.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
        if owner.keys is not None and signed_by not in owner.keys:
            return 400, _error("ExpiredToken", "The provided token has expired."), {}
        if owner.has_clock and abs(calendar.timegm(stamp) - time.time() - owner.ahead) > 300:
            said = "The difference between the request time and the current time is too large."
            return 403, _error("RequestTimeTooSkewed", said), {}
        match fault:
            case "slow_down":
                return 503, _error("SlowDown", "Please reduce your request rate."), {}
            case "internal":
                return 500, _error("InternalError", "We encountered an internal error."), {}
            case "timeout":
                return 400, _error("RequestTimeout", "Your socket connection was not read."), {}
            case "html":
                return 502, b"<html>Bad Gateway</html>", {}
            case "archived":
                return 403, _error("InvalidObjectState", "The operation is not valid"), {}
            case "denied":
                return 403, _error("AccessDenied", "User: x is not allowed: s3:GetObject"), {}
            case "moved":
                said = _error("PermanentRedirect", "The bucket must be addressed otherwise.")
                return 301, said, {"x-amz-bucket-region": "eu-west-1"}
            case "malformed":
                said = _error("AuthorizationHeaderMalformed", "the region is wrong")
                said = said.replace(b"</Error>", b"<Region>eu-west-1</Region></Error>")
                return 400, said, {}
            case "no_bucket":
                return 404, _error("NoSuchBucket", "The specified bucket does not exist"), {}
        return None

    def _get(self, key: str, fault: str | None) -> None:
        owner: Any = self.server.owner
        data = owner.objects.get(key)
        if data is None:
            self._send(404, _error("NoSuchKey", "The specified key does not exist."))
            return
        etag = etag_of(data)
        if self.headers.get("If-Match", etag) != etag and fault != "no_if_match":
            self._send(412, _error("PreconditionFailed", "At least one did not hold"))
            return
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        status, told = 200, {"ETag": etag}
        if found and not (fault or "").startswith("ignores_range"):
            start, end = int(found[1]), min(int(found[2]) + 1, len(data))
            told["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
            status, data = 206, data[start:end]
        self._send(status, data, told, fault)

    def _list(self, query: dict[str, str], fault: str | None) -> None:
        owner: Any = self.server.owner
        keys = sorted(key for key in owner.objects if key.startswith(query.get("prefix", "")))
        after = query.get("continuation-token") or query.get("start-after", "")
        keys = [key for key in keys if key > after]
        token = keys[owner.page - 1] if len(keys) > owner.page else None
        self._send(200, page_of(keys[: owner.page], token), {}, fault)

    def _send(
        self,
        status: int,
        body: bytes,
        told: Mapping[str, str] | None = None,
        fault: str | None = None,
    ) -> None:
        owner: Any = self.server.owner
        is_chunked = fault in ("chunked", "chunked_short")
        lines = [
            f"HTTP/1.1 {status} Said",
            f"Date: {self.date_time_string(time.time() + owner.ahead)}",
            f"x-amz-request-id: {len(owner.targets):016X}",
            *(f"{name}: {value}" for name, value in (told or {}).items()),
            "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {len(body)}",
        ]
        head = "\r\n".join([*lines, "", ""]).encode()
        half = len(body) // 2
        match fault:
            case "garbage":
                body = b"<html>login</html>"
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            case "chunked":
                body = b"%X\r\n%b\r\n%X\r\n%b\r\n0\r\n\r\n" % (
                    *(half or 1, body[: half or 1]),
                    *(len(body) - (half or 1), body[half or 1 :]),
                )
            case "chunked_short":
                body = b"%X\r\n%b\r\n" % (half, body[:half])
                self.close_connection = True
            case "more":
                # Than the range that the head tells.
                body += b"more"
                head = re.sub(rb"(Content-Length: )\d+", rb"\g<1>%d" % len(body), head)
            case "short" | "ignores_range_short":
                body = body[:half]
                self.close_connection = True
            case "reset":
                self.wfile.write(head + body[:half])
                # So that what was written is not reset before it is read.
                owner.stopping.wait(0.05)
                self._reset()
                return
            case "reset_before":
                self._reset()
                return
            case "stall":
                self.wfile.write(head + body[:half])
                owner.stopping.wait(SECONDS)
                self.close_connection = True
                return
        self.wfile.write(head + body)

    def _reset(self) -> None:
        self.server.resets.add(self.connection)
        self.close_connection = True

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _error(code: str, said: str) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{said}'
        "</Message><RequestId>X</RequestId></Error>"
    ).encode()
