"""Messages between the states of the state machine, and the events and metrics of runs."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from ddbload.contracts.chunks import Chunk, ListingCursor, PreflightCursor
from ddbload.contracts.messages import SPARSE, JsonObjectReader, JsonRule, Message
from ddbload.contracts.options import Options
from ddbload.contracts.payload import RUN_ID, Payload, check_run_id, is_run_id
from ddbload.contracts.results import FAILED, ExecutionAttempt, Failure, Segment
from ddbload.contracts.row_counts import OUTCOMES, RowCounts
from ddbload.contracts.run_record import LoadedBefore


def _read_run(f: JsonObjectReader) -> str:
    return check_run_id(f.text("run"))


def _read_failed(f: JsonObjectReader) -> Failure | None:
    """Read the error of a state: as the state machine caught it, or as a function returned it."""
    error = f.raw("error")
    if isinstance(error, Mapping) and "name" in error:
        return Failure.from_json(error, f.path("error"))
    return None if error is None else Failure.caught(error)


def _read_is_cut(f: JsonObjectReader) -> bool:
    # Both are read, so that both are known fields.
    cursor, manifest = f.raw("cursor"), f.raw("manifest")
    return cursor is None and manifest is not None


def _read_preflight_cursor(f: JsonObjectReader) -> PreflightCursor | ListingCursor | None:
    value = f.raw("cursor")
    if value is None:
        return None
    is_listing = isinstance(value, Mapping) and "listing" in value
    kind = ListingCursor if is_listing else PreflightCursor
    return kind.from_json(value, f.path("cursor"))


class PreflightTask(Message):
    """Input of the Preflight state: as `Begin` makes it, or as Preflight left it to continue."""

    PATH = "state"

    input: object
    """The execution's input, unchecked."""
    run: str
    """The execution's name. It need not be a valid run id: the input may name another."""
    cursor: Annotated[
        PreflightCursor | ListingCursor | None, JsonRule(read=_read_preflight_cursor)
    ] = None
    """Position at which an earlier invocation stopped, in the listing of the source's objects or
    in its rows."""
    execution: str | None = None
    """ARN of the execution; None outside a state machine."""
    wait: Annotated[int | None, SPARSE] = None
    """Seconds that the run waits until it looks again whether runs of older uploads have ended."""

    def check_rules(self, f: JsonObjectReader) -> None:
        """Allow the fields that Preflight added to the state."""
        for name in ("manifest", "chunks", "workers"):
            f.raw(name)


class PreflightRequest(Message):
    """Payload of the function preflight.

    The state is kept when an execution is redriven, so the count stands beside it.
    """

    PATH = "payload"

    state: PreflightTask
    redrives: int
    """Number of times that the execution was redriven."""

    @property
    def attempt(self) -> ExecutionAttempt | None:
        """The attempt that the function works on; None in a state without an execution."""
        return ExecutionAttempt.of(self.state.execution, self.redrives)


class PreflightResult(Message):
    """Output of the Preflight state. Without a `cursor` the manifest is complete.

    The output of a run that Preflight has also imported is its `ExecutionOutput`.
    """

    run: str
    cursor: PreflightCursor | None
    manifest: str
    """Name of the manifest in the ledger's store."""
    chunks: int
    workers: int
    execution: str | None = None
    """ARN of the execution, for Report."""


