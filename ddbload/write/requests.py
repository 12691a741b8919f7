"""What DynamoDB's answers to writes mean, as far as all kinds of writes share it. Pure."""

from __future__ import annotations

import math
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

PutItem = Mapping[str, Any]
"""An item's attributes, or a key's, in DynamoDB's JSON."""
_KEY_RANGE = "KeyRangeThroughputExceeded"
"""How the names of those throttling reasons end that are of a partition, and not of the table."""


def answer_for_failure(meant: AwsFailure, table: str) -> Answer:
    """What a failure comes to."""
    match meant.kind:
        case FailureKind.THROTTLED:
            ranges = [reason.endswith(_KEY_RANGE) for reason in meant.reasons]
            return Throttled(meant.code, key_range=bool(ranges) and all(ranges))
        case FailureKind.UNSURE:
            return Unsure(meant.code)
        case FailureKind.INVALID:
            return Refused(meant.text)
        case _ if meant.code == "ResourceNotFoundException":
            return Fatal(TableNotFound(f"table {table} is not there any more"))
        case _:
            if not meant.is_known:
                # Whoever says that was sent rows, and may repeat them.
                meant = replace(meant, text=f"HTTP status {meant.status}")
            # Only DynamoDB's own refusal says that nothing was written.
            unsure = not meant.is_known
            return Fatal(to_ddbload_error(meant, f"writing to table {table}"), unsure=unsure)


def consumed_units(response: Mapping[str, Any]) -> float:
    """Write units in an answer: one entry, or one for each table; 0 where it does not say."""
    total = 0.0
    told = response.get("ConsumedCapacity")
    for each in told if isinstance(told, list) else (told,):
        units = each.get("CapacityUnits") if isinstance(each, Mapping) else None
        if isinstance(units, int | float) and math.isfinite(units) and units > 0:
            total += units
    return total


Items = Callable[[], Sequence[PutItem]]
"""What was sent, for those who must know."""


class ModeRequests(Protocol):
    """Makes requests of rows, and reads their answers."""

    operation: str
    """DynamoDB's name for it."""
    most_rows: int | None
    """Of one request; None: as many as DynamoDB takes."""

    def parameters(self, items: Sequence[PutItem]) -> dict[str, Any]:
        """Of the operation. The same as the body that the encoder makes, to the byte."""

    def accepted(self, response: Any, items: Items) -> Answer:
        """What a 200 says, believed only as far as it can be true of what was sent."""

    def failed(self, meant: AwsFailure, items: Items) -> Answer:
        """What a failure comes to."""


def requests_for(
    options: Options, table: Table, identical: RowOutcome = RowOutcome.IDENTICAL
) -> ModeRequests:
    """The requests of a run's mode. `identical`: the outcome of rows that `insert` found there."""
    keys = [key.name for key in table.keys]
    condition = write_condition(options.mode, keys[0], options.position_attribute)
    if condition is not None:
        return ConditionalPutRequests(table.name, condition, identical)
    return BatchRequests(table.name, keys, deletes=options.mode == DELETE)


def first_wins(options: Options) -> bool:
    """Whether of equal keys the first row is the one to be written."""
    return options.mode == INSERT


