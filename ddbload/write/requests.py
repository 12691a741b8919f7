"""Build DynamoDB write requests, and interpret their answers. Pure.

`BatchRequests` puts or deletes up to 25 rows in a BatchWriteItem; `ConditionalPutRequests` puts one
row in a PutItem with the condition of the mode `insert` or `last-wins`; `InsertRequests` puts up to
25 rows in a BatchExecuteStatement, and one in a PutItem. Updates and the user's own conditions are
in `row_write_requests`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, DecimalException
from typing import Any, Protocol

from ddbload.aws.failures import (
    UNKNOWN_OPERATION,
    AwsFailure,
    FailureKind,
    to_ddbload_error,
)
from ddbload.contracts.options import Options
from ddbload.contracts.run_record import Table
from ddbload.dynamodb.item_equality import same_item, write_units
from ddbload.dynamodb.limits import MAX_BATCH_ROWS
from ddbload.dynamodb.modes import (
    Deletion,
    insert_statement,
    is_position,
)
from ddbload.errors import DdbloadError, TableNotFound
from ddbload.write.scheduler.key_ordering import RowOrder
from ddbload.write.scheduler.messages import Accepted, Answer, Fatal, Refused, Throttled, Unsure
from ddbload.write.scheduler.outcome_tracker import RowOutcome

ItemOrKey = Mapping[str, Any]
"""Attributes of an item to put, or of the key of an item to delete, in DynamoDB JSON."""
SentItems = Callable[[], Sequence[ItemOrKey]]
"""Builds a request's items again. Called only for the few answers that need them."""
NOT_DYNAMODB = "an answer that is not DynamoDB's"
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
                # The text may come from a proxy that read the request, and quote its rows.
                # DynamoDB's own about permissions and credentials have no JSON in them.
                failure = replace(failure, text=f"HTTP status {failure.status}")
            # Only an error code of DynamoDB proves that nothing was written.
            error = to_ddbload_error(failure, f"writing to table {table}")
            return Fatal(error, unsure=not failure.is_known)


def consumed_units(response: Mapping[str, Any]) -> float:
    """Sum up the write units that an answer reports, for one table or several; 0 without any."""
    total = 0.0
    reported = response.get("ConsumedCapacity")
    for each in reported if isinstance(reported, list) else (reported,):
        units = each.get("CapacityUnits") if isinstance(each, Mapping) else None
        if isinstance(units, int | float) and math.isfinite(units) and units > 0:
            total += units
    return total


def single_row_accepted(response: Any, table: str) -> Answer:
    """Interpret a response to a request of one row, which must report its consumed capacity."""
    if not isinstance(response, Mapping):
        return Unsure(NOT_DYNAMODB)
    consumed = response.get("ConsumedCapacity")
    if not isinstance(consumed, Mapping) or consumed.get("TableName") not in (None, table):
        return Unsure("an answer without ConsumedCapacity")
    return Accepted((), consumed_units(response))


class ModeRequests(Protocol):
    """Requests of a write mode: their parameters, and the meaning of their answers."""

    @property
    def order(self) -> RowOrder:
        """Order in which rows with equal keys are written."""

    @property
    def most_rows(self) -> int:
        """Most rows of a request."""

    def operation(self, rows: int) -> str:
        """Return the DynamoDB operation that writes this many rows, such as PutItem."""

    def parameters(self, items: Sequence[ItemOrKey]) -> dict[str, Any]:
        """Build the operation's parameters: byte for byte the body that the encoder builds."""

    def accepted(self, response: Any, rows: int, items: SentItems) -> Answer:
        """Interpret a response with status 200. `Unsure` if it contradicts the request."""

    def failed(self, failure: AwsFailure, rows: int, items: SentItems) -> Answer:
        """Interpret a failed request."""


@dataclass(slots=True)
class EndpointFeatures:
    """Knowledge about a worker's DynamoDB endpoint, shared by all chunks that it imports."""

    has_statements: bool = True
    """False once the endpoint said that it does not know BatchExecuteStatement, as dynalite does.
    """
    proven_condition: bool = False
    """True once DynamoDB has evaluated the run's condition. Until then one request goes at a time,
    so that a condition that DynamoDB refuses is sent once."""
    unanswered: set[Hashable] = field(default_factory=set)
    """Keys of rows that had a request without an answer, which may arrive after later requests."""


def requests_for(
    options: Options,
    table: Table,
    identical: RowOutcome = RowOutcome.IDENTICAL,
    endpoint: EndpointFeatures | None = None,
) -> ModeRequests:
    """Choose the requests for a run's mode.

    `identical`: outcome of a row for which `insert` finds an equal item in the table.
    """
    keys = [key.name for key in table.keys]
    mode = options.write_mode
    condition = mode.condition_parameters(keys[0], options.position_attribute)
    if condition:
        puts = ConditionalPutRequests(table.name, condition, options.position_attribute, identical)
        return InsertRequests(puts, endpoint or EndpointFeatures()) if mode.inserts else puts
    return BatchRequests(table.name, keys, deletes=mode.deletes)


