"""Start and resume runs on a deployed stack."""

from __future__ import annotations

import secrets
from typing import Any

from ddbload.contracts.control import NewLimits
from ddbload.contracts.payload import Payload, differing
from ddbload.contracts.run_record import Resume
from ddbload.errors import ExecutionExists, InvalidPayload, RunNotFound, SourceNotFound
from ddbload.runs.run_control import take_up
from ddbload.runs.run_location import Deployed, RunLocation
from ddbload.steps.preflight import resumed_payload
from ddbload.steps.report import is_input_gone, read_run

_MAX_EXECUTION_NAME = 80


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
