"""Raising the warm throughput of a table, its price, and waiting for it."""

from __future__ import annotations

import pytest

from ddbload.aws.retry import RetryPolicy
from ddbload.errors import InvalidUsage, PrewarmUnfinished
from ddbload.planning.warm_up import MAX_WARM_UP_SECONDS, POLL_SECONDS, plan_warm_up, warm_up
from tests.unit.steps.stubbed_clients import Clients
from tests.unit.steps.world import Clock

POLICY = RetryPolicy(attempts=1)
KEYS = [{"AttributeName": "id", "KeyType": "HASH"}]


def warm(units, status="ACTIVE"):
    return {"WarmThroughput": {"WriteUnitsPerSecond": units, "Status": status}}


def table(units, status="ACTIVE", **more):
    return {
        "TableName": "books",
        "TableId": "1",
        "TableStatus": "ACTIVE" if status == "ACTIVE" else "UPDATING",
        "KeySchema": KEYS,
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
        **warm(units, status),
        **more,
    }


def index(name, units, **more):
    return {"IndexName": name, "KeySchema": KEYS, **warm(units), **more}


def test_table_and_its_slower_indexes_are_warmed():
    described = table(
        4000, GlobalSecondaryIndexes=[index("by-year", 4000), index("by-name", 20_000)]
    )
    described["Replicas"] = [{"RegionName": "eu-west-1"}, {"RegionName": "us-east-1"}]
    change = plan_warm_up("books", described, "us-east-1", 10_000)
    assert (change.more, change.regions) == (12_000, 2)
    assert change.dollars == pytest.approx(12_000 * 2 * 0.00065)
    assert "to 10,000 write units a second for about $15.60 (12,000 more" in change.question
    assert change.request == {
        "TableName": "books",
        "WarmThroughput": {"WriteUnitsPerSecond": 10_000},
        "GlobalSecondaryIndexUpdates": [
            {
                "Update": {
                    "IndexName": "by-year",
                    "WarmThroughput": {"WriteUnitsPerSecond": 10_000},
                }
            }
        ],
    }


PROVISIONED = {"ProvisionedThroughput": {"WriteCapacityUnits": 5}}
AT_MOST = {"OnDemandThroughput": {"MaxWriteRequestUnits": 100}}


@pytest.mark.parametrize(
    ("described", "why"),
    [
        (PROVISIONED, "books has provisioned capacity"),
        (table(4000, **AT_MOST), "books has an on-demand maximum of 100"),
        (
            table(4000, GlobalSecondaryIndexes=[index("i", 4000, **AT_MOST)]),
            "i has an on-demand maximum of 100",
        ),
    ],
)
def test_prewarming_without_use_is_refused(described, why):
    with pytest.raises(InvalidUsage, match=why):
        plan_warm_up("books", described, "us-east-1", 7000)


def stubbed():
    clients = Clients()
    return clients.stub("dynamodb")


def test_warm_up_waits_until_the_table_is_active():
    stub, clock = stubbed(), Clock()
    change = plan_warm_up("books", table(4000), "eu-west-1", 7000)
    stub.add_response("update_table", {"TableDescription": table(7000, "UPDATING")}, change.request)
    for status in ("UPDATING", "UPDATING", "ACTIVE"):
        stub.add_response("describe_table", {"Table": table(7000, status)})
    with stub:
        warm_up(stub.client, change, policy=POLICY, clock=clock, sleep=clock.sleep)
        stub.assert_no_pending_responses()
    assert clock() == pytest.approx(Clock()() + 2 * POLL_SECONDS)


def test_warm_up_waits_no_longer_than_an_hour():
    stub, clock = stubbed(), Clock()
    change = plan_warm_up("books", table(4000), "eu-west-1", 7000)
    stub.add_response("update_table", {})
    for _ in range(int(MAX_WARM_UP_SECONDS / POLL_SECONDS) + 1):
        stub.add_response("describe_table", {"Table": table(7000, "UPDATING")})
    with stub, pytest.raises(PrewarmUnfinished, match="without --prewarm"):
        warm_up(stub.client, change, policy=POLICY, clock=clock, sleep=clock.sleep)
