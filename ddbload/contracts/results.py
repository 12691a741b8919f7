"""Every message that crosses an edge: between states, processes, and runs.

Each is a frozen dataclass with `to_json` and a strict `from_json` (unknown fields are
`InvalidPayload`). Field names are whole words and changes are additive, because executions
in flight span deployments. Byte offsets are absolute in the source, lines count from 1.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from ddbload.contracts.json_reader import JsonObjectReader
from ddbload.contracts.messages import IntMessage, Message
from ddbload.contracts.run_record import Cursor

STATUSES = SUCCEEDED, SUCCEEDED_WITH_REJECTS, FAILED, INTERRUPTED, CANCELLED = (
    *("SUCCEEDED", "SUCCEEDED_WITH_REJECTS", "FAILED", "INTERRUPTED", "CANCELLED"),
)
"""The outcomes of a run. A run that is not over has none of them."""
DONE = frozenset((SUCCEEDED, SUCCEEDED_WITH_REJECTS))
"""The outcomes of a run that has nothing left to do."""
MAX_CAUSE = 2000
"""Characters of a cause that are kept: a Fail state takes 32,768, a run's record need not."""


@dataclass(frozen=True, slots=True)
class RowCounts(IntMessage):
    """What became of rows. The law: read = written + rejected + superseded + skipped."""

    NAME = "counts"

    read: int = 0
    written: int = 0
    rejected: int = 0
    superseded: int = 0
    skipped: int = 0

    @property
    def conserved(self) -> bool:
        """Whether the conservation law holds."""
        return self.read == self.written + self.rejected + self.superseded + self.skipped

    @property
    def all_rejected(self) -> bool:
        """At least one row was read, and every row was rejected."""
        return 0 < self.read == self.rejected

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))


