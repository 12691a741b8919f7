"""An import through a DynamoDB of which three answers in ten are wrong, late or lost."""

from __future__ import annotations

import json

import pytest

from tests.faults.catalogue import SURVIVABLE
from tests.faults.server import FaultServer

ROWS = 1500
TABLE = {
    "TableName": "faults",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "N"}],
    "BillingMode": "PAY_PER_REQUEST",
}


@pytest.mark.parametrize(("engine", "seed"), [("threads", 11), ("sync", 12)])
def test_every_row_is_written(console, engine, seed):
    console.write("a.csv", "id,name\n" + "".join(f"{n},name {n}\n" for n in range(ROWS)))
    with FaultServer(drip_seconds=0.05, stall_seconds=0.1) as server:
        server.dynamodb.create_table(**TABLE)
        server.fail_at_random(seed, SURVIVABLE, 0.3, ["BatchWriteItem", "DescribeTable"])
        ended = console.ddbload(
            *("import", "a.csv", "faults", "--json", "--engine", engine),
            *("--processes", "2", "--chunk-bytes", "6000", "--concurrency", "4"),
            AWS_ENDPOINT_URL_DYNAMODB=server.endpoint,
        )
        items = server.dynamodb.items("faults")
        overlaps = server.dynamodb.overlaps
        faults = {request.fault for request in server.requests} - {None}
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    assert found["rows"] == {
        "read": ROWS,
        "written": ROWS,
        "rejected": 0,
        "superseded": 0,
        "skipped": 0,
    }
    assert {item["id"]["N"]: item["name"]["S"] for item in items} == {
        str(n): f"name {n}" for n in range(ROWS)
    }
    assert overlaps == []
    assert len(faults) > 10
    assert found["retries"] > 0
    assert found["throttled"] > 0
