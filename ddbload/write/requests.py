"""Choose DynamoDB write operations, and interpret their responses. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal, DecimalException
from typing import Any

from ddbload.aws.failures import UNKNOWN_OPERATION, AwsFailure, FailureKind, to_ddbload_error
from ddbload.contracts.options import Options
from ddbload.contracts.run_record import Table
from ddbload.dynamodb.item_equality import write_units
from ddbload.dynamodb.limits import MAX_BATCH_ROWS
from ddbload.dynamodb.modes import Deletion, RowOrder, RowWrites, is_position, without_removals
from ddbload.errors import ConditionRefused, DdbloadError, TableNotFound
from ddbload.records import MutableRecord
from ddbload.write.scheduler.answers import (
    Accepted,
    Answer,
    Fatal,
    Refused,
    RowOutcome,
    Throttled,
    Unsure,
)

ItemOrKey = Mapping[str, Any]
"""Attributes of an item to put, or of a key to delete, in DynamoDB JSON."""
SentItems = Callable[[], Sequence[ItemOrKey]]
"""Function that builds a request's items again. Few responses need them."""
NOT_DYNAMODB = "an answer that is not DynamoDB's"
_KEY_RANGE = "KeyRangeThroughputExceeded"
"""Suffix of throttling reasons that name a partition instead of the table."""


_JSON_MARKS = re.compile(r'["{\[]')


def answer_for_failure(failure: AwsFailure, table: str) -> Answer:
    """Translate a failed request into the scheduler's answer."""
    match failure.kind:
        case FailureKind.THROTTLED:
            ranges = [reason.endswith(_KEY_RANGE) for reason in failure.reasons]
            return Throttled(failure.code, key_range=bool(ranges) and all(ranges))
        case FailureKind.UNSURE:
            doing = f"writing to table {table}"
            return Unsure(
                failure.code,
                error=to_ddbload_error(failure, doing) if failure.is_foreign else None,
            )
        case FailureKind.INVALID:
            return Refused(failure.text)
        case _ if failure.code == "ResourceNotFoundException":
            return Fatal(TableNotFound(f"table {table} is not there any more"))
        case _:
            if not failure.is_known or _JSON_MARKS.search(failure.text):
                # The text may come from a proxy that quotes the rows of the request.
                # DynamoDB's own messages about permissions and credentials contain no JSON.
                failure = replace(failure, text=f"HTTP status {failure.status}")
            # Only an error code of DynamoDB proves that nothing was written.
            error = to_ddbload_error(failure, f"writing to table {table}")
            return Fatal(error, unsure=not failure.is_known)


def consumed_units(response: Mapping[str, Any]) -> float:
    """Return the write units that a response reports, for one or several tables; 0 if none."""
    total = 0.0
    reported = response.get("ConsumedCapacity")
    for each in reported if isinstance(reported, list) else (reported,):
        units = each.get("CapacityUnits") if isinstance(each, Mapping) else None
        if isinstance(units, int | float) and math.isfinite(units) and units > 0:
            total += units
    return total


class EndpointFeatures(MutableRecord):
    """Features of a worker's DynamoDB endpoint, learned once and used for all of its chunks."""

    has_statements: bool = True
    """False once the endpoint has refused BatchExecuteStatement as unknown, as dynalite does."""
    proven_condition: bool = False
    """True once DynamoDB has evaluated the run's condition.

    Until then one request is in flight at a time, so that a condition that DynamoDB refuses is sent
    once.
    """
    unanswered: set[Hashable] = field(default_factory=set)
    """Keys of rows that had a request without an answer, which may take effect late."""


STATEMENT_THROTTLES = frozenset(
    {"ProvisionedThroughputExceeded", "RequestLimitExceeded", "ThrottlingError"}
)
"""Error codes of a statement that had no effect, for lack of capacity."""
STATEMENT_REFUSALS = frozenset(
    {
        # An item with the key exists. The response does not contain it.
        "DuplicateItem",
        "ConditionalCheckFailed",
        "ItemCollectionSizeLimitExceeded",
        "ResourceNotFound",
        "TransactionConflict",
        "ValidationError",
    }
)
"""Error codes of a statement that had no effect.

PutItem then returns the reason, and the existing item.
"""
REFUSED_CONDITION = "Invalid ConditionExpression: "
"""Beginning of DynamoDB's message about a condition."""
_KEY_PATH = "Key attributes must be scalars; list random access '[]' and map lookup '.'"
"""Beginning of DynamoDB's message about a path such as `id.name` below a key."""
_QUOTES_VALUES = ("BETWEEN operator", "attribute type name")
"""Parts of such messages that quote values of the row."""
_ABOUT_TYPES = "operand type"
"""Part of such messages that depends on the types of the row's values."""


