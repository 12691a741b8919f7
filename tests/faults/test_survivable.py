"""A plain retry loop writes exactly the items sent under each survivable fault."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from tests.faults.catalogue import SURVIVABLE
from tests.faults.request_helpers import DEFINITION, TABLE
from tests.faults.server import FaultServer


def send(port: int, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write items; returns those still to be written, which are all unless AWS responds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(
            "POST",
            "/",
            json.dumps({"RequestItems": {TABLE: requests}}),
            {
                "X-Amz-Target": "DynamoDB_20120810.BatchWriteItem",
                "Authorization": "AWS4-HMAC-SHA256 Credential=made-up",
            },
        )
        response = connection.getresponse()
        answer = json.loads(response.read())
        return answer["UnprocessedItems"].get(TABLE, []) if response.status == 200 else requests
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return requests
    finally:
        connection.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_event_loop_survives_the_fault(seed):
    with FaultServer(drip_seconds=0.02, stall_seconds=0.02) as server:
        server.dynamodb.create_table(**DEFINITION)
        server.fail_at_random(seed, SURVIVABLE, 0.9)
        for start in range(0, 200, 5):
            left = [
                {"PutRequest": {"Item": {"id": {"S": str(i)}, "x": {"S": f"row {i}"}}}}
                for i in range(start, start + 5)
            ]
            while left:
                left = send(server.port, left)
        items = {item["id"]["S"]: item["x"]["S"] for item in server.dynamodb.items(TABLE)}
        assert items == {str(i): f"row {i}" for i in range(200)}
        assert len({request.fault for request in server.requests} - {None}) > 20
        assert server.dynamodb.overlaps == []
