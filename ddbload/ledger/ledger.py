"""One run's ledger: `runs/<run id>/` in a store. See docs/ledger.md.

`run.json` is written when everything was checked; then the manifest's parts, the manifest,
the segments of each chunk, and at last `report.json`. A segment is written once, last, and
never changed: whoever comes second adopts it. Segments and the manifest's parts carry the run's
id and configuration, so that none of another run is taken for one of this.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ddbload.contracts.chunks import Chunk, ManifestPart, ObjectSlice, PreflightCursor
from ddbload.contracts.results import Failure, Heartbeat, Report, Segment
from ddbload.contracts.run_record import RunRecord
from ddbload.errors import DdbloadError, LedgerDamaged, RunNotFound
from ddbload.ledger.store import FolderStore, Store

T = TypeVar("T")
REJECTS_AT_ONCE = 8
"""Objects of up to 32 MiB that are held at once: a report of thousands is not to take hours."""


class Ledger:
    """Reads and writes one run's objects. Raises `LedgerDamaged` for what it cannot read."""

    def __init__(self, store: Store, run: str, record: RunRecord | None = None) -> None:
        """`record`: the run's, where it is known already."""
        self.run = run
        self._store = store
        self._root = f"runs/{run}/"
        self._known_stamp = None if record is None else record.stamp

    # The run.

    def find_record(self) -> RunRecord | None:
        """What the run is, or None when it never began."""
        found = self._read("run.json", RunRecord.from_json)
        if found is None:
            return None
        if found.run != self.run:
            raise LedgerDamaged(
                f"{self._uri('run.json')} is that of run {found.run}; start a new run (another run"
                " id)"
            )
        self._known_stamp = found.stamp
        return found

    def record(self) -> RunRecord:
        """What the run is. Raises `RunNotFound`."""
        found = self.find_record()
        if found is None:
            where = self._store.uri("runs")
            raise RunNotFound(f"there is no run {self.run} in the ledger at {where}")
        return found

    def begin(self, record: RunRecord) -> bool:
        """Write what the run is, unless it began before; whether it was written.

        Of two runs that begin under one id at once, one begins: the other must not take its
        segments for its own.
        """
        began = self._store.put_new(self._root + "run.json", _encode(record.to_json()))
        if began:
            self._known_stamp = record.stamp
        return began

    def put_record(self, record: RunRecord) -> None:
        """Write what a run is that began before."""
        self._store.put(self._root + "run.json", _encode(record.to_json()))

    def put_execution(self, arn: str) -> None:
        """Write which execution works on the run, the last one."""
        self._store.put(self._root + "execution.json", _encode({"execution": arn}))

    def find_execution(self) -> str | None:
        """The last execution that worked on the run; None when none of a state machine did."""
        return self._read("execution.json", lambda value: str(value["execution"]))

    def put_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Write a local run's sign of life, over the one before."""
        self._store.put(self._root + "progress.json", _encode(heartbeat.to_json()))

    def find_heartbeat(self) -> Heartbeat | None:
        """The last sign of life of a local run. A damaged one is none: it proves nothing."""
        try:
            return self._read("progress.json", Heartbeat.from_json)
        except LedgerDamaged:
            return None

    # Of several objects.

    def put_listing(self, name: str, page: int, objects: Sequence[Mapping[str, Any]]) -> None:
        """Write which objects there are: a page of them, each pinned.

        `name`: of the listing. Each invocation that lists has one of its own, for the record
        that counts must go with the listing that it was made of.
        """
        value = {"run": self.run, "objects": list(objects)}
        self._store.put(self._root + _page_name(name, page), _encode(value))

    def listing(self, name: str, page: int) -> list[dict[str, Any]]:
        """A page of the objects of a listing. Raises `LedgerDamaged`."""
        path = _page_name(name, page)

        def decode(value: Any) -> list[dict[str, Any]]:
            if isinstance(value, dict):
                self._require_own(path, value.get("run") == self.run)
                value = value["objects"]
            else:
                # So version 1 has them.
                self._require_own(path, not self._stamp)
            return [dict(each) for each in value]

        found = self._read(path, decode)
        if found is None:
            raise LedgerDamaged(f"{self._uri(path)} is missing; start a new run")
        return found

    def put_parts(self, chunk: Chunk, parts: Sequence[ObjectSlice]) -> None:
        """Write which objects a chunk reads. The same range has always the same."""
        value: Any = [part.to_json() for part in parts]
        if self._stamp:
            value = {"parts": value, **self._stamp}
        self._store.put(self._root + _parts_name(chunk), _encode(value))

    def parts(self, chunk: Chunk) -> list[ObjectSlice]:
        """The objects that a chunk reads. Raises `LedgerDamaged`."""
        name = _parts_name(chunk)

        def decode(said: Any) -> list[ObjectSlice]:
            return [ObjectSlice.from_json(each) for each in said]

        # In version 1 they are a list, and carry nothing.
        owned = self._owned(name, lambda said: decode(said["parts"]))
        found = self._read(name, owned if self._stamp else decode)
        if not found:
            raise LedgerDamaged(f"{self._uri(name)} is missing or empty; start a new run")
        return found

    # The manifest.

    def find_part(self, byte: int) -> ManifestPart | None:
        """The part of the manifest that begins at a byte."""

        def decode(said: dict[str, Any]) -> ManifestPart:
            cursor = said["cursor"]
            return ManifestPart(
                _chunks(said["chunks"]),
                None if cursor is None else PreflightCursor.from_json(cursor),
            )

        name = _part_name(byte)
        return self._read(name, self._owned(name, decode))

    def part_before(self, byte: int) -> ManifestPart | None:
        """The last part of the manifest that begins before a byte."""
        start = self._start_before("manifest/", byte)
        return None if start is None else self.find_part(start)

    def put_part(self, byte: int, part: ManifestPart) -> ManifestPart:
        """Write a part, unless there is one: the part that counts."""
        value = {
            "chunks": [chunk.to_json() for chunk in part.chunks],
            "cursor": None if part.cursor is None else part.cursor.to_json(),
            **self._stamp,
        }
        if self._store.put_new(self._root + _part_name(byte), _encode(value)):
            return part
        return self.find_part(byte) or part

    def put_manifest(self, chunks: Sequence[Chunk]) -> None:
        """Write the whole manifest: a JSON array, which a distributed Map reads."""
        self._store.put(
            self._root + "manifest.json", _encode([chunk.to_json() for chunk in chunks])
        )

    def find_manifest(self) -> tuple[Chunk, ...] | None:
        """All chunks in order, or None when preflight is not done."""
        return self._read("manifest.json", _chunks)

    @property
    def manifest_name(self) -> str:
        """The manifest's name in the store."""
        return self._root + "manifest.json"

    # Segments.

    def find_segment(self, chunk: int, start: int) -> Segment | None:
        """The segment of a chunk that begins at a byte."""
        name = _segment_name(chunk, start)
        return self._read(name, self._segment_named(self._root + name))

    def segment_before(self, chunk: int, byte: int) -> Segment | None:
        """The last segment of a chunk that begins before a byte."""
        start = self._start_before(_segments_of(chunk), byte)
        return None if start is None else self.find_segment(chunk, start)

    def put_segment(self, segment: Segment) -> Segment:
        """Write a segment, unless there is one: the segment that counts."""
        name = _segment_name(segment.chunk, segment.start.byte)
        value = {**segment.to_json(), **self._stamp}
        if self._store.put_new(self._root + name, _encode(value)):
            return segment
        return self.find_segment(segment.chunk, segment.start.byte) or segment

    def segment_names(self) -> list[str]:
        """The names of all segments of the run."""
        return self._store.names(self._root + "chunks/")

    def segments(self, names: Sequence[str] | None = None) -> list[Segment]:
        """The segments of these names, or all of the run."""
        found = self.segment_names() if names is None else names
        return self._read_each(found, self._segment_named)

    # Attempts, in mode `insert`.

    def put_attempt(self, chunk: int, name: str) -> None:
        """Write what an invocation may have put: the name says it (`ddbload.ledger.attempts`)."""
        self._store.put(f"{self._root}{_attempts_of(chunk)}{self._mark}-{name}", b"")

    def attempt_names(self, chunk: int) -> list[str]:
        """The names that the invocations of a chunk have given."""
        folder = self._root + _attempts_of(chunk)
        names = self._store.names(folder)
        own = f"{folder}{self._mark}-"
        for name in names:
            self._require_own(name.removeprefix(self._root), name.startswith(own))
        return [name.removeprefix(own) for name in names]

    @property
    def _mark(self) -> str:
        """The run's stamp, for names."""
        return hashlib.sha256(json.dumps(self._stamp, sort_keys=True).encode()).hexdigest()[:16]

    # Rejects.

    def put_rejects(self, chunk: int, start: int, end: int, lines: Sequence[bytes]) -> str:
        """Write the rejects of a segment; their name.

        The same rows give the same content, but for what DynamoDB refused: that may differ
        from one invocation to the other, and then each keeps its own.
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

    def rejects(self, segments: Sequence[Segment]) -> Iterator[bytes]:
        """The rejects of these segments, one JSON line after the other.

        Raises `LedgerDamaged` where there are not as many as a segment counted.
        """
        for first in range(0, len(segments), REJECTS_AT_ONCE):
            some = segments[first : first + REJECTS_AT_ONCE]
            names = [self._root + each.rejects for each in some if each.rejects is not None]
            found = iter(self._store.get_all(names) if names else ())
            for segment in some:
                yield from self._reject_lines(segment, found)

    def _reject_lines(self, segment: Segment, found: Iterator[bytes | None]) -> list[bytes]:
        lines: list[bytes] = []
        if segment.rejects is not None:
            data = next(found)
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
        """Where the rejects lie."""
        return self._uri("rejects/")

    # The end.

    def put_failure(self, failure: Failure) -> None:
        """Leave word why a chunk failed. It counts while the chunk is not imported."""
        self._store.put(
            f"{self._root}failures/{failure.chunk:05d}.json", _encode(failure.to_json())
        )

    def failures(self) -> list[Failure]:
        """What failed chunks left word of, in the chunks' order."""
        names = self._store.names(self._root + "failures/")
        return self._read_each(names, lambda _: Failure.from_json)

    def put_report(self, report: Report) -> str:
        """Write the report; where it lies."""
        self._store.put(self._root + "report.json", _encode(report.to_json()))
        return self._uri("report.json")

    def find_report(self) -> Report | None:
        """The last report, if the run came to one."""
        return self._read("report.json", Report.from_json)

    def _start_before(self, folder: str, byte: int) -> int | None:
        """Find the last byte before another that an object of a folder is named by."""
        names = self._store.names(self._root + folder)
        stems = (name.rpartition("/")[2].removesuffix(".json") for name in names)
        starts = (int(stem) for stem in stems if stem.isdecimal())
        return max((start for start in starts if start < byte), default=None)

    @property
    def _stamp(self) -> dict[str, str]:
        if self._known_stamp is None:
            self._known_stamp = self.record().stamp
        return self._known_stamp

    def _owned(self, name: str, decode: Callable[[dict[str, Any]], T]) -> Callable[[Any], T]:
        """Make a decoder of objects that carry the run's stamp. It raises `LedgerDamaged`."""
        # Looked up here and not while decoding: what keeps it from being read is no damage.
        stamp = self._stamp

        def decode_own(value: Any) -> T:
            said = dict(value)
            carried = {each: said.pop(each) for each in ("run", "configuration") if each in said}
            found = decode(said)
            self._require_own(name, carried == stamp)
            return found

        return decode_own

    def _require_own(self, name: str, is_own: bool) -> None:
        if not is_own:
            raise LedgerDamaged(
                f"{self._uri(name)} was not written by this run: it belongs to another one, or to"
                " one with another source, table or reading of it; start a new run (another run id)"
            )

    def _segment_named(self, name: str) -> Callable[[Any], Segment]:
        """Make a decoder of the segment of this name, and no other that was put in its place."""

        def decode(said: dict[str, Any]) -> Segment:
            segment = Segment.from_json(said)
            if not name.endswith("/" + _segment_name(segment.chunk, segment.start.byte)):
                raise ValueError(name)
            return segment

        return self._owned(name.removeprefix(self._root), decode)

    def _uri(self, name: str) -> str:
        return self._store.uri(self._root + name)

    def _read(self, name: str, decode: Callable[[Any], T]) -> T | None:
        data = self._store.get(self._root + name)
        return None if data is None else self._decode(self._root + name, data, decode)

    def _read_each(
        self, names: Sequence[str], decoder: Callable[[str], Callable[[Any], T]]
    ) -> list[T]:
        return [
            self._decode(name, data, decoder(name))
            for name, data in zip(names, self._store.get_all(names), strict=True)
            if data is not None
        ]

    def _decode(self, name: str, data: bytes, decode: Callable[[Any], T]) -> T:
        try:
            return decode(json.loads(data))
        except LedgerDamaged:
            raise
        except (DdbloadError, ValueError, LookupError, TypeError):
            raise LedgerDamaged(
                f"{self._store.uri(name)} is not what this version of ddbload writes: it is"
                " damaged, or of a later version; start a new run (another run id)"
            ) from None


