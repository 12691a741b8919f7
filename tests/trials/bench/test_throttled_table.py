"""The table with limits takes what there is capacity for, and answers as DynamoDB does."""

from __future__ import annotations

import json
from contextlib import closing

from botocore.exceptions import ClientError

from bench.clients import TABLE
from bench.rounds import Scenario
from bench.socket_loads import CLIENTS, OWN, RIVAL, Load, Table, measure
from bench.throttled_table import ThrottledTable
from tests.trials.bench.sink_client import sink_client


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


def test_buckets_are_refilled_within_a_second():
    clock = Clock()
    settings = Table(10, 1).settings("buckets", salt=0)
    throttled = ThrottledTable(TABLE, "key", settings, clock)
    assert throttled.stated_units == 10
    puts = [put(f"k{number}") for number in range(25)]
    _, answer = throttled.write(body(puts))
    assert len(answer["UnprocessedItems"][TABLE]) == 15
    clock.now += 0.5
    _, answer = throttled.write(body(puts))
    assert len(answer["UnprocessedItems"][TABLE]) == 20


def test_requests_and_units_are_counted_for_each_writer():
    clock = Clock()
    cpu = iter([1.0, 1.25, 1.5])
    settings = {"limit": 10, "partitions": 1}
    throttled = ThrottledTable(TABLE, "key", settings, clock, cpu=cpu.__next__)
    throttled.write(body([put(f"k{number}") for number in range(8)]), "import")
    single = json.dumps({"TableName": TABLE, **put("other")["PutRequest"]}).encode()
    assert throttled.put(single, "application") == {}
    clock.now += 2.0
    throttled.write(body([put(f"k{number}") for number in range(15)]), "import")
    counters = throttled.counters()
    assert counters["writers"] == {
        "import": {"requests": 2, "throttled": 1, "accepted": [8, 0, 10]},
        "application": {"requests": 1, "throttled": 0, "accepted": [1]},
    }
    assert counters["busy"] == 0.25


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


def test_client_sees_throttling_over_sockets(sink_process):
    table = Table(10, 1)
    limits = table.settings("metered", salt=0)
    scenario = Scenario(Load(1, table).shape("ten"), tls=False, latency=0.0, limits=limits)
    sink_process.reset(scenario)
    client = sink_client(sink_process, scenario)
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


def test_every_row_of_the_rival_arrives_at_a_throttled_table(sink_process):
    load = Load(225, Table(100, 1))
    found = measure("small", load, CLIENTS[RIVAL], "metered", 0, 0.001, sink_process)
    assert found["returned"] > 0
    assert found["requests"] > 225 / 25
    # The table takes 100 rows a second, so the rows need three seconds or parts of them.
    assert found["wall"] > 1.0
    assert found["jain"] is None


def test_every_row_of_two_writers_arrives_beside_an_application(sink_process):
    load = Load(200, Table(200, 1), starts=(0.0, 0.2), served=40)
    found = measure("both", load, CLIENTS[OWN], "buckets", 0, 0.001, sink_process)
    assert found["wall"] > 1.0
    # The table is empty before both have started, and one second of its capacity is saved.
    assert found["requests"] > 400 / 25
    assert found["calls"] > 10
    assert 0.0 <= found["failed"] <= found["retried"] <= 1.0
