"""The sink counts items over real sockets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from bench.checksum import ItemChecksum
from bench.clients import ROOT, TABLE
from tests.e2e.processes import alive, until
from tests.fakes.dynamodb_tables import keyed
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


def request(number, head=SIGNED):
    body = json.dumps({"RequestItems": {TABLE: [put(number)]}}).encode()
    head += f"x-amz-target: DynamoDB_20120810.BatchWriteItem\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def create_books(dynamodb, name):
    return dynamodb.create_table(**keyed(name, isbn="S"))


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
