"""Sum the valid segments of a run in bounded memory, and check that they prove the import."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import Annotated, NamedTuple, Self

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.messages import JsonObject, JsonObjectReader, JsonRule
from ddbload.contracts.options import EDGES
from ddbload.contracts.results import (
    ALREADY_LOADED,
    FAILED,
    SUCCEEDED,
    SUCCEEDED_WITH_REJECTS,
    Failure,
    Report,
    Segment,
    number_reject,
)
from ddbload.contracts.row_counts import RowCounts, WriteStats
from ddbload.contracts.run_record import RunRecord
from ddbload.errors import (
    TAKE_UP,
    ConservationViolated,
    DamagedCompression,
    IncompleteRun,
    LedgerDamaged,
    NothingWritten,
    RowTooLong,
    SplitMismatch,
    TooManyRejects,
    UnterminatedQuote,
)
from ddbload.ledger.ledger import REJECTS_AT_ONCE, Ledger

PROGRESS_ROUNDING = 2.0
"""Write units by which a worker's progress may exceed its segments.

The progress is the sum of two numbers that are each rounded up.
"""
MAX_KEPT_SEGMENTS = 10_000
"""Maximum segments kept for the page's charts, at a few kilobytes each."""
_SEGMENTS_AT_ONCE, _CHUNKS_AT_ONCE = 500, 2_000
"""Segments and chunks that are added before their rejects are read and the clock is checked."""

Chain = list[Segment]
"""Valid segments of a chunk, in order."""


def iter_chains(
    ledger: Ledger, chunks: Sequence[Chunk], first: int = 0
) -> Generator[tuple[Chunk, Chain]]:
    """Read the valid segments of each chunk, one chunk at a time, from chunk number `first` on.

    `chunks`: all chunks of the manifest, in ascending order of their numbers.
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
    """Yield the rejects of valid segments as JSON lines with their line numbers in the source.

    A line number is null while an earlier chunk of the same object is not imported. Raises
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
    """Segment with rejects, and the numbering of their lines."""

    segment: Segment
    relative: bool
    """True if line numbers count from the chunk's beginning."""
    first_line: int | None
    """Line number of the chunk's first row; None while earlier chunks are not imported."""


def _read_numbered(ledger: Ledger, segments: Sequence[_Numbered]) -> Iterator[bytes]:
    lines = ledger.rejects(each.segment for each in segments)
    for segment, relative, first_line in segments:
        for line in islice(lines, segment.rows.rejected):
            yield number_reject(line, first_line) if relative else line
    # Continue the iterator to its end, because it verifies the count after the last line.
    yield from lines


def _linked_segments(chunk: Chunk, segments: dict[int, Segment]) -> Chain:
    """Return the valid segments of a chunk: each begins where the previous one ends."""
    chain: Chain = []
    position = chunk.start
    while position < chunk.end:
        segment = segments.get(position)
        if segment is None or not position < segment.end.byte <= chunk.end:
            break
        chain.append(segment)
        position = segment.end.byte
    return chain


def _read_causes(f: JsonObjectReader) -> Counter[str]:
    return Counter({str(cause): int(rows) for cause, rows in f.mapping("causes").items()})


def _read_units(f: JsonObjectReader) -> defaultdict[str, float]:
    return defaultdict(float, {w: float(units) for w, units in f.mapping("units").items()})


