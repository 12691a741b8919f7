"""Cut a source into spans that several processes read side by side, without reading it before.

A cut is a guess: the row end that is found from a window of bytes near it. Whoever reads the span
before the cut proves it, because a span must end with a row; see `span_workers`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing

from ddbload.contracts.run_record import Cursor
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import PinnedObject, iter_objects
from ddbload.pipeline.context import Context
from ddbload.pipeline.reading.open_sources import open_decoded, open_each
from ddbload.pipeline.reading.row_batches import RowSpan
from ddbload.pipeline.reading.row_blocks import RunReader
from ddbload.source.decoding.decoded_source import DecodedSource

SPAN_BYTES = 2 * 1024 * 1024
"""Bytes of a span of a local file: its output stays in memory until its turn."""
REMOTE_SPAN_BYTES = 16 * 1024 * 1024
"""Bytes of a span of an object in S3, where each span takes two requests."""
MAX_SPAN_OBJECTS = 64
_WINDOW_BEFORE, _WINDOW_AFTER = 32 * 1024, 64 * 1024
"""Bytes before and after the place of a cut in which a row end is looked for."""


def iter_spans(reader: RunReader, ledger: Ledger, context: Context) -> Generator[RowSpan]:
    """Cut a run's source into spans, in order; the lines that they start at count from 1.

    The spans depend on the source alone. Raises the errors of reading the source.
    """
    record = reader.record
    if record.objects is not None:
        yield from _group_objects(iter_objects(record, ledger, 0), record.data_start)
        return
    first = RowSpan(record.data_start)
    if not reader.is_ranged or record.size is None:
        yield first
        return
    several = False
    with closing(open_each(iter([record.pinned]), context, several=several)) as each:
        for pinned, raw in each:
            file = open_decoded(raw, record.payload.source, pinned)
            if file.plain:
                is_local = "path" in pinned
                size = SPAN_BYTES if is_local else REMOTE_SPAN_BYTES
                yield from _cut(reader, file, record.data_start, raw.size, size)
            else:
                yield first


def _group_objects(objects: Iterator[PinnedObject], start: Cursor) -> Iterator[RowSpan]:
    """Group successive objects; a large one stays alone."""
    group: list[PinnedObject] = []
    size = before = stored = 0
    for pinned in objects:
        bytes_ = int(pinned.get("bytes", pinned["size"]))
        if group and (size + bytes_ > REMOTE_SPAN_BYTES or len(group) == MAX_SPAN_OBJECTS):
            yield RowSpan(start, None, tuple(group), before)
            before += stored
            group, size, stored = [], 0, 0
        group.append(pinned)
        size += bytes_
        stored += int(pinned["size"])
    if group:
        yield RowSpan(start, None, tuple(group), before)


def _cut(
    reader: RunReader, file: DecodedSource, start: Cursor, size: int, span_bytes: int
) -> Iterator[RowSpan]:
    at = start.byte
    target = at + span_bytes
    # A last span of less than half the bytes is not worth a cut.
    while target + span_bytes // 2 < size:
        end = _guess_row_end(reader, file, at, target, size)
        if end is None:
            target += span_bytes
            continue
        yield RowSpan(Cursor(at, 1), end)
        at, target = end, end + span_bytes
    yield RowSpan(Cursor(at, 1))


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
