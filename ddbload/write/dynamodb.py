"""BatchWriteItem through a boto3 client, and what its answers mean."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal, DecimalException
from typing import TYPE_CHECKING, Any

from ddbload.aws_http.failures import Kind, meaning, named
from ddbload.errors import TableNotFound
from ddbload.write.driver import PutItem
from ddbload.write.steps import Accepted, Answer, Fatal, Refused, Throttled, Unsure

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class BatchWriter:
    """Puts items into one table. Thread-safe, as its client is."""

    def __init__(self, client: DynamoDBClient, table: str, key_names: Sequence[str]) -> None:
        self._client = client
        self._table = table
        self._key_names = tuple(key_names)

    def send(self, items: Sequence[PutItem]) -> Answer:
        """Put up to 25 items of different keys."""
        requests: Any = [{"PutRequest": {"Item": item}} for item in items]
        try:
            response: Any = self._client.batch_write_item(
                RequestItems={self._table: requests}, ReturnConsumedCapacity="TOTAL"
            )
        except (AttributeError, LookupError, TypeError, ValueError):
            # So botocore fails on a body that is JSON, and not an object, or not even text.
            return Unsure("an answer that is not DynamoDB's")
        except Exception as error:  # noqa: BLE001 - failed() raises what it does not know
            return self._failed(error)
        return self._read(items, response)

    def _failed(self, error: Exception) -> Answer:
        meant = meaning(error)
        if meant is None:
            raise error
        if meant.kind is Kind.THROTTLED:
            return Throttled(meant.code)
        if meant.kind is Kind.UNSURE:
            return Unsure(meant.code)
        if meant.kind is Kind.INVALID:
            return Refused(meant.text)
        if meant.code == "ResourceNotFoundException":
            return Fatal(TableNotFound(f"table {self._table} is not there any more"))
        return Fatal(named(meant, f"writing to table {self._table}"))

    def _read(self, items: Sequence[PutItem], response: Any) -> Answer:
        """Believe an answer only as far as it can be true of what was sent."""
        returned = response.get("UnprocessedItems") if isinstance(response, Mapping) else None
        if not isinstance(returned, Mapping):
            return Unsure("an answer without UnprocessedItems")
        places: list[int] = []
        if returned:
            sent = {self._key(item): place for place, item in enumerate(items)}
            try:
                # Whatever is not a put of a row of this request into this table: KeyError.
                ((table, requests),) = returned.items()
                if table != self._table:
                    raise KeyError(table)
                places = [sent[self._key(request["PutRequest"]["Item"])] for request in requests]
            except (AttributeError, LookupError, ValueError, TypeError, DecimalException):
                return Unsure("an answer that returns items which were not sent")
        return Accepted(places, _consumed(response))

    def _key(self, item: Mapping[str, Any]) -> Hashable:
        return tuple(_identity(item[name]) for name in self._key_names)


def _identity(value: Mapping[str, str]) -> Hashable:
    ((kind, text),) = value.items()
    return (kind, Decimal(text) if kind == "N" else text)


def _consumed(response: Mapping[str, Any]) -> float:
    """Write units of all tables in the answer; 0 where it does not say."""
    total = 0.0
    listed = response.get("ConsumedCapacity")
    for each in listed if isinstance(listed, list) else ():
        units = each.get("CapacityUnits") if isinstance(each, Mapping) else None
        if isinstance(units, int | float) and math.isfinite(units) and units > 0:
            total += units
    return total
