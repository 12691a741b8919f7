"""Read and write the ledger of one run: `runs/<run id>/` in a store. See docs/ledger.md.

`request.json` is written first, and `run.json` once every check has passed; then the parts of the
manifest, the manifest, the segments of each chunk, and finally `report.json`. A segment is written
once and never changed: a second invocation adopts it. Segments and manifest parts carry the run's
id and configuration, so that those of another run are refused.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from ddbload.contracts.chunks import (
    Chunk,
    ListingCursor,
    ListingPart,
    ManifestPart,
    ObjectSlice,
    SeekPoint,
)
from ddbload.contracts.messages import encode_json
from ddbload.contracts.results import Failure, Segment
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.contracts.states import ReportCursor
from ddbload.errors import DdbloadError, LedgerDamaged
from ddbload.ledger.run_objects import RunObjects
from ddbload.ledger.store import AgesPage, FolderStore

T = TypeVar("T")
_PAGES_AT_ONCE = 8
"""Pages of a listing, with a thousand objects each, that are read concurrently."""
REJECTS_AT_ONCE = 8
"""Objects of rejects, up to 32 MiB each, that are read concurrently and held in memory."""
AHEAD_ROWS = 5_000
"""Approximate number of rows that one record covers in advance.

A larger number needs fewer records, but after a kill up to this many rows may count as written
although their items existed before.
"""

Range = tuple[int, int]
"""Byte range: start inclusive, end exclusive."""


class Ledger(RunObjects):
    """Ledger of one run. Reading raises `LedgerDamaged` for an object that cannot be decoded."""

    # Sources of several objects.

    def put_listing(
        self, name: str, page: int, objects: Sequence[Mapping[str, Any]], after: str
    ) -> bool:
        """Write a page of a listing unless it exists; return true if written.

        A page holds pinned objects in order, and `after`, the position in the source after the last
        one. Each run that begins to list chooses a new `name`, so that a record always refers to
        the listing that it was made from.
        """
        value = {"run": self.run, "objects": list(objects), "after": after}
        return self._put_new(_listing_page(name, page), value)

    def put_listing_part(self, cursor: ListingCursor, part: ListingPart) -> None:
        """Record where an invocation stopped listing, unless another one did so before."""
        self._put_new(_listing_part(cursor), {"run": self.run, **part.to_json()})

    def find_listing_part(self, cursor: ListingCursor) -> ListingPart | None:
        """Read where an invocation stopped listing; None if missing. Raises `LedgerDamaged`."""
        name = _listing_part(cursor)

        def decode(value: dict[str, Any]) -> ListingPart:
            self._require_own(name, value.pop("run") == self.run)
            return ListingPart.from_json(value)

        return self._read(name, decode)

    def listing(self, name: str, pages: Iterable[int]) -> Iterator[list[dict[str, Any]]]:
        """Read the objects of a listing page by page: the first alone, others concurrently.

        Raises `LedgerDamaged`.
        """
        left, at_once = iter(pages), 1
        while names := [_listing_page(name, page) for page in islice(left, at_once)]:
            paths = [self._root + path for path in names]
            for path, data in zip(names, self._store.get_all(paths), strict=True):
                if data is None:
                    raise LedgerDamaged(f"{self._uri(path)} is missing; start a new run")
                yield self._decode(self._root + path, data, self._listing_decoder(path))[0]
            at_once = min(2 * at_once, _PAGES_AT_ONCE)

    def find_listing(self, name: str, page: int) -> tuple[list[dict[str, Any]], str] | None:
        """Read the objects of a page, and the position after them; None if missing."""
        path = _listing_page(name, page)
        return self._read(path, self._listing_decoder(path))

    def _listing_decoder(self, path: str) -> Callable[[Any], tuple[list[dict[str, Any]], str]]:
        def decode(value: Any) -> tuple[list[dict[str, Any]], str]:
            self._require_own(path, value["run"] == self.run)
            return [dict(each) for each in value["objects"]], value["after"]

        return decode

    def put_slices(self, chunk: Chunk, slices: Sequence[ObjectSlice]) -> None:
        """Write the slices of objects that a chunk reads. Equal byte ranges give equal slices."""
        value = {"parts": [each.to_json() for each in slices], **self._stamp}
        self._put(_slices(chunk), value)

    def slices(self, chunk: Chunk) -> list[ObjectSlice]:
        """Read the slices of objects that a chunk reads. Raises `LedgerDamaged`."""
        name = _slices(chunk)

        def decode(value: Any) -> list[ObjectSlice]:
            return [ObjectSlice.from_json(each) for each in value["parts"]]

        slices = self._read_own(name, decode)
        if not slices:
            raise LedgerDamaged(f"{self._uri(name)} is missing or empty; start a new run")
        return slices

    def put_seek_point(self, byte: int, point: SeekPoint) -> None:
        """Write the seek point of a compressed object for the row at a byte."""
        self._put(f"seek/{byte}.json", {**point.to_json(), **self._stamp})

    def find_seek_point(self, byte: int) -> SeekPoint | None:
        """Read the seek point of a compressed object for the row at a byte."""
        return self._read_own(f"seek/{byte}.json", SeekPoint.from_json)

    # The manifest.

    def find_manifest_part(self, byte: int) -> ManifestPart | None:
        """Read the part of the manifest that begins at a byte; None if missing."""
        return self._read_own(f"manifest/{byte}.json", ManifestPart.from_json)

    def manifest_part_before(self, byte: int) -> ManifestPart | None:
        """Read the last part of the manifest that begins before a byte."""
        start = _start_before(self._store.names(f"{self._root}manifest/"), byte)
        return None if start is None else self.find_manifest_part(start)

    def put_manifest_part(self, byte: int, part: ManifestPart) -> ManifestPart:
        """Write a part of the manifest unless it exists; return the part that is valid."""
        if self._put_new(f"manifest/{byte}.json", {**part.to_json(), **self._stamp}):
            return part
        return self.find_manifest_part(byte) or part

    def put_manifest(self, groups: Sequence[Sequence[Chunk]]) -> None:
        """Write the whole manifest, as the JSON array that a Distributed Map reads.

        `groups`: the chunks that one worker imports side by side, for one worker after the other.
        """
        self._put(
            "manifest.json", [{"chunks": [each.to_json() for each in group]} for group in groups]
        )

    def find_groups(self) -> tuple[tuple[Chunk, ...], ...] | None:
        """Read the groups of chunks in which they are imported; None if preflight has not ended."""
        return self._read("manifest.json", _groups)

    def find_manifest(self) -> tuple[Chunk, ...] | None:
        """Read all chunks in order; None if preflight has not finished."""
        groups = self.find_groups()
        if groups is None:
            return None
        return tuple(sorted(chain.from_iterable(groups), key=lambda chunk: chunk.chunk))

    def manifest_text(self) -> bytes:
        """Read the manifest as compact JSON; empty if preflight has not finished."""
        return self._read("manifest.json", encode_json) or b""

    @property
    def manifest_name(self) -> str:
        """Name of the manifest in the store."""
        return self._root + "manifest.json"

    # Segments.

    def find_segment(self, chunk: int, start: int) -> Segment | None:
        """Read the segment of a chunk that begins at a byte; None if missing."""
        name = _segment(chunk, start)
        return self._read(name, self._segment_named(self._root + name))

    def last_segment(self, chunk: Chunk, known: AgesPage | None = None) -> Segment | None:
        """Read the last segment of a chunk. Raises `LedgerDamaged`.

        `known`: a page of names in `chunks`. If that is all of them, no other is asked for.
        """
        folder = f"{chunk.chunk:05d}/"
        if known is None or known.more:
            names = self._store.names(f"{self._root}chunks/{folder}")
        else:
            names = [name for name in known.ages if name.startswith(folder)]
        start = _start_before(names, chunk.end)
        segment = None if start is None else self.find_segment(chunk.chunk, start)
        if segment is None:
            return None
        is_within = chunk.start <= segment.start.byte < segment.end.byte <= chunk.end
        if not is_within or segment.proven != (segment.end.byte == chunk.end):
            name = self._uri(_segment(chunk.chunk, segment.start.byte))
            damage = LedgerDamaged(
                f"{name} is not of chunk {chunk.chunk}, byte {chunk.start} to {chunk.end}; start a"
                " new run (another run id)"
            )
            damage.chunk = chunk.chunk
            raise damage
        return segment

    def put_segment(self, segment: Segment) -> Segment:
        """Write a segment unless it exists; return the segment that is valid."""
        name = _segment(segment.chunk, segment.start.byte)
        if self._put_new(name, {**segment.to_json(), **self._stamp}):
            return segment
        return self.find_segment(segment.chunk, segment.start.byte) or segment

    def iter_segments(self, first_chunk: int = 0) -> Generator[Segment]:
        """Read the segments from a chunk on, sorted by name, a few at a time."""
        folder = f"{self._root}chunks/"
        with closing(self._store.read_folder(folder, f"{first_chunk:05d}/")) as found:
            for name, data in found:
                if data is not None:
                    yield self._decode(folder + name, data, self._segment_named(folder + name))

    # Attempts, in mode `insert`.

    def put_attempt(self, chunk: int, name: str) -> None:
        """Write an empty object whose name states which rows were sent (`Attempt`)."""
        self._store.put(f"{self._root}attempts/{chunk:05d}/{self._mark}-{name}", b"")

    def attempt_names(self, chunk: int) -> list[str]:
        """List the names that the invocations of a chunk wrote by `put_attempt`."""
        folder = f"{self._root}attempts/{chunk:05d}/"
        names = self._store.names(folder)
        own = f"{folder}{self._mark}-"
        for name in names:
            self._require_own(name.removeprefix(self._root), name.startswith(own))
        return [name.removeprefix(own) for name in names]

    @property
    def _mark(self) -> str:
        """Hash of the run's stamp, with which names of attempts begin."""
        return hashlib.sha256(json.dumps(self._stamp, sort_keys=True).encode()).hexdigest()[:16]

    # Rejects.

    def put_rejects(self, chunk: int, start: int, end: int, lines: Sequence[bytes]) -> str:
        """Write the rejects of a segment, and return their name.

        The same rows give the same rejects, except for those that DynamoDB refused. If these differ
        between two invocations, each keeps its own file.
        """
        data = b"".join(lines)
        name = f"rejects/{chunk:05d}/{start}-{end}.jsonl"
        if self._store.put_new(self._root + name, data):
            return name
        if self._store.get(self._root + name) == data:
            return name
        name = f"rejects/{chunk:05d}/{start}-{end}-{hashlib.sha256(data).hexdigest()[:16]}.jsonl"
        self._store.put(self._root + name, data)
        return name

    def rejects(self, segments: Iterable[Segment]) -> Iterator[bytes]:
        """Yield the rejects of these segments as JSON lines.

        Raises `LedgerDamaged` if a segment has another number of them than it counted.
        """
        remaining = iter(segments)
        while group := list(islice(remaining, REJECTS_AT_ONCE)):
            names = [self._root + each.rejects for each in group if each.rejects is not None]
            contents = iter(self._store.get_all(names) if names else ())
            for segment in group:
                yield from self._reject_lines(segment, contents)

    def _reject_lines(self, segment: Segment, contents: Iterator[bytes | None]) -> list[bytes]:
        lines: list[bytes] = []
        if segment.rejects is not None:
            data = next(contents)
            if data is None:
                raise LedgerDamaged(f"{self._uri(segment.rejects)} is missing")
            lines = data.splitlines(keepends=True)
        if len(lines) != segment.rows.rejected:
            raise LedgerDamaged(
                f"{self._uri(segment.rejects or 'rejects/')} has {len(lines)} rejects, and"
                f" {segment.rows.rejected} were counted in chunk {segment.chunk} from byte"
                f" {segment.start.byte}; start a new run"
            )
        if lines and not lines[-1].endswith(b"\n"):
            raise LedgerDamaged(
                f"{self._uri(segment.rejects or 'rejects/')} is cut short in its last line; start a"
                " new run"
            )
        return lines

    @property
    def rejects_uri(self) -> str:
        """URI of the folder of rejects."""
        return self._uri("rejects/")

    # The end.

    def put_failure(self, failure: Failure) -> None:
        """Write why a chunk failed. Report ignores it if the chunk is imported later."""
        self._put(f"failures/{failure.chunk:05d}.json", failure.to_json())

    def failures(self) -> list[Failure]:
        """Read the failures of chunks, in chunk order."""
        names = self._store.names(self._root + "failures/")
        found = zip(names, self._store.get_all(names), strict=True)
        return [
            self._decode(name, data, Failure.from_json) for name, data in found if data is not None
        ]

    def put_report_part(self, cursor: ReportCursor, sums: Mapping[str, Any]) -> None:
        """Write the sums over a run's first chunks, unless they exist."""
        self._put_new(_report_part(cursor), {"sums": dict(sums), **self._stamp})

    def report_part(self, cursor: ReportCursor, decode: Callable[[Any], T]) -> T:
        """Read the sums over a run's first chunks. Raises `LedgerDamaged`."""
        name = _report_part(cursor)
        sums = self._read_own(name, lambda value: decode(value["sums"]))
        if sums is None:
            raise LedgerDamaged(f"{self._uri(name)} is missing; report the run again")
        return sums

    def last_report_part(self, name: str) -> int | None:
        """Find the last part with a name; return the number of its next chunk."""
        folder = f"{self._root}report-parts/{name}/"
        names = self._store.names(folder)
        return int(names[-1].removeprefix(folder).removesuffix(".json")) if names else None

    def _segment_named(self, name: str) -> Callable[[Any], Segment]:
        """Return a decoder of a segment that also checks that its name matches its content."""

        def decode(value: dict[str, Any]) -> Segment:
            segment = Segment.from_json(value)
            if not name.endswith("/" + _segment(segment.chunk, segment.start.byte)):
                raise ValueError(name)
            return segment

        return self._owned(name.removeprefix(self._root), decode)