@dataclass
class SegmentSums(JsonObject):
    """Sums over the segments of a run's first chunks, stored in `report-parts/`."""

    chunks: int = 0
    """Number of chunks added so far, from the first one on."""
    segments: int = 0
    rows: RowCounts = field(default_factory=RowCounts)
    work: WriteStats = field(default_factory=WriteStats)
    bytes: int = 0
    done: int = 0
    """Number of chunks proven to be imported to their end."""
    open: Annotated[list[int], JsonRule(read=lambda f: list(map(int, f.items("open"))))] = field(
        default_factory=list
    )
    """Numbers of the other chunks."""
    stopped: Chunk | None = None
    """Number of the first chunk that is not imported to its end."""
    reached: int | None = None
    """Byte up to which that chunk is imported."""
    following: int | None = None
    """Line number after the last chunk; None if an earlier chunk is not imported."""
    conserved: bool = True
    """True if each segment obeys the conservation law."""
    repeated: int = 0
    """Rows whose key occurred before."""
    identical: int | None = None
    """Skipped rows with an identical item; None if no segment counts these."""
    identical_known: bool = True
    """False if a segment with skipped rows does not count identical items."""
    uncertain: int = 0
    """Written rows whose item may have existed before."""
    causes: Annotated[Counter[str], JsonRule(read=_read_causes)] = field(default_factory=Counter)
    """Rejects by cause."""
    units: Annotated[defaultdict[str, float], JsonRule(read=_read_units)] = field(
        default_factory=lambda: defaultdict(float)
    )
    """Write units by worker; those of segments without times have the empty name."""
    damaged: Failure | None = None
    """Error that prevented reading the rejects."""

    def add(self, chunk: Chunk, chain: Sequence[Segment]) -> list[_Numbered]:
        """Add the next chunk; return its segments that have rejects."""
        self.chunks += 1
        for each in chain:
            self.segments += 1
            self.rows += each.rows
            self.work += each.work
            self.bytes += each.bytes
            self.conserved = self.conserved and each.rows.conserved
            self.repeated += each.repeated
            if each.identical is not None:
                self.identical = (self.identical or 0) + each.identical
            elif each.rows.skipped:
                self.identical_known = False
            self.uncertain += each.uncertain
            self.causes.update(each.causes or {})
            worker = "" if each.times is None else each.times.worker
            self.units[worker] += each.work.consumed_wcu
        reached = chain[-1].end.byte if chain else chunk.start
        if chain and chain[-1].proven:
            self.done += 1
        else:
            self.open.append(chunk.chunk)
        if self.stopped is None and not (chain and chain[-1].proven and reached == chunk.end):
            self.reached, self.stopped = reached, chunk
        # A chunk without a first line continues the object of the previous chunk.
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

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` for contradictory sums, which could prove open chunks."""
        if self.chunks != self.done + len(self.open) or (self.open and self.stopped is None):
            raise f.wrong("chunks", self.chunks, "the sum of done and open ones")


class CountedChunks:
    """Chunks of a run with the sums over their segments, and some segments for charts."""

    def __init__(
        self,
        chunks: tuple[Chunk, ...] | None,
        sums: SegmentSums | None = None,
        *,
        keeps: bool = False,
    ) -> None:
        """Continue the `sums` of an earlier invocation. `keeps`: keep segments for charts."""
        self.chunks = chunks
        """Chunks of the manifest; None if preflight has not finished."""
        self.sums = sums or SegmentSums()
        self.chains: list[Chain] | None = [] if keeps and sums is None else None
        """Segments of each chunk; None if there are too many or none are kept."""

    @classmethod
    def read(cls, ledger: Ledger) -> Self:
        """Add all segments; see `add_all`."""
        found = cls(ledger.find_manifest())
        found.add_all(ledger)
        return found

    def add_all(
        self,
        ledger: Ledger,
        watch: Callable[[bytes], object] = lambda _: None,
        must_end: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Read and add the segments of the remaining chunks; return false if time ran out.

        Also reads all rejects, to compare their number with each segment's count; `watch` is called
        with each line. One call adds as many chunks as time allows.
        """
        segments: list[_Numbered] = []
        added = 0.0
        with closing(iter_chains(ledger, self.chunks or (), self.sums.chunks)) as chains:
            for chunk, chain in chains:
                segments += self.sums.add(chunk, chain)
                if self.chains is not None:
                    self.chains.append(chain)
                    if self.sums.segments > MAX_KEPT_SEGMENTS:
                        self.chains = None
                added += len(chain) + _SEGMENTS_AT_ONCE / _CHUNKS_AT_ONCE
                if added >= _SEGMENTS_AT_ONCE:
                    self._read_rejects(ledger, segments, watch)
                    segments, added = [], 0.0
                    if must_end() and self.sums.chunks < len(self.chunks or ()):
                        return False
        self._read_rejects(ledger, segments, watch)
        return True

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
    """Return the write units of all workers: by segments, or by progress if that is more.

    The progress of a worker that was killed, or whose segment another worker had written before,
    includes units that no segment counts.
    """
    counted = dict(sums.units)
    for seen in ledger.workers():
        worker, units = seen.progress.worker, seen.progress.totals.work.consumed_wcu
        if units - counted.get(worker, 0.0) >= PROGRESS_ROUNDING:
            counted[worker] = units
    return sum(counted.values())


_FOUND_BY_WHOLE_SCAN = frozenset(
    each.__name__ for each in (DamagedCompression, RowTooLong, SplitMismatch, UnterminatedQuote)
)


def reconcile(record: RunRecord, ledger: Ledger, found: CountedChunks, seconds: float) -> Report:
    """Make the report of a run from its chunks, with the first error of their proof.

    Writes nothing.
    """
    sums, rows = found.sums, found.sums.rows
    open_chunks = set(sums.open)
    recorded = ledger.failures() if open_chunks else []
    failures = [each for each in recorded if each.chunk in open_chunks]
    error = _first_error(record, ledger, found, failures) or sums.damaged
    status = SUCCEEDED_WITH_REJECTS if rows.rejected else SUCCEEDED
    if record.loads_nothing:
        status = ALREADY_LOADED
    if error is not None:
        status = FAILED
    causes = dict(sorted(sums.causes.items(), key=lambda each: (-each[1], each[0])))
    size = read = record.data_start.byte + sums.bytes
    if record.size is not None or not found.chunks or sums.done < len(found.chunks):
        # Data that preflight has not read is known only once it is imported.
        size = record.size or 0
    return Report(
        run=record.run,
        status=status,
        rows=rows,
        work=replace(sums.work, consumed_wcu=units_consumed(sums, ledger)),
        bytes=read,
        size=size,
        chunks=len(found.chunks or ()),
        chunks_done=sums.done,
        seconds=max(0.0, seconds),
        rejects=ledger.rejects_uri if rows.rejected else None,
        error=error,
        failures=tuple(failures),
        write_price=record.write_price,
        skipped_lines=record.payload.source.skip_lines,
        identical=sums.identical if sums.identical_known else None,
        causes=causes or None,
        repeated=sums.repeated,
        uncertain=sums.uncertain,
        mode=record.mode.name,
        look_like_numbers=record.look_like_numbers,
        loaded_before=record.loaded_before,
    )


def _first_error(
    record: RunRecord, ledger: Ledger, found: CountedChunks, failures: Sequence[Failure]
) -> Failure | None:
    rows = found.sums.rows
    if failures:
        first = failures[0]
        others = len(failures) - 1
        more = f" (and {others} more chunk{'s' * (others > 1)} failed)" if others else ""
        message = first.message + _rows_before(first, record, rows) + more
        return Failure(first.name, message, first.chunk)
    if not rows.conserved or not found.sums.conserved:
        words = {"written": record.mode.written}
        outcomes = [f"{count} {words.get(name, name)}" for name, count in rows.outcomes.items()]
        law = f"{rows.read} rows read are not {' + '.join(outcomes)}: please report it"
        return Failure.of(ConservationViolated(law))
    incomplete = _incomplete(record, found)
    if rows.all_rejected and not incomplete:
        most = found.sums.causes.most_common(2)
        causes = ", ".join(f"{count:,} {cause}" for cause, count in most) + ("; " if most else "")
        return Failure.of(
            NothingWritten.of(
                rows.read,
                f"{causes}ddbload rejects {record.run} --summary says why",
                most[0][0] if most else None,
                record.mode.written,
                next(counted_rejects(ledger), None),
            )
        )
    limit = record.payload.options.reject_limit
    # The remaining rows of an incomplete run may still lower the share below the limit.
    if (
        limit.surely_exceeded(rows.rejected, rows.read, record.most_rows_besides(found.sums.bytes))
        if incomplete
        else limit.exceeded(rows.rejected, rows.read)
    ):
        described = limit.describe(rows.rejected, rows.read)
        advice = f"look at them, then mend the file, or allow more and {TAKE_UP}"
        return Failure.of(TooManyRejects(f"{described}: {advice}"))
    return Failure.of(IncompleteRun(incomplete)) if incomplete else None


def _rows_before(failure: Failure, record: RunRecord, rows: RowCounts) -> str:
    """Describe how many rows were written before an error that a whole scan would have found."""
    found_late = failure.name in _FOUND_BY_WHOLE_SCAN and record.payload.options.scan == EDGES
    if not found_late or not rows.written:
        return ""
    were = "1 row was" if rows.written == 1 else f"{rows.written:,} rows were"
    return (
        f". {were} {record.mode.written} before; a new run with --scan whole"
        " (in a payload, options.scan) finds such errors before its first write"
    )


def _incomplete(record: RunRecord, found: CountedChunks) -> str | None:
    """Describe what is missing from the proof that every byte was imported; None if complete."""
    again = f"; {TAKE_UP}"
    if found.chunks is None:
        return f"preflight did not finish{again}"
    position = record.data_start.byte
    for number, chunk in enumerate(found.chunks):
        if (chunk.chunk, chunk.start) != (number, position) or chunk.end <= chunk.start:
            return f"the manifest does not tile the source at byte {position}; start a new run"
        position = chunk.end
    if record.size is not None and position != record.size:
        return f"the manifest ends at byte {position} of {record.size}; start a new run"
    stopped = found.sums.stopped
    if stopped is None:
        return None
    reached = found.sums.reached
    return f"chunk {stopped.chunk} is imported to byte {reached} of {stopped.end}{again}"
