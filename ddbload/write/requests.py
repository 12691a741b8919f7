"""What a row is sent with, by mode, and what the answer means for it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from decimal import Decimal, DecimalException
from typing import Any, Protocol

from ddbload.aws_http.failures import Kind, Meaning
from ddbload.contracts import Options, Table
from ddbload.modes import DELETE, INSERT, Condition, Deletion, condition_of, is_position
from ddbload.write.answers import consumed, failed
from ddbload.write.attributes import same_item, write_units
from ddbload.write.driver import PutItem
from ddbload.write.settlement import Outcome
from ddbload.write.steps import Accepted, Answer, Refused, Unsure

Items = Callable[[], Sequence[PutItem]]
"""What was sent, for those who must know."""


class Requests(Protocol):
    """Makes requests of rows, and reads their answers."""

    operation: str
    """DynamoDB's name for it."""
    most_rows: int | None
    """Of one request; None: as many as DynamoDB takes."""

    def parameters(self, items: Sequence[PutItem]) -> dict[str, Any]:
        """Of the operation. The same as the body that the encoder makes, to the byte."""

    def accepted(self, response: Any, items: Items) -> Answer:
        """What a 200 says, believed only as far as it can be true of what was sent."""

    def failed(self, meant: Meaning, items: Items) -> Answer:
        """What a failure comes to."""


def requests_of(options: Options, table: Table, identical: Outcome = Outcome.IDENTICAL) -> Requests:
    """The requests of a run's mode. `identical`: the outcome of rows that `insert` found there."""
    keys = [key.name for key in table.keys]
    condition = condition_of(options.mode, keys[0], options.position_attribute)
    if condition is not None:
        return ConditionalPuts(table.name, condition, identical)
    return Batches(table.name, keys, deletes=options.mode == DELETE)


def first_wins(options: Options) -> bool:
    """Whether of equal keys the first row is the one to be written."""
    return options.mode == INSERT


class Batches:
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
        return Accepted(places, consumed(response))

    def failed(self, meant: Meaning, items: Items) -> Answer:  # noqa: ARG002 - as the other's
        """What a failure comes to."""
        return failed(meant, self._table)

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


class ConditionalPuts:
    """Puts one item, if a condition holds of what is there."""

    operation = "PutItem"
    most_rows: int | None = 1

    def __init__(
        self, table: str, condition: Condition, identical: Outcome = Outcome.IDENTICAL
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
        return Accepted((), consumed(response))

    def failed(self, meant: Meaning, items: Items) -> Answer:
        """What a failure comes to; a condition that does not hold is an answer like others."""
        if meant.kind is not Kind.CONDITION:
            return failed(meant, self._table)
        (item,) = items()
        there = meant.item
        # It is billed by the larger of the two, and the answer does not say with how much.
        units = max(write_units(item), write_units(there or {}))
        name = self._condition.position
        if name is None:
            # It may be this run's own: whoever knows what was sent before decides.
            if there is None:
                return Accepted((), units, Outcome.UNSEEN)
            same = same_item(item, there)
            return Accepted((), units, self._identical if same else Outcome.SKIPPED)
        if there is not None and name in there and not _is_position(there[name]):
            return Refused(
                f"the item that is there has something else in {name!r} than ddbload writes: the"
                " position attribute must be used for nothing else",
                "foreign_position",
            )
        return Accepted((), units, Outcome.SUPERSEDED)


def _is_position(value: object) -> bool:
    return isinstance(value, Mapping) and is_position(value.get("S"))


def _identity(value: Mapping[str, str]) -> Hashable:
    ((kind, text),) = value.items()
    return (kind, Decimal(text) if kind == "N" else text)
