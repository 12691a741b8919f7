"""Bodies of requests, encoded by the standard library."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ddbload.dynamodb.attribute_values import Attributes


def batch_write_body(table: str, items: Sequence[Attributes]) -> bytes:
    """Return the body of one request that puts these items."""
    requests = [{"PutRequest": {"Item": item}} for item in items]
    body = {"RequestItems": {table: requests}, "ReturnConsumedCapacity": "TOTAL"}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
