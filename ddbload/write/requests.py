"""Build DynamoDB write requests, and interpret their answers. Pure.

`BatchRequests` puts or deletes up to 25 rows in a BatchWriteItem; `ConditionalPutRequests` puts one
row in a PutItem with the condition of the mode `insert` or `last-wins`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, DecimalException
from typing import Any, Protocol

from ddbload.aws.failures import AwsFailure, FailureKind, to_ddbload_error
from ddbload.contracts.payload import Options
from ddbload.contracts.run_record import Table
from ddbload.dynamodb.item_equality import same_item, write_units
from ddbload.dynamodb.write_modes import (
    DELETE,
    INSERT,
    Condition,
    Deletion,
    is_position,
    write_condition,
)
from ddbload.errors import TableNotFound
from ddbload.write.scheduler.messages import Accepted, Answer, Fatal, Refused, Throttled, Unsure
from ddbload.write.scheduler.outcome_tracker import RowOutcome

ItemOrKey = Mapping[str, Any]
"""Attributes of an item to put, or of the key of an item to delete, in DynamoDB JSON."""
SentItems = Callable[[], Sequence[ItemOrKey]]
"""Builds a request's items again. Called only for the few answers that need them."""
_KEY_RANGE = "KeyRangeThroughputExceeded"
"""Suffix of the throttling reasons that name a partition instead of the table."""


_JSON_MARKS = re.compile(r'["{\[]')


def answer_for_failure(failure: AwsFailure, table: str) -> Answer:
    """Translate a failed request into the scheduler's answer."""
    match failure.kind:
        case FailureKind.THROTTLED:
            ranges = [reason.endswith(_KEY_RANGE) for reason in failure.reasons]
            return Throttled(failure.code, key_range=bool(ranges) and all(ranges))
        case FailureKind.UNSURE:
            return Unsure(failure.code)
        case FailureKind.INVALID:
            return Refused(failure.text)
        case _ if failure.code == "ResourceNotFoundException":
            return Fatal(TableNotFound(f"table {table} is not there any more"))
        case _:
            if not failure.is_known or _JSON_MARKS.search(failure.text):
                # The text may come from a proxy that read the request, and quote its rows.
                # DynamoDB's own about permissions and credentials have no JSON in them.
                failure = replace(failure, text=f"HTTP status {failure.status}")
            # Only an error code of DynamoDB proves that nothing was written.
            unsure = not failure.is_known
            return Fatal(to_ddbload_error(failure, f"writing to table {table}"), unsure=unsure)


def consumed_units(response: Mapping[str, Any]) -> float:
    """Sum up the write units that an answer reports, for one table or several; 0 without any."""
    total = 0.0
    reported = response.get("ConsumedCapacity")
    for each in reported if isinstance(reported, list) else (reported,):
        units = each.get("CapacityUnits") if isinstance(each, Mapping) else None
        if isinstance(units, int | float) and math.isfinite(units) and units > 0:
            total += units
    return total


class ModeRequests(Protocol):
    """Requests of a write mode: their parameters, and the meaning of their answers."""

    operation: str
    """Name of the DynamoDB operation, such as PutItem."""
    most_rows: int | None
    """Most rows of a request; None: as many as DynamoDB takes."""

    def parameters(self, items: Sequence[ItemOrKey]) -> dict[str, Any]:
        """Build the operation's parameters: byte for byte the body that the encoder builds."""

    def accepted(self, response: Any, items: SentItems) -> Answer:
        """Interpret a response with status 200. `Unsure` if it contradicts the request."""

    def failed(self, failure: AwsFailure, items: SentItems) -> Answer:
        """Interpret a failed request."""


def requests_for(
    options: Options, table: Table, identical: RowOutcome = RowOutcome.IDENTICAL
) -> ModeRequests:
    """Choose the requests for a run's mode.

    `identical`: outcome of a row for which `insert` finds an equal item in the table.
    """
    keys = [key.name for key in table.keys]
    condition = write_condition(options.mode, keys[0], options.position_attribute)
    if condition is not None:
        return ConditionalPutRequests(table.name, condition, identical)
    return BatchRequests(table.name, keys, deletes=options.mode == DELETE)


def first_wins(options: Options) -> bool:
    """Return whether the first of several rows with one key is the one to write."""
    return options.mode == INSERT


