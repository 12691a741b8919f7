"""Build and interpret requests that write one row each by the user's rules. Pure.

They are UpdateItem, and PutItem and DeleteItem with a condition. A condition that DynamoDB refuses
as such ends the run: `ConditionRefused`. One that is false settles its row as skipped, unless the
item in the table is what the row would leave, and this run may have written it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ddbload.aws.failures import AwsFailure, FailureKind
from ddbload.dynamodb.item_equality import write_units
from ddbload.dynamodb.row_writes import REMOVAL, RowWrites, without_removals
from ddbload.errors import ConditionRefused
from ddbload.write.requests import (
    EndpointFeatures,
    ItemOrKey,
    SentItems,
    answer_for_failure,
    single_row_accepted,
)
from ddbload.write.scheduler.key_ordering import RowOrder
from ddbload.write.scheduler.messages import Accepted, Answer, Fatal
from ddbload.write.scheduler.outcome_tracker import RowOutcome

REFUSED_CONDITION = "Invalid ConditionExpression: "
"""Beginning of DynamoDB's message about a condition."""
_KEY_PATH = "Key attributes must be scalars; list random access '[]' and map lookup '.'"
"""Beginning of its message about a path such as `id.name` below a key."""
_QUOTES_VALUES = ("BETWEEN operator", "attribute type name")
"""Parts of such messages that depend on the row, whose values they quote."""
_ABOUT_TYPES = "operand type"
"""Part of such messages that depends on the types of the row's values."""


class RowWriteRequests:
    """Requests of one item each by the rules of `RowWrites`."""

    order = RowOrder.ALL
    most_rows = 1

    def __init__(
        self,
        writes: RowWrites,
        endpoint: EndpointFeatures,
        identical: RowOutcome = RowOutcome.IDENTICAL,
        *,
        same_types: bool = False,
    ) -> None:
        """Make the requests of a run.

        Args:
            writes: Rules of the run.
            endpoint: Knowledge about the endpoint.
            identical: Outcome of a row whose effect the item in the table has already.
            same_types: All rows have values of the same types, as columns of text do.
        """
        self._writes = writes
        self._row_dependent = _QUOTES_VALUES if same_types else (*_QUOTES_VALUES, _ABOUT_TYPES)
        self._endpoint = endpoint
        self._identical = identical

    def operation(self, rows: int) -> str:  # noqa: ARG002 - protocol
        """Return the operation."""
        return self._writes.mode.operation

    def parameters(self, items: Sequence[ItemOrKey]) -> dict[str, Any]:
        """Build the operation's parameters."""
        (item,) = items
        writes = self._writes
        form = writes.form(list(item), [name for name, value in item.items() if value == REMOVAL])
        parameters: dict[str, Any] = {
            "TableName": writes.table,
            writes.mode.member: {name: item[name] for name in form.attributes},
            **form.expressions,
        }
        if form.names:
            parameters["ExpressionAttributeNames"] = dict(form.names)
        if form.values:
            parameters["ExpressionAttributeValues"] = {
                placeholder: item[name] for placeholder, name in form.values.items()
            }
        if writes.condition is not None:
            parameters["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return parameters | {"ReturnConsumedCapacity": "TOTAL"}

    def accepted(self, response: Any, rows: int, items: SentItems) -> Answer:  # noqa: ARG002
        """Interpret a response, which must report the consumed capacity that was asked for."""
        answer = single_row_accepted(response, self._writes.table)
        if isinstance(answer, Accepted):
            self._endpoint.proven_condition = True
        return answer

    def failed(self, failure: AwsFailure, rows: int, items: SentItems) -> Answer:  # noqa: ARG002
        """Interpret a failed request; a false condition is an answer that settles the row."""
        if failure.kind is FailureKind.CONDITION:
            self._endpoint.proven_condition = True
            return self._false_condition(failure, items)
        if self._is_about_condition(failure):
            return Fatal(refused_condition(failure))
        return answer_for_failure(failure, self._writes.table)

    def _is_about_condition(self, failure: AwsFailure) -> bool:
        """Return whether every row would be refused, because of the condition itself."""
        return (
            failure.kind is FailureKind.INVALID
            and not self._endpoint.proven_condition
            and failure.text.startswith((REFUSED_CONDITION, _KEY_PATH))
            and not any(part in failure.text for part in self._row_dependent)
        )

    def _false_condition(self, failure: AwsFailure, items: SentItems) -> Answer:
        (item,) = items()
        existing, writes = failure.item, self._writes
        # DynamoDB bills a condition that is false, by the larger item, and reports no units.
        units = max(write_units(without_removals(item)), write_units(existing or {}))
        # Without a condition of the user only a missing item fails, which no update leaves.
        if writes.condition is not None and writes.has_effect(item, existing):
            # It may be this run's own: import_chunk decides, from the run's attempts.
            return Accepted((), units, self._identical)
        return Accepted((), units, RowOutcome.SKIPPED)


def refused_condition(failure: AwsFailure) -> ConditionRefused:
    """Make the error of a condition that DynamoDB refuses. Its words quote the expression only."""
    reason = failure.text.removeprefix(REFUSED_CONDITION)
    return ConditionRefused(
        f"DynamoDB refuses the condition ('options.condition', --condition): {reason};"
        " nothing was written with it. Names that are reserved words or have other characters are"
        " written #name or #{a name}, and values {column}"
    )
