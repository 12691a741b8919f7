"""Read a source in parts, in several processes if it has many, and take them in order.

The source is not read before: a cut between parts is a guess, the row end that is found from a
window of bytes near it, and whoever reads the part before the cut proves it. Results are those of
one process, whatever the number: each part is read as if by itself, and is taken in the source's
order if the part before it ended where it begins. All others are read in this process, from where
the part before ended: those after a wrong cut, and those that a worker could not read.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import field, fields, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Protocol

from ddbload.context import Context
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.errors import Interrupted
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import PinnedObject, iter_objects
from ddbload.reading.open_sources import open_decoded, open_each
from ddbload.reading.processes import ProcessPool
from ddbload.reading.row_batches import Part, RowBatch, iter_row_batches
from ddbload.reading.row_blocks import RunReader, rare_gc
from ddbload.records import MutableRecord, Record
from ddbload.rows.blocks import Defect
from ddbload.source.decoding.decoded_source import DecodedSource
from ddbload.source.s3_object import stored_bytes

PART_BYTES = 2 * 1024 * 1024
"""Bytes of a part of a local file."""
POOL_PARTS = 16
"""Parts of a local file from which on two processes take at most two thirds of the time of one."""
REMOTE_PART_BYTES = 16 * 1024 * 1024
"""Bytes of a part of an object in S3, where each part takes two requests."""
MAX_PART_OBJECTS = 64
MAX_WRONG_CUTS = 3
"""Cuts inside rows after which the rest of the source is read as one part."""
PARTS_OF_PROCESS = 3
"""Parts of a process that are queued, read, or wait to be taken."""
_WINDOW_BEFORE, _WINDOW_AFTER = 32 * 1024, 64 * 1024
"""Bytes before and after the place of a cut in which a row end is looked for."""
_COPY_BYTES, _WRITE_BYTES = 64 * 1024, 1024 * 1024


class PartOutput:
    """Bytes that a worker makes from a part, in a file that another process reads."""

    def __init__(self, folder: str) -> None:
        """Keep the bytes, if there are any, in a file in `folder`."""
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._path: Path | None = None

    def write(self, data: bytes) -> None:
        """Add bytes. Raises `OSError` if the file cannot be written."""
        if self._file is None:
            descriptor, name = tempfile.mkstemp(dir=self._folder)
            self._path, self._file = Path(name), os.fdopen(descriptor, "wb", _WRITE_BYTES)
        self._file.write(data)

    def finish(self) -> None:
        """Close the file, so that the output can be pickled. Raises `OSError`."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def pieces(self) -> Iterator[bytes]:
        """Yield all bytes."""
        if self._path is not None:
            with self._path.open("rb") as file:
                yield from iter(partial(file.read, _COPY_BYTES), b"")

    def remove(self) -> None:
        """Remove the file."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class ReadCounts(MutableRecord):
    """Counts of rows that were read to become items."""

    read: int = 0
    written: int = 0
    """Rows that became items."""
    filtered: int = 0
    """Rows that `where` leaves out."""
    bytes: int = 0
    """Bytes read, in a whole source the header included."""
    causes: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    """Rejected rows by cause and column."""

    def add(self, other: ReadCounts) -> None:
        """Add the rows of a part."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def add_batch(
        self, batch: RowBatch, reject: Callable[[int, Defect], object] = lambda _row, _defect: None
    ) -> str | list[str]:
        """Count a batch's rows; return its items in octets: as one text of lines, or as a list.

        `reject` is called with the number of each rejected row in the batch, and its defect.
        """
        self.bytes += batch.bytes
        self.read += batch.count + batch.filtered
        self.filtered += batch.filtered
        text = batch.item_lines()
        if text is not None:
            self.written += batch.count
            return text
        public = batch.reader.record.public_names

        def count(row: int, defect: Defect) -> None:
            reject(row, defect)
            column = batch.column_of(defect)
            self.causes[defect.cause, column if column in public else None] += 1

        items = batch.item_texts(count)
        self.written += len(items)
        return items

    @property
    def rows(self) -> RowCounts:
        """Counts in the form of an import's."""
        return RowCounts(
            read=self.read,
            written=self.written,
            rejected=self.causes.total(),
            filtered=self.filtered,
        )


