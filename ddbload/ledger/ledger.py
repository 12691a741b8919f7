"""Read and write the ledger of one run: `runs/<run id>/` in a store. See docs/ledger.md.

`request.json`, what was asked for, is written first, and `run.json` once every check has passed;
then the parts of the manifest, the manifest, the segments of each chunk, and finally `report.json`.
A segment is written once and never changed: a second invocation adopts it. Segments and manifest
parts carry the run's id and configuration, so that those of another run are refused.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ddbload.contracts.chunks import (
    Chunk,
    ListingCursor,
    ListingPart,
    ManifestPart,
    ObjectSlice,
    PreflightCursor,
    SeekPoint,
)
from ddbload.contracts.control import IDLE, Control, WorkerProgress, silence_limit
from ddbload.contracts.results import Failure, Heartbeat, Segment
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.states import ReportCursor
from ddbload.errors import LedgerDamaged, ServiceUnavailable
from ddbload.ledger.run_objects import RunObjects
from ddbload.ledger.store import AgesPage, FolderStore, encode_json

T = TypeVar("T")
_WORKERS = "progress/"
FOLDER_PROGRESS_SECONDS, BUCKET_PROGRESS_SECONDS = 1.0, 5.0
"""Seconds between two writes of a worker's progress, for a ledger in a folder and in S3."""
_CONTROL_ATTEMPTS = 30
_LIMITS_OF_PAYLOAD = {"state": "payload"}
"""Takes back a control. Deleting it would take no condition, and so back what it has not seen."""
_PAGES_AT_ONCE = 8
"""Pages of a listing, a thousand objects each, that are read concurrently."""
REJECTS_AT_ONCE = 8
"""Objects of rejects, up to 32 MiB each, that are read concurrently and kept in memory."""


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """Worker of a run, as a listing shows it."""

    progress: WorkerProgress
    age: float
    """Seconds since the worker wrote its progress."""
    alive: bool
    """False if it has been silent for so long that it died, or stopped by itself."""

    @property
    def working(self) -> bool:
        """True if the worker may send requests."""
        return self.alive and self.progress.state != IDLE


