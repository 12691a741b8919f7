"""What a scheduler tells a driver to do, and what a driver tells it of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddbload.errors import DdbloadError
from ddbload.write.scheduler.outcome_tracker import RowOutcome


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one request, by handle."""

    number: int
    handles: Sequence[int]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing may go before `until` (seconds), or, when that is None, before an answer."""

    until: float | None


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is under way, and nothing is to be sent any more."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """DynamoDB took the request, but for the rows at these places of the batch."""

    unprocessed: Sequence[int] = ()
    consumed: float = 0.0
    outcome: RowOutcome = RowOutcome.WRITTEN
    """What became of the others: they are not written where a condition did not hold."""


@dataclass(frozen=True, slots=True)
class Throttled:
    """DynamoDB refused the whole request for want of capacity."""

    code: str
    key_range: bool = False
    """Of some partition keys, and not of the table (`ThrottlingReasons`)."""


@dataclass(frozen=True, slots=True)
class Unsure:
    """No answer, or none to be believed: the rows may have been written."""

    reason: str
    refused: bool = False
    """The service said that it did nothing, and may do it when it is asked again."""


@dataclass(frozen=True, slots=True)
class Refused:
    """DynamoDB refuses the content of the request, or, of one row, what it would replace."""

    message: str
    cause: str = "refused_by_dynamodb"
    """The reject's."""


@dataclass(frozen=True, slots=True)
class Fatal:
    """No request will pass."""

    error: DdbloadError
    unsure: bool = False
    """Whether the rows may have been written all the same."""


Answer = Accepted | Throttled | Unsure | Refused | Fatal
Step = Batch | Wait | Finished
