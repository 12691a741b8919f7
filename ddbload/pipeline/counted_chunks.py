"""The segments of a run that count, read once and added up in bounded memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import groupby, islice
from typing import Any, NamedTuple, Self

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.results import (
    Failure,
    PlanTotals,
    RowCounts,
    Segment,
    WriteStats,
    number_reject,
)
from ddbload.errors import LedgerDamaged
from ddbload.ledger.ledger import REJECTS_AT_ONCE, Ledger

TOLD_ROUNDING = 2.0
"""Write units by which a worker's progress may exceed its segments: it is two whole numbers, each
rounded up."""
MAX_KEPT_SEGMENTS = 10_000
"""Segments that are kept for the charts of a page, a few kilobytes each."""
_SEGMENTS_AT_ONCE, _CHUNKS_AT_ONCE = 500, 2_000
"""Segments and chunks that are added before their rejects are read, and the clock is looked at."""

Chain = list[Segment]
"""Segments of a chunk that count, in order."""


def iter_chains(
    ledger: Ledger, chunks: Sequence[Chunk], first: int = 0
) -> Generator[tuple[Chunk, Chain]]:
    """Read the segments of each chunk that count, from chunk number `first` on, one chunk a time.

    `chunks` are all of the manifest, whose numbers rise.
    """
    with closing(ledger.iter_segments(first)) as segments:
        found = groupby(segments, key=lambda each: each.chunk)
        number, group = next(found, (None, iter(())))
        for chunk in chunks[first:]:
            while number is not None and number < chunk.chunk:
                number, group = next(found, (None, iter(())))
            own = {each.start.byte: each for each in group} if number == chunk.chunk else {}
            yield chunk, _linked_segments(chunk, own)


def counted_rejects(ledger: Ledger) -> Iterator[bytes]:
    """Read the rejects of the segments that count, as lines of JSON with their lines in the source.

    A line is null while a chunk before it, in the same object, is not imported. Raises
    `LedgerDamaged`.
    """
    sums, segments = SegmentSums(), list[_Numbered]()
    for chunk, chain in iter_chains(ledger, ledger.find_manifest() or ()):
        segments += sums.add(chunk, chain)
        if len(segments) >= REJECTS_AT_ONCE:
            yield from _read_numbered(ledger, segments)
            segments = []
    yield from _read_numbered(ledger, segments)


class _Numbered(NamedTuple):
    """Segment with rejects, and how their lines are numbered."""

    segment: Segment
    relative: bool
    """True if lines count from the chunk's beginning."""
    first_line: int | None
    """Line of the chunk's first row in the source; None if nobody has counted those before it."""


def _read_numbered(ledger: Ledger, segments: Sequence[_Numbered]) -> Iterator[bytes]:
    lines = ledger.rejects(each.segment for each in segments)
    for segment, relative, first_line in segments:
        for line in islice(lines, segment.rows.rejected):
            yield number_reject(line, first_line) if relative else line
    # The last check is made behind the last line.
    yield from lines


def _linked_segments(chunk: Chunk, segments: dict[int, Segment]) -> Chain:
    """Chain a chunk's segments: each begins where the one before ends; others do not count."""
    chain: Chain = []
    position = chunk.start
    while position < chunk.end:
        segment = segments.get(position)
        if segment is None or not position < segment.end.byte <= chunk.end:
            break
        chain.append(segment)
        position = segment.end.byte
    return chain


