"""Derive a run's state, and an attempt's outcome, from facts that were read before.

Pure: no I/O and no clock. The ledger's proof decides: a run whose chunks are all proven to be
imported is done, whatever the status of an execution.
"""

from __future__ import annotations

from ddbload.contracts.results import (
    CANCELLED,
    DONE,
    FAILED,
    INTERRUPTED,
    ExecutionAttempt,
    Failure,
    Heartbeat,
    Report,
)
from ddbload.errors import Cancelled, IncompleteRun, Interrupted
from ddbload.records import Record

RUNNING = "RUNNING"
"""Status of a run that a process or an execution is working on."""
ALIVE, ENDED = "running", "ended"
"""States in a heartbeat."""
MISSED = 3
"""Periods without a heartbeat after which a process counts as dead."""
_STOPPED = (INTERRUPTED, CANCELLED)
"""Statuses of a run that may have open chunks without an error."""


class Ending(Record):
    """End of a run's last attempt: an execution, or a command."""

    failure: Failure | None = None
    """Error that ended the attempt; None if it failed without an own error."""
    aborted: bool = False
    """True if the execution was stopped by a user."""
    timed_out: bool = False
    """True if Step Functions timed the execution out. A cancelled control stops its functions."""
    interrupted: bool = False
    """True if the user stopped the command."""
    planned: bool = True
    """True if preflight had finished, so that errors of chunks belong to this attempt."""
    attempt: ExecutionAttempt | None = None
    began: float = 0.0
    """Start in seconds since the epoch; 0 if unknown."""
    seconds: float | None = None


class StateFacts(Record):
    """Facts about a run at one moment, from which its state is derived."""

    began: float
    """Time of the run's record, or else of its request, in seconds since the epoch."""
    has_record: bool = True
    request_failure: Failure | None = None
    """Error that ended the run before it had a record."""
    counted: Report | None = None
    """Sums of the segments, and the first error of the proof; None if they were not read."""
    last: Report | None = None
    """Content of `report.json`."""
    heartbeat: Heartbeat | None = None
    process_gone: bool = False
    """True if the heartbeat's process ran on this machine and does not exist any more."""
    cancelled: bool = False
    """True if `control.json` cancels the run."""
    execution_running: bool = False
    ending: Ending | None = None
    """End of the last execution; None for a local run, and while an execution runs."""
    last_sign: float | None = None
    """Time of the workers' last write."""


class RunState(Record):
    """Status of a run, and its error."""

    status: str
    """`RUNNING`, or one of `STATUSES`."""
    error: Failure | None = None
    seconds: float | None = None
    """Duration of the run; up to its last sign of life if it left no report."""
    done: bool = False
    """True if the ledger proves that nothing is left to import."""
    recorded: bool = False
    """True if `report.json` states that the run is done."""
    reported: bool = False
    """True if the last attempt left a report."""

    @property
    def running(self) -> bool:
        """True while a process or an execution is working on the run."""
        return self.status == RUNNING

    @property
    def stopped(self) -> bool:
        """True if the run was stopped, so that open chunks are not an error."""
        return self.status in _STOPPED


def is_alive(heartbeat: Heartbeat, now: float, *, process_gone: bool = False) -> bool:
    """Return whether the process that wrote a heartbeat is still working.

    Its heartbeat must be younger than three periods, and the process must not be known to have
    ended.
    """
    is_young = abs(now - heartbeat.at) <= MISSED * heartbeat.every
    return heartbeat.state == ALIVE and is_young and not process_gone


def judge(facts: StateFacts, now: float) -> RunState:
    """Derive the state of a run."""
    heartbeat = facts.heartbeat
    process_works = heartbeat is not None and is_alive(
        heartbeat, now, process_gone=facts.process_gone
    )
    if process_works or facts.execution_running:
        return RunState(RUNNING, seconds=max(0.0, now - facts.began))
    last = facts.last
    if last is not None and _is_of_earlier_attempt(last, facts):
        last = None
    seconds = _seconds(facts, now) if last is None else last.seconds
    if not facts.has_record:
        return RunState(*_judge_unrecorded(facts), seconds)
    status, error = _judge_recorded(facts, last)
    agrees = last is not None and _counts(last) == _counts(facts.counted or last)
    recorded = agrees and status in DONE and last is not None and last.status == status
    return RunState(status, error, seconds, status in DONE, recorded, last is not None)


