"""The items of a source, made as an import makes them: their digests, and some of them again."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ddbload.contracts.row_counts import RowCounts, WorkTotals
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.dynamodb.item_digest import ItemDigests
from ddbload.errors import ConservationViolated, Interrupted, OutputUnwritable, SourceChanged
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context
from ddbload.pipeline.importing.row_feeder import FEED_READ_BYTES
from ddbload.reading.parts import PartOutput, read_parts
from ddbload.reading.row_batches import RowBatch, iter_row_batches
from ddbload.reading.row_blocks import RunReader, rare_gc
from ddbload.reading.source_objects import expected_bytes
from ddbload.rows.columns import from_octets
from ddbload.rows.reject_lines import Defect
from ddbload.verify.compare_digests import GROUP_ITEMS, DigestGroup, DigestSpool, ItemMarks

Watch = Callable[[WorkTotals, int], None]
"""Called with what was read, and the bytes there are, from time to time."""


class MarkedItem(NamedTuple):
    """Item of a source, with its number and mark."""

    number: int
    mark: int
    item: dict[str, Any]


@dataclass(slots=True)
class FileSummary:
    """Counts of the rows of a source, or of a part of it."""

    read: int = 0
    filtered: int = 0
    """Rows that `where` leaves out."""
    bytes: int = 0
    causes: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    """Rejected rows by cause and column."""
    names: set[str] = field(default_factory=set)
    """Attributes of all items, if they are collected."""

    def add(self, other: FileSummary) -> None:
        """Add the rows of a part."""
        self.read += other.read
        self.filtered += other.filtered
        self.bytes += other.bytes
        self.causes += other.causes
        self.names |= other.names


def read_digests(
    record: RunRecord,
    ledger: Ledger,
    context: Context,
    digests: ItemDigests,
    *,
    collect_names: bool = False,
    watch: Watch = lambda _done, _size: None,
    processes: int = 1,
    make_context: Callable[[], Context] | None = None,
) -> tuple[FileSummary, DigestSpool]:
    """Read a source, and keep the digests of its items in their order.

    Raises `OutputUnwritable` if temporary files cannot be written, and the errors of reading.
    """
    spool, summary = DigestSpool(), FileSummary(bytes=record.data_start.byte)
    try:
        if record.has_rows:
            job = _DigestJob(digests, record.public_names, collect_names)
            taker = _FileTaker(record, context, job, spool, summary, watch)
            read_parts(
                *(record, ledger, context, job, taker),
                processes=processes,
                make_context=make_context,
            )
        if summary.read != spool.items + summary.causes.total() + summary.filtered:
            raise ConservationViolated(
                f"{summary.read:,} rows were read, but {spool.items:,} became items,"
                f" {summary.causes.total():,} were rejected and {summary.filtered:,} left out by"
                " --where; this is a fault of ddbload"
            )
    except OSError as error:
        spool.close()
        raise temporary_files_error(error) from None
    except BaseException:
        spool.close()
        raise
    return summary, spool


def marked_items(
    record: RunRecord, ledger: Ledger, context: Context, marks: ItemMarks, items: int
) -> Generator[MarkedItem]:
    """Read a source again; yield each item with a mark.

    `items`: the number of items that it had. Raises `SourceChanged` if it has another now.
    """
    reader, number = RunReader(record), 0
    if items == 0:
        return
    with closing(iter_row_batches(reader, ledger, context)) as batches, rare_gc():
        for batch in batches:
            texts = _item_texts(batch, lambda _row, _defect: None)
            # Marks that are set or removed meanwhile are those of items that were yielded.
            some = marks.range(number, len(texts))
            for at, (mark, text) in enumerate(zip(some, texts, strict=False), number):
                if mark:
                    yield MarkedItem(at, mark, json.loads(from_octets(text))["Item"])
            number += len(texts)
    if number != items:
        raise SourceChanged("the source had other rows when it was read again: start again")


def temporary_files_error(error: OSError) -> OutputUnwritable:
    """Make the error of digests that cannot be kept on disk."""
    return OutputUnwritable(
        f"temporary files: {error.strerror}; they take about 80 bytes a row: free some space, or"
        " name another folder in TMPDIR"
    )


def _item_texts(batch: RowBatch, reject: Callable[[int, Defect], object]) -> list[str]:
    text = batch.item_lines()
    # Not splitlines: octets above 127 are no line ends.
    return batch.item_texts(reject) if text is None else text.split("\n")[:-1]


@dataclass(slots=True)
class _PartDigests:
    """Summary of a part whose digests are its output."""

    summary: FileSummary = field(default_factory=FileSummary)
    counts: list[array[int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _DigestJob:
    """Work on a part: rows to items to digests."""

    digests: ItemDigests
    public: frozenset[str]
    """Names of columns that may be shown."""
    collect_names: bool

    @property
    def piece_bytes(self) -> int:
        """Bytes to read at a time."""
        return FEED_READ_BYTES

    def work(
        self,
        reader: RunReader,  # noqa: ARG002 - a PartJob
        batches: Iterator[RowBatch],
        output: PartOutput,
    ) -> _PartDigests:
        """Digest all batches."""
        part, waiting = _PartDigests(), list[bytes]()

        def write() -> None:
            group = DigestGroup.of(waiting)
            output.write(group.data)
            part.counts.append(group.counts)
            waiting.clear()

        for batch in batches:
            waiting += self.digest(batch, part.summary)
            if len(waiting) >= GROUP_ITEMS:
                write()
        if waiting:
            write()
        return part

    def digest(self, batch: RowBatch, summary: FileSummary) -> list[bytes]:
        """Return the digests of a batch's items, and count its rows."""

        def count(_row: int, defect: Defect) -> None:
            column = batch.column_of(defect)
            summary.causes[defect.cause, column if column in self.public else None] += 1

        texts = _item_texts(batch, count)
        summary.bytes += batch.bytes
        summary.read += batch.count + batch.filtered
        summary.filtered += batch.filtered
        found = json.loads(f"[{','.join(texts)}]".encode("latin-1"))
        items = [each["Item"] for each in found]
        if self.collect_names:
            summary.names.update(*items)
        return self.digests.digest_all(items)


class _FileTaker:
    """Takes the digests of parts in order."""

    def __init__(
        self,
        record: RunRecord,
        context: Context,
        job: _DigestJob,
        spool: DigestSpool,
        summary: FileSummary,
        watch: Watch,
    ) -> None:
        self._record, self._context, self._job = record, context, job
        self._spool, self._summary, self._watch = spool, summary, watch

    def take(self, summary: _PartDigests, output: PartOutput, start: Cursor) -> bool:  # noqa: ARG002 - a PartTaker
        """Take the digests of a part that a worker read."""
        self._spool.add_groups(summary.counts, output.pieces())
        self._summary.add(summary.summary)
        self._show()
        return True

    def read(self, batches: Iterator[RowBatch]) -> None:
        """Digest a part here."""
        for batch in batches:
            self._spool.add(self._job.digest(batch, self._summary))
            self.check_stop()
            self._show()
        # Groups of other parts follow.
        self._spool.finish()

    def check_stop(self) -> None:
        """Raise `Interrupted` if the context asks to stop."""
        if self._context.should_stop():
            raise Interrupted("stopped while reading the source")

    def _show(self) -> None:
        summary = self._summary
        rows = RowCounts(read=summary.read, written=self._spool.items)
        self._watch(WorkTotals(rows, bytes=summary.bytes), expected_bytes(self._record))
