"""Fake DynamoDB that counts and checksums items instead of storing them.

    python -m bench.sink --folder DIR

It listens on 127.0.0.1, with and without TLS, prints one line of JSON ({"http": ..., "https": ...,
"ca": ...}) when it is ready, and ends when its standard input closes. It serves BatchWriteItem,
BatchExecuteStatement and PutItem into an empty table, and DescribeTable. POST /reset takes
{"latency": seconds, "table": name, "keys": {name: type}} and clears the counters; GET /counters
returns them. With "limits" in /reset, BatchWriteItem and PutItem are throttled: see
`bench.throttled_table`. Then PutItem is for other applications, whose items are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import ssl
import time
import zlib
from collections import deque
from decimal import Decimal
from email.utils import formatdate
from pathlib import Path
from typing import Any

from bench.certificate import server_context
from bench.checksum import ItemChecksum
from bench.throttled_table import ThrottledTable
from localaws.processes import on_stdin_eof

BACKLOG_BYTES = 400_000_000
"""Bytes of requests kept for counting later, when no client is being measured."""
_INSERT = re.compile(r"""INSERT INTO "([^"]+)" VALUE \{((?:'(?:[^']|'')*':\?,?)+)\}""")
_MEMBER = re.compile(r"'((?:[^']|'')*)':\?")
_LENGTH = re.compile(rb"\ncontent-length: *([0-9]+)", re.IGNORECASE)
_ACCESS_KEY = re.compile(rb"AWS4-HMAC-SHA256 Credential=([^/\s]*)")
_TARGET = re.compile(rb"\nx-amz-target: *DynamoDB_20120810\.(\w+)", re.IGNORECASE)


