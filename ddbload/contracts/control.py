"""Messages by which a run is controlled, and by which its workers report their progress."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import field, replace
from typing import Annotated, Self

from ddbload.contracts.messages import JsonRule, Message
from ddbload.contracts.options import Options
from ddbload.contracts.row_counts import OUTCOMES, RowCounts, WorkTotals, WriteStats
from ddbload.contracts.run_record import MOST_UNITS
from ddbload.records import Record

CONTROL_SECONDS, MAX_CONTROL_SECONDS = 2.0, 4.0
"""Seconds between two reads of `control.json` by a worker, of few workers and of many."""
MAX_RENEWAL_SECONDS = 30.0
"""Longest time between two writes of a worker's progress."""
UNHURRIED_WORKERS = 50
"""Up to this number of workers, each reads and writes as often as it may."""
MISSED_RENEWALS = 3
"""Periods without a renewal after which a worker counts as dead, and sends nothing itself."""
UNSEEN_SECONDS = 5.0
"""Time after its last look at `control.json` for which a function may send before others see it.

Most invocations end sooner, and write their progress once, when they end."""
_CLOCK_GRAIN_SECONDS = 1.0
"""Ages are differences of whole seconds in S3."""
_ACTIVE_SECONDS = MISSED_RENEWALS * MAX_RENEWAL_SECONDS
ACTIVE, CANCELLED_CONTROL, LIMITS_OF_PAYLOAD = STATES = ("running", "cancelled", "payload")
"""States of a control message. The last restores the payload's limits.

The object is not deleted for that, because a delete has no condition and could discard a change
made meanwhile.
"""
WORKING, IDLE = "working", "idle"
"""States of a worker. One that is idle sends nothing, and has written its segment."""
UNLIMITED = "none"
"""Word for no limit, where a limit can be replaced."""
_NONE = "x"
_WHOLE, _LIMIT = "[0-9]{1,16}", r"(?:x|[0-9]{1,16}\.[0-9]{4})"
_TOTALS = 3 + len(OUTCOMES)
"""Parts of a name that are one total."""
_NAME = re.compile(
    f"[0-9a-f]{{1,64}}-{_WHOLE}-[wi](?:-{_LIMIT}){{2}}-(?:x|{_WHOLE})-{_WHOLE}"
    f"(?:-{_WHOLE}){{{2 * _TOTALS}}}"
)


class Control(Message):
    """`control.json`: limits that the workers of a run obey within seconds.

    Without the object, the limits of the run's payload hold.
    """

    state: Annotated[str, JsonRule(choices=STATES)] = ACTIVE
    max_wcu: Annotated[float | None, JsonRule(least=1)] = None
    """Write units a second of all workers together; None without a limit."""
    max_cost: Annotated[float | None, JsonRule(least=0)] = None
    """Dollars of write units of the whole run, earlier attempts included; None without a limit."""
    resumed_after: str | None = None
    """ARN of the last execution when the run was resumed, whose end says nothing about the run."""

    @classmethod
    def of(cls, options: Options) -> Self:
        """Make the control of a run without changes."""
        return cls(max_wcu=options.max_wcu, max_cost=options.max_cost)

    @property
    def cancelled(self) -> bool:
        """True if no worker may send a request."""
        return self.state == CANCELLED_CONTROL

    def cancel(self) -> Self:
        """Return the control that stops all workers, and keeps the limits."""
        return replace(self, state=CANCELLED_CONTROL)


class NewLimits(Record):
    """Limits that replace those of a run; None leaves one as it is, `UNLIMITED` removes it."""

    max_wcu: float | str | None = None
    """Write units a second, or a share of the table's capacity such as `50%`."""
    max_cost: float | str | None = None
    """Dollars."""

    @classmethod
    def of(cls, options: Options) -> Self:
        """Return the limits that a payload gives."""
        percent = options.max_wcu_percent
        return cls(options.max_wcu if percent is None else f"{percent}%", options.max_cost)


