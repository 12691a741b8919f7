"""Every message that crosses an edge: between states, processes, and runs.

Each is a frozen dataclass with `to_json` and a strict `from_json` (unknown fields are
`InvalidPayload`). Field names are whole words and changes are additive, because executions
in flight span deployments. Byte offsets are absolute in the source, lines count from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ddbload.contracts.json_reader import JsonObjectReader
from ddbload.contracts.messages import IntMessage, Message


@dataclass(frozen=True, slots=True)
class ObjectSlice(Message):
    """An object, or the whole source, as a chunk reads it."""

    pinned: Mapping[str, Any]
    base: int
    """Where its first row begins, among the rows of all objects."""
    skip: int
    """Bytes of it before that row: byte order mark, skipped lines, header."""
    line: int
    """That row's line."""
    size: int
    """Bytes of its rows."""

    @property
    def end(self) -> int:
        """Where its rows end, among the rows of all objects."""
        return self.base + self.size

    @classmethod
    def from_json(cls, value: object, path: str = "part") -> Self:
        with JsonObjectReader(value, path) as f:
            return cls(
                pinned=f.mapping("pinned"),
                base=f.whole("base"),
                skip=f.whole("skip"),
                line=f.whole("line", least=1),
                size=f.whole("size"),
            )


@dataclass(frozen=True, slots=True)
class Chunk(IntMessage):
    """A byte range of whole rows: `start` inclusive, `end` exclusive."""

    NAME = "chunk"

    chunk: int
    start: int
    end: int
    first_line: int


@dataclass(frozen=True, slots=True)
class PreflightCursor(IntMessage):
    """Where a scan goes on: the first row of the next chunk, and that chunk's number."""

    NAME = "preflightcursor"

    LATER = frozenset({"object", "base"})

    byte: int
    line: int
    chunk: int
    object: int = 0
    """Which of several objects the row stands in, counted from 0."""
    base: int = 0
    """Where that object's rows begin, among the rows of all."""


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """What one preflight invocation found. `cursor` None: the last part."""

    chunks: tuple[Chunk, ...]
    cursor: PreflightCursor | None
