"""The sink counts items over real sockets."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import zlib
from contextlib import closing
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import SSLError

from bench.checksum import ItemChecksum
from bench.clients import ROOT, TABLE
from bench.rounds import Scenario
from bench.shapes import SHAPES
from tests.e2e.processes import alive, until
from tests.trials.bench.sink_client import sink_client

STARTER = """
import sys, time
from pathlib import Path
from bench.rounds import SinkProcess
print(SinkProcess(Path(sys.argv[1])).pid, flush=True)
time.sleep(600)
"""
SIGNED = "POST / HTTP/1.1\r\nAuthorization: AWS4-HMAC-SHA256 Credential=made-up\r\n"


def put(number, text="a"):
    return {"PutRequest": {"Item": {"id": {"N": str(number)}, "text": {"S": text}}}}


def test_sink_counts_items(sink_process, scenario):
    sink_process.reset(scenario)
    due = ItemChecksum()
    with closing(sink_client(sink_process, scenario)) as dynamodb:
        for start in (0, 25, 50):
            requests = [put(number, 'q"PutRequest"\n🚀') for number in range(start, start + 25)]
            answer = dynamodb.batch_write_item(
                RequestItems={TABLE: requests}, ReturnConsumedCapacity="TOTAL"
            )
            assert answer["UnprocessedItems"] == {}
            assert answer["ConsumedCapacity"] == [{"TableName": TABLE, "CapacityUnits": 25.0}]
            for request in requests:
                due.add(request["PutRequest"]["Item"])
    counters = sink_process.counters()
    assert (counters["items"], counters["checksum"]) == (due.items, due.checksum)
    assert (counters["requests"], counters["invalid"]) == (3, 0)
    # Reading the counters changes nothing; a reset clears them.
    again = sink_process.counters()
    assert again.pop("cpu_seconds") >= counters.pop("cpu_seconds") > 0
    assert again == counters
    sink_process.reset(scenario)
    assert (sink_process.counters()["items"], sink_process.counters()["checksum"]) == (
        0,
        ItemChecksum().checksum,
    )


@pytest.mark.parametrize(
    "requests",
    [
        [put(1), put("1.0")],
        [put(number) for number in range(26)],
        [{"DeleteRequest": {"Key": {"id": {"N": "1"}}}}],
        [{"PutRequest": {"Item": {"text": {"S": "no key"}}}}],
    ],
    ids=["a key twice", "26 items", "a delete", "no key"],
)
def test_sink_counts_invalid_requests(sink_process, scenario, requests):
    sink_process.reset(scenario)
    with closing(sink_client(sink_process, scenario)) as dynamodb:
        dynamodb.batch_write_item(RequestItems={TABLE: requests})
    counters = sink_process.counters()
    assert (counters["items"], counters["invalid"]) == (0, 1)
    assert counters["first_invalid"]


def test_sink_is_refused_without_its_certificate(sink_process):
    scenario = Scenario(SHAPES["quoted"], tls=True, latency=0.0)
    with (
        closing(sink_client(sink_process, scenario, verify=True)) as dynamodb,
        pytest.raises(SSLError),
    ):
        dynamodb.describe_table(TableName=TABLE)


def test_sink_certificate_passes_strict_verification(sink_process):
    context = ssl.create_default_context(cafile=sink_process.ready["ca"])
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    port = urlsplit(sink_process.ready["https"]).port
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        assert secure.version()


def test_sink_counts_connections_that_write(sink_process, scenario):
    scenario = replace(scenario, latency=0.01, handshake=0.3)
    sink_process.reset(scenario)
    with closing(sink_client(sink_process, scenario)) as kept:
        for number in range(3):
            kept.batch_write_item(RequestItems={TABLE: [put(number)]})
    with closing(sink_client(sink_process, scenario)) as reader:
        reader.describe_table(TableName=TABLE)
    assert sink_process.counters()["connections"] == 1
    begun = time.monotonic()
    for number in range(2):
        with closing(sink_client(sink_process, scenario)) as another:
            another.batch_write_item(RequestItems={TABLE: [put(number)]})
    # Each of them waits for its own handshake.
    assert time.monotonic() - begun >= 2 * scenario.handshake
    assert sink_process.counters()["connections"] == 3


def raw(sink_process, *pieces, answers=1):
    """Send the pieces with pauses, and return the status and body of each response."""
    found = []
    with socket.create_connection(
        ("127.0.0.1", urlsplit(sink_process.ready["http"]).port), timeout=30
    ) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place, piece in enumerate(pieces):
            time.sleep(0.02 if place else 0)
            connection.sendall(piece)
        with connection.makefile("rb") as file:
            for _ in range(answers):
                head = b"".join(iter(file.readline, b"\r\n"))
                body = file.read(int(re.search(rb"Content-Length: (\d+)", head)[1]))
                assert b"x-amz-crc32: %d\r\n" % zlib.crc32(body) in head
                found.append((head.split(b" ")[1], json.loads(body)))
    return found


def request(number, head=SIGNED):
    body = json.dumps({"RequestItems": {TABLE: [put(number)]}}).encode()
    head += f"x-amz-target: DynamoDB_20120810.BatchWriteItem\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_sink_accepts_split_and_pipelined_requests(sink_process, scenario):
    sink_process.reset(scenario)
    sent = request(1) + request(2) + request(3)
    cuts = (5, 100, len(request(1)) + 60)
    pieces = [sent[a:b] for a, b in zip((0, *cuts), (*cuts, None), strict=True)]
    assert raw(sink_process, *pieces, answers=3) == 3 * [(b"200", {"UnprocessedItems": {}})]
    assert sink_process.counters()["items"] == 3


def create_books(dynamodb, name):
    return dynamodb.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": "isbn", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "isbn", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )


def test_sink_counts_each_table_by_itself(sink_process, scenario):
    sink_process.reset_without_tables(0.0)
    books = {
        "SyncBooks": [{"isbn": {"S": "1"}}],
        "AsyncBooks": [{"isbn": {"S": "1"}}, {"isbn": {"S": "2"}, "title": {"S": '"TableName"'}}],
    }
    with closing(sink_client(sink_process, scenario)) as dynamodb:
        for name in books:
            created = create_books(dynamodb, name)["TableDescription"]
            described = dynamodb.describe_table(TableName=name)["Table"]
            assert {**created, "TableStatus": "ACTIVE"} == described
            assert described["TableName"] == name
        assert dynamodb.put_item(TableName="SyncBooks", Item=books["SyncBooks"][0]).keys() == {
            "ResponseMetadata"
        }
        for book in books["AsyncBooks"]:
            answer = dynamodb.put_item(
                Item=book, TableName="AsyncBooks", ReturnConsumedCapacity="TOTAL"
            )
            assert answer["ConsumedCapacity"]["TableName"] == "AsyncBooks"
    counters = sink_process.counters()
    for name, items in books.items():
        due = ItemChecksum()
        for item in items:
            due.add(item)
        assert counters["tables"][name] == {
            "items": len(items),
            "checksum": due.checksum,
            "requests": len(items),
        }
    assert (counters["items"], counters["invalid"]) == (3, 0)
    sink_process.clear()
    counters = sink_process.counters()
    assert [each["items"] for each in counters["tables"].values()] == [0, 0]
    assert counters["requests"] == counters["most_in_flight"] == 0


def test_sink_counts_requests_in_flight(sink_process, scenario):
    sink_process.reset(replace(scenario, latency=0.2))
    # In one piece, so that the sink reads all three before it answers the first.
    raw(sink_process, request(1) + request(2) + request(3), answers=3)
    assert sink_process.counters()["most_in_flight"] == 3
    sink_process.reset(scenario)
    raw(sink_process, request(1), request(2), answers=2)
    assert sink_process.counters()["most_in_flight"] == 1


def test_request_of_a_client_that_is_gone_is_not_in_flight(sink_process, scenario):
    sink_process.reset(replace(scenario, latency=3600.0))
    port = urlsplit(sink_process.ready["http"]).port
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request(1) + request(2))
        until(lambda: sink_process.counters()["requests"] == 2, "the requests did not arrive")

    def at_rest():
        sink_process.reset(scenario)
        return sink_process.counters()["most_in_flight"] == 0

    until(at_rest, "requests of a closed connection are still in flight")


def test_sink_ends_when_its_parent_is_killed(tmp_path):
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
    )
    with starter.stdout:
        pid = int(starter.stdout.readline())
    assert alive(pid)
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    until(lambda: not alive(pid), "the sink outlives its starter")