class Ledger(RunObjects):
    """Ledger of one run. Reading raises `LedgerDamaged` for an object that cannot be decoded."""

    # The run.

    def put_execution(self, arn: str) -> None:
        """Write the ARN of the execution that works on the run."""
        self._put("execution.json", {"execution": arn})

    def find_execution(self) -> str | None:
        """Read the ARN of the last execution that worked on the run; None for a local run."""
        return self._read("execution.json", lambda value: str(value["execution"]))

    def put_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Replace the heartbeat of a local run."""
        self._put("progress.json", heartbeat.to_json())

    def find_heartbeat(self) -> Heartbeat | None:
        """Read the last heartbeat of a local run; None if missing or damaged."""
        try:
            return self._read("progress.json", Heartbeat.from_json)
        except LedgerDamaged:
            return None

    # Control and progress.

    def change_control(self, change: Callable[[Control | None], Control | None]) -> Control | None:
        """Replace the limits that the run's workers obey by what `change` makes of them.

        It gets None if those of the payload hold, and is called again if another write came first,
        so that no change overwrites one that it has not seen. Raises `LedgerDamaged`, what `change`
        raises, and `ServiceUnavailable` after too many attempts.
        """
        name = self._root + "control.json"
        for _ in range(_CONTROL_ATTEMPTS):
            found = self._store.get_version(name)
            before = None if found is None else self._decode_control(found.data)
            after = change(before)
            value = _LIMITS_OF_PAYLOAD if after is None else after.to_json()
            if after == before or self._store.put_over(
                name, encode_json(value), None if found is None else found.version
            ):
                return after
        raise ServiceUnavailable(
            f"the limits in {self._uri('control.json')} were changed {_CONTROL_ATTEMPTS} times"
            " meanwhile; repeat the command"
        )

    def find_control(self) -> Control | None:
        """Read the limits that the run's workers obey; None if those of the payload hold.

        Raises `LedgerDamaged` for limits that cannot be read: they may not be guessed.
        """
        data = self._store.get(self._root + "control.json")
        return None if data is None else self._decode_control(data)

    def _decode_control(self, data: bytes) -> Control | None:
        def decode(value: Any) -> Control | None:
            return None if value == _LIMITS_OF_PAYLOAD else Control.from_json(value)

        try:
            return self._decode(self._root + "control.json", data, decode)
        except LedgerDamaged:
            raise LedgerDamaged(
                f"{self._uri('control.json')} is not what this version of ddbload writes, so the"
                f" limits of run {self.run} are unknown: delete it, and resume the run with the"
                " limits that it should have"
            ) from None

    def put_worker(self, progress: WorkerProgress, earlier: WorkerProgress | None) -> None:
        """Write the progress of a worker, and delete its earlier one."""
        self._store.put(f"{self._root}{_WORKERS}{progress.to_name()}", b"")
        if earlier is not None:
            self._store.delete(f"{self._root}{_WORKERS}{earlier.to_name()}")

    def workers(self) -> list[SeenWorker]:
        """List all workers that the run ever had, with their last progress, by one listing."""
        last: dict[str, tuple[WorkerProgress, float]] = {}
        folder = self._root + _WORKERS
        for name, age in sorted(self._store.ages(folder).items()):
            progress = WorkerProgress.from_name(name.removeprefix(folder))
            # Sorted by worker, then by number: the last one counts.
            if progress is not None:
                last[progress.worker] = progress, age
        silent = silence_limit(self.progress_seconds, [age for _, age in last.values()])
        return [SeenWorker(progress, age, age <= silent) for progress, age in last.values()]

    @property
    def progress_seconds(self) -> float:
        """Seconds between two writes of a worker's progress, while there are few workers."""
        return BUCKET_PROGRESS_SECONDS if self.in_bucket else FOLDER_PROGRESS_SECONDS

    def page(self, folder: str, after: str = "") -> AgesPage:
        """List a page of the names in a folder of the run, relative to it, by one request."""
        return self._store.page(f"{self._root}{folder}/", after)

    # Sources of several objects.

    def put_listing(
        self, name: str, page: int, objects: Sequence[Mapping[str, Any]], after: str
    ) -> bool:
        """Write a page of a listing unless there is one; True if written.

        That is: pinned objects in order, and the position in the source behind the last one. Each
        run that begins to list chooses a new `name`, so that a record always refers to the listing
        that it was made from.
        """
        value = {"run": self.run, "objects": list(objects), "after": after}
        return self._put_new(_listing_page(name, page), value)

    def put_listing_part(self, cursor: ListingCursor, part: ListingPart) -> None:
        """Write where an invocation stopped to list, unless another did so before."""
        self._put_new(_listing_part(cursor), {"run": self.run, **asdict(part)})

    def find_listing_part(self, cursor: ListingCursor) -> ListingPart | None:
        """Read where an invocation stopped to list; None if missing. Raises `LedgerDamaged`."""
        name = _listing_part(cursor)

        def decode(value: dict[str, Any]) -> ListingPart:
            self._require_own(name, value.pop("run") == self.run)
            return ListingPart(**{**value, "open": tuple(value["open"])})

        return self._read(name, decode)

    def listing(self, name: str, pages: Iterable[int]) -> Iterator[list[dict[str, Any]]]:
        """Read the objects of pages of a listing, the first alone and others concurrently.

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
        """Read the objects of a page, and the position behind them; None if missing."""
        path = _listing_page(name, page)
        return self._read(path, self._listing_decoder(path))

    def _listing_decoder(self, path: str) -> Callable[[Any], tuple[list[dict[str, Any]], str]]:
        def decode(value: Any) -> tuple[list[dict[str, Any]], str]:
            self._require_own(path, value["run"] == self.run)
            return [dict(each) for each in value["objects"]], value["after"]

        return decode

    def put_slices(self, chunk: Chunk, slices: Sequence[ObjectSlice]) -> None:
        """Write the slices of objects that a chunk reads; equal for equal byte ranges."""
        value = {"parts": [each.to_json() for each in slices], **self._stamp}
        self._put(_slices(chunk), value)

    def slices(self, chunk: Chunk) -> list[ObjectSlice]:
        """Read the slices of objects that a chunk reads. Raises `LedgerDamaged`."""
        name = _slices(chunk)

        def decode(value: Any) -> list[ObjectSlice]:
            return [ObjectSlice.from_json(each) for each in value["parts"]]

        slices = self._read(name, self._owned(name, decode))
        if not slices:
            raise LedgerDamaged(f"{self._uri(name)} is missing or empty; start a new run")
        return slices

    def put_seek_point(self, byte: int, point: SeekPoint) -> None:
        """Write the point of a compressed object from which the row at a byte is read."""
        self._put(f"seek/{byte}.json", {**point.to_json(), **self._stamp})

    def find_seek_point(self, byte: int) -> SeekPoint | None:
        """Read the point of a compressed object from which the row at a byte is read."""
        name = f"seek/{byte}.json"
        return self._read(name, self._owned(name, SeekPoint.from_json))

    # The manifest.

    def find_manifest_part(self, byte: int) -> ManifestPart | None:
        """Read the part of the manifest that begins at a byte; None if missing."""

        def decode(value: dict[str, Any]) -> ManifestPart:
            cursor = value["cursor"]
            return ManifestPart(
                _chunks(value["chunks"]),
                None if cursor is None else PreflightCursor.from_json(cursor),
                bool(value.get("padded", False)),
            )

        name = f"manifest/{byte}.json"
        return self._read(name, self._owned(name, decode))

    def manifest_part_before(self, byte: int) -> ManifestPart | None:
        """Read the last part of the manifest that begins before a byte."""
        start = self._start_before("manifest/", byte)
        return None if start is None else self.find_manifest_part(start)

    def put_manifest_part(self, byte: int, part: ManifestPart) -> ManifestPart:
        """Write a part of the manifest unless there is one, and return the part that counts."""
        value = {
            "chunks": [chunk.to_json() for chunk in part.chunks],
            "cursor": None if part.cursor is None else part.cursor.to_json(),
            **({"padded": True} if part.padded else {}),
            **self._stamp,
        }
        if self._put_new(f"manifest/{byte}.json", value):
            return part
        return self.find_manifest_part(byte) or part

    def put_manifest(self, chunks: Sequence[Chunk]) -> None:
        """Write the whole manifest, as the JSON array that a distributed Map reads."""
        self._put("manifest.json", [chunk.to_json() for chunk in chunks])

    def find_manifest(self) -> tuple[Chunk, ...] | None:
        """Read all chunks in order; None if preflight has not finished."""
        return self._read("manifest.json", _chunks)

    def manifest_text(self) -> bytes:
        """Read the manifest as compact JSON; nothing if preflight has not finished."""
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

    def segment_before(self, chunk: int, byte: int) -> Segment | None:
        """Read the last segment of a chunk that begins before a byte."""
        start = self._start_before(f"chunks/{chunk:05d}/", byte)
        return None if start is None else self.find_segment(chunk, start)

    def put_segment(self, segment: Segment) -> Segment:
        """Write a segment unless there is one, and return the segment that counts."""
        name = _segment(segment.chunk, segment.start.byte)
        if self._put_new(name, {**segment.to_json(), **self._stamp}):
            return segment
        return self.find_segment(segment.chunk, segment.start.byte) or segment

    def iter_segments(self, first_chunk: int = 0) -> Generator[Segment]:
        """Read the segments from a chunk on, in the order of their names, a few at a time."""
        folder = f"{self._root}chunks/"
        with closing(self._store.read_folder(folder, f"{first_chunk:05d}/")) as found:
            for name, data in found:
                if data is not None:
                    yield self._decode(folder + name, data, self._segment_named(folder + name))

    # Attempts, in mode `insert`.

    def put_attempt(self, chunk: int, name: str) -> None:
        """Write an empty object whose name says which rows were sent (`ledger.attempts`)."""
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
        """Hash of the run's stamp, which begins the names of attempts."""
        return hashlib.sha256(json.dumps(self._stamp, sort_keys=True).encode()).hexdigest()[:16]

    # Rejects.

    def put_rejects(self, chunk: int, start: int, end: int, lines: Sequence[bytes]) -> str:
        """Write the rejects of a segment, and return their name.

        The same rows have the same rejects, except those that DynamoDB refused: if these differ
        between two invocations, each keeps a file.
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
        """Read the rejects of these segments as lines of JSON.

        Raises `LedgerDamaged` if there are not as many as a segment counted.
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
        """Write why a chunk failed; Report ignores it once the chunk is imported."""
        self._put(f"failures/{failure.chunk:05d}.json", failure.to_json())

    def failures(self) -> list[Failure]:
        """Read the failures of chunks, in the order of the chunks."""
        names = self._store.names(self._root + "failures/")
        return self._read_each(names, lambda _: Failure.from_json)

    def put_report_part(self, cursor: ReportCursor, sums: Mapping[str, Any]) -> None:
        """Write the sums over a run's first chunks, unless they are written."""
        self._put_new(_report_part(cursor), {"sums": dict(sums), **self._stamp})

    def report_part(self, cursor: ReportCursor, decode: Callable[[Any], T]) -> T:
        """Read the sums over a run's first chunks. Raises `LedgerDamaged`."""
        name = _report_part(cursor)
        sums = self._read(name, self._owned(name, lambda value: decode(value["sums"])))
        if sums is None:
            raise LedgerDamaged(f"{self._uri(name)} is missing; report the run again")
        return sums

    def last_report_part(self, name: str) -> int | None:
        """Find the last part of a name: the number of the chunk that is next."""
        folder = f"{self._root}report-parts/{name}/"
        names = self._store.names(folder)
        return int(names[-1].removeprefix(folder).removesuffix(".json")) if names else None

    def _segment_named(self, name: str) -> Callable[[Any], Segment]:
        """Make a decoder of a segment that also checks that its name fits its content."""

        def decode(value: dict[str, Any]) -> Segment:
            segment = Segment.from_json(value)
            if not name.endswith("/" + _segment(segment.chunk, segment.start.byte)):
                raise ValueError(name)
            return segment

        return self._owned(name.removeprefix(self._root), decode)


class ManifestCache:
    """The manifest of the run that was last asked for, as one environment keeps it."""

    def __init__(self) -> None:
        self._record: RunRecord | None = None
        self._text = b""

    def has_chunk(self, ledger: Ledger, record: RunRecord, chunk: Chunk) -> bool:
        """Tell whether a run's manifest has a chunk, by one request a run.

        A record has one manifest: the parts that this is joined from are written once. What is not
        found is looked for again, because preflight may have finished since.
        """
        # As text, 20,000 chunks take a megabyte and are searched at once. No value has a brace in
        # it, so these bytes are one whole chunk.
        wanted = encode_json(chunk.to_json())
        if self._record != record or wanted not in self._text:
            self._record, self._text = record, ledger.manifest_text()
        return wanted in self._text


@contextmanager
def temporary_ledger() -> Iterator[Ledger]:
    """Make a ledger for a plan or a conversion, deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="ddbload-") as folder:
        yield Ledger(FolderStore(Path(folder)), "scratch")


def _chunks(value: Any) -> tuple[Chunk, ...]:
    if not isinstance(value, list):
        raise TypeError("a manifest is a list")
    return tuple(Chunk.from_json(each) for each in value)


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
