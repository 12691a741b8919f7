"""What DynamoDB's answers to BatchWriteItem mean. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from decimal import Decimal, DecimalException
from typing import Any

from ddbload.aws_http.failures import Kind, Meaning, named
from ddbload.errors import TableNotFound
from ddbload.write.driver import PutItem
from ddbload.write.steps import Accepted, Answer, Fatal, Refused, Throttled, Unsure


class AnswerReader:
    """Reads answers to writes into one table."""

    def __init__(self, table: str, key_names: Sequence[str]) -> None:
        self._table = table
        self._key_names = tuple(key_names)

    def accepted(self, response: Any, items: Callable[[], Sequence[PutItem]]) -> Answer:
        """What a 200 says, believed only as far as it can be true of what was sent.

        `items`: what was sent, asked for only where some of it came back.
        """
        returned = response.get("UnprocessedItems") if isinstance(response, Mapping) else None
        if not isinstance(returned, Mapping):
            return Unsure("an answer without UnprocessedItems")
        places: list[int] = []
        if returned:
            sent = {self._key(item): place for place, item in enumerate(items())}
            try:
                # Whatever is not a put of a row of this request into this table: KeyError.
                ((table, requests),) = returned.items()
                if table != self._table:
                    raise KeyError(table)
                places = [sent[self._key(request["PutRequest"]["Item"])] for request in requests]
            except (AttributeError, LookupError, ValueError, TypeError, DecimalException):
                return Unsure("an answer that returns items which were not sent")
        return Accepted(places, _consumed(response))

    def failed(self, meant: Meaning) -> Answer:
        """What a failure comes to."""
        if meant.kind is Kind.THROTTLED:
            return Throttled(meant.code)
        if meant.kind is Kind.UNSURE:
            return Unsure(meant.code)
        if meant.kind is Kind.INVALID:
            return Refused(meant.text)
        if meant.code == "ResourceNotFoundException":
            return Fatal(TableNotFound(f"table {self._table} is not there any more"))
        return Fatal(named(meant, f"writing to table {self._table}"))

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
