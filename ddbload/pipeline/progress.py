"""The state machine's part, on this machine: preflight, chunks, report, in that order."""

from __future__ import annotations

from dataclasses import dataclass

from ddbload.contracts.results import RowCounts, WriteStats


@dataclass(frozen=True, slots=True)
class RunTotals:
    """How far a run has come, what was adopted from earlier attempts included."""

    rows: RowCounts
    work: WriteStats
    bytes: int
    size: int
    adopted_rows: int
    """Rows that this attempt found settled already."""


@dataclass(frozen=True, slots=True)
class ChunkProgress:
    """How far an invocation has come with its chunk. Cumulative within the invocation."""

    chunk: int
    rows: RowCounts
    work: WriteStats
    bytes: int
