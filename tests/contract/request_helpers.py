"""Helpers to write requests to DynamoDB, and to read tables."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError


def put(**item: dict[str, Any]) -> dict[str, Any]:
    return {"PutRequest": {"Item": item}}


def delete(**key: dict[str, Any]) -> dict[str, Any]:
    return {"DeleteRequest": {"Key": key}}


def s(text: str) -> dict[str, str]:
    return {"S": text}


def n(text: str) -> dict[str, str]:
    return {"N": text}


def write(dynamodb, table: str, *requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return dynamodb.batch_write_item(RequestItems={table: list(requests)}, **more)


def refused(dynamodb, table: str, *requests: dict[str, Any]) -> str:
    """Send an invalid batch; returns the error message, and checks that nothing is written."""
    before = everything(dynamodb, table)
    with pytest.raises(ClientError) as raised:
        write(dynamodb, table, *requests)
    response = raised.value.response
    assert response["Error"]["Code"] == "ValidationException"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert everything(dynamodb, table) == before
    return response["Error"]["Message"]


def everything(dynamodb, table: str) -> list[dict[str, Any]]:
    items, start = [], {}
    while True:
        page = dynamodb.scan(TableName=table, ConsistentRead=True, **start)
        items += page["Items"]
        if "LastEvaluatedKey" not in page:
            return sorted(items, key=repr)
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def of_size(size: int, pk: str = "a") -> dict[str, Any]:
    """Make an item of ``size`` bytes, in ASCII."""
    return {"pk": s(pk), "x": s("x" * (size - len("pk" + pk + "x")))}
