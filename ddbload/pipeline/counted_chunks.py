"""The segments of a run that count, and the write units that its workers consumed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.results import Segment, number_reject
from ddbload.ledger.ledger import Ledger

TOLD_ROUNDING = 2.0
"""Write units by which a worker's progress may exceed its segments: it is two whole numbers, each
rounded up."""


@dataclass(frozen=True, slots=True)
class CountedChunks:
    """Chunks of a run, and the segments that count, read once for everything made from them."""

    chunks: tuple[Chunk, ...] | None
    """None if preflight has not finished."""
    chains: list[list[Segment]]
    """Segments of each chunk, in order."""

    @classmethod
    def read(cls, ledger: Ledger) -> Self:
        """Read the manifest and the segments."""
        chunks = ledger.find_manifest()
        return cls(chunks, chunk_segments(ledger, chunks or ()))

    @property
    def segments(self) -> list[Segment]:
        """All segments that count, in the order of the source."""
        return [segment for chain in self.chains for segment in chain]

    def rejects(self, ledger: Ledger) -> Iterator[bytes]:
        """Read the rejects as lines of JSON, with their lines in the source.

        A line is null while a chunk before it, in the same object, is not imported. Raises
        `LedgerDamaged`.
        """
        lines = ledger.rejects(self.segments)
        following: int | None = None
        for chunk, chain in zip(self.chunks or (), self.chains, strict=True):
            # A chunk without a first line follows another in the same object.
            first_line = chunk.first_line or following
            for segment in chain:
                for line in islice(lines, segment.rows.rejected):
                    yield line if chunk.first_line else number_reject(line, first_line)
            following = None
            if first_line is not None and chain and chain[-1].proven:
                last = chain[-1].end.line
                following = last if chunk.first_line else first_line + last
        # The last check is made behind the last line.
        yield from lines


def chunk_segments(ledger: Ledger, chunks: Sequence[Chunk]) -> list[list[Segment]]:
    """Return the segments of each chunk that count, in order."""
    segments = {(each.chunk, each.start.byte): each for each in ledger.segments()}
    return [_linked_segments(chunk, segments) for chunk in chunks]


def _linked_segments(chunk: Chunk, segments: dict[tuple[int, int], Segment]) -> list[Segment]:
    """Chain a chunk's segments: each begins where the one before ends; others do not count.

    `segments`: by chunk and start byte.
    """
    chain: list[Segment] = []
    position = chunk.start
    while position < chunk.end:
        segment = segments.get((chunk.chunk, position))
        if segment is None or not position < segment.end.byte <= chunk.end:
            break
        chain.append(segment)
        position = segment.end.byte
    return chain


def units_consumed(segments: Sequence[Segment], ledger: Ledger) -> float:
    """Add up the write units of each worker: those of its segments, or more if it told more.

    A worker that was killed, or whose segment another had written before, tells in its progress
    what no segment counts. Segments of earlier versions name no worker.
    """
    counted: defaultdict[str | None, float] = defaultdict(float)
    for each in segments:
        counted[None if each.times is None else each.times.worker] += each.work.consumed_wcu
    for seen in ledger.workers():
        worker, told = seen.progress.worker, seen.progress.totals.work.consumed_wcu
        if told - counted[worker] >= TOLD_ROUNDING:
            counted[worker] = told
    return sum(counted.values())