@dataclass(frozen=True, slots=True)
class WriteStats(Message):
    """What writing took."""

    requests: int = 0
    throttled: int = 0
    """Requests that DynamoDB refused, or returned items of, for want of capacity."""
    retries: int = 0
    """Requests that carried a row which had been sent before."""
    consumed_wcu: float = 0.0

    def __add__(self, other: WriteStats) -> WriteStats:
        return WriteStats(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    @classmethod
    def from_json(cls, value: object, path: str = "work") -> Self:
        with JsonObjectReader(value, path) as f:
            return cls(
                requests=f.whole("requests"),
                throttled=f.whole("throttled"),
                retries=f.whole("retries"),
                consumed_wcu=f.number("consumed_wcu"),
            )


def _planned(f: JsonObjectReader) -> PlanTotals | None:
    value = f.raw("planned")
    return None if value is None else PlanTotals.from_json(value, "planned")


def _without_null(value: dict[str, Any], *names: str) -> dict[str, Any]:
    """Without fields that earlier versions do not know, where they say nothing."""
    return {key: each for key, each in value.items() if key not in names or each is not None}


def _values(message: RowCounts | WriteStats) -> list[Any]:
    return [getattr(message, each.name) for each in fields(message)]


@dataclass(frozen=True, slots=True)
class PlanTotals(IntMessage):
    """What rows would come to that mode `plan` did not send."""

    NAME = "planned"

    items: int = 0
    item_bytes: int = 0
    write_units: int = 0
    """Of the table, without its indexes."""
    largest_item: int = 0
    """Bytes."""

    def __add__(self, other: PlanTotals) -> PlanTotals:
        return PlanTotals(
            self.items + other.items,
            self.item_bytes + other.item_bytes,
            self.write_units + other.write_units,
            max(self.largest_item, other.largest_item),
        )


@dataclass(frozen=True, slots=True)
class Segment(Message):
    """One invocation's work on a chunk: the rows from `start` up to, not with, `end`."""

    chunk: int
    start: Cursor
    end: Cursor
    proven: bool
    """The chunk's last byte was reached, and it ended a row."""
    rows: RowCounts
    work: WriteStats
    rejects: str | None
    """The ledger's name of this segment's rejects, where there are any."""
    planned: PlanTotals | None = None
    """What the rows would come to, where nothing was sent."""
    identical: int | None = None
    """Skipped rows that found an identical item; None if not known."""

    def to_json(self) -> dict[str, Any]:
        return _without_null(asdict(self), "planned", "identical")

    @classmethod
    def from_json(cls, value: object, path: str = "segment") -> Self:
        with JsonObjectReader(value, path) as f:
            return cls(
                chunk=f.whole("chunk"),
                start=Cursor.from_json(f.required("start"), "start"),
                end=Cursor.from_json(f.required("end"), "end"),
                proven=f.flag("proven"),
                rows=RowCounts.from_json(f.required("rows")),
                work=WriteStats.from_json(f.required("work")),
                rejects=f.optional_text("rejects"),
                planned=_planned(f),
                identical=f.optional_whole("identical"),
            )


@dataclass(frozen=True, slots=True)
class Failure(Message):
    """Why something failed: an error's name and its message, without row data."""

    name: str
    message: str
    chunk: int | None = None

    @classmethod
    def from_json(cls, value: object, path: str = "error") -> Self:
        with JsonObjectReader(value, path) as f:
            return cls(f.text("name"), f.text("message"), f.optional_whole("chunk"))

    @classmethod
    def caught(cls, value: object) -> Self:
        """What the state machine caught. A function's own error stands in its Cause as JSON."""
        with JsonObjectReader(value, "error") as f:
            name, message = f.text("Error", "UnknownError"), str(f.raw("Cause") or "")
        try:
            message = str(json.loads(message)["errorMessage"])
        except (ValueError, LookupError, TypeError):
            pass
        return cls(name, message[:MAX_CAUSE] or "no cause was given")

    def to_end_by(self) -> Self:
        """The same by a name that a Fail state may end by.

        Those that begin with `States.` the Amazon States Language keeps for itself.
        """
        return replace(self, name=self.name.removeprefix("States."))


@dataclass(frozen=True, slots=True)
class ExecutionOutput(Message):
    """What an execution came to: its output, or, by way of `error`, how it fails."""

    run: str
    status: str
    """SUCCEEDED, SUCCEEDED_WITH_REJECTS or FAILED."""
    rows: RowCounts
    chunks: int
    chunks_done: int
    rejects: str | None
    error: Failure | None


@dataclass(frozen=True, slots=True)
class Report(Message):
    """`report.json`: the run, reconciled from its ledger."""

    run: str
    status: str
    """One of `STATUSES`. Reports of earlier versions say SUCCEEDED, rejects or not."""
    rows: RowCounts
    work: WriteStats
    bytes: int
    """Of the source, settled: its header, and the rows that are."""
    size: int
    chunks: int
    chunks_done: int
    seconds: float
    """From the run's record to this report."""
    rejects: str | None
    """Where the rejects lie, where there are any."""
    error: Failure | None
    failures: tuple[Failure, ...] = ()
    """Every chunk that is not imported and left word why."""
    planned: PlanTotals | None = None
    """What the rows would come to, where mode `plan` sent none."""
    identical: int | None = None
    """Skipped rows that found an identical item; None if not known."""

    def to_json(self) -> dict[str, Any]:
        return _without_null(asdict(self), "planned", "identical")

    @classmethod
    def from_json(cls, value: object) -> Self:
        with JsonObjectReader(value, "report") as f:
            return cls(
                run=f.text("run"),
                status=f.text("status"),
                rows=RowCounts.from_json(f.required("rows")),
                work=WriteStats.from_json(f.required("work")),
                bytes=f.whole("bytes"),
                size=f.whole("size"),
                chunks=f.whole("chunks"),
                chunks_done=f.whole("chunks_done"),
                seconds=f.number("seconds"),
                rejects=f.optional_text("rejects"),
                error=Failure.from_json(f.raw("error")) if f.has("error") else f.raw("error"),
                failures=tuple(Failure.from_json(each) for each in f.items("failures")),
                planned=_planned(f),
                identical=f.optional_whole("identical"),
            )


@dataclass(frozen=True, slots=True)
class Heartbeat(Message):
    """`progress.json`: a local run's sign of life, and how far it is."""

    state: str
    """`running`, and at a graceful end `ended`."""
    step: str
    """`spool`, `preflight` or `import`."""
    host: str
    boot: str
    """The host's boot and namespace of process ids; empty where the system does not tell."""
    pid: int
    at: float
    """Seconds since the epoch."""
    every: float
    """Seconds to the next one."""
    rows: RowCounts
    """Settled ones, also those of chunks that are being imported."""
    bytes: int
    size: int

    @classmethod
    def from_json(cls, value: object, path: str = "progress") -> Self:
        with JsonObjectReader(value, path) as f:
            return cls(
                state=f.text("state"),
                step=f.text("step"),
                host=f.text("host"),
                boot=f.raw("boot") or "",
                pid=f.whole("pid"),
                at=f.number("at"),
                every=f.number("every"),
                rows=RowCounts.from_json(f.required("rows")),
                bytes=f.whole("bytes"),
                size=f.whole("size"),
            )