class SegmentSums:
    """Sums over the segments of the first chunks of a run; `report-parts/` keeps them."""

    def __init__(self) -> None:
        self.chunks = 0
        """Chunks that are added, from the first on."""
        self.segments = 0
        self.rows = RowCounts()
        self.work = WriteStats()
        self.planned = PlanTotals()
        self.bytes = 0
        self.done = 0
        """Chunks that are imported to their proven end."""
        self.open: list[int] = []
        """Numbers of the other chunks."""
        self.stopped: Chunk | None = None
        """First chunk that is not imported to its end."""
        self.reached: int | None = None
        """Byte to which it is imported."""
        self.following: int | None = None
        """Line after the last chunk; None if nobody has counted those before it."""
        self.conserved = True
        """True if the conservation law holds for each segment."""
        self.repeated = 0
        """Rows whose key came before."""
        self.identical: int | None = None
        """Skipped rows with an identical item; None if no segment counts them."""
        self.identical_known = True
        """False if a segment that skipped rows does not count them."""
        self.uncertain = 0
        """Written rows whose item may have been there before."""
        self.causes: Counter[str] = Counter()
        """Rejects by cause. Segments of earlier versions do not count causes."""
        self.units: defaultdict[str | None, float] = defaultdict(float)
        """Write units by worker. Segments of earlier versions name none."""
        self.damaged: Failure | None = None
        """Error that kept the rejects from being read."""

    def add(self, chunk: Chunk, chain: Sequence[Segment]) -> list[_Numbered]:
        """Add the next chunk; return its segments that have rejects."""
        self.chunks += 1
        for each in chain:
            self.segments += 1
            self.rows += each.rows
            self.work += each.work
            self.bytes += each.bytes
            self.conserved = self.conserved and each.rows.conserved
            if each.planned is not None:
                self.planned += each.planned
            self.repeated += each.repeated
            if each.identical is not None:
                self.identical = (self.identical or 0) + each.identical
            elif each.rows.skipped:
                self.identical_known = False
            self.uncertain += each.uncertain
            self.causes.update(each.causes or {})
            worker = None if each.times is None else each.times.worker
            self.units[worker] += each.work.consumed_wcu
        reached = chain[-1].end.byte if chain else chunk.start
        if chain and chain[-1].proven:
            self.done += 1
        else:
            self.open.append(chunk.chunk)
        if self.stopped is None and not (chain and chain[-1].proven and reached == chunk.end):
            self.reached, self.stopped = reached, chunk
        # A chunk without a first line follows another in the same object.
        first_line = chunk.first_line or self.following
        self.following = None
        if first_line is not None and chain and chain[-1].proven:
            last = chain[-1].end.line
            self.following = last if chunk.first_line else first_line + last
        return [
            _Numbered(each, not chunk.first_line, first_line)
            for each in chain
            if each.rejects or each.rows.rejected
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the sums as JSON."""
        return {name: field.write(getattr(self, name)) for name, field in _FIELDS.items()}

    @classmethod
    def from_json(cls, value: dict[str, Any], chunks: int) -> Self:
        """Read what `to_json` returned for this number of chunks.

        Raises `InvalidPayload`, the errors of wrong types, and `ValueError` for sums that
        contradict each other: these could prove chunks that are open.
        """
        sums = cls()
        for name, field in _FIELDS.items():
            setattr(sums, name, field.read(value[name]))
        told = (sums.chunks, sums.done + len(sums.open))
        if told != (chunks, chunks) or (sums.open and sums.stopped is None):
            raise ValueError("sums that contradict each other")
        return sums


class _Field(NamedTuple):
    """Form of one of the sums in JSON."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = lambda value: value


def _or_null(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _read_units(value: Any) -> defaultdict[str | None, float]:
    units: defaultdict[str | None, float] = defaultdict(float)
    for worker, consumed in value:
        units[None if worker is None else str(worker)] = float(consumed)
    return units


_FIELDS = {
    "chunks": _Field(int),
    "segments": _Field(int),
    "rows": _Field(RowCounts.from_json, RowCounts.to_json),
    "work": _Field(WriteStats.from_json, WriteStats.to_json),
    "planned": _Field(PlanTotals.from_json, PlanTotals.to_json),
    "bytes": _Field(int),
    "done": _Field(int),
    "open": _Field(lambda value: [int(each) for each in value]),
    "reached": _Field(_or_null(int)),
    "stopped": _Field(_or_null(Chunk.from_json), _or_null(Chunk.to_json)),
    "following": _Field(_or_null(int)),
    "conserved": _Field(bool),
    "repeated": _Field(int),
    "identical": _Field(_or_null(int)),
    "identical_known": _Field(bool),
    "uncertain": _Field(int),
    "causes": _Field(
        lambda value: Counter({str(cause): int(rows) for cause, rows in dict(value).items()}), dict
    ),
    "units": _Field(_read_units, lambda units: [list(each) for each in units.items()]),
    "damaged": _Field(_or_null(Failure.from_json), _or_null(Failure.to_json)),
}
"""The sums that `report-parts/` keeps, by their attribute of `SegmentSums`."""


class CountedChunks:
    """Chunks of a run, with the sums over their segments, and few of these for charts."""

    def __init__(
        self,
        chunks: tuple[Chunk, ...] | None,
        sums: SegmentSums | None = None,
        *,
        keeps: bool = False,
    ) -> None:
        """Continue the `sums` of an earlier invocation; `keeps` segments if they are few."""
        self.chunks = chunks
        """None if preflight has not finished."""
        self.sums = sums or SegmentSums()
        self.chains: list[Chain] | None = [] if keeps and sums is None else None
        """Segments of each chunk; None if they are too many, or were not kept."""

    @classmethod
    def read(cls, ledger: Ledger, *, rejects: bool = True) -> Self:
        """Add up all segments, see `add_all`; without `rejects`, these are not read."""
        found = cls(ledger.find_manifest())
        if rejects:
            found.add_all(ledger)
        else:
            for chunk, chain in iter_chains(ledger, found.chunks or ()):
                found.sums.add(chunk, chain)
        return found

    def add_all(
        self,
        ledger: Ledger,
        watch: Callable[[bytes], object] = lambda _: None,
        must_end: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Read and add the segments of the other chunks; False if time ended before.

        All rejects are read, too, which compares their number with each segment's count: `watch`
        is called with each line. Each call adds some chunks.
        """
        segments: list[_Numbered] = []
        added = 0.0
        with closing(iter_chains(ledger, self.chunks or (), self.sums.chunks)) as chains:
            for chunk, chain in chains:
                segments += self.sums.add(chunk, chain)
                self._keep(chain)
                added += len(chain) + _SEGMENTS_AT_ONCE / _CHUNKS_AT_ONCE
                if added >= _SEGMENTS_AT_ONCE:
                    self._read_rejects(ledger, segments, watch)
                    segments, added = [], 0.0
                    if must_end() and self.sums.chunks < len(self.chunks or ()):
                        return False
        self._read_rejects(ledger, segments, watch)
        return True

    def _keep(self, chain: Chain) -> None:
        if self.chains is not None:
            self.chains.append(chain)
            if self.sums.segments > MAX_KEPT_SEGMENTS:
                self.chains = None

    def _read_rejects(
        self, ledger: Ledger, segments: Sequence[_Numbered], watch: Callable[[bytes], object]
    ) -> None:
        if self.sums.damaged is not None:
            return
        try:
            for line in _read_numbered(ledger, segments):
                watch(line)
        except LedgerDamaged as damaged:
            self.sums.damaged = Failure.of(damaged)


def units_consumed(sums: SegmentSums, ledger: Ledger) -> float:
    """Add up the write units of each worker: those of its segments, or more if it told more.

    A worker that was killed, or whose segment another had written before, tells in its progress
    what no segment counts.
    """
    counted = dict(sums.units)
    for seen in ledger.workers():
        worker, told = seen.progress.worker, seen.progress.totals.work.consumed_wcu
        if told - counted.get(worker, 0.0) >= TOLD_ROUNDING:
            counted[worker] = told
    return sum(counted.values())
