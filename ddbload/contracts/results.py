"""Messages about results: segments with their times, failures, reports and heartbeats."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Self

from ddbload.contracts.messages import SPARSE, JsonObjectReader, JsonRule, Message
from ddbload.contracts.row_counts import LAST_TIME, RowCounts, SegmentTimes, WriteStats
from ddbload.contracts.run_record import Cursor, LoadedBefore, WritePrice
from ddbload.dynamodb.modes import PUT, mode_of
from ddbload.errors import NAMES_OF_FILE, DdbloadError, visible

STATUSES = (
    SUCCEEDED, SUCCEEDED_WITH_REJECTS, ALREADY_LOADED, FAILED, INTERRUPTED, CANCELLED,
) = (
    *("SUCCEEDED", "SUCCEEDED_WITH_REJECTS", "ALREADY_LOADED", "FAILED", "INTERRUPTED"),
    "CANCELLED",
)  # fmt: skip
"""Outcomes of a finished run."""
DONE = frozenset((SUCCEEDED, SUCCEEDED_WITH_REJECTS, ALREADY_LOADED))
"""Outcomes of a run that has nothing left to do."""
MAX_ERROR_NAME = 256
"""Characters of an error's name."""
MAX_CAUSE = 2000
"""Characters kept of an error message. A Fail state would take 32,768."""


REFUSED_BY_DYNAMODB = "refused_by_dynamodb"
"""Cause of rejects whose detail is DynamoDB's message, which may quote the item."""
TRANSFORM = "transform"
"""Cause of rejects of a Python function, whose detail is the function's."""
LINES_BEFORE = "lines_before"
"""Field of a stored reject whose line is not known: line ends from the chunk's start to the row."""


def repeated_keys(rows: int) -> str:
    """Say that keys came more than once, and what follows from it."""
    has = "1 row has" if rows == 1 else f"{rows:,} rows have"
    return (
        f"{has} the key of an earlier row: keys came more than once, and which value stays is"
        " undefined"
    )


def number_reject(line: bytes, first_line: int | None) -> bytes:
    """Give a stored reject its line in the source, if it has none.

    `first_line`: that of its chunk, if it is known by now. A damaged line is returned as it is.
    """
    if LINES_BEFORE.encode() not in line:
        return line
    try:
        reject = dict(json.loads(line))
        if reject["line"] is None:
            before = int(reject.pop(LINES_BEFORE))
            reject["line"] = None if first_line is None else first_line + before
    except (ValueError, TypeError, LookupError, RecursionError):
        return line
    return json.dumps(reject).encode() + b"\n"


def _read_causes(f: JsonObjectReader) -> dict[str, int] | None:
    if f.raw("causes") is None:
        return None
    with f.nested("causes") as counts:
        return {cause: counts.whole(cause, least=1) for cause in f.mapping("causes")}


class Segment(Message):
    """Result of one invocation on a chunk: the rows from `start` to `end`, exclusive."""

    chunk: int
    start: Cursor
    end: Cursor
    proven: bool
    """True if the chunk's last byte was reached and ended a row."""
    rows: RowCounts
    work: WriteStats
    rejects: str | None
    """Name of the segment's rejects in the ledger; None without rejects."""
    identical: Annotated[int | None, SPARSE] = None
    """Skipped rows that found an identical item; None if not known."""
    uncertain: int = 0
    """Written rows whose item may have been there before: a killed attempt, or a request that was
    not answered, may have written it."""
    times: Annotated[SegmentTimes | None, SPARSE] = None
    """Beginning, end and progress of the invocation; None if they were not measured."""
    causes: Annotated[Mapping[str, int] | None, JsonRule(read=_read_causes, sparse=True)] = None
    """Rejected rows by cause; None without rejects."""
    padding: Annotated[int | None, JsonRule(least=1, sparse=True)] = None
    """Bytes of the range that no object has; None without objects that preflight did not read."""
    repeated: Annotated[int, SPARSE] = 0
    """Rows in modes `put` and `update` whose key an earlier row had that was in memory at that
    time, or had a request without an answer: which value stays is undefined."""

    @property
    def bytes(self) -> int:
        """Bytes that were read and settled."""
        return self.end.byte - self.start.byte - (self.padding or 0)


def _read_options(f: JsonObjectReader) -> tuple[Mapping[str, Any], ...]:
    return tuple(f.items("options")) if f.has("options") else ()


_OPTIONS = JsonRule(sparse=True, read=_read_options)


