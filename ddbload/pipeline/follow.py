"""A deployed run, watched from outside: its execution, and what its ledger proves meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ddbload.contracts import (
    CANCELLED,
    FAILED,
    SUCCEEDED,
    Counts,
    Failure,
    Report,
    RunRecord,
    Segment,
    Work,
)
from ddbload.errors import RunNotFound
from ddbload.pipeline.conductor import Totals
from ddbload.pipeline.context import Context
from ddbload.pipeline.executions import ABORTED, Execution, Executions
from ddbload.pipeline.ledger import Ledger
from ddbload.pipeline.report import done_before, review

POLL_SECONDS = 1.0
UNKNOWN_SECONDS = 60.0
"""How long after its start an execution may be unknown: DescribeExecution is eventually
consistent."""


def follow(
    executions: Executions,
    arn: str,
    ledger: Ledger,
    *,
    watch: Callable[[Totals], None],
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> Execution:
    """Wait until an execution that was just started has ended, and tell how far its run is.

    Raises `RunNotFound` where Step Functions does not get to know it, and AWS's errors.
    """
    gathering = _Gathering(ledger)
    known_by = clock() + UNKNOWN_SECONDS
    while True:
        execution = executions.find(arn)
        if execution is None and clock() >= known_by:
            raise RunNotFound(
                f"Step Functions does not know execution {arn} {UNKNOWN_SECONDS:.0f} s after it"
                " was started; whether it runs, ddbload status says"
            )
        totals = gathering.totals()
        if totals is not None:
            watch(totals)
        if execution is not None and not execution.running:
            return execution
        sleep(POLL_SECONDS)


class _Gathering:
    """Adds up the segments of a run, reading each of them once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._record: RunRecord | None = None
        self._read: set[str] = set()
        self._rows, self._work, self._bytes = Counts(), Work(), 0
        self._adopted_rows: int | None = None

    def totals(self) -> Totals | None:
        """How far the run is; None while it has not begun."""
        if self._record is None or self._record.size is None:
            # Of some sources preflight knows at its end only how large they are.
            self._record = self._ledger.find_record()
        if self._record is None:
            # So whatever comes is this execution's.
            self._adopted_rows = 0
            return None
        for segment in self._new_segments():
            self._rows += segment.rows
            self._work += segment.work
            self._bytes += segment.end.byte - segment.start.byte
        if self._adopted_rows is None:
            # What is there at the first look may be an earlier execution's.
            self._adopted_rows = self._rows.read
        begun = self._record.data_start.byte
        return Totals(
            self._rows,
            self._work,
            begun + self._bytes,
            self._record.size or 0,
            self._adopted_rows,
        )

    def _new_segments(self) -> list[Segment]:
        names = [name for name in self._ledger.segment_names() if name not in self._read]
        self._read.update(names)
        return self._ledger.segments(names)


def concluded(run: str, execution: Execution, context: Context) -> Report | None:
    """What a run came to whose execution has ended; None when it never began.

    A failed execution is never told as a success: it may have been refused for a run that an
    earlier one completed. But one that was stopped when the run was done changes nothing.
    """
    ledger = context.ledger(run)
    if ledger.find_record() is None:
        return None
    if execution.status == ABORTED and (done := done_before(ledger)) is not None:
        return done
    found = review(run, context)
    if execution.status == SUCCEEDED:
        return found
    why = execution.failure or Failure(execution.status, "the execution did not succeed")
    error = found.error
    if error is None or error.name != why.name:
        # The ledger may tell of an earlier execution's failure.
        error = why
    return replace(found, status=run_status(execution), error=error, seconds=execution.seconds)


def run_status(execution: Execution) -> str:
    """The status of a run by that of its last execution, which has other words.

    A run that somebody stopped is CANCELLED. Of one that succeeded only its report says how.
    """
    if execution.running or execution.status == SUCCEEDED:
        return execution.status
    return CANCELLED if execution.status == ABORTED else FAILED