class ImportTask(Message):
    """Input of the ImportChunk state: chunks that one worker imports side by side.

    The ledger's segments show how far each chunk is imported.
    """

    PATH = "state"

    run: Annotated[str, JsonRule(read=_read_run)]
    chunks: tuple[Chunk, ...]
    stalled: int = 0
    """Number of continuations in a row that settled no row of any chunk."""
    error: Annotated[Failure | None, JsonRule(read=_read_failed, sparse=True)] = None
    """Error that ended the step for good, to be recorded in the ledger."""

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` without chunks."""
        if not self.chunks:
            raise f.wrong("chunks", [], "one chunk or more")


class ImportResult(Message):
    """Output of the ImportChunk state. Without `chunks` nothing is left to import."""

    run: str
    chunks: tuple[Chunk, ...]
    """Chunks that are not imported to their end, and have not failed."""
    stalled: int
    segments: tuple[Segment, ...]
    """Segments that count, one for each chunk of which rows were settled."""
    failed: tuple[Failure, ...] = ()
    """Errors of chunks that failed while others went on. The ledger has them."""
    error: Failure | None = None
    """Recorded error of the step; None if the step imported rows."""

    def to_json(self) -> dict[str, Any]:
        """Return the next `ImportTask`. It leaves out what the ledger has."""
        return Message.to_json(ImportTask(self.run, self.chunks, self.stalled, self.error))


class ReportCursor(Message):
    """Part of a report that an invocation has written: the sums over the first chunks."""

    name: Annotated[str, JsonRule(pattern=RUN_ID, wanted="the name of a part")]
    """Name of the parts, chosen by the first invocation: segments of later attempts are in none."""
    chunk: int
    """Number of the next chunk to add."""


def requested_run(given: object, name: str) -> str:
    """Return the run id in an execution's unchecked input, if it is one; otherwise `name`."""
    run = given.get("run") if isinstance(given, Mapping) else None
    named = (run.get("id") or run.get("resume_of")) if isinstance(run, Mapping) else None
    return named if isinstance(named, str) and is_run_id(named) else name


class ReportTask(Message):
    """Input of the Report state: the state after all chunks, or after a caught error."""

    PATH = "state"

    run: str
    input: object = None
    """The execution's input, where Preflight failed."""
    error: Annotated[Failure | None, JsonRule(read=_read_failed)] = None
    """Error that the state machine caught, or that the function preflight returned."""
    planned: Annotated[bool, JsonRule(read=_read_is_cut)] = True
    """True if Preflight finished, so that a caught error came from a later state."""
    execution: str | None = None
    """ARN of the execution; None outside a state machine."""
    report: ReportCursor | None = None
    """Where an earlier invocation stopped; None for the first."""

    def check_rules(self, f: JsonObjectReader) -> None:
        """Allow the fields that other states read."""
        for name in ("chunks", "workers", "wait"):
            f.raw(name)

    def requested_run(self) -> str:
        """Return the run id in the input if it is one, otherwise the execution's name."""
        return requested_run(self.input, self.run)


class ReportRequest(Message):
    """Payload of the function report, in the form of a `PreflightRequest`."""

    PATH = "payload"

    state: ReportTask
    redrives: int
    """Number of times that the execution was redriven."""

    @property
    def attempt(self) -> ExecutionAttempt | None:
        """The attempt that the function reports on; None in a state without an execution."""
        return ExecutionAttempt.of(self.state.execution, self.redrives)


# Results of functions that ended by an error which a retry would meet again.


def failed_preflight(request: Mapping[str, Any], failure: Failure) -> dict[str, Any]:
    """Return the state that Report gets: that of Preflight, with the error."""
    state = request.get("state")
    return {**(state if isinstance(state, Mapping) else {}), "error": failure.to_json()}


def failed_import(task: Mapping[str, Any], failure: Failure) -> dict[str, Any]:
    """Return the result of chunks that failed."""
    kept = {name: task[name] for name in ("run", "chunks") if name in task}
    return {**kept, "error": failure.to_json()}


def failed_report(_: Mapping[str, Any], failure: Failure) -> dict[str, Any]:
    """Return the output of an execution whose run could not be reported."""
    return {"status": FAILED, "error": failure.to_json()}


class RunRequest(Message):
    """`request.json`: the input of a run, before its source and table were looked at."""

    run: str
    payload: Payload
    """The payload as it was given: no format detected, no version pinned."""
    created: float
    """Seconds since the epoch."""
    folder: str | None = None
    """Working directory, which local paths of the source are relative to; None on AWS."""
    execution: Annotated[str | None, SPARSE] = None
    """ARN of the execution that asked; None for a command."""
    failure: Failure | None = None
    """Error that ended the run before it had a record."""

    def again(self, options: Mapping[str, Any]) -> Payload:
        """Make the payload that starts the run over, with options that replace those asked for."""
        payload = self.payload
        return replace(
            payload,
            run=self.run,
            source=payload.source.beside(self.join),
            options=Options.from_json({**payload.options.to_json(), **options}),
        )

    def join(self, path: str) -> str:
        """Return the absolute path of a local file that the source names."""
        return path if path == "-" else posixpath.join(self.folder or "", path)


EVENT_SOURCE = "ddbload"
"""Source of ddbload's events."""
RUN_COMPLETED = "ddbload.run.completed"
"""Detail type of `RunCompleted`."""

# Names of the CloudWatch metrics that the functions emit, and alarms and dashboards read.
METRICS_NAMESPACE = "ddbload"
SERVICE_DIMENSION = "service"
"""The one dimension of each metric: the stack's name."""
ROW_METRICS = tuple(f"Rows{name.capitalize()}" for name in ("read", *OUTCOMES))
"""Settled rows, by `RowCounts`' fields."""
ROWS_READ, ROWS_REJECTED = "RowsRead", "RowsRejected"
THROTTLED_REQUESTS = "ThrottledRequests"
CONSUMED_WRITE_UNITS = "ConsumedWriteUnits"
STALLED_INVOCATIONS = "StalledInvocations"
"""Invocations of ImportChunk that settled no row."""
RUNS_SUCCEEDED = "RunsSucceeded"
RUNS_SUCCEEDED_WITH_REJECTS = "RunsSucceededWithRejects"
RUNS_FAILED = "RunsFailed"
RUNS_CANCELLED = "RunsCancelled"
RUN_METRICS = (RUNS_SUCCEEDED, RUNS_SUCCEEDED_WITH_REJECTS, RUNS_FAILED, RUNS_CANCELLED)


class RunCompleted(Message):
    """Detail of the event `ddbload.run.completed`. It has names and counts, and no row data."""

    run: str
    status: str
    """One of `results.STATUSES`."""
    table: str | None
    """None if the run never began; so is `source`."""
    source: str | None
    """Location of the source, such as s3://bucket/key."""
    rows: RowCounts
    uncertain: int
    """Written rows whose item may have been there before: an attempt was killed, or a request got
    no answer."""
    chunks: int
    chunks_done: int
    rejects: str | None
    """Folder of the rejects in the ledger; None without rejects."""
    error: str | None
    """Name of the error; its message may name a column, and is in the report."""
    execution: str | None
    """ARN of the execution. With `redrives` it distinguishes the attempts of a run."""
    redrives: int
    """Number of times that the execution was redriven before."""
    loaded_before: Annotated[LoadedBefore | None, SPARSE] = None
    """Objects that the run left out, because the table had loaded them."""
    skipped_lines: Annotated[int, SPARSE] = 0
    """Lines before the header of each object that were skipped, as detected or given."""


def stopped_execution(event: object) -> tuple[str, int | None]:
    """Read Step Functions' event "Execution Status Change": the ARN, and the number of redrives.

    The number is that before the execution ended; None if unknown. Unknown fields are allowed: the
    event belongs to AWS. Raises `InvalidPayload`.
    """
    detail = JsonObjectReader(event, "event").nested("detail")
    return detail.text("executionArn"), detail.optional("redriveCount", JsonObjectReader.whole)
