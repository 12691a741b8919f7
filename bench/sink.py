"""Fake DynamoDB that counts and checksums items instead of storing them.

    python -m bench.sink --folder DIR

It listens on 127.0.0.1, with and without TLS, prints one line of JSON ({"http": ..., "https": ...,
"ca": ...}) when it is ready, and ends when its standard input closes. It serves BatchWriteItem,
BatchExecuteStatement and PutItem into empty tables, CreateTable and DescribeTable. It does not
verify signatures. POST /reset takes {"latency": seconds, "table": name, "keys": {name: type}},
leaves that table only (none if its name is null), and clears the counters; POST /clear clears the
counters alone. GET /counters returns them, for each table and for all, and four of the server:
`most_in_flight`, the most write requests that waited for an answer at once; `requests`;
`connections`, on which these arrived; and `cpu_seconds`, the CPU time of its process since it
began, without counting what arrived last. With "handshake" in /reset, so many seconds are added
before the first answer to a write on each connection: on 127.0.0.1 the round trips of TCP's and
TLS's handshakes take no time.

With "limits" in /reset, BatchWriteItem and PutItem are throttled: see `bench.throttled_table`. Then
PutItem is for other applications, whose items are not counted, and CreateTable is not served.
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
from email.utils import formatdate
from pathlib import Path
from typing import Any

from bench.certificate import server_context
from bench.checksum import ItemChecksum
from bench.received_table import ReceivedTable, items_of, table_named
from bench.throttled_table import ThrottledTable
from localaws.processes import on_stdin_eof

BACKLOG_BYTES = 400_000_000
"""Bytes of requests that are stored and counted later, while no client is measured."""
_LENGTH = re.compile(rb"\ncontent-length: *([0-9]+)", re.IGNORECASE)
_CLOSE = re.compile(rb"\nconnection: *close", re.IGNORECASE)
_ACCESS_KEY = re.compile(rb"AWS4-HMAC-SHA256 Credential=([^/\s]*)")
_TARGET = re.compile(rb"\nx-amz-target: *DynamoDB_20120810\.(\w+)", re.IGNORECASE)


class Sink:
    """Tables, and counters of received requests."""

    def __init__(self) -> None:
        self.in_flight = 0
        """Number of unanswered write requests."""
        self.reset({})

    def reset(self, settings: dict[str, Any]) -> None:
        """Replace all tables by one new table or none, and clear the counters."""
        self.latency = float(settings.get("latency", 0.0))
        self.handshake = float(settings.get("handshake", 0.0))
        table = settings.get("table", "bench")
        keys = dict(settings.get("keys", {"id": "S"}))
        limits = settings.get("limits")
        self.tables = {table: ReceivedTable(table, keys)} if table is not None else {}
        self.throttled = ThrottledTable(table, next(iter(keys)), limits) if limits else None
        self.clear()

    def clear(self) -> None:
        """Clear the counters, but not the tables."""
        for table in self.tables.values():
            table.clear()
        self.requests = 0
        self.connections: set[Connection] = set()
        """Number of connections that carried requests, including closed ones."""
        self.most_in_flight = self.in_flight
        self.invalid: list[str] = []
        self.first = self.last = self.answered = 0.0
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0

    def insert(self, body: bytes) -> dict[str, Any]:
        """Answer BatchExecuteStatement as if no item existed; see `write`."""
        self._count_request()
        self._keep(body)
        count = body.count(b'"Statement":')
        table = self._table_of(body)
        units = {"TableName": table, "CapacityUnits": 1.0}
        return {
            "Responses": [{"TableName": table}] * count,
            "ConsumedCapacity": [units] * count,
        }

    def put(self, body: bytes, writer: str) -> dict[str, Any]:
        """Answer PutItem as if no item existed; see `write`."""
        self._count_request()
        if self.throttled is not None:
            return self.throttled.put(body, writer)
        self._keep(body)
        if b'"ReturnConsumedCapacity"' not in body:
            return {}
        return {"ConsumedCapacity": {"TableName": self._table_of(body), "CapacityUnits": 1.0}}

    def write(self, body: bytes, writer: str) -> dict[str, Any]:
        """Answer BatchWriteItem, and store the request to count it later. `writer`: access key.

        Counting at once would slow down a fast client. The consumed capacity is one write unit per
        put. Puts are counted by the text `"PutRequest"`, which cannot occur inside a JSON string
        because quotes are escaped there.
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
            table = self._table_of(body)
            answer["ConsumedCapacity"] = [{"TableName": table, "CapacityUnits": units}]
        return answer

    def _table_of(self, body: bytes) -> str:
        """Return the first table in a request, without parsing the items."""
        return next(iter(self.tables)) if len(self.tables) == 1 else table_named(body)

    def _count_request(self) -> None:
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.requests += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight + 1)

    def _keep(self, body: bytes) -> None:
        self._backlog.append(body)
        self._backlog_bytes += len(body)
        # Count at most two requests at a time, so that clients do not time out.
        for _ in range(2):
            if self._backlog_bytes > BACKLOG_BYTES:
                self._settle_one()

    def settle(self) -> None:
        """Count all stored requests."""
        while self._backlog:
            self._settle_one()

    def _settle_one(self) -> None:
        body = self._backlog.popleft()
        self._backlog_bytes -= len(body)
        try:
            name, items = items_of(json.loads(body))
            if name not in self.tables:
                raise ValueError(
                    f"there is no table {name}, but {', '.join(self.tables) or 'none'}"
                )
            self.tables[name].add(items)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            self.invalid.append(f"{type(error).__name__}: {error}")

    def counters(self) -> dict[str, Any]:
        """Return the counters.

        `seconds`: time from the first to the last request. `seconds_to_answer`: from the first
        request to the last answer.
        """
        cpu_seconds = time.process_time()
        self.settle()
        everything = ItemChecksum()
        for table in self.tables.values():
            everything.add_all(table.checksum)
        return {
            "items": everything.items,
            "checksum": everything.checksum,
            "requests": self.requests,
            "connections": len(self.connections),
            "seconds": self.last - self.first,
            "seconds_to_answer": self.answered - self.first,
            "invalid": len(self.invalid),
            "first_invalid": self.invalid[0] if self.invalid else None,
            "tables": {name: table.counters() for name, table in self.tables.items()},
            "most_in_flight": self.most_in_flight,
            "cpu_seconds": cpu_seconds,
            **(self.throttled.counters() if self.throttled else {}),
        }

    def describe(self, body: bytes) -> dict[str, Any]:
        """Answer DescribeTable."""
        table = self.tables.get(json.loads(body).get("TableName"))
        if table is None:
            return _error("ResourceNotFoundException", "there is no such table")
        return {"Table": table.description("ACTIVE", self._capacity())}

    def create(self, body: bytes) -> dict[str, Any]:
        """Answer CreateTable. The table is active at once."""
        if self.throttled is not None:
            return _error("UnknownOperationException", "not served beside a table with limits")
        try:
            request = json.loads(body)
            kinds = {
                each["AttributeName"]: each["AttributeType"]
                for each in request["AttributeDefinitions"]
            }
            schema = sorted(request["KeySchema"], key=lambda each: str(each["KeyType"]))
            keys = {each["AttributeName"]: kinds[each["AttributeName"]] for each in schema}
            table = ReceivedTable(request["TableName"], keys)
        except (KeyError, TypeError, ValueError) as error:
            return _error("ValidationException", f"not a table: {error!r}")
        if table.name in self.tables:
            return _error("ResourceInUseException", f"Table already exists: {table.name}")
        self.tables[table.name] = table
        return {"TableDescription": table.description("CREATING", self._capacity())}

    def _capacity(self) -> dict[str, Any]:
        stated = self.throttled.stated_units if self.throttled else None
        if stated is None:
            return {"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}}
        units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": stated}
        return {"ProvisionedThroughput": units}


class Connection(asyncio.Protocol):
    """Server side of an HTTP/1.1 connection with keep-alive, as DynamoDB clients use it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._buffer = bytearray()
        self._has_written = False
        self._waiting = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for type checkers
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Uncount the requests in flight of a client that disconnected."""
        self._sink.in_flight -= self._waiting
        self._waiting = 0

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
        delay: float | None = None
        answer: dict[str, Any]
        if head.startswith(b"GET /counters "):
            answer = sink.counters()
        elif head.startswith(b"POST /reset "):
            sink.reset(json.loads(body))
            answer = {}
        elif head.startswith(b"POST /clear "):
            sink.clear()
            answer = {}
        elif key is None:
            answer = _error("MissingAuthenticationToken")
        elif operation == b"BatchWriteItem":
            answer, delay = sink.write(body, key[1].decode()), self._delay_write()
        elif operation == b"BatchExecuteStatement" and b"INSERT INTO" not in body:
            # ddbload tests whether the endpoint supports the operation.
            answer = _error("ValidationException")
        elif operation == b"BatchExecuteStatement":
            answer, delay = sink.insert(body), self._delay_write()
        elif operation == b"PutItem":
            answer, delay = sink.put(body, key[1].decode()), self._delay_write()
        elif operation == b"DescribeTable":
            answer = sink.describe(body)
        elif operation == b"CreateTable":
            answer = sink.create(body)
        else:
            answer = _error("UnknownOperationException")
        is_last = _CLOSE.search(head) is not None
        status = "400 Bad Request" if "__type" in answer else "200 OK"
        sent = _response(status, answer, "close" if is_last else "keep-alive")
        if delay is None:
            self._send(sent, is_last)
            return
        sink.in_flight += 1
        self._waiting += 1
        if delay:
            asyncio.get_running_loop().call_later(delay, self._end_write, sent, is_last)
        else:
            self._end_write(sent, is_last)

    def _delay_write(self) -> float:
        """Count this connection; return the delay in seconds of a write on it."""
        sink = self._sink
        sink.connections.add(self)
        delay = sink.latency if self._has_written else sink.latency + sink.handshake
        self._has_written = True
        return delay

    def _end_write(self, sent: bytes, is_last: bool) -> None:
        self._sink.answered = time.monotonic()
        if self._waiting:
            self._sink.in_flight -= 1
            self._waiting -= 1
        self._send(sent, is_last)

    def _send(self, sent: bytes, is_last: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(sent)
            if is_last:
                self._transport.close()


def _error(code: str, message: str = "not served here") -> dict[str, str]:
    return {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}


def _response(status: str, answer: Any, connection: str) -> bytes:
    body = json.dumps(answer).encode()
    head = (
        f"HTTP/1.1 {status}\r\nServer: bench\r\nDate: {formatdate(usegmt=True)}\r\n"
        f"Content-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n"
        f"Connection: {connection}\r\nx-amzn-RequestId: BENCH\r\n"
        f"x-amz-crc32: {zlib.crc32(body)}\r\n\r\n"
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