class BatchRequests:
    """Puts items, or deletes those with these keys, many in a request."""

    operation = "BatchWriteItem"
    most_rows: int | None = None

    def __init__(self, table: str, key_names: Sequence[str], *, deletes: bool = False) -> None:
        self._table = table
        self._key_names = tuple(key_names)
        self._all_deleted = deletes

    def parameters(self, items: Sequence[PutItem]) -> dict[str, Any]:
        """Of the operation."""
        requests = [self._request(item) for item in items]
        return {"RequestItems": {self._table: requests}, "ReturnConsumedCapacity": "TOTAL"}

    def accepted(self, response: Any, items: Items) -> Answer:
        """What a 200 says. `items` is asked for only where some of it came back."""
        returned = response.get("UnprocessedItems") if isinstance(response, Mapping) else None
        if not isinstance(returned, Mapping):
            return Unsure("an answer without UnprocessedItems")
        places: list[int] = []
        if returned:
            sent = {
                (self._deletes(item), *self._key(item)): place for place, item in enumerate(items())
            }
            try:
                # Whatever is not a row of this request for this table: KeyError.
                ((table, requests),) = returned.items()
                if table != self._table:
                    raise KeyError(table)
                places = [sent[self._key_of(request)] for request in requests]
            except (AttributeError, LookupError, ValueError, TypeError, DecimalException):
                return Unsure("an answer that returns items which were not sent")
        return Accepted(places, consumed_units(response))

    def failed(self, meant: AwsFailure, items: Items) -> Answer:  # noqa: ARG002 - as the other's
        """What a failure comes to."""
        return answer_for_failure(meant, self._table)

    def _request(self, item: PutItem) -> dict[str, Any]:
        if self._deletes(item):
            return {"DeleteRequest": {"Key": item}}
        return {"PutRequest": {"Item": item}}

    def _deletes(self, item: PutItem) -> bool:
        return self._all_deleted or isinstance(item, Deletion)

    def _key_of(self, request: Mapping[str, Any]) -> tuple[Hashable, ...]:
        ((verb, found),) = request.items()
        deletes = {"DeleteRequest": True, "PutRequest": False}[verb]
        return (deletes, *self._key(found["Key" if deletes else "Item"]))

    def _key(self, item: Mapping[str, Any]) -> tuple[Hashable, ...]:
        return tuple(_identity(item[name]) for name in self._key_names)


class ConditionalPutRequests:
    """Puts one item, if a condition holds of what is there."""

    operation = "PutItem"
    most_rows: int | None = 1

    def __init__(
        self, table: str, condition: Condition, identical: RowOutcome = RowOutcome.IDENTICAL
    ) -> None:
        self._table = table
        self._condition = condition
        self._identical = identical

    def parameters(self, items: Sequence[PutItem]) -> dict[str, Any]:
        """Of the operation."""
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

    def accepted(self, response: Any, items: Items) -> Answer:  # noqa: ARG002 - as the other's
        """What a 200 says: DynamoDB tells what the write took, since it was asked to."""
        if not isinstance(response, Mapping):
            return Unsure("an answer that is not DynamoDB's")
        told = response.get("ConsumedCapacity")
        if not isinstance(told, Mapping) or told.get("TableName") not in (None, self._table):
            return Unsure("an answer without ConsumedCapacity")
        return Accepted((), consumed_units(response))

    def failed(self, meant: AwsFailure, items: Items) -> Answer:
        """What a failure comes to; a condition that does not hold is an answer like others."""
        if meant.kind is not FailureKind.CONDITION:
            return answer_for_failure(meant, self._table)
        (item,) = items()
        there = meant.item
        # It is billed by the larger of the two, and the answer does not say with how much.
        units = max(write_units(item), write_units(there or {}))
        name = self._condition.position
        if name is None:
            # It may be this run's own: whoever knows what was sent before decides.
            if there is None:
                return Accepted((), units, RowOutcome.UNSEEN)
            same = same_item(item, there)
            return Accepted((), units, self._identical if same else RowOutcome.SKIPPED)
        if there is not None and name in there and not _is_position(there[name]):
            return Refused(
                f"the item that is there has something else in {name!r} than ddbload writes: the"
                " position attribute must be used for nothing else",
                "foreign_position",
            )
        return Accepted((), units, RowOutcome.SUPERSEDED)


def _is_position(value: object) -> bool:
    return isinstance(value, Mapping) and is_position(value.get("S"))


def _identity(value: Mapping[str, str]) -> Hashable:
    ((kind, text),) = value.items()
    return (kind, Decimal(text) if kind == "N" else text)
