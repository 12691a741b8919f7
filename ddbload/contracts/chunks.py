"""Messages about chunks: a chunk, the objects that it reads, and a scan that makes chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from ddbload.contracts.messages import JsonRule, LineNumber, Message


@dataclass(frozen=True, slots=True)
class ObjectSlice(Message):
    """The rows of one object, as a slice of the rows of the run."""

    pinned: Mapping[str, Any]
    """Version of the object: its ETag, for example."""
    base: int
    """Offset of the object's first row among the rows of all objects."""
    skip: int
    """Bytes before the first row: byte order mark, skipped lines, header."""
    line: LineNumber
    """Line of the first row."""
    size: int
    """Bytes of the rows."""

    @property
    def end(self) -> int:
        """Offset of the end of the object's rows among the rows of all objects."""
        return self.base + self.size


@dataclass(frozen=True, slots=True)
class Chunk(Message):
    """A byte range of whole rows: `start` inclusive, `end` exclusive."""

    chunk: int
    start: int
    end: int
    first_line: LineNumber


@dataclass(frozen=True, slots=True)
class PreflightCursor(Message):
    """Position at which a scan continues: the first row of the next chunk, and its number."""

    byte: int
    line: LineNumber
    chunk: int
    object: Annotated[int, JsonRule(absent=0)] = 0
    """Index of the object that holds the row."""
    base: Annotated[int, JsonRule(absent=0)] = 0
    """Offset of that object's rows among the rows of all objects."""


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """The chunks that one preflight invocation cut; the last part has no cursor."""

    chunks: tuple[Chunk, ...]
    cursor: PreflightCursor | None