class ManifestCache:
    """Cache of the manifest of the last used run, one per function environment."""

    def __init__(self) -> None:
        self._record: RunRecord | None = None
        self._text = b""

    def has_chunk(self, ledger: Ledger, record: RunRecord, chunk: Chunk) -> bool:
        """Return whether a run's manifest contains a chunk, with one request per run.

        A record has one manifest, because its parts are written once. If a chunk is not found, the
        manifest is read again, because preflight may have finished since.
        """
        # As text, 20,000 chunks take a megabyte and are searched fast. No value contains a brace,
        # so these bytes match exactly one chunk.
        wanted = encode_json(chunk.to_json())
        if self._record != record or wanted not in self._text:
            self._record, self._text = record, ledger.manifest_text()
        return wanted in self._text


class Attempt:
    """Record of the rows that an invocation may have sent, to recognize the run's own items.

    `insert` skips rows whose item already exists. But a killed invocation has written items without
    counting them, and the next one finds these. So each invocation records in the ledger the byte
    range of the rows that it may send: before it sends the first row, and again before it sends a
    row beyond the range. When its segment is written, it records which rows it sent beyond the
    segment, usually none.

    An identical item for a row in another invocation's range may be the run's own, and counts as
    written. An invocation reads the ranges before it writes its segment. Another one that sends a
    row at the same time has recorded it before, and keeps the record until a segment counts the
    row.

    Nothing is overwritten, because a write that seemed lost may arrive late: each record is an
    empty object named `<run>-<invocation>-<number>-<from>-<to>`. The invocation's record with the
    highest number is valid. One listing of the names reads all records.
    """

    def __init__(self, ledger: Ledger, chunk: Chunk, start: Cursor) -> None:
        self._ledger = ledger
        self._chunk = chunk
        # Random, because the same invocation may run twice, and each needs its own records.
        self._name = secrets.token_hex(8)
        self._number = 0
        self._start = start.byte
        self._recorded_from = self.recorded_to = start.byte

    def cover(self, end: int, rows: int, untouched: int | None) -> None:
        """Record that rows before byte `end` may be sent from now on.

        Args:
            end: Byte after the last of these rows.
            rows: Number of rows from the start to `end`.
            untouched: Byte before which this invocation has sent no row of the chunk and never
                will; None if it has sent rows.

        Raises the error of a failed write to the ledger. The rows must not be sent then.
        """
        ahead = (end - self._start) * AHEAD_ROWS // max(1, rows)
        # Rows sent since the last record lie after the bytes that were untouched at that time.
        self._record(
            self._recorded_from if untouched is None else untouched,
            max(end, min(end + ahead, self._chunk.end)),
        )

    def trim(self, start: int, end: int) -> None:
        """Record that rows sent without a segment lie between these bytes, if any were sent.

        Errors are ignored: then too many rows count as written, but no written row counts as
        skipped.
        """
        if self._number:
            with suppress(DdbloadError):
                self._record(start, end)

    def others(self, before: int) -> list[Range]:
        """Return the merged byte ranges before a byte that other invocations may have sent."""
        ranges = _last_ranges(self._ledger.attempt_names(self._chunk.chunk))
        ranges.pop(self._name, None)
        merged: list[Range] = []
        for start, end in sorted((start, min(end, before)) for start, end in ranges.values()):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            elif start < end:
                merged.append((start, end))
        return merged

    def _record(self, start: int, end: int) -> None:
        name = f"{self._name}-{self._number:06d}-{start}-{end}"
        # Counted before the write, because an object may exist although its write failed.
        self._number += 1
        self._ledger.put_attempt(self._chunk.chunk, name)
        self._recorded_from, self.recorded_to = start, end