class Failure(Message):
    """Name and message of an error. The message never holds row data."""

    name: str
    message: str
    chunk: int | None = None
    at: Annotated[float | None, SPARSE] = None
    """Seconds since the epoch; None if not known."""
    options: Annotated[tuple[Mapping[str, Any], ...], _OPTIONS] = ()
    """Options that may help, as in `DdbloadError`."""

    def shown(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        chunk = {} if self.chunk is None else {"chunk": self.chunk}
        options = {"options": list(self.options)} if self.options else {}
        return {"name": self.name, "message": self.message, **chunk, **options}

    def to_json(self) -> dict[str, Any]:
        """Return the message for ledgers and events: without rows of the source.

        A row taken for names may be data, so that its names are left out too.
        """
        kept = tuple(_without_rows(each) if "rows" in each else each for each in self.options)
        return Message.to_json(replace(self, options=kept))

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` for a time beyond all calendars."""
        if self.at is not None and self.at > LAST_TIME:
            raise f.wrong("at", self.at, "a time")

    @classmethod
    def of(cls, error: DdbloadError, *, chunk: int | None = None, at: float | None = None) -> Self:
        """Keep the name and the message of an error, which never holds row data."""
        return cls(error.name, error.message, chunk, at, error.options)

    @classmethod
    def caught(cls, value: object) -> Self:
        """Read the error that the state machine caught; the Cause of a function is JSON."""
        with JsonObjectReader(value, "error") as f:
            name = str(f.raw("Error") or "UnknownError")
            message = str(f.raw("Cause") or "")
        try:
            message = str(json.loads(message)["errorMessage"])
        except (ValueError, LookupError, TypeError, RecursionError):
            pass
        return cls(
            visible(name, MAX_ERROR_NAME), visible(message, MAX_CAUSE) or "no cause was given"
        )


def _without_rows(option: Mapping[str, Any]) -> dict[str, Any]:
    words = list(option["options"])
    if "--columns" in words:
        words[words.index("--columns") + 1] = NAMES_OF_FILE
    return {**option, "options": words, "names": None, "rows": []}


class ExecutionOutput(Message):
    """Output of an execution; with an `error`, the execution ends in the Fail state."""

    run: str
    status: str
    """One of `DONE`, FAILED or CANCELLED."""
    rows: RowCounts
    chunks: int
    chunks_done: int
    rejects: str | None
    error: Failure | None
    uncertain: int = 0
    """Written rows whose item may have been there before."""
    loaded_before: Annotated[LoadedBefore | None, SPARSE] = None
    """Objects that the run left out, because the table had loaded them."""

    @classmethod
    def of(cls, report: Report, status: str, error: Failure | None) -> Self:
        """Return the output of an execution of a run with this report."""
        return cls(
            *(report.run, status, report.rows, report.chunks, report.chunks_done, report.rejects),
            *(error, report.uncertain, report.loaded_before),
        )

    def to_json(self) -> dict[str, Any]:
        result = Message.to_json(self)
        if self.error is not None:
            # A Fail state's name: the Amazon States Language reserves those with `States.`.
            result["error"]["name"] = self.error.name.removeprefix("States.")
        return result


class ExecutionAttempt(Message):
    """One attempt of an execution, which keeps its ARN when it is redriven."""

    execution: str
    """ARN of the execution."""
    redrives: int = 0

    @classmethod
    def of(cls, execution: str | None, redrives: int) -> Self | None:
        """Return the attempt of an execution; None without one."""
        return None if execution is None else cls(execution, redrives)


class Report(Message):
    """`report.json`: the result of a run, added up from its ledger."""

    run: str
    status: str
    """One of `STATUSES`."""
    rows: RowCounts = field(default_factory=RowCounts)
    work: WriteStats = field(default_factory=WriteStats)
    bytes: int = 0
    """Bytes of the source that are done: the header and all settled rows."""
    size: int = 0
    chunks: int = 0
    chunks_done: int = 0
    seconds: float = 0.0
    """Seconds from the creation of the run's record to this report."""
    rejects: str | None = None
    """Folder or S3 prefix of the rejects; None without rejects."""
    error: Failure | None = None
    failures: tuple[Failure, ...] = ()
    """Error of each chunk that failed and recorded why."""
    identical: Annotated[int | None, SPARSE] = None
    """Skipped rows that found an identical item; None if not known."""
    uncertain: int = 0
    """Written rows whose item may have been there before."""
    mode: str = PUT.name
    """Write mode of the run."""
    causes: Annotated[Mapping[str, int] | None, JsonRule(read=_read_causes, sparse=True)] = None
    """Rejected rows by cause; None without rejects."""
    write_price: Annotated[WritePrice | None, SPARSE] = None
    """Price of the run's write units."""
    attempt: Annotated[ExecutionAttempt | None, SPARSE] = None
    """Attempt of an execution that wrote the report; None if a command did."""
    repeated: Annotated[int, SPARSE] = 0
    """Rows whose key came before, as far as known; see `Segment.repeated`."""
    loaded_before: Annotated[LoadedBefore | None, SPARSE] = None
    """Objects that the run left out, because the table had loaded them."""
    skipped_lines: Annotated[int, SPARSE] = 0
    """Lines before the header of each object that were skipped, as detected or given."""
    look_like_numbers: Annotated[tuple[str, ...], SPARSE] = ()
    """Attributes that look like numbers and were written as strings."""

    @property
    def warning(self) -> str | None:
        """Reason to doubt a run that has succeeded; None without one."""
        return None if self.status == ALREADY_LOADED else self.rows.warning

    @property
    def dollars(self) -> float | None:
        """Price of the consumed write units, those of indexes included; None if unknown."""
        price = self.write_price
        return None if price is None else price.dollars(self.work.consumed_wcu)

    @property
    def written_text(self) -> str:
        """Count of the written rows in words: `9 deleted`."""
        return mode_of(self.mode).written_text(self.rows.written, self.uncertain)

    def check_rules(self, f: JsonObjectReader) -> None:
        """Allow `dollars`, which follow from the other fields."""
        f.raw("dollars")

    def to_json(self) -> dict[str, Any]:
        value = Message.to_json(self)
        if self.dollars is not None:
            value["dollars"] = round(self.dollars, 6)
        return value


class Heartbeat(Message):
    """`progress.json`: proof that a local run is alive, and its progress."""

    state: str
    """`running`, or `ended` after an orderly end."""
    step: str
    """`spool`, `preflight` or `import`."""
    host: str
    boot: Annotated[str, JsonRule(read=lambda f: f.text("boot") if f.raw("boot") else "")]
    """Identity of the host's boot and process id namespace; empty if unknown."""
    pid: int
    at: float
    """Seconds since the epoch."""
    every: float
    """Seconds until the next heartbeat."""
    rows: RowCounts
    """Settled rows, those of unfinished chunks included."""
    bytes: int
    size: int
