"""The table with limits takes what there is capacity for, and answers as DynamoDB does."""

from __future__ import annotations

import json

from bench.clients import TABLE
from bench.socket_loads import CLIENTS, OWN, Load, Table, measure
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
    counters = throttled.counters()
    assert (counters["accepted"], counters["returned"]) == ([10, 5], [15, 0])


def test_full_partition_is_named_as_the_reason():
    throttled = table(Clock(), limit=4000, partitions=4)
    for _ in range(40):
        throttled.write(body(25 * [put("hot")]))
    _, answer = throttled.write(body([put("hot")]))
    (reason,) = answer["ThrottlingReasons"]
    assert reason["reason"] == "TableWriteKeyRangeThroughputExceeded"


def test_every_row_of_two_writers_arrives_beside_an_application(sink_process):
    load = Load(200, Table(200, 1), starts=(0.0, 0.2), served=40)
    found = measure("both", load, CLIENTS[OWN], "buckets", 0, 0.001, sink_process)
    assert found["wall"] > 1.0
    # The table is empty before both have started, and one second of its capacity is saved.
    assert found["requests"] > 400 / 25
    assert found["calls"] > 10
    assert 0.0 <= found["failed"] <= found["retried"] <= 1.0
