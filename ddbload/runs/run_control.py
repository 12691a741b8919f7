"""Start and resume runs, cancel them, change their limits, and take over from stopped workers."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ddbload.aws.table_description import table_write_capacity
from ddbload.context import Context
from ddbload.contracts.control import (
    ACTIVE,
    IDLE,
    UNLIMITED,
    UNSEEN_SECONDS,
    Control,
    NewLimits,
    SeenWorker,
    silence_limit,
)
from ddbload.contracts.options import parse_percent
from ddbload.contracts.payload import Payload, differing
from ddbload.contracts.results import Failure, Report
from ddbload.contracts.run_record import Resume, RunRecord
from ddbload.errors import (
    AccessDenied,
    Cancelled,
    DdbloadError,
    ExecutionExists,
    InvalidPayload,
    InvalidUsage,
    RunNotFound,
    RunUnderWay,
    SourceNotFound,
)
from ddbload.ledger.ledger import Ledger
from ddbload.records import Record
from ddbload.runs.local_runs import live_heartbeat
from ddbload.runs.run_location import Deployed, RunLocation
from ddbload.steps.executions import Execution, Executions
from ddbload.steps.preflight import resumed_payload
from ddbload.steps.report import finished_report, is_input_gone, read_run, write_report

STOP_POLL_SECONDS = 0.5
"""Seconds between checks of workers that should stop."""
_AS_THEY_ARE = NewLimits()
_MAX_EXECUTION_NAME = 80
_UNKNOWN_LIMITS = Control().cancel()


class Cancellation(Record):
    """Result of cancelling a run."""

    report: Report | None
    """Report of the run; None if the run never began."""
    already_done: bool = False
    """True if the run was done before, so that there was nothing to cancel."""
    silent: tuple[str, ...] = ()
    """Description of each worker or process that has not confirmed that it stopped."""
    stop_refused: str | None = None
    """Error of StopExecution, if it failed.

    The execution still ends by itself, because its functions read the cancellation.
    """


def cancel_run(
    run: str,
    context: Context,
    *,
    executions: Executions | None = None,
    execution: Execution | None = None,
) -> Cancellation:
    """Cancel a run, and wait until its workers have stopped, at most three of their periods.

    `execution`: last execution of a deployed run. Raises errors of the ledger.
    """
    ledger = context.ledger(run)
    record = ledger.find_record()
    if record is not None and (done := finished_report(run, context)) is not None:
        return Cancellation(done, already_done=True)
    if record is None and ledger.find_request() is not None:
        seen = read_run(run, context, lambda _: execution)
        if seen.state.error is not None:
            return Cancellation(seen.report, already_done=True)
    first = _first_control(record, execution)
    cancelled = ledger.change_control(lambda known: (known or first or Control()).cancel())
    stop_refused = None
    if executions is not None and execution is not None and execution.running:
        error = Cancelled.of(run)
        try:
            executions.stop(execution.arn, error.name, error.message)
        except AccessDenied as refused:
            stop_refused = refused.message
    silent = _wait_until_stopped(ledger, context, functions=executions is not None)
    process = _process_still_there(run, context) if executions is None else None
    if record is None:
        record = ledger.find_record()
    if record is None:
        # There is nothing to resume, and the id may be used again. A process that still works on
        # the run must find the cancellation.
        if process is None and stop_refused is None:
            ledger.change_control(lambda known: None if known == cancelled else known)
            ledger.keep_failure(Failure.of(Cancelled.of(run), at=context.now()))
    elif first is None and cancelled == _UNKNOWN_LIMITS:
        # The limits of the run are known only now.
        limits = Control.of(record.payload.options).cancel()
        ledger.change_control(lambda known: limits if known == cancelled else known)
    report = None if record is None else write_report(run, context)
    named = [*silent, *([] if process is None else [process])]
    return Cancellation(report, silent=tuple(named), stop_refused=stop_refused)


def change_limits(run: str, context: Context, limits: NewLimits) -> tuple[Control, Control]:
    """Replace limits of a run, which its workers obey within seconds; return old and new ones.

    Raises `InvalidUsage` for a run that is done, `RunNotFound` before the run has a record, and
    AWS's errors.
    """
    ledger = context.ledger(run)
    record = ledger.find_record()
    if record is None:
        state = read_run(run, context).state
        if not state.running:
            raise InvalidUsage(
                f"run {run} has ended ({state.status}) before it began to write: there is nothing"
                f" to limit; ddbload resume {run} starts it over, and takes limits"
            )
        raise RunNotFound(
            f"run {run} is still being checked, and has no limits yet; repeat the command in a few"
            " seconds"
        )
    if (done := finished_report(run, context)) is not None:
        raise InvalidUsage(f"run {run} has ended ({done.status}): there is nothing to limit")
    if limits.max_cost not in (None, UNLIMITED) and (
        record.write_price is None or record.write_price.units(1.0) is None
    ):
        raise InvalidUsage(
            f"--max-cost limits the price of write units, and those of run {run} have none: its"
            " table has provisioned capacity"
        )
    # Describe the table first, to keep the time between reading and writing the control short.
    given = _resolved_limits(record, context, limits)
    before = after = Control.of(record.payload.options)

    def change(known: Control | None) -> Control:
        nonlocal before, after
        before = known or Control.of(record.payload.options)
        # A run that was cancelled meanwhile stays cancelled.
        after = given(before)
        return after

    ledger.change_control(change)
    return before, after


def take_up(
    run: str, context: Context, *, limits: NewLimits = _AS_THEY_ARE, functions: bool = False
) -> None:
    """Ensure that a run's earlier workers have stopped, and let new ones start.

    Changed limits stay in force unless `limits` replaces them. `functions`: the workers are Lambda
    functions, which continue after their execution is stopped. Raises `RunUnderWay` if workers do
    not stop, and errors of the ledger.
    """
    ledger = context.ledger(run)
    control = seen = ledger.find_control()
    record = ledger.find_record()
    if control is None and (record is None or not functions):
        # Worker processes end with their parent, whose heartbeat was checked.
        return
    if control is None:
        assert record is not None  # noqa: S101 - the case above
        control = Control.of(record.payload.options)
    # A function that is not visible yet has no limits, and would share those of the new attempt.
    if any(each.working for each in ledger.workers()):
        if functions and not control.cancelled:
            first = control
            seen = ledger.change_control(lambda known: (known or first).cancel())
        if functions or control.cancelled:
            _require_stopped(ledger, context)
    given = None if record is None else _resolved_limits(record, context, limits)
    resumed_after = ledger.find_execution()

    def change(known: Control | None) -> Control | None:
        if known is not None and known.cancelled and (seen is None or not seen.cancelled):
            raise Cancelled.of(run)
        if given is None:
            # The run starts over, with the limits of its payload.
            return None
        # Until the new execution has begun, only this distinguishes a resumed run from one with
        # changed limits.
        limited = given(known or control)
        return replace(limited, state=ACTIVE, resumed_after=resumed_after)

    ledger.change_control(change)


def _first_control(record: RunRecord | None, execution: Execution | None) -> Control | None:
    """Return the limits that a run began with; None while they are unknown."""
    if record is not None:
        return Control.of(record.payload.options)
    if execution is None:
        return None
    try:
        options = Payload.from_json(execution.input).options
    except DdbloadError:
        return None
    # A percentage is resolved once preflight has described the table.
    return None if options.max_wcu_percent else Control.of(options)


def _resolved_limits(
    record: RunRecord, context: Context, limits: NewLimits
) -> Callable[[Control], Control]:
    """Return a function that puts limits into a control.

    A percentage is first converted to write units by the table's capacity.
    """
    new: dict[str, Any] = {}
    if limits.max_wcu is not None:
        new["max_wcu"] = _units_a_second(limits.max_wcu, record, context)
    if limits.max_cost is not None:
        new["max_cost"] = None if limits.max_cost == UNLIMITED else float(limits.max_cost)
    return lambda control: replace(control, **new)


def _units_a_second(max_wcu: float | str, record: RunRecord, context: Context) -> float | None:
    if max_wcu == UNLIMITED:
        return None
    percent = parse_percent(max_wcu) if isinstance(max_wcu, str) else None
    if percent is None:
        return float(max_wcu)
    capacity = table_write_capacity(
        context.clients.dynamodb, record.table.name, retry_policy=context.retry_policy
    )
    return capacity.share(percent)


def _wait_until_stopped(ledger: Ledger, context: Context, *, functions: bool) -> list[str]:
    """Wait until no worker sends; return those that did not confirm that they stopped."""
    # Functions may send requests before their progress is visible.
    least = UNSEEN_SECONDS + STOP_POLL_SECONDS if functions else 0.0
    seen, at_work = _wait(ledger, context, least)
    return [
        f"worker {each.progress.worker}: "
        + (
            f"wrote its progress {each.age:.0f} s ago, and has not stopped yet"
            if each.working
            else f"silent for {each.age:.0f} s; it was killed or has lost the ledger, and sends"
            " nothing now"
        )
        for each in seen
        if each.working or (each.progress.worker in at_work and each.progress.state != IDLE)
    ]


def _require_stopped(ledger: Ledger, context: Context) -> None:
    working = [each for each in _wait(ledger, context)[0] if each.working]
    if working:
        raise RunUnderWay(
            f"{len(working)} workers of run {ledger.run} were asked to stop and still work,"
            f" {working[0].progress.worker} for example: repeat the command when their requests"
            " are answered"
        )


def _wait(
    ledger: Ledger, context: Context, least: float = 0.0
) -> tuple[list[SeenWorker], set[str]]:
    """Wait until no worker is active, or until silent ones count as dead.

    Returns all workers, and the names of those that were active meanwhile. `least`: minimum seconds
    to wait if no worker is active.
    """
    begun, at_work = context.clock(), set[str]()
    while True:
        seconds, seen = context.clock() - begun, ledger.workers()
        at_work |= {each.progress.worker for each in seen if each.working}
        limit = silence_limit(ledger.progress_seconds, [each.age for each in seen])
        if seconds >= least and not any(each.working for each in seen):
            return seen, at_work
        if seconds > least + limit + STOP_POLL_SECONDS:
            return seen, at_work
        context.sleep(STOP_POLL_SECONDS)


def _process_still_there(run: str, context: Context) -> str | None:
    """Wait until the process that runs an import has ended; describe it if it does not end."""
    begun, found = context.clock(), live_heartbeat(run, context)
    while found is not None:
        if context.clock() - begun > 3 * found.every:
            return f"process {found.pid} on {found.host}: has not ended yet"
        context.sleep(STOP_POLL_SECONDS)
        found = live_heartbeat(run, context)
    return None


# Starting and resuming.


def start_run(run: str, payload: dict[str, Any], there: Deployed) -> str:
    """Start the first execution of a run, or the next one of a cancelled run; return its ARN.

    Raises `ExecutionExists` for a run that was already started.
    """
    control = there.context.ledger(run).find_control()
    if control is None or not control.cancelled:
        try:
            return there.executions.start(run, payload)
        except ExecutionExists:
            if not _ended_before_it_began(run, there):
                raise
    return start_again(run, payload, there, NewLimits.of(Payload.from_json(payload).options))


def _ended_before_it_began(run: str, there: Deployed) -> bool:
    """Return whether the run's execution ended before it wrote the run's record."""
    if there.context.ledger(run).find_record() is not None:
        return False
    last = there.last_execution(run)
    return last is not None and not last.running


def start_again(run: str, payload: dict[str, Any], there: Deployed, limits: NewLimits) -> str:
    """Start another execution of a run once its earlier functions have stopped; return its ARN."""
    take_up(run, there.context, limits=limits, functions=True)
    suffix = f"-r{secrets.token_hex(4)}"
    name = run[: _MAX_EXECUTION_NAME - len(suffix)] + suffix
    return there.executions.start(name, payload)


def loads_the_same(run: str, payload: dict[str, Any], there: Deployed) -> bool:
    """Return whether the run with this id loads the same source and table with the same options."""
    ledger = there.context.ledger(run)
    record, request = ledger.find_record(), ledger.find_request()
    if record is None:
        return False
    earlier, asked = record.payload, Payload.from_json(payload)
    if (earlier.source.location, earlier.table) != (asked.source.location, asked.table):
        return False
    return not differing(asked, earlier, *([] if request is None else [request.payload]))


def resume_here(run: str, options: dict[str, Any], there: RunLocation) -> Payload:
    """Return the payload that resumes a run on this machine.

    Raises `RunNotFound`, and `SourceNotFound` if its input cannot be read again.
    """
    seen = read_run(run, there.context, segments=False)
    if seen.record is None and is_input_gone(seen):
        raise SourceNotFound(
            f"run {run} read standard input, a pipe, an open file, rows or mended rejects, and is"
            " not resumable: its input is gone; import it anew, under another run id"
        )
    return resumed_payload(Resume(run, options), there.context.ledger(run))


def resume_payload(run: str, options: dict[str, Any], there: Deployed) -> dict[str, Any]:
    """Return the input of an execution that resumes a run.

    Raises `ExecutionExists` while an execution works on the run, and `RunNotFound`.
    """
    last = there.last_execution(run)
    if last is not None and last.running:
        raise ExecutionExists(
            f"run {run} is still running: ddbload status {run}; or stop it first: ddbload cancel"
            f" {run}"
        )
    ledger = there.context.ledger(run)
    if ledger.find_record() is not None or ledger.find_request() is not None:
        return {"run": {"resume_of": run}, "options": options}
    if last is None or not isinstance(last.input, dict):
        raise RunNotFound(f"there is no run {run} in stack {there.stack.name}")
    # Its input was invalid: start over with it, in case a new option corrects it.
    given = last.input
    named, limits = given.get("run") or {}, given.get("options") or {}
    if not isinstance(named, dict) or not isinstance(limits, dict):
        raise InvalidPayload(
            f"execution {run} cannot be resumed: 'run' and 'options' of its payload must be"
            " objects; start a new run"
        )
    first = named.get("id") or named.get("resume_of") or run
    if first != run:
        raise RunNotFound(f"execution {run} was started for run {first}: ddbload resume {first}")
    return {**given, "run": {**named, "id": run}, "options": {**limits, **options}}
