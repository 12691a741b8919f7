"""Fake S3 bucket with generated objects and a configurable latency.

    python -m bench.bucket

It listens on 127.0.0.1, prints one line of JSON ({"endpoint": ...}) when it is ready, and ends when
its standard input closes. It serves ListObjectsV2 and GetObject. POST /reset takes {"shape": name,
"objects": count, "bytes": size, "latency": seconds} and clears the counters. GET /counters returns
the number of requests since then, GET /etag the ETag that all objects share.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import signal
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from localaws.processes import on_stdin_eof

BUCKET = "bench"
PREFIX = "in/"
PAGE_KEYS = 1000
"""Keys in a page of a listing."""


def _numbered(number: int) -> str:
    return f"part-{number:06d}.csv"


def _hashed(number: int) -> str:
    return f"{hashlib.sha256(str(number).encode()).hexdigest()[:32]}.json"


def _dated(number: int) -> str:
    day, rest = divmod(number, 240)
    return f"y=2026/m={day // 28 % 12 + 1:02d}/d={day % 28 + 1:02d}/h={rest // 10:02d}/{number}.csv"


def _plain(number: int) -> str:
    return f"row {number}"


SHAPES: dict[str, Callable[[int], str]] = {
    "numbered": _numbered,
    "hashed": _hashed,
    "dated": _dated,
    "plain": _plain,
}


def bucket_keys(shape: str, count: int) -> list[str]:
    """Return the bucket's keys in S3's order."""
    return sorted({PREFIX + SHAPES[shape](number) for number in range(count)}, key=str.encode)


class Bucket:
    """Objects of the bucket, and counters of requests."""

    def __init__(self) -> None:
        self.reset({})

    def reset(self, settings: dict[str, Any]) -> None:
        """Replace the objects and clear the counters."""
        self.latency = float(settings.get("latency", 0.0))
        self.keys = bucket_keys(
            str(settings.get("shape", "numbered")), int(settings.get("objects", 0))
        )
        self.body = b"x" * int(settings.get("bytes", 1024))
        self.etag = hashlib.md5(self.body, usedforsecurity=False).hexdigest()
        self.requests: Counter[str] = Counter()
        entry = (
            "<LastModified>2026-11-21T20:08:00.000Z</LastModified>"
            f"<ETag>&quot;{self.etag}&quot;</ETag><Size>{len(self.body)}</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
        )
        self._entries = [
            f"<Contents><Key>{quote(key, safe='/~-._')}</Key>{entry}".encode() for key in self.keys
        ]

    def answer(self, target: str, headers: bytes) -> tuple[int, str, bytes]:
        """Answer a request with status, headers and body."""
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True)
        bucket, _, key = parts.path[1:].partition("/")
        if bucket != BUCKET or b"AWS4-HMAC-SHA256 " not in headers:
            return 403, "", b"<Error><Code>AccessDenied</Code></Error>"
        if "list-type" in query:
            return 200, "", self._page({name: values[0] for name, values in query.items()})
        return self._object(unquote(key))

    def _object(self, key: str) -> tuple[int, str, bytes]:
        self.requests["objects"] += 1
        at = bisect_left(self.keys, key)
        if at == len(self.keys) or self.keys[at] != key:
            return 404, "", b"<Error><Code>NoSuchKey</Code></Error>"
        return 200, f'ETag: "{self.etag}"\r\n', self.body

    def _page(self, query: dict[str, str]) -> bytes:
        self.requests["pages"] += 1
        prefix = query.get("prefix", "")
        first = bisect_left(self.keys, prefix)
        last = bisect_left(self.keys, prefix + "\U0010ffff")
        if "continuation-token" in query:
            first = int(query["continuation-token"])
        elif "start-after" in query:
            first = max(first, bisect_right(self.keys, query["start-after"]))
        end = min(first + PAGE_KEYS, last)
        more = end < last
        token = f"<NextContinuationToken>{end}</NextContinuationToken>" if more else ""
        head = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult'
            f' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{BUCKET}</Name>'
            f"<Prefix>{escape(prefix)}</Prefix>{token}<KeyCount>{max(0, end - first)}</KeyCount>"
            f"<MaxKeys>{PAGE_KEYS}</MaxKeys><EncodingType>url</EncodingType>"
            f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"
        )
        return b"".join([head.encode(), *self._entries[first:end], b"</ListBucketResult>"])


class Connection(asyncio.Protocol):
    """Server side of HTTP/1.1 with keep-alive, as far as S3 clients use it."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for type checkers
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each complete request."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n") + 4) > 3:
            head = self._buffer[:end]
            length = 0
            if head.startswith(b"POST "):
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            if len(self._buffer) < end + length:
                return
            body, self._buffer = self._buffer[end : end + length], self._buffer[end + length :]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        bucket, delay = self._bucket, 0.0
        target = head.split(b" ", 2)[1].decode()
        if target == "/reset":
            bucket.reset(json.loads(body))
            status, more, answer = 200, "", b"{}"
        elif target == "/etag":
            status, more, answer = 200, "", json.dumps({"etag": f'"{bucket.etag}"'}).encode()
        elif target == "/counters":
            status, more, answer = 200, "", json.dumps(bucket.requests).encode()
        else:
            status, more, answer = bucket.answer(target, head)
            delay = bucket.latency
        sent = f"HTTP/1.1 {status} .\r\n{more}Content-Length: {len(answer)}\r\n\r\n".encode()
        if self._transport is None or self._transport.is_closing():
            return
        if delay:
            asyncio.get_running_loop().call_later(delay, self._transport.write, sent + answer)
        else:
            self._transport.write(sent + answer)


async def serve() -> None:
    """Serve until standard input closes."""
    bucket = Bucket()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(bucket), "127.0.0.1", 0, backlog=1024)
    ended = asyncio.Event()

    def stop() -> None:
        loop.call_soon_threadsafe(ended.set)

    on_stdin_eof(stop)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"endpoint": f"http://127.0.0.1:{port}"}), flush=True)
    await ended.wait()
    server.close()


def main() -> None:
    """Run the server."""
    argparse.ArgumentParser(
        description="Serve a fake S3 bucket with generated objects."
    ).parse_args()
    # Ctrl-C reaches the terminal's whole process group; the parent ends this process itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(serve())


if __name__ == "__main__":
    main()