class BatchRequests:
    """BatchWriteItem requests that put items, or delete the items with given keys."""

    order = RowOrder.LAST_WINS
    most_rows = MAX_BATCH_ROWS

    def __init__(self, table: str, key_names: Sequence[str], *, deletes: bool = False) -> None:
        self._table = table
        self._key_names = tuple(key_names)
        self._deletes_all = deletes

    def operation(self, rows: int) -> str:  # noqa: ARG002 - protocol
        """Return the operation, which is the same for any number of rows."""
        return "BatchWriteItem"

    def parameters(self, items: Sequence[ItemOrKey]) -> dict[str, Any]:
        """Build the parameters of BatchWriteItem."""
        requests = [self._write_request(item) for item in items]
        return {"RequestItems": {self._table: requests}, "ReturnConsumedCapacity": "TOTAL"}

    def accepted(self, response: Any, rows: int, items: SentItems) -> Answer:  # noqa: ARG002
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

    def failed(self, failure: AwsFailure, rows: int, items: SentItems) -> Answer:  # noqa: ARG002
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

    order = RowOrder.LAST_WINS
    most_rows = 1

    def __init__(
        self,
        table: str,
        condition: Mapping[str, Any],
        position: str | None = None,
        identical: RowOutcome = RowOutcome.IDENTICAL,
    ) -> None:
        self.table = table
        self._condition = condition
        self._position = position
        self._identical = identical

    def operation(self, rows: int) -> str:  # noqa: ARG002 - protocol
        """Return the operation."""
        return "PutItem"

    def parameters(self, items: Sequence[ItemOrKey]) -> dict[str, Any]:
        """Build the parameters of PutItem."""
        (item,) = items
        parameters: dict[str, Any] = {"TableName": self.table, "Item": item, **self._condition}
        if self._position is not None:
            parameters["ExpressionAttributeValues"] = {":position": item[self._position]}
        return parameters | {
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            "ReturnConsumedCapacity": "TOTAL",
        }

    def accepted(self, response: Any, rows: int, items: SentItems) -> Answer:  # noqa: ARG002
        """Interpret a response, which must report the consumed capacity that was asked for."""
        return single_row_accepted(response, self.table)

    def failed(self, failure: AwsFailure, rows: int, items: SentItems) -> Answer:  # noqa: ARG002
        """Interpret a failed request; a failed condition is an answer that settles the row."""
        if failure.kind is not FailureKind.CONDITION:
            return answer_for_failure(failure, self.table)
        (item,) = items()
        existing = failure.item
        # DynamoDB bills the larger of the two items, and does not report how many units.
        units = max(write_units(item), write_units(existing or {}))
        name = self._position
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


STATEMENT_THROTTLES = frozenset(
    {"ProvisionedThroughputExceeded", "RequestLimitExceeded", "ThrottlingError"}
)
"""Error codes of a statement that did nothing, for lack of capacity."""
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
"""Error codes of a statement that did nothing. PutItem gives the reason, and the item found."""
STATEMENT_ERRORS = STATEMENT_THROTTLES | STATEMENT_REFUSALS


class InsertRequests:
    """BatchExecuteStatement requests that insert items, and PutItem for a row by itself.

    Each statement fails by itself. That of a row whose key is in the table fails with
    `DuplicateItem`, which does not tell whether the item is the row's. So the row goes by PutItem
    then, whose answer contains the item.
    """

    order = RowOrder.FIRST_WINS

    def __init__(self, puts: ConditionalPutRequests, endpoint: EndpointFeatures) -> None:
        self._puts = puts
        self._endpoint = endpoint

    @property
    def most_rows(self) -> int:
        """Most rows of a request."""
        return MAX_BATCH_ROWS if self._endpoint.has_statements else 1

    def operation(self, rows: int) -> str:
        """Return the operation that writes this many rows."""
        return "PutItem" if rows == 1 else "BatchExecuteStatement"

    def parameters(self, items: Sequence[ItemOrKey]) -> dict[str, Any]:
        """Build the parameters of the operation."""
        if len(items) == 1:
            return self._puts.parameters(items)
        statements = [
            {
                "Statement": insert_statement(self._puts.table, item),
                "Parameters": list(item.values()),
            }
            for item in items
        ]
        return {"Statements": statements, "ReturnConsumedCapacity": "TOTAL"}

    def accepted(self, response: Any, rows: int, items: SentItems) -> Answer:
        """Interpret a response; each statement has a result, with an error or without."""
        if rows == 1:
            return self._puts.accepted(response, rows, items)
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
            if code == "AccessDenied":
                # A policy may deny some keys only; this row was not written.
                denied = denied or self._denied(error)
                alone.append(index)
            elif not isinstance(code, str) or code not in STATEMENT_ERRORS:
                # InternalServerError, or a code that AWS may add.
                alone.append(index)
                unsure.append(index)
            elif code in STATEMENT_THROTTLES:
                unprocessed.append(index)
            else:
                alone.append(index)
        consumed = consumed_units(response)
        return Accepted(unprocessed, consumed, alone=alone, unsure=unsure, fatal=denied)

    def _denied(self, error: Mapping[str, Any]) -> DdbloadError | None:
        text = str(error.get("Message") or "")
        failure = AwsFailure(FailureKind.FATAL, "AccessDeniedException", text, 400)
        answer = answer_for_failure(failure, self._puts.table)
        return answer.error if isinstance(answer, Fatal) else None

    def failed(self, failure: AwsFailure, rows: int, items: SentItems) -> Answer:
        """Interpret a failed request. Nothing of a batch that is refused was written."""
        if rows == 1:
            return self._puts.failed(failure, rows, items)
        if failure.code in UNKNOWN_OPERATION:
            self._endpoint.has_statements = False
            return Accepted(alone=range(rows), single_rows=True)
        if failure.kind is FailureKind.INVALID:
            return Accepted(alone=range(rows))
        return answer_for_failure(failure, self._puts.table)


def _holds_position(value: object) -> bool:
    return isinstance(value, Mapping) and is_position(value.get("S"))


def _comparable(value: Mapping[str, str]) -> Hashable:
    # DynamoDB may return a number in another notation: 1.0 as 1.
    ((kind, text),) = value.items()
    return (kind, Decimal(text) if kind == "N" else text)
