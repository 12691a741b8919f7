"""State of a run, and outcome of an attempt, judged from facts that were read before.

Pure: no I/O and no clock. The ledger's proof decides: a run whose chunks are all imported and
proven is done, whatever an execution says.
"""

from __future__ import annotations

from dataclasses import dataclass

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

RUNNING = "RUNNING"
"""Status of a run that a process or an execution works on."""
ALIVE, ENDED = "running", "ended"
"""States of a heartbeat."""
MISSED = 3
"""Periods without a heartbeat after which a process counts as dead."""
_STOPPED = (INTERRUPTED, CANCELLED)
"""Statuses of a run in which open chunks are expected."""


@dataclass(frozen=True, slots=True)
class Ending:
    """End of the attempt that last worked on a run: an execution, or a command that reports it."""

    failure: Failure | None = None
    """Error that ended the attempt; None if it had none of its own."""
    aborted: bool = False
    """Somebody stopped the execution."""
    timed_out: bool = False
    """Step Functions ended the execution, whose functions are stopped by a cancelled control."""
    interrupted: bool = False
    """The user stopped the command."""
    planned: bool = True
    """Preflight had finished, so that errors of chunks are those of this attempt."""
    attempt: ExecutionAttempt | None = None
    began: float = 0.0
    """Seconds since the epoch; 0 if not known."""
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFacts:
    """Facts about a run at one moment."""

    began: float
    """Time of the run's record, else of its request, in seconds since the epoch."""
    has_record: bool = True
    request_failure: Failure | None = None
    """Error that ended the run before it had a record."""
    counted: Report | None = None
    """Sums of the segments, with the first error of the proof; None if they were not read."""
    last: Report | None = None
    """`report.json`."""
    heartbeat: Heartbeat | None = None
    process_gone: bool = False
    """The process of the heartbeat was looked for on its machine, and does not exist."""
    cancelled: bool = False
    """`control.json` cancels the run."""
    execution_running: bool = False
    ending: Ending | None = None
    """End of the last execution; None for a run of a machine, and while one runs."""
    last_sign: float | None = None
    """Time of the last write of a worker."""


@dataclass(frozen=True, slots=True)
class RunState:
    """Status of a run, and why."""

    status: str
    """`RUNNING`, or one of `STATUSES`."""
    error: Failure | None = None
    seconds: float | None = None
    """Duration of the run, until its last sign of life if it left no report."""
    done: bool = False
    """Nothing is left to import, and the ledger proves it."""
    recorded: bool = False
    """`report.json` says that the run is done."""
    reported: bool = False
    """The last attempt left a report."""

    @property
    def running(self) -> bool:
        """True while a process or an execution works on the run."""
        return self.status == RUNNING

    @property
    def stopped(self) -> bool:
        """True if open chunks are expected, because the run was stopped."""
        return self.status in _STOPPED


def is_alive(heartbeat: Heartbeat, now: float, *, process_gone: bool = False) -> bool:
    """Tell whether the process that wrote a heartbeat still works.

    Its heartbeat must be younger than three periods, and its process not known to be gone.
    """
    is_young = abs(now - heartbeat.at) <= MISSED * heartbeat.every
    return heartbeat.state == ALIVE and is_young and not process_gone


def judge(facts: StateFacts, now: float) -> RunState:
    """Judge the state of a run."""
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
    """Judge the outcome of an attempt on a run in this state: its status and error.

    `own`: the execution took the run up. One that was refused before has failed, and says nothing
    about the run.
    """
    if ending.failure is None or (own and ending.planned) or (ending.aborted and state.done):
        return state.status, state.error
    if ending.aborted:
        return CANCELLED, None
    return FAILED, ending.failure


def _judge_recorded(facts: StateFacts, last: Report | None) -> tuple[str, Failure | None]:
    """Judge a run that has a record. `last`: the report of its last attempt."""
    # What was not read is as the report says.
    counted = last if facts.counted is None else facts.counted
    error = None if counted is None else counted.error
    agrees = last is not None and counted is not None and _counts(last) == _counts(counted)
    if last is not None and agrees and last.error is not None:
        # For example that the table was replaced: the ledger alone does not show it.
        error = last.error
    if counted is not None and counted.status in DONE and error is None:
        if last is not None and last.status in DONE:
            return (last if agrees else counted).status, None
        if facts.ending is not None:
            return counted.status, None
        # Nobody has compared the table yet.
        if _was_cancelled(facts):
            return CANCELLED, None
        return (last.status if last is not None and last.status in _STOPPED else INTERRUPTED), None
    if last is not None and last.status in DONE:
        # Parts of the ledger are missing or damaged since.
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
    # The error of a failed chunk tells more than that of the Map.
    if failure is not None and (lacks_cause or not facts.ending.planned):
        error = failure
    return FAILED, error


def _judge_unrecorded(facts: StateFacts) -> tuple[str, Failure | None]:
    """Judge a run that ended before it had a record."""
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
    """Tell whether the last attempt ended without the report that is there.

    One that says that the run is done stays true, because nothing changes such a run.
    """
    ending, heartbeat = facts.ending, facts.heartbeat
    if last.status in DONE:
        return False
    if ending is not None and ending.attempt is not None:
        if last.attempt is not None:
            return last.attempt != ending.attempt
        # A command wrote it.
        return ending.began > facts.began + last.seconds
    return heartbeat is not None and heartbeat.state == ALIVE


def _seconds(facts: StateFacts, now: float) -> float:
    """Compute how long a run took that has no report, or was taken up since."""
    if facts.ending is not None and facts.ending.seconds is not None:
        return facts.ending.seconds
    signs = [facts.began, facts.began if facts.last_sign is None else facts.last_sign]
    signs += [] if facts.heartbeat is None else [facts.heartbeat.at]
    failure = facts.request_failure
    signs += [] if failure is None or failure.at is None else [failure.at]
    return max(0.0, min(now, max(signs)) - facts.began)


def _counts(report: Report) -> object:
    return report.rows, report.chunks_done