class WorkerProgress(Record):
    """Progress of one worker: a process of `import`, or one environment of the function.

    It is the name of an empty object in the ledger, so that one listing reads the progress of all
    workers. A worker writes a new name and deletes the one before.
    """

    worker: str
    """Random hexadecimal digits."""
    number: int
    """Counts the names that this worker has written."""
    state: str
    """`WORKING` or `IDLE`."""
    wcu: float | None
    """Write units a second that the worker may send; None without a limit."""
    unit_limit: float | None
    """Write units that the worker may consume in the whole run; None without a limit."""
    settled: WorkTotals = field(default_factory=WorkTotals)
    """Totals of the segments that this worker has written."""
    chunk: int | None = None
    """First chunk, in the order of its group, of those that the worker imports; None between
    invocations."""
    start: int = 0
    """Byte at which its invocation on that chunk began, as in the name of the segment to come."""
    current: WorkTotals = field(default_factory=WorkTotals)
    """Totals of that invocation, which no segment counts yet."""

    @property
    def totals(self) -> WorkTotals:
        """All that the worker has done for the run."""
        return self.settled + self.current

    def to_name(self) -> str:
        """Return the name of the object, below `progress/`."""
        return "-".join(
            (
                *(self.worker, f"{self.number:06d}", self.state[0]),
                *(_limit_text(self.wcu), _limit_text(self.unit_limit)),
                *(_NONE if self.chunk is None else str(self.chunk), str(self.start)),
                *_numbers_of(self.settled),
                *_numbers_of(self.current),
            )
        )

    @classmethod
    def from_name(cls, name: str) -> Self | None:
        """Read a name that `to_name` made; None for a name of another kind."""
        if not _NAME.fullmatch(name):
            return None
        worker, number, state, wcu, unit_limit, chunk, start, *totals = name.split("-")
        return cls(
            *(worker, int(number), WORKING if state == WORKING[0] else IDLE),
            *(_limit_of(wcu), _limit_of(unit_limit), _totals_of(totals[:_TOTALS])),
            *(None if chunk == _NONE else int(chunk), int(start), _totals_of(totals[_TOTALS:])),
        )


class SeenWorker(Record):
    """Worker of a run, as found in a listing, and what it takes of the run's limits."""

    progress: WorkerProgress
    age: float
    """Seconds since the worker last wrote its progress."""
    alive: bool
    """False if the worker has been silent for so long that it must have died or stopped."""

    @property
    def working(self) -> bool:
        """True if the worker may send requests."""
        return self.alive and self.progress.state != IDLE

    @property
    def wcu(self) -> float:
        """Write units per second that the worker may send."""
        # Without a claim it does not know the limit yet. Once it does, it lists the claims of all
        # others.
        return (self.progress.wcu or 0.0) if self.working else 0.0

    @property
    def units(self) -> float:
        """Write units that the worker has consumed or may still consume."""
        limit = self.progress.unit_limit
        return self.progress.totals.work.consumed_wcu if limit is None else limit

    @property
    def units_spent(self) -> float:
        """Write units that the worker has consumed or cannot give back."""
        return self.progress.totals.work.consumed_wcu if self.working else self.units


def control_seconds(ages: Iterable[float]) -> float:
    """Compute the seconds between two reads of `control.json`, from the ages of all workers."""
    crowd = _crowd(ages, _ACTIVE_SECONDS)
    return min(MAX_CONTROL_SECONDS, CONTROL_SECONDS * crowd)


def renewal_seconds(base: float, ages: Iterable[float]) -> float:
    """Compute the seconds between two writes of a worker's progress.

    `base`: `Ledger.progress_seconds`. `ages`: of all workers, as a listing shows them.
    """
    return min(MAX_RENEWAL_SECONDS, base * _crowd(ages, _ACTIVE_SECONDS))


def silence_limit(base: float, ages: Iterable[float]) -> float:
    """Compute the age from which a worker is dead.

    Counts twice as far back as `renewal_seconds`, so that a worker which slowed down because it
    saw many others is not taken for dead by one that comes later and sees few.
    """
    period = min(MAX_RENEWAL_SECONDS, base * _crowd(ages, 2 * _ACTIVE_SECONDS))
    return MISSED_RENEWALS * period + _CLOCK_GRAIN_SECONDS


def _crowd(ages: Iterable[float], within: float) -> float:
    return max(1.0, sum(age <= within for age in ages) / UNHURRIED_WORKERS)


def _limit_text(limit: float | None) -> str:
    if limit is None:
        return _NONE
    # Names of files are short.
    limit = min(limit, MOST_UNITS)
    # Rounded up: a limit that others must respect may be too high, but never too low. Shares of a
    # small budget among many workers are fractions.
    return f"{math.ceil(limit * 10_000) / 10_000:.4f}"


def _limit_of(text: str) -> float | None:
    return None if text == _NONE else float(text)


def _numbers_of(totals: WorkTotals) -> list[str]:
    rows, work = totals.rows, totals.work
    numbers = (totals.bytes, work.throttled, math.ceil(work.consumed_wcu))
    return [str(each) for each in (*numbers, *rows.outcomes.values())]


def _totals_of(texts: list[str]) -> WorkTotals:
    done, throttled, consumed, *outcomes = map(int, texts)
    work = WriteStats(throttled=throttled, consumed_wcu=consumed)
    return WorkTotals(RowCounts.of(outcomes), work, done)
