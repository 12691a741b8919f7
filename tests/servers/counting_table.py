"""Table that counts the write units of each moment: BatchWriteItem and DescribeTable, over HTTP.

Items are counted and forgotten. Each consumes `units_of_item` units, so that indexes and large
items can be had without any.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TABLE = "counted"


class CountingTable:
    """Units by the time at which they were consumed."""

    def __init__(self, units_of_item: int = 1, latency: float = 0.005) -> None:
        self.units_of_item = units_of_item
        self.latency = latency
        self.consumed: list[tuple[float, int]] = []
        self.url = ""

    @property
    def units(self) -> int:
        """All units so far."""
        return sum(units for _, units in self.consumed)

    def since(self, moment: float) -> int:
        """Units since a time of the monotonic clock."""
        return sum(units for at, units in self.consumed if at >= moment)

    def most_within(self, seconds: float) -> int:
        """Most units of any window of this length."""
        most, units, first = 0, 0, 0
        for at, each in self.consumed:
            units += each
            while self.consumed[first][0] <= at - seconds:
                units -= self.consumed[first][1]
                first += 1
            most = max(most, units)
        return most

    def rate(self, begin: float, end: float) -> float:
        """Units a second between two moments."""
        return sum(units for at, units in self.consumed if begin <= at < end) / (end - begin)

    def answer(self, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        if operation == "DescribeTable":
            return {"Table": _DESCRIPTION}
        assert operation == "BatchWriteItem", operation
        time.sleep(self.latency)
        ((name, requests),) = body["RequestItems"].items()
        units = len(requests) * self.units_of_item
        self.consumed.append((time.monotonic(), units))
        return {
            "UnprocessedItems": {},
            "ConsumedCapacity": [{"TableName": name, "CapacityUnits": float(units)}],
        }


_DESCRIPTION = {
    "TableName": TABLE,
    "TableStatus": "ACTIVE",
    "TableId": "00000000-0000-0000-0000-000000000000",
    "TableArn": f"arn:aws:dynamodb:us-east-1:123456789012:table/{TABLE}",
    "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
}


@contextmanager
def counting_table(units_of_item: int = 1) -> Iterator[CountingTable]:
    """Serve a table on a free port of 127.0.0.1."""
    table = CountingTable(units_of_item)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
            try:
                status, value = 200, table.answer(operation, json.loads(body))
            except AssertionError:
                status, value = 400, {"__type": "UnknownOperationException"}
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    table.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield table
    finally:
        server.shutdown()
        server.server_close()
