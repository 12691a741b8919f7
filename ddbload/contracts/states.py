"""Every message that crosses an edge: between states, processes, and runs.

Each is a frozen dataclass with `to_json` and a strict `from_json` (unknown fields are
`InvalidPayload`). Field names are whole words and changes are additive, because executions
in flight span deployments. Byte offsets are absolute in the source, lines count from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ddbload.contracts.chunks import Chunk, PreflightCursor
from ddbload.contracts.json_reader import JsonObjectReader
from ddbload.contracts.messages import Message
from ddbload.contracts.payload import check_run_id
from ddbload.contracts.results import Failure, Segment
from ddbload.contracts.run_record import Cursor


@dataclass(frozen=True, slots=True)
class PreflightTask:
    """What the Preflight state gets: the user's input whole, a run id, and where to go on."""

    input: object
    run: str
    cursor: PreflightCursor | None = None
    execution: str | None = None
    """The execution's ARN, where a state machine runs this."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The state: as `Begin` makes it, and later as Preflight itself left it."""
        with JsonObjectReader(value, "state") as f:
            cursor = f.raw("cursor")
            for name in ("manifest", "chunks", "workers"):
                f.raw(name)
            return cls(
                input=f.raw("input"),
                # Checked where it is used: the name of an execution may be no run's.
                run=f.text("run"),
                cursor=None if cursor is None else PreflightCursor.from_json(cursor, "cursor"),
                execution=f.optional_text("execution"),
            )


@dataclass(frozen=True, slots=True)
class PreflightResult(Message):
    """`cursor` null: the manifest is whole, and lies at `manifest` in the ledger's store."""

    run: str
    cursor: PreflightCursor | None
    manifest: str
    chunks: int
    workers: int


@dataclass(frozen=True, slots=True)
class ImportTask:
    """What the ImportChunk state gets. `stalled`: continuations in a row that settled nothing."""

    run: str
    chunk: Chunk
    cursor: Cursor | None = None
    stalled: int = 0
    error: Failure | None = None
    """What the state machine caught: the step failed for good, and word of it is to be left."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        with JsonObjectReader(value, "state") as f:
            cursor, error = f.raw("cursor"), f.raw("error")
            return cls(
                run=check_run_id(f.text("run")),
                chunk=Chunk.from_json(f.required("chunk")),
                cursor=None if cursor is None else Cursor.from_json(cursor),
                stalled=f.whole("stalled", 0),
                error=None if error is None else Failure.caught(error).to_end_by(),
            )


@dataclass(frozen=True, slots=True)
class ImportResult(Message):
    """`cursor` null: the chunk is imported, to its last byte."""

    run: str
    chunk: Chunk
    cursor: Cursor | None
    stalled: int
    segment: Segment | None
    """The segment that counts: written by this step, or adopted; null when nothing settled."""
    adopted: bool = False
    error: Failure | None = None
    """What the step had failed of; null unless that is all that was to be noted."""

    def to_json(self) -> dict[str, Any]:
        """The next state: an `ImportTask`. The segment stays out of it: the ledger has it."""
        value: dict[str, Any] = {
            "run": self.run,
            "chunk": self.chunk.to_json(),
            "cursor": None if self.cursor is None else self.cursor.to_json(),
            "stalled": self.stalled,
        }
        return value if self.error is None else {**value, "error": self.error.to_json()}


@dataclass(frozen=True, slots=True)
class ReportTask:
    """What the Report state gets: the state as it stands when all chunks are through, or none."""

    run: str
    input: object = None
    """The user's, where Preflight never answered."""
    error: Failure | None = None
    """What the state machine caught."""
    planned: bool = True
    """Whether Preflight came to its end, so that what was caught was not its error."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        with JsonObjectReader(value, "state") as f:
            error = f.raw("error")
            for name in ("execution", "chunks", "workers"):
                f.raw(name)
            caught = Failure.caught(error).to_end_by() if error else None
            planned = f.raw("cursor") is None and f.raw("manifest") is not None
            return cls(f.text("run"), f.raw("input"), caught, planned)

    def asked_for(self) -> str:
        """The run that the user's input names, as far as it can be read; else the execution's."""
        run = self.input.get("run") if isinstance(self.input, Mapping) else None
        named = (run.get("id") or run.get("resume_of")) if isinstance(run, Mapping) else None
        return named if isinstance(named, str) else self.run