class PartJob(Protocol):
    """Work on the rows of parts, by a worker; it is copied or pickled to get there."""

    @property
    def piece_bytes(self) -> int:
        """Bytes to read at a time."""

    def work(self, reader: RunReader, batches: Iterator[RowBatch], output: PartOutput) -> Any:
        """Read all batches, write output, and return a summary that can be pickled."""


class PartTaker(Protocol):
    """Consumer of parts in the order of the source."""

    def take(self, summary: Any, output: PartOutput, start: Cursor) -> bool:
        """Take a part that a worker read; False to have it read by `read` instead."""

    def read(self, batches: Iterator[RowBatch]) -> None:
        """Read a part in this process. Raises what keeps it from being taken."""


class PartResult(Record):
    """Result of a part: the job's summary, its output, and the position after its last row."""

    summary: Any
    output: PartOutput
    end: Cursor


class _PartReader:
    """Reader of the rows of parts, which knows where the last one ended."""

    def __init__(
        self, record: RunRecord, ledger: Ledger, context: Context, piece_bytes: int
    ) -> None:
        self.reader = RunReader(record)
        self._ledger, self._context, self._piece_bytes = ledger, context, piece_bytes
        self.end = record.data_start
        """Position after the last batch that was read."""

    def batches(self, part: Part) -> Generator[RowBatch]:
        """Read the batches of a part."""
        self.end = part.start
        found = iter_row_batches(
            self.reader, self._ledger, self._context, piece_bytes=self._piece_bytes, part=part
        )
        with closing(found):
            for batch in found:
                self.end = batch.block.end
                yield batch


def _make_worker(
    record: RunRecord,
    job: PartJob,
    make_context: Callable[[], Context],
    folder: str,
    *_: object,
) -> Callable[[Part], PartResult | None]:
    """Make the worker of a process. It returns None for a part that it cannot read."""
    context = make_context()
    # The listing of several objects is not read here: a part has its objects.
    source = _PartReader(record, context.ledger(record.run), context, job.piece_bytes)

    def work(part: Part) -> PartResult | None:
        output = PartOutput(folder)
        try:
            with closing(source.batches(part)) as batches, rare_gc():
                summary = job.work(source.reader, batches, output)
                output.finish()
        except Exception:  # noqa: BLE001 - the part is read again where parts are taken
            output.remove()
            return None
        return PartResult(summary, output, source.end)

    return work


def read_parts(
    record: RunRecord,
    ledger: Ledger,
    context: Context,
    job: PartJob,
    taker: PartTaker,
    *,
    processes: int = 1,
    make_context: Callable[[], Context] | None = None,
) -> None:
    """Read all rows of a run by `processes`, and have them taken in order.

    Args:
        record: Record of the run.
        ledger: Ledger with the listing of several objects.
        context: Clients and access policy.
        job: Work on each part.
        taker: Consumer of the results.
        processes: Most worker processes. With 1, for a source of one part, and for a local file of
            fewer than `POOL_PARTS`, all is done in this process.
        make_context: Maker of a worker's context; by default it uses a copy of `context`.

    Raises:
        Interrupted: If the context asks to stop.
        WorkerDied: If a worker was killed.
        OSError: If temporary files cannot be made.
        DdbloadError: If the source cannot be read, or as the taker raises.
    """
    source = _PartReader(record, ledger, context, job.piece_bytes)
    with ExitStack() as stack:
        stack.enter_context(rare_gc())
        parts = stack.enter_context(closing(iter_parts(source.reader, ledger, context)))
        least = POOL_PARTS if record.objects is None and "path" in record.pinned else 2
        first = list(islice(parts, least))
        each = chain(first, parts)
        results: Iterator[tuple[Part, PartResult | None]] = ((part, None) for part in each)
        if len(first) == least and processes > 1:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ddbload-"))
            make_worker = partial(
                _make_worker, record, job, make_context or (lambda: context), folder
            )
            pool = ProcessPool[Part, PartResult | None](
                processes, make_worker, tasks_each=PARTS_OF_PROCESS, may_fork=True, folder=folder
            )
            results = stack.enter_context(pool).map_in_order(each)
        _take_all(results, source, taker, context.should_stop)


