"""Memory and result of `ddbload verify` on a table of millions of items.

VERIFY_ROWS says how many: 10,000,000 before a release. The table is computed, and held by nobody.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.console import PROGRAM, Console
from tests.e2e.processes import started

ROWS = int(os.environ.get("VERIFY_ROWS", "1000000"))
MOST_BYTES = 128 * 2**20
LACKING, OTHER = 100_003, 70_001
"""Of so many items the table lacks one, and holds one with another name."""
_DESCRIPTION = {
    "TableName": "computed",
    "TableStatus": "ACTIVE",
    "TableId": "00000000-0000-0000-0000-000000000000",
    "TableArn": "arn:aws:dynamodb:us-east-1:123456789012:table/computed",
    "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "N"}],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "ItemCount": ROWS,
    "TableSizeBytes": ROWS * 40,
}


def item_text(number: int) -> str:
    name = "other" if number % OTHER == OTHER - 1 else f"name of {number}"
    return (
        f'{{"id":{{"N":"{number}"}},"name":{{"S":"{name}"}},"year":{{"N":"{1900 + number % 100}"}},'
        f'"price":{{"N":"{number % 50}.5"}},"kind":{{"S":"book"}}}}'
    )


def page_text(params: dict[str, Any]) -> str:
    """Answer a scan, whose segments are ranges of numbers."""
    segment, segments = params["Segment"], params["TotalSegments"]
    begin, end = ROWS * segment // segments, ROWS * (segment + 1) // segments
    if "ExclusiveStartKey" in params:
        begin = int(params["ExclusiveStartKey"]["id"]["N"]) + 1
    stop = min(end, begin + params["Limit"])
    found = [item_text(n) for n in range(begin, stop) if n % LACKING != LACKING - 1]
    last = f',"LastEvaluatedKey":{{"id":{{"N":"{stop - 1}"}}}}' if stop < end else ""
    units = '{"TableName":"computed","CapacityUnits":50}'
    return (
        f'{{"Items":[{",".join(found)}],"Count":{len(found)},"ScannedCount":{len(found)},'
        f'"ConsumedCapacity":{units}{last}}}'
    )


def batch_text(params: dict[str, Any]) -> str:
    keys = params["RequestItems"]["computed"]["Keys"]
    found = ",".join(item_text(int(key["id"]["N"])) for key in keys)
    return f'{{"Responses":{{"computed":[{found}]}},"UnprocessedKeys":{{}}}}'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        params = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = self.headers["X-Amz-Target"].rpartition(".")[2]
        if operation == "DescribeTable":
            text = json.dumps({"Table": _DESCRIPTION})
        else:
            text = page_text(params) if operation == "Scan" else batch_text(params)
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def computed_table() -> Iterator[str]:
    """Serve the table on a free port of 127.0.0.1."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def resident_bytes(pids: list[int]) -> int:
    """Add up the memory of processes; what they share counts once."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
        except OSError:
            continue
        total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


@pytest.mark.timeout(0)
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_comparison_of_millions_of_items_takes_little_memory(console: Console, record_property):
    with console.path("many.csv").open("w") as file:
        file.write("id,name,year,price,kind\n")
        file.writelines(f"{n},name of {n},{1900 + n % 100},{n % 50}.5,book\n" for n in range(ROWS))
    types = ("--types", "year=N,price=N", "--processes", "2")
    most = 0
    with computed_table() as url:
        command = [PROGRAM, "verify", "many.csv", "computed", *types, "--yes", "--json"]
        began = os.times()
        with started(console, command, AWS_ENDPOINT_URL_DYNAMODB=url) as running:
            while running.process.poll() is None:
                most = max(most, resident_bytes(running.members()))
                time.sleep(0.1)
            ended = running.ended()
        used = os.times()
    seconds = sum(used[2:4]) - sum(began[2:4])
    record_property("CPU-s a million rows", round(seconds / ROWS * 1e6, 1))
    record_property("MiB", round(most / 2**20))
    told = json.loads(ended.out)
    assert ended.code == 3, ended
    missing = ROWS // LACKING
    assert (told["missing"], told["extra"], told["keys"]) == (missing, 0, ROWS)
    both = sum(1 for n in range(OTHER - 1, ROWS, OTHER) if n % LACKING == LACKING - 1)
    assert told["different"] == ROWS // OTHER - both
    assert told["attributes"] == {"name": min(100, told["different"])}
    assert most <= MOST_BYTES, most
