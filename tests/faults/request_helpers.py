"""Helpers to send requests to the fault server, and to read the items written."""

from __future__ import annotations

import http.client
import json
import random
import time
from typing import Any

import boto3
from botocore.config import Config

from tests.fakes.dynamodb_tables import keyed
from tests.faults.server import FaultServer

TABLE = "table"
KEYS = ["a", "b", "c"]
DEFINITION = keyed(TABLE, id="S")


def client_of(port: int, **config: Any) -> Any:
    return boto3.client(
        "dynamodb",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="made-up",
        aws_secret_access_key="made-up",
        config=Config(retries={"total_max_attempts": 1}, **config),
    )


def batch(*keys: str, **more: Any) -> dict[str, Any]:
    puts = [{"PutRequest": {"Item": {"id": {"S": key}, **more}}} for key in keys or KEYS]
    return {"RequestItems": {TABLE: puts}}


def ask(
    connection: http.client.HTTPConnection,
    body: bytes | dict[str, Any] | None = None,
    operation: str = "BatchWriteItem",
    **headers: str,
) -> http.client.HTTPResponse:
    if body is None or isinstance(body, dict):
        body = json.dumps(batch() if body is None else body).encode()
    connection.request(
        "POST",
        "/",
        body,
        {
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": "AWS4-HMAC-SHA256 Credential=made-up",
            **headers,
        },
    )
    return connection.getresponse()


def written(server: FaultServer) -> list[str]:
    return sorted(item["id"]["S"] for item in server.dynamodb.items(TABLE))


def fail(server: FaultServer, *names: str | None) -> None:
    server.faults.add("BatchWriteItem", *names)


def wait_for_writes(server: FaultServer) -> None:
    """Wait for writes of calls whose clients have given up."""
    while server.dynamodb._in_flight._calls:
        time.sleep(0.01)


class ShortPauses(random.Random):
    """Random numbers for retries, whose pauses are 500 times shorter."""

    def uniform(self, low: float, high: float) -> float:
        return super().uniform(low, high) / 500