def _last_ranges(names: Sequence[str]) -> dict[str, Range]:
    """Return the last recorded range of each invocation."""
    last: dict[str, Range] = {}
    # Sorted by invocation, then by number.
    for name in sorted(names):
        try:
            invocation, _, start, end = name.split("-")
            last[invocation] = int(start), int(end)
        except ValueError:
            raise LedgerDamaged(
                f"attempts/ has {name!r}, which is not what this version of ddbload writes; start a"
                " new run (another run id)"
            ) from None
    return last


@contextmanager
def temporary_ledger() -> Iterator[Ledger]:
    """Create a ledger for a plan or conversion in a temporary folder; delete it at the end."""
    with tempfile.TemporaryDirectory(prefix="ddbload-") as folder:
        yield Ledger(FolderStore(Path(folder)), "scratch")


def _groups(value: Any) -> tuple[tuple[Chunk, ...], ...]:
    if not isinstance(value, list):
        raise TypeError("a manifest is a list")
    return tuple(tuple(map(Chunk.from_json, each["chunks"])) for each in value)


def _start_before(names: Iterable[str], byte: int) -> int | None:
    """Find the greatest number below `byte` that names an object."""
    stems = (name.rpartition("/")[2].removesuffix(".json") for name in names)
    starts = (int(stem) for stem in stems if stem.isdecimal())
    return max((start for start in starts if start < byte), default=None)


def _listing_page(listing: str, page: int) -> str:
    return f"listing/{listing}/{page:05d}.json"


def _listing_part(cursor: ListingCursor) -> str:
    return f"listing/{cursor.listing}/part-{cursor.part:05d}.json"


def _slices(chunk: Chunk) -> str:
    return f"parts/{chunk.start}-{chunk.end}.json"


def _segment(chunk: int, start: int) -> str:
    return f"chunks/{chunk:05d}/{start}.json"


def _report_part(cursor: ReportCursor) -> str:
    return f"report-parts/{cursor.name}/{cursor.chunk:05d}.json"