class BatchRequests:
    """BatchWriteItem requests that put items, or delete the items with given keys."""

    operation = "BatchWriteItem"
    most_rows: int | None = None

    def __init__(self, table: str, key_names: Sequence[str], *, deletes: bool = False) -> None:
        self._table = table
        self._key_names = tuple(key_names)
        self._deletes_all = deletes

    def parameters(self, items: Sequence[ItemOrKey]) -> dict[str, Any]:
        """Build the parameters of BatchWriteItem."""
        requests = [self._write_request(item) for item in items]
        return {"RequestItems": {self._table: requests}, "ReturnConsumedCapacity": "TOTAL"}

    def accepted(self, response: Any, items: SentItems) -> Answer:
        """Interpret a response; `items` is called only if it returns unprocessed items."""
        unprocessed = response.get("UnprocessedItems") if isinstance(response, Mapping) else None
        if not isinstance(unprocessed, Mapping):
            return Unsure("an answer without UnprocessedItems")
        indexes: list[int] = []
        if unprocessed:
            sent = {
                (self._is_deletion(item), *self._key_of(item)): index
                for index, item in enumerate(items())
            }
            try:
                # KeyError for a row or a table that was not in the request.
                ((table, requests),) = unprocessed.items()
                if table != self._table:
                    raise KeyError(table)
                indexes = [sent[self._identify(request)] for request in requests]
            except (AttributeError, LookupError, ValueError, TypeError, DecimalException):
                return Unsure("an answer that returns items which were not sent")
        return Accepted(indexes, consumed_units(response))

    def failed(self, failure: AwsFailure, items: SentItems) -> Answer:  # noqa: ARG002 - protocol
        """Interpret a failed request."""
        return answer_for_failure(failure, self._table)

    def _write_request(self, item: ItemOrKey) -> dict[str, Any]:
        if self._is_deletion(item):
            return {"DeleteRequest": {"Key": item}}
        return {"PutRequest": {"Item": item}}

    def _is_deletion(self, item: ItemOrKey) -> bool:
        return self._deletes_all or isinstance(item, Deletion)

    def _identify(self, request: Mapping[str, Any]) -> tuple[Hashable, ...]:
        """Return whether an unprocessed request deletes, and its key."""
        ((kind, content),) = request.items()
        deletes = {"DeleteRequest": True, "PutRequest": False}[kind]
        return (deletes, *self._key_of(content["Key" if deletes else "Item"]))

    def _key_of(self, item: ItemOrKey) -> tuple[Hashable, ...]:
        return tuple(_comparable(item[name]) for name in self._key_names)


class ConditionalPutRequests:
    """PutItem requests of one item each, with a condition on the item they would replace."""

    operation = "PutItem"
    most_rows: int | None = 1

    def __init__(
        self, table: str, condition: Condition, identical: RowOutcome = RowOutcome.IDENTICAL
    ) -> None:
        self._table = table
        self._condition = condition
        self._identical = identical

    def parameters(self, items: Sequence[ItemOrKey]) -> dict[str, Any]:
        """Build the parameters of PutItem."""
        (item,) = items
        condition = self._condition
        parameters: dict[str, Any] = {
            "TableName": self._table,
            "Item": item,
            "ConditionExpression": condition.expression,
            "ExpressionAttributeNames": dict(condition.names),
        }
        if condition.position is not None:
            parameters["ExpressionAttributeValues"] = {":position": item[condition.position]}
        return parameters | {
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            "ReturnConsumedCapacity": "TOTAL",
        }

    def accepted(self, response: Any, items: SentItems) -> Answer:  # noqa: ARG002 - protocol
        """Interpret a response, which must report the consumed capacity that was asked for."""
        if not isinstance(response, Mapping):
            return Unsure("an answer that is not DynamoDB's")
        consumed = response.get("ConsumedCapacity")
        if not isinstance(consumed, Mapping) or consumed.get("TableName") not in (
            None,
            self._table,
        ):
            return Unsure("an answer without ConsumedCapacity")
        return Accepted((), consumed_units(response))

    def failed(self, failure: AwsFailure, items: SentItems) -> Answer:
        """Interpret a failed request; a failed condition is an answer that settles the row."""
        if failure.kind is not FailureKind.CONDITION:
            return answer_for_failure(failure, self._table)
        (item,) = items()
        existing = failure.item
        # DynamoDB bills the larger of the two items, and does not report how many units.
        units = max(write_units(item), write_units(existing or {}))
        name = self._condition.position
        if name is None:
            # An identical item may be this run's: import_chunk decides, from the run's attempts.
            if existing is None:
                return Accepted((), units, RowOutcome.UNSEEN)
            same = same_item(item, existing)
            return Accepted((), units, self._identical if same else RowOutcome.SKIPPED)
        if existing is not None and name in existing and not _holds_position(existing[name]):
            return Refused(
                f"the item in the table has a value in {name!r} that ddbload did not write: use the"
                " position attribute for nothing else",
                "foreign_position",
            )
        return Accepted((), units, RowOutcome.SUPERSEDED)


def _holds_position(value: object) -> bool:
    return isinstance(value, Mapping) and is_position(value.get("S"))


def _comparable(value: Mapping[str, str]) -> Hashable:
    # DynamoDB may return a number in another notation: 1.0 as 1.
    ((kind, text),) = value.items()
    return (kind, Decimal(text) if kind == "N" else text)
