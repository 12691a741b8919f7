"""The end of a run's attempt: its event, and executions that ended without Report.

Step Functions does not stop functions that run when it stops an execution. So the run is cancelled
through its ledger, which they read every few seconds.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ddbload.aws.retry import call_with_retries
from ddbload.context import Context
from ddbload.contracts.control import UNSEEN_SECONDS, Control
from ddbload.contracts.payload import check_run_id
from ddbload.contracts.results import (
    ALREADY_LOADED,
    CANCELLED,
    SUCCEEDED,
    SUCCEEDED_WITH_REJECTS,
    ExecutionAttempt,
    ExecutionOutput,
)
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import (
    EVENT_SOURCE,
    RUN_COMPLETED,
    RUNS_CANCELLED,
    RUNS_FAILED,
    RUNS_SUCCEEDED,
    RUNS_SUCCEEDED_WITH_REJECTS,
    ReportCursor,
    ReportTask,
    RunCompleted,
    stopped_execution,
)
from ddbload.errors import DdbloadError, Interrupted, InvalidPayload, LedgerDamaged
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.run_state import Ending, judge_attempt
from ddbload.steps.executions import EXECUTION_ABORTED, EXECUTION_TIMED_OUT, Executions
from ddbload.steps.report import read_run, report_execution

NOTICES = "notices/"
"""Prefix of the marks, each named by the attempt of an execution whose event was sent."""
WORKER_STOP_SECONDS = 20.0
"""Seconds to wait for workers, which obey within 5 s."""
_POLL_SECONDS = 1.0
_STOPPED = (EXECUTION_ABORTED, EXECUTION_TIMED_OUT)
"""Statuses of executions whose functions may still run."""
_METRICS = {
    SUCCEEDED: RUNS_SUCCEEDED,
    ALREADY_LOADED: RUNS_SUCCEEDED,
    SUCCEEDED_WITH_REJECTS: RUNS_SUCCEEDED_WITH_REJECTS,
    CANCELLED: RUNS_CANCELLED,
}


# The event.


def announce(
    outcome: ExecutionOutput, attempt: ExecutionAttempt | None, context: Context
) -> DdbloadError | None:
    """Count an ended attempt and send its event; return the error that kept it from being sent.

    A mark in the store keeps a repeated invocation from sending it again. It is written after the
    event, so an invocation that is killed in between sends twice rather than never; `execution`
    and `redrives` show receivers that it is the same event. An error must not fail the run.
    """
    context.measure({_METRICS.get(outcome.status, RUNS_FAILED): 1})
    try:
        if is_announced(attempt, context):
            return None
        notice = _notice(outcome, attempt, context)
        _put_event(notice, context)
        if attempt is not None:
            context.store.put(_mark(attempt), json.dumps({"run": outcome.run}).encode())
    except DdbloadError as error:
        return error
    return None


def is_announced(attempt: ExecutionAttempt | None, context: Context) -> bool:
    """Return whether the event of an attempt was sent."""
    return attempt is not None and context.store.get(_mark(attempt)) is not None


def _mark(attempt: ExecutionAttempt) -> str:
    name = attempt.execution.rpartition(":")[2]
    # Names of executions have no slash.
    redrive = f"/redrive-{attempt.redrives}" if attempt.redrives else ""
    return f"{NOTICES}{name}{redrive}.json"


def _notice(
    outcome: ExecutionOutput, attempt: ExecutionAttempt | None, context: Context
) -> RunCompleted:
    payload = None
    # The id of a run that never began may not even be valid.
    with suppress(InvalidPayload, LedgerDamaged):
        ledger = context.ledger(check_run_id(outcome.run))
        known = ledger.find_record() or ledger.find_request()
        payload = None if known is None else known.payload
    return RunCompleted(
        run=outcome.run,
        status=outcome.status,
        table=None if payload is None else payload.table,
        source=None if payload is None else payload.source.uri,
        rows=outcome.rows,
        uncertain=outcome.uncertain,
        chunks=outcome.chunks,
        chunks_done=outcome.chunks_done,
        rejects=outcome.rejects,
        error=None if outcome.error is None else outcome.error.name,
        execution=None if attempt is None else attempt.execution,
        redrives=0 if attempt is None else attempt.redrives,
        loaded_before=outcome.loaded_before,
        skipped_lines=0 if payload is None else payload.source.skip_lines,
    )


def _put_event(notice: RunCompleted, context: Context) -> None:
    entry = {
        "Source": EVENT_SOURCE,
        "DetailType": RUN_COMPLETED,
        "Detail": json.dumps(notice.to_json()),
    }

    def put() -> None:
        answer: Any = context.clients.events.put_events(Entries=[entry])
        if answer["FailedEntryCount"]:
            raise ConnectionError(str(answer["Entries"][0].get("ErrorCode")))

    call_with_retries(put, f"sending the event {RUN_COMPLETED}", policy=context.retry_policy)


# Executions that ended without Report.


def conclude_stopped(
    event: object, context: Context, executions: Executions
) -> tuple[ExecutionOutput, ExecutionAttempt] | None:
    """Cancel the run of a stopped execution, and write its report; return that and the attempt.

    None if nothing is to be done: Report has done it, or the execution was redriven since. A run
    that another execution has taken up is left alone, and so is its report: only the ended
    attempt's event is due.
    """
    stopped, redrives = stopped_execution(event)
    execution = executions.describe(stopped)
    attempt = ExecutionAttempt(stopped, execution.redrives if redrives is None else redrives)
    if is_announced(attempt, context) or execution.running or execution.redrives > attempt.redrives:
        return None
    name = stopped.rpartition(":")[2]
    # A stopped execution has no error of its own; the report says what is missing.
    ending = execution.ending or Ending()
    error = None if ending.aborted else execution.failure
    task = ReportTask(name, execution.input, error, execution=stopped)
    try:
        ledger = context.ledger(check_run_id(task.requested_run()))
    except InvalidPayload:
        return _report_stopped(task, attempt, context, ending), attempt
    record = ledger.find_record()
    if record is not None and execution.status in _STOPPED:
        _cancel(ledger, record, stopped, context)
    if record is not None and _is_taken_up(ledger, stopped):
        seen = read_run(ledger.run, context, lambda _: execution)
        status, error = judge_attempt(seen.state, replace(ending, failure=error), own=False)
        outcome = ExecutionOutput.of(seen.report, status, error)
    else:
        outcome = _report_stopped(task, attempt, context, ending)
    return outcome, attempt


def _report_stopped(
    task: ReportTask, attempt: ExecutionAttempt, context: Context, ending: Ending
) -> ExecutionOutput:
    """Report; raise `Interrupted` at the deadline, and continue in the repeated invocation."""
    made = report_execution(task, context, redrives=attempt.redrives, stopped=ending)
    if isinstance(made, ReportCursor):
        raise Interrupted(
            f"time ended after {made.chunk:,} chunks of run {task.requested_run()}; the next"
            " invocation goes on there"
        )
    return made


def _cancel(ledger: Ledger, record: RunRecord, stopped: str, context: Context) -> None:
    """Have the run's workers stop, and wait for them, so that the report counts what they did."""
    if _is_taken_up(ledger, stopped):
        return

    def cancel(control: Control | None) -> Control | None:
        if _is_resumed(control, stopped):
            return control
        return (control or Control.of(record.payload.options)).cancel()

    ledger.change_control(cancel)
    begun = context.clock()
    # Functions may send before they are seen.
    least, most = begun + UNSEEN_SECONDS + _POLL_SECONDS, begun + WORKER_STOP_SECONDS
    while context.clock() < most and not context.must_end():
        if context.clock() >= least and not any(each.working for each in ledger.workers()):
            return
        context.sleep(_POLL_SECONDS)


def _is_taken_up(ledger: Ledger, stopped: str) -> bool:
    """Return whether another execution works on the run, or `resume` is about to start one."""
    if ledger.find_execution() not in (None, stopped):
        return True
    return _is_resumed(ledger.find_control(), stopped)


def _is_resumed(control: Control | None, stopped: str) -> bool:
    return control is not None and not control.cancelled and control.resumed_after == stopped