class WriteRequests:
    """Requests of a run: their operations and sizes, and the meaning of their responses.

    Rows are sent in batches of up to 25: by BatchWriteItem, or in mode `insert` as statements of a
    BatchExecuteStatement. A condition needs one operation per row: PutItem, UpdateItem or
    DeleteItem. Each statement fails separately. If the table has the row's key, it fails with
    `DuplicateItem`, which does not show whether the item equals the row. The row is then sent by
    PutItem, whose response contains the item.
    """

    def __init__(
        self,
        options: Options,
        table: Table,
        writes: RowWrites | None = None,
        *,
        endpoint: EndpointFeatures | None = None,
        identical: RowOutcome = RowOutcome.IDENTICAL,
        same_types: bool = False,
    ) -> None:
        """Configure the requests of a run.

        Args:
            options: Options of the run.
            table: Table to write.
            writes: Rules of rows that are sent one by one; None in modes with batches.
            endpoint: Features of the endpoint.
            identical: Outcome of a row whose effect is already in the table's item.
            same_types: True if all rows have values of the same types, like columns of text.
        """
        self._mode = mode = options.write_mode
        self._table = table.name
        self._keys = tuple(key.name for key in table.keys)
        self._position = options.position_attribute
        self._writes = writes or RowWrites(mode, table.name, self._keys)
        self._endpoint = endpoint or EndpointFeatures()
        self._identical = identical
        self._row_dependent = _QUOTES_VALUES if same_types else (*_QUOTES_VALUES, _ABOUT_TYPES)
        self._batch = None if writes is not None else mode.batch
        by_batch = RowOrder.FIRST_WINS if mode.inserts else RowOrder.LAST_WINS
        self.order = by_batch if writes is None else RowOrder.ALL
        """Order in which rows with equal keys are written."""

    @property
    def most_rows(self) -> int:
        """Maximum rows per request."""
        if self._batch is None or (self._mode.inserts and not self._endpoint.has_statements):
            return 1
        return MAX_BATCH_ROWS

    def operation(self, rows: int) -> str:
        """Return the DynamoDB operation that writes this many rows, such as PutItem."""
        if self._batch is None or (rows == 1 and self._mode.inserts):
            return self._mode.operation
        return self._batch

    def accepted(self, response: Any, rows: int, items: SentItems) -> Answer:
        """Interpret a response with status 200. `Unsure` if it contradicts the request.

        `items` is called only if the response returns unprocessed items.
        """
        match self.operation(rows):
            case "BatchWriteItem":
                return self._batch_written(response, items)
            case "BatchExecuteStatement":
                return self._statements_executed(response, rows)
        if not isinstance(response, Mapping):
            return Unsure(NOT_DYNAMODB)
        consumed = response.get("ConsumedCapacity")
        if not isinstance(consumed, Mapping) or consumed.get("TableName") not in (
            None,
            self._table,
        ):
            return Unsure("an answer without ConsumedCapacity")
        self._endpoint.proven_condition = True
        return Accepted((), consumed_units(response))

    def failed(self, failure: AwsFailure, rows: int, items: SentItems) -> Answer:
        """Interpret a failed request. A false condition settles its row."""
        operation = self.operation(rows)
        if operation == "BatchExecuteStatement":
            # DynamoDB writes nothing of a batch that it refuses.
            if failure.code in UNKNOWN_OPERATION:
                self._endpoint.has_statements = False
                return Accepted(alone=range(rows), single_rows=True)
            if failure.kind is FailureKind.INVALID:
                return Accepted(alone=range(rows))
        elif operation != "BatchWriteItem":
            if failure.kind is FailureKind.CONDITION:
                self._endpoint.proven_condition = True
                return self._false_condition(failure, items)
            if self._is_about_condition(failure):
                # It quotes only the expression.
                reason = failure.text.removeprefix(REFUSED_CONDITION)
                refused = ConditionRefused(
                    f"DynamoDB refuses the condition ('options.condition', --condition): {reason};"
                    " nothing was written with it. Names that are reserved words or have other"
                    " characters are written #name or #{a name}, and values {column}"
                )
                return Fatal(refused)
        return answer_for_failure(failure, self._table)

    def _batch_written(self, response: Any, items: SentItems) -> Answer:
        unprocessed = response.get("UnprocessedItems") if isinstance(response, Mapping) else None
        if not isinstance(unprocessed, Mapping):
            return Unsure("an answer without UnprocessedItems")
        indexes: list[int] = []
        if unprocessed:
            deletes = self._mode.deletes
            sent = {
                (deletes or isinstance(item, Deletion), *self._key_of(item)): index
                for index, item in enumerate(items())
            }
            try:
                # Raises KeyError for a row or table that was not in the request.
                ((table, requests),) = unprocessed.items()
                if table != self._table:
                    raise KeyError(table)
                indexes = [sent[self._identify(request)] for request in requests]
            except (AttributeError, LookupError, ValueError, TypeError, DecimalException):
                return Unsure("an answer that returns items which were not sent")
        return Accepted(indexes, consumed_units(response))

    def _identify(self, request: Mapping[str, Any]) -> tuple[Hashable, ...]:
        """Return whether an unprocessed request is a delete, and its key."""
        ((kind, content),) = request.items()
        deletes = {"DeleteRequest": True, "PutRequest": False}[kind]
        return (deletes, *self._key_of(content["Key" if deletes else "Item"]))

    def _key_of(self, item: ItemOrKey) -> tuple[Hashable, ...]:
        return tuple(_comparable(item[name]) for name in self._keys)

    def _statements_executed(self, response: Any, rows: int) -> Answer:
        """Interpret the results of statements, each of which may have an error."""
        results = response.get("Responses") if isinstance(response, Mapping) else None
        if not isinstance(results, list) or len(results) != rows:
            return Unsure("an answer without a result for each statement")
        unprocessed: list[int] = []
        alone: list[int] = []
        unsure: list[int] = []
        denied: DdbloadError | None = None
        for index, result in enumerate(results):
            if not isinstance(result, Mapping):
                return Unsure("an answer without a result for each statement")
            error = result.get("Error")
            if error is None:
                continue
            code = error.get("Code") if isinstance(error, Mapping) else None
            if isinstance(code, str) and code in STATEMENT_THROTTLES:
                unprocessed.append(index)
                continue
            alone.append(index)
            if code == "AccessDenied":
                # A policy may deny only some keys. This row was not written.
                denied = denied or self._denied(error)
            elif not isinstance(code, str) or code not in STATEMENT_REFUSALS:
                # InternalServerError, or a code added by AWS later.
                unsure.append(index)
        consumed = consumed_units(response)
        return Accepted(unprocessed, consumed, alone=alone, unsure=unsure, fatal=denied)

    def _denied(self, error: Mapping[str, Any]) -> DdbloadError | None:
        text = str(error.get("Message") or "")
        failure = AwsFailure(FailureKind.FATAL, "AccessDeniedException", text, 400)
        answer = answer_for_failure(failure, self._table)
        return answer.error if isinstance(answer, Fatal) else None

    def _false_condition(self, failure: AwsFailure, items: SentItems) -> Answer:
        (item,) = items()
        existing, position = failure.item, self._position
        # DynamoDB bills a condition that is false, by the larger item, and reports no units.
        units = max(write_units(without_removals(item)), write_units(existing or {}))
        outcome = RowOutcome.SKIPPED
        if position is not None:
            if existing and position in existing and not _holds_position(existing[position]):
                return Refused(
                    f"the item in the table has a value in {position!r} that ddbload did not write:"
                    " use the position attribute for nothing else",
                    "foreign_position",
                )
            outcome = RowOutcome.SUPERSEDED
        elif self._mode.inserts and existing is None:
            outcome = RowOutcome.UNSEEN
        elif self._writes.has_effect(item, existing):
            # The item may be this run's own; import_chunk decides that from the run's attempts.
            outcome = self._identical
        return Accepted((), units, outcome)

    def _is_about_condition(self, failure: AwsFailure) -> bool:
        """Return whether the user's condition itself is refused, for every row."""
        return (
            failure.kind is FailureKind.INVALID
            and self._writes.condition is not None
            and not self._endpoint.proven_condition
            and failure.text.startswith((REFUSED_CONDITION, _KEY_PATH))
            and not any(part in failure.text for part in self._row_dependent)
        )


def _holds_position(value: object) -> bool:
    return isinstance(value, Mapping) and is_position(value.get("S"))


def _comparable(value: Mapping[str, str]) -> Hashable:
    # DynamoDB may return a number in another notation, such as 1 for 1.0.
    ((kind, text),) = value.items()
    return (kind, Decimal(text) if kind == "N" else text)