def in_order(chunk: Chunk, segments: dict[tuple[int, int], Segment]) -> list[Segment]:
    """A chunk's segments, each beginning where the one before ends.

    `segments` by chunk and start. What is not linked to the chunk's first byte counts nothing.
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


def _chunks(value: Any) -> tuple[Chunk, ...]:
    if not isinstance(value, list):
        raise TypeError("a manifest is a list")
    return tuple(Chunk.from_json(each) for each in value)


def _part_name(byte: int) -> str:
    return f"manifest/{byte}.json"


def _page_name(listing: str, page: int) -> str:
    return f"listing/{listing}/{page:05d}.json"


def _parts_name(chunk: Chunk) -> str:
    return f"parts/{chunk.start}-{chunk.end}.json"


def _segments_of(chunk: int) -> str:
    return f"chunks/{chunk:05d}/"


def _segment_name(chunk: int, start: int) -> str:
    return f"{_segments_of(chunk)}{start}.json"


def _attempts_of(chunk: int) -> str:
    return f"attempts/{chunk:05d}/"


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def last_report(ledger: Ledger) -> Report | None:
    """What the last attempt came to. A damaged report is none: the ledger proves the run."""
    try:
        return ledger.find_report()
    except LedgerDamaged:
        return None


@contextmanager
def temporary_ledger() -> Iterator[Ledger]:
    """A ledger in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="ddbload-") as folder:
        yield Ledger(FolderStore(Path(folder)), "scratch")