class Sink:
    """Table description, and counters of the items that arrived."""

    def __init__(self) -> None:
        self.reset({})

    def reset(self, settings: dict[str, Any]) -> None:
        """Clear the counters, and describe this table."""
        self.latency = float(settings.get("latency", 0.0))
        self.table = str(settings.get("table", "bench"))
        self.keys = dict(settings.get("keys", {"id": "S"}))
        limits = settings.get("limits")
        partition_key = next(iter(self.keys))
        self.throttled = ThrottledTable(self.table, partition_key, limits) if limits else None
        self.checksum = ItemChecksum()
        self.requests = 0
        self.invalid: list[str] = []
        self.first = self.last = 0.0
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0

    def insert(self, body: bytes) -> dict[str, Any]:
        """Answer BatchExecuteStatement as if no item existed; see `write`."""
        self._count_request()
        self._keep(body)
        count = body.count(b'"Statement":')
        units = {"TableName": self.table, "CapacityUnits": 1.0}
        return {
            "Responses": [{"TableName": self.table}] * count,
            "ConsumedCapacity": [units] * count,
        }

    def put(self, body: bytes, writer: str) -> dict[str, Any]:
        """Answer PutItem as if no item existed; see `write`."""
        self._count_request()
        if self.throttled is not None:
            return self.throttled.put(body, writer)
        self._keep(body)
        return {"ConsumedCapacity": {"TableName": self.table, "CapacityUnits": 1.0}}

    def write(self, body: bytes, writer: str) -> dict[str, Any]:
        """Answer BatchWriteItem, and keep the request to be counted later. `writer`: access key.

        Counting now would slow a fast client down. The consumed capacity is one write unit per put.
        Puts are counted by the text `"PutRequest"`, which cannot occur inside a JSON string with
        bare quotes.
        """
        self._count_request()
        if self.throttled is not None:
            taken, throttled = self.throttled.write(body, writer)
            if taken:
                self._keep(taken)
            return throttled
        self._keep(body)
        answer: dict[str, Any] = {"UnprocessedItems": {}}
        if b'"ReturnConsumedCapacity"' in body:
            units = float(body.count(b'"PutRequest"'))
            answer["ConsumedCapacity"] = [{"TableName": self.table, "CapacityUnits": units}]
        return answer

    def _count_request(self) -> None:
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.requests += 1

    def _keep(self, body: bytes) -> None:
        self._backlog.append(body)
        self._backlog_bytes += len(body)
        # Count at most two requests at a time, so that no client times out.
        for _ in range(2):
            if self._backlog_bytes > BACKLOG_BYTES:
                self._settle_one()

    def settle(self) -> None:
        """Count all requests that were kept."""
        while self._backlog:
            self._settle_one()

    def _settle_one(self) -> None:
        body = self._backlog.popleft()
        self._backlog_bytes -= len(body)
        try:
            table, items = _items_of(json.loads(body))
            if table != self.table or not 1 <= len(items) <= 25:
                raise ValueError(
                    f"{len(items)} items for table {table}, not 1 to 25 for {self.table}"
                )
            if len({self._key(item) for item in items}) < len(items):
                raise ValueError("a batch contains a key twice")
            for item in items:
                self.checksum.add(item)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            self.invalid.append(f"{type(error).__name__}: {error}")

    def _key(self, item: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(
            Decimal(item[name][kind]) if kind == "N" else item[name][kind]
            for name, kind in self.keys.items()
        )

    def counters(self) -> dict[str, Any]:
        """Return the counters; `seconds` is the time from the first request to the last."""
        self.settle()
        return {
            "items": self.checksum.items,
            "checksum": self.checksum.checksum,
            "requests": self.requests,
            "seconds": self.last - self.first,
            "invalid": len(self.invalid),
            "first_invalid": self.invalid[0] if self.invalid else None,
            **(self.throttled.counters() if self.throttled else {}),
        }

    def describe(self) -> dict[str, Any]:
        """Answer DescribeTable."""
        kinds = ("HASH", "RANGE")
        stated = self.throttled.stated_units if self.throttled else None
        capacity: dict[str, Any] = {"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}}
        if stated is not None:
            units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": stated}
            capacity = {"ProvisionedThroughput": units}
        return {
            "Table": {
                "TableName": self.table,
                "TableStatus": "ACTIVE",
                "TableId": "00000000-0000-0000-0000-000000000000",
                "TableArn": f"arn:aws:dynamodb:us-east-1:123456789012:table/{self.table}",
                "CreationDateTime": 1.7e9,
                **capacity,
                "AttributeDefinitions": [
                    {"AttributeName": name, "AttributeType": kind}
                    for name, kind in self.keys.items()
                ],
                "KeySchema": [
                    {"AttributeName": name, "KeyType": kind}
                    for name, kind in zip(self.keys, kinds, strict=False)
                ],
            }
        }


def _items_of(request: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the table and the items of a request."""
    if "Statements" in request:
        inserts = [_inserted(each) for each in request["Statements"]]
        (table,) = {table for table, _ in inserts}
        return table, [item for _, item in inserts]
    if "Item" in request:
        return request["TableName"], [request["Item"]]
    ((table, requests),) = request["RequestItems"].items()
    return table, [each["PutRequest"]["Item"] for each in requests]


def _inserted(statement: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    found = _INSERT.fullmatch(statement["Statement"])
    if found is None:
        raise ValueError("a statement that is not an INSERT with parameters")
    names = [each[1].replace("''", "'") for each in _MEMBER.finditer(found[2])]
    return found[1], dict(zip(names, statement["Parameters"], strict=True))


class Connection(asyncio.Protocol):
    """Server side of HTTP/1.1 with keep-alive, as far as DynamoDB clients use it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._buffer = bytearray()
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
            found = _LENGTH.search(head)
            size = end + (int(found[1]) if found else 0)
            if len(self._buffer) < size:
                return
            body = bytes(self._buffer[end:size])
            del self._buffer[:size]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        sink = self._sink
        target, key = _TARGET.search(head), _ACCESS_KEY.search(head)
        operation = target[1] if target else b""
        delay = 0.0
        status = "200 OK"
        answer: dict[str, Any]
        if head.startswith(b"GET /counters "):
            answer = sink.counters()
        elif head.startswith(b"POST /reset "):
            sink.reset(json.loads(body))
            answer = {}
        elif key is None:
            status, answer = "400 Bad Request", _error("MissingAuthenticationToken")
        elif operation == b"BatchWriteItem":
            answer, delay = sink.write(body, key[1].decode()), sink.latency
            status = "400 Bad Request" if "__type" in answer else status
        elif operation == b"BatchExecuteStatement" and b"INSERT INTO" not in body:
            # So ddbload asks whether the endpoint knows the operation.
            status, answer = "400 Bad Request", _error("ValidationException")
        elif operation == b"BatchExecuteStatement":
            answer, delay = sink.insert(body), sink.latency
        elif operation == b"PutItem":
            answer, delay = sink.put(body, key[1].decode()), sink.latency
            status = "400 Bad Request" if "__type" in answer else status
        elif operation == b"DescribeTable":
            answer = sink.describe()
        else:
            status, answer = "400 Bad Request", _error("UnknownOperationException")
        sent = _response(status, answer)
        if self._transport is None or self._transport.is_closing():
            return
        if delay:
            asyncio.get_running_loop().call_later(delay, self._transport.write, sent)
        else:
            self._transport.write(sent)


def _error(code: str) -> dict[str, str]:
    return {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "not served here"}


def _response(status: str, answer: Any) -> bytes:
    body = json.dumps(answer).encode()
    head = (
        f"HTTP/1.1 {status}\r\nServer: bench\r\nDate: {formatdate(usegmt=True)}\r\n"
        f"Content-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n"
        f"Connection: keep-alive\r\nx-amzn-RequestId: BENCH\r\nx-amz-crc32: {zlib.crc32(body)}\r\n"
        "\r\n"
    )
    return head.encode() + body


async def serve(folder: Path) -> None:
    """Serve until standard input closes."""
    sink = Sink()
    loop = asyncio.get_running_loop()

    async def listen(tls: ssl.SSLContext | None) -> tuple[asyncio.Server, int]:
        server = await loop.create_server(lambda: Connection(sink), "127.0.0.1", 0, ssl=tls)
        return server, server.sockets[0].getsockname()[1]

    trusted = folder / "ca.pem"
    plain, plain_port = await listen(None)
    secure, secure_port = await listen(server_context(trusted))
    ended = asyncio.Event()

    def stop() -> None:
        loop.call_soon_threadsafe(ended.set)

    on_stdin_eof(stop)
    ready = {
        "http": f"http://127.0.0.1:{plain_port}",
        "https": f"https://127.0.0.1:{secure_port}",
        "ca": str(trusted),
    }
    print(json.dumps(ready), flush=True)
    await ended.wait()
    plain.close()
    secure.close()


def main() -> None:
    """Run the server."""
    parser = argparse.ArgumentParser(
        description="Serve a fake DynamoDB that counts items instead of storing them."
    )
    parser.add_argument("--folder", type=Path, required=True, help="folder for the certificate")
    folder = parser.parse_args().folder
    # Ctrl-C reaches the terminal's whole process group; the parent ends this process itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(serve(folder))


if __name__ == "__main__":
    main()