def _take_all(
    results: Iterator[tuple[Part, PartResult | None]],
    source: _PartReader,
    taker: PartTaker,
    should_stop: Callable[[], bool],
) -> None:
    """Take parts in order, and read here those that no worker has read from their first row on."""
    at, wrong = source.end, 0

    def check_stop() -> None:
        if should_stop():
            raise Interrupted("stopped while reading the source")

    def check_each(batches: Iterator[RowBatch]) -> Iterator[RowBatch]:
        for batch in batches:
            check_stop()
            yield batch

    for part, result in results:
        check_stop()
        # The cut before it was inside a row, with which the part before could not end.
        is_misplaced = part.objects is None and part.start.byte != at.byte
        if result is not None:
            is_taken = not is_misplaced and taker.take(result.summary, result.output, at)
            result.output.remove()
            if is_taken:
                line = 1 if part.objects is not None else at.line + result.end.line - 1
                at = Cursor(at.byte + result.end.byte - part.start.byte, line)
                continue
        wrong += is_misplaced
        # After too many wrong guesses the rest is read sequentially.
        end = part.end if wrong <= MAX_WRONG_CUTS else None
        with closing(source.batches(replace(part, start=at, end=end))) as batches:
            taker.read(check_each(batches))
        at = source.end
        if wrong > MAX_WRONG_CUTS:
            return


def iter_parts(reader: RunReader, ledger: Ledger, context: Context) -> Generator[Part]:
    """Cut a run's source into parts, in order; the lines that they start at count from 1.

    The parts depend on the source alone. Raises the errors of reading the source.
    """
    record = reader.record
    if record.objects is not None:
        yield from _group_objects(iter_objects(record, ledger, 0), record.data_start)
        return
    first = Part(record.data_start)
    if not record.payload.source.has_cuts or record.size is None:
        yield first
        return
    with closing(open_each(iter([record.pinned]), context, several=False)) as each:
        for pinned, raw in each:
            file = open_decoded(raw, record.payload.source, pinned)
            if file.plain:
                size = PART_BYTES if "path" in pinned else REMOTE_PART_BYTES
                yield from _cut(reader, file, record.data_start, raw.size, size)
            else:
                yield first


def _group_objects(objects: Iterator[PinnedObject], start: Cursor) -> Iterator[Part]:
    """Group successive objects; a large one stays alone."""
    group: list[PinnedObject] = []
    size = before = stored = 0
    for pinned in objects:
        bytes_ = int(pinned.get("bytes", pinned["size"]))
        if group and (size + bytes_ > REMOTE_PART_BYTES or len(group) == MAX_PART_OBJECTS):
            yield Part(start, None, tuple(group), before)
            before += stored
            group, size, stored = [], 0, 0
        group.append(pinned)
        size += bytes_
        stored += stored_bytes(pinned)
    if group:
        yield Part(start, None, tuple(group), before)


def _cut(
    reader: RunReader, file: DecodedSource, start: Cursor, size: int, part_bytes: int
) -> Iterator[Part]:
    at = start.byte
    target = at + part_bytes
    # A last part of less than half the bytes is not worth a cut.
    while target + part_bytes // 2 < size:
        end = _guess_row_end(reader, file, at, target, size)
        if end is None:
            target += part_bytes
            continue
        yield Part(Cursor(at, 1), end)
        at, target = end, end + part_bytes
    yield Part(Cursor(at, 1))


def _guess_row_end(
    reader: RunReader, file: DecodedSource, after: int, target: int, size: int
) -> int | None:
    """Find a probable row end at `target` or a little later; None without one in the window."""
    begin = max(after, target - _WINDOW_BEFORE)
    stop = min(size, target + _WINDOW_AFTER)
    window = b"".join(file.stream(begin, stop, stop - begin))
    # The window may begin anywhere; from its first line on, rows are guessed to begin.
    line_end = window.find(b"\n", 0, target - begin)
    skip = 0 if begin == after else line_end + 1
    found = reader.boundaries.first_from(window[skip:], target - begin - skip, final=False)
    return begin + skip + found if found else None