def judge_attempt(state: RunState, ending: Ending, *, own: bool) -> tuple[str, Failure | None]:
    """Return status and error of an attempt on a run in this state.

    `own`: true if the execution took over the run. An execution that was refused earlier has
    failed, which does not affect the run.
    """
    if ending.failure is None or (own and ending.planned) or (ending.aborted and state.done):
        return state.status, state.error
    if ending.aborted:
        return CANCELLED, None
    return FAILED, ending.failure


def _judge_recorded(facts: StateFacts, last: Report | None) -> tuple[str, Failure | None]:
    """Derive status and error of a run with a record. `last`: report of its last attempt."""
    # If the segments were not read, rely on the report.
    counted = last if facts.counted is None else facts.counted
    error = None if counted is None else counted.error
    agrees = last is not None and counted is not None and _counts(last) == _counts(counted)
    if last is not None and agrees and last.error is not None:
        # For example, that the table was replaced, which the ledger alone does not show.
        error = last.error
    if counted is not None and counted.status in DONE and error is None:
        if last is not None and last.status in DONE:
            return (last if agrees else counted).status, None
        if facts.ending is not None:
            return counted.status, None
        # The table has not been compared yet.
        if _was_cancelled(facts):
            return CANCELLED, None
        return (last.status if last is not None and last.status in _STOPPED else INTERRUPTED), None
    if last is not None and last.status in DONE:
        # Parts of the ledger have been lost or damaged since.
        return FAILED, error
    expected = error is None or error.chunk is not None or error.name == IncompleteRun.__name__
    if expected and _was_cancelled(facts):
        return CANCELLED, None
    if last is not None and last.status not in _STOPPED:
        return last.status, error
    if facts.ending is None or last is not None:
        stopped = INTERRUPTED if last is None else last.status
        return (stopped, None) if expected else (FAILED, error)
    if facts.ending.interrupted and expected:
        return INTERRUPTED, None
    failure = facts.ending.failure
    lacks_cause = error is None or error.name == IncompleteRun.__name__
    # The error of a failed chunk is more specific than that of the Map.
    if failure is not None and (lacks_cause or not facts.ending.planned):
        error = failure
    return FAILED, error


def _judge_unrecorded(facts: StateFacts) -> tuple[str, Failure | None]:
    """Derive status and error of a run that ended before it had a record."""
    ending = facts.ending
    failure = facts.request_failure if ending is None else ending.failure or facts.request_failure
    name = None if failure is None else failure.name
    if _was_cancelled(facts) or name == Cancelled.__name__:
        return CANCELLED, None
    if name == Interrupted.__name__ or (failure is None and ending is None):
        return INTERRUPTED, None
    return FAILED, failure


def _was_cancelled(facts: StateFacts) -> bool:
    ending = facts.ending
    if ending is None:
        return facts.cancelled
    if ending.timed_out:
        return False
    is_named = ending.failure is not None and ending.failure.name == Cancelled.__name__
    return facts.cancelled or ending.aborted or is_named


def _is_of_earlier_attempt(last: Report, facts: StateFacts) -> bool:
    """Return whether `last` is the report of an earlier attempt than the last one.

    A report that the run is done stays valid, because nothing changes such a run.
    """
    ending, heartbeat = facts.ending, facts.heartbeat
    if last.status in DONE:
        return False
    if ending is not None and ending.attempt is not None:
        if last.attempt is not None:
            return last.attempt != ending.attempt
        # Written by a local command.
        return ending.began > facts.began + last.seconds
    return heartbeat is not None and heartbeat.state == ALIVE


def _seconds(facts: StateFacts, now: float) -> float:
    """Compute the duration of a run that has no report, or was resumed since."""
    if facts.ending is not None and facts.ending.seconds is not None:
        return facts.ending.seconds
    signs = [facts.began, facts.began if facts.last_sign is None else facts.last_sign]
    signs += [] if facts.heartbeat is None else [facts.heartbeat.at]
    failure = facts.request_failure
    signs += [] if failure is None or failure.at is None else [failure.at]
    return max(0.0, min(now, max(signs)) - facts.began)


def _counts(report: Report) -> object:
    return report.rows, report.chunks_done
