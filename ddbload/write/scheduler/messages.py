"""Messages between the scheduler and a driver: steps to take, and answers that came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddbload.errors import DdbloadError
from ddbload.write.scheduler.outcome_tracker import RowOutcome


@dataclass(frozen=True, slots=True)
class Batch:
    """A request to send now, as the handles of its rows."""

    number: int
    handles: Sequence[int]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to send before the time `until`; None: before an answer arrives."""

    until: float | None


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to send, and no answer is awaited any more."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """DynamoDB carried the request out, except for the rows named here by their indexes."""

    unprocessed: Sequence[int] = ()
    """Indexes of rows within the batch that were returned for want of capacity."""
    consumed: float = 0.0
    """Write capacity units."""
    outcome: RowOutcome = RowOutcome.WRITTEN
    """The outcome of all other rows: not WRITTEN where a condition failed."""
    alone: Sequence[int] = ()
    """Indexes of rows without an outcome that must be sent again, each in a request of its own."""
    unsure: Sequence[int] = ()
    """Those of `alone` that may have been written."""
    single_rows: bool = False
    """From now on every row must go in a request of its own."""
    fatal: DdbloadError | None = None
    """Error after which no request can succeed; the rows have the outcomes above nevertheless."""

    @property
    def is_complete(self) -> bool:
        """Every row has the outcome."""
        return not (self.unprocessed or self.alone)


@dataclass(frozen=True, slots=True)
class Throttled:
    """The whole request was throttled."""

    code: str
    key_range: bool = False
    """Every `ThrottlingReasons` entry names a partition, none the table."""


@dataclass(frozen=True, slots=True)
class Unsure:
    """No credible answer: the rows may or may not have been written."""

    reason: str
    refused: bool = False
    """DynamoDB states that it did nothing; the request may pass when repeated."""
    error: DdbloadError | None = None
    """Error that ends the run if no request is answered otherwise for `FOREIGN_SECONDS`."""


REFUSED_BY_DYNAMODB = "refused_by_dynamodb"
"""Cause of rejects whose detail is DynamoDB's message, which may quote the item."""


@dataclass(frozen=True, slots=True)
class Refused:
    """DynamoDB rejects the request's content, or the item that a row would replace."""

    message: str
    cause: str = REFUSED_BY_DYNAMODB
    """Cause of the resulting reject."""


@dataclass(frozen=True, slots=True)
class Fatal:
    """No request can succeed: the run must stop."""

    error: DdbloadError
    unsure: bool = False
    """The rows may have been written nevertheless."""


Answer = Accepted | Throttled | Unsure | Refused | Fatal
Step = Batch | Wait | Finished
