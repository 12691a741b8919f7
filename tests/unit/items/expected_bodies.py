"""Bodies of requests, encoded by the standard library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ddbload.dynamodb.attribute_values import Attributes
from ddbload.dynamodb.modes import Deletion, WriteMode, insert_statement


def batch_write_body(table: str, items: Sequence[Attributes]) -> bytes:
    """Return the body of one request that puts these items."""
    requests = [{"PutRequest": {"Item": item}} for item in items]
    body = {"RequestItems": {table: requests}, "ReturnConsumedCapacity": "TOTAL"}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def write_body(mode: WriteMode, table: str, items: Sequence[Attributes], name: str = "id") -> bytes:
    """Return the body of one request of a mode. `name`: of the key or position attribute."""
    body: dict[str, Any]
    if mode.inserts and len(items) > 1:
        statements = [
            {"Statement": insert_statement(table, item), "Parameters": list(item.values())}
            for item in items
        ]
        body = {"Statements": statements}
    elif mode.condition is not None:
        (item,) = items
        placeholder = "#position" if mode.keeps_position else "#key"
        body = {
            "TableName": table,
            "Item": item,
            "ConditionExpression": mode.condition,
            "ExpressionAttributeNames": {placeholder: name},
        }
        if mode.keeps_position:
            body["ExpressionAttributeValues"] = {":position": item[name]}
        body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    else:
        requests = [
            {"DeleteRequest": {"Key": item}}
            if mode.deletes or isinstance(item, Deletion)
            else {"PutRequest": {"Item": item}}
            for item in items
        ]
        body = {"RequestItems": {table: requests}}
    body["ReturnConsumedCapacity"] = "TOTAL"
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
