"""The table with limits takes what there is capacity for, and answers as DynamoDB does."""

from __future__ import annotations

import json
from contextlib import closing

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from bench.clients import TABLE
from bench.rounds import InvalidRound, Scenario
from bench.sockets import CLIENTS, Load, measure
from bench.throttled_table import ThrottledTable


class Clock:
    now = 100.25

    def __call__(self):
        return self.now


def put(key, text="a"):
    return {"PutRequest": {"Item": {"key": {"S": key}, "number": {"N": "1"}, "text": {"S": text}}}}


def body(puts, **more):
    return json.dumps({"RequestItems": {TABLE: puts}, **more}).encode()


def table(clock, **limits):
    return ThrottledTable(TABLE, "key", limits, clock)


def test_items_beyond_the_limit_of_the_second_are_returned():
    clock = Clock()
    throttled = table(clock, limit=10, partitions=1)
    puts = [put(f"k{number}") for number in range(25)]
    taken, answer = throttled.write(body(puts, ReturnConsumedCapacity="TOTAL"))
    assert json.loads(taken) == {"RequestItems": {TABLE: puts[:10]}}
    assert answer["UnprocessedItems"] == {TABLE: puts[10:]}
    assert answer["ConsumedCapacity"] == [{"TableName": TABLE, "CapacityUnits": 10.0}]
    clock.now += 1.0
    taken, answer = throttled.write(body(puts[:5]))
    assert json.loads(taken) == {"RequestItems": {TABLE: puts[:5]}}
    assert answer == {"UnprocessedItems": {}}
    assert throttled.counters() == {"accepted": [10, 5], "returned": [15, 0]}


def test_request_without_any_capacity_fails():
    throttled = table(Clock(), limit=5, partitions=1)
    throttled.write(body([put(f"k{number}") for number in range(5)]))
    taken, answer = throttled.write(body([put("other")]))
    assert taken == b""
    assert answer["__type"].endswith("#ProvisionedThroughputExceededException")
    (reason,) = answer["ThrottlingReasons"]
    assert reason["reason"] == "TableWriteProvisionedThroughputExceeded"


def test_full_partition_is_named_as_the_reason():
    throttled = table(Clock(), limit=4000, partitions=4)
    for _ in range(40):
        throttled.write(body(25 * [put("hot")]))
    _, answer = throttled.write(body([put("hot")]))
    (reason,) = answer["ThrottlingReasons"]
    assert reason["reason"] == "TableWriteKeyRangeThroughputExceeded"


def test_item_of_two_kilobytes_uses_two_units():
    throttled = table(Clock(), limit=10, partitions=1)
    throttled.write(body([put("a", "x" * 1500)]))
    assert throttled.counters()["accepted"] == [2]


def test_client_sees_throttling_over_sockets(sink_process):
    load = Load(1)
    limits = {"limit": 10, "partitions": 1}
    scenario = Scenario(load.shape("ten"), tls=False, latency=0.0, limits=limits)
    sink_process.reset(scenario)
    environment = sink_process.environment(scenario)
    client = boto3.client(
        "dynamodb",
        endpoint_url=environment["AWS_ENDPOINT_URL_DYNAMODB"],
        region_name="us-east-1",
        aws_access_key_id="made-up",
        aws_secret_access_key="made-up",
        config=Config(retries={"total_max_attempts": 1}, proxies={}),
    )
    sent = failed = returned = 0
    codes = set()
    with closing(client) as dynamodb:
        # Twenty times the limit of a second.
        for number in range(20):
            puts = [put(f"{number}-{place}") for place in range(10)]
            sent += 10
            try:
                answer = dynamodb.batch_write_item(RequestItems={TABLE: puts})
            except ClientError as error:
                codes.add(error.response["Error"]["Code"])
                failed += 10
            else:
                returned += sum(len(each) for each in answer["UnprocessedItems"].values())
    assert codes == {"ProvisionedThroughputExceededException"}
    counters = sink_process.counters()
    assert counters["items"] == sum(counters["accepted"]) == sent - failed - returned
    assert sum(counters["returned"]) == failed + returned
    assert counters["requests"] == 20
    assert counters["invalid"] == 0


@pytest.mark.parametrize("label", CLIENTS)
def test_every_row_arrives_at_a_throttled_table(label, sink_process):
    load = Load(225, 100.0, rules={"partitions": 1})
    found = measure("small", load, CLIENTS[label], 0, 0.001, sink_process)
    assert found["returned"] > 0
    assert found["requests"] > 225 / 25
    # The table takes 100 rows a second, so the rows need three seconds or parts of them.
    assert found["wall"] > found["writing"] >= 1.0


def test_load_that_takes_too_long_is_refused(sink_process, monkeypatch):
    monkeypatch.setattr("bench.sockets.LIMIT_SECONDS", 0.5)
    load = Load(100, 1.0, rules={"partitions": 1})
    with pytest.raises(InvalidRound, match=r"took more than 0\.5 s"):
        measure("slow", load, CLIENTS["boto3, 8 threads"], 0, 0.0, sink_process)
