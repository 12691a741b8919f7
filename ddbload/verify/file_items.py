"""The items of a source, made as an import makes them: their digests, and some of them again."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from ddbload.context import Context
from ddbload.contracts.row_counts import RowCounts, WorkTotals
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.dynamodb.item_digest import ItemDigests
from ddbload.errors import ConservationViolated, OutputUnwritable, SourceChanged
from ddbload.ledger.ledger import Ledger
from ddbload.reading.parts import PartOutput, ReadCounts, read_parts
from ddbload.reading.row_batches import RowBatch, iter_row_batches
from ddbload.reading.row_blocks import RunReader, expected_bytes, rare_gc
from ddbload.rows.columns import from_octets
from ddbload.steps.row_feeder import FEED_READ_BYTES
from ddbload.verify.compare_digests import GROUP_ITEMS, DigestGroup, DigestSpool, ItemMarks

Watch = Callable[[WorkTotals, int], None]
"""Called with what was read, and the bytes there are, from time to time."""


class MarkedItem(NamedTuple):
    """Item of a source, with its number and mark."""

    number: int
    mark: int
    item: dict[str, Any]


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
) -> tuple[ReadCounts, set[str], DigestSpool]:
    """Read a source, and keep the digests of its items in their order.

    Returns the counts of its rows, the names of all items' attributes if they are collected, and
    the digests.

    Raises `OutputUnwritable` if temporary files cannot be written, and the errors of reading.
    """
    spool, counts = DigestSpool(), ReadCounts(bytes=record.data_start.byte)
    names = set[str]()
    try:
        if record.has_rows:
            job = _DigestJob(digests, collect_names)
            taker = _FileTaker(record, job, spool, counts, names, watch)
            read_parts(
                *(record, ledger, context, job, taker),
                processes=processes,
                make_context=make_context,
            )
        if counts.read != spool.items + counts.causes.total() + counts.filtered:
            raise ConservationViolated(
                f"{counts.read:,} rows were read, but {spool.items:,} became items,"
                f" {counts.causes.total():,} were rejected and {counts.filtered:,} left out by"
                " --where; this is a fault of ddbload"
            )
    except OSError as error:
        spool.close()
        raise temporary_files_error(error) from None
    except BaseException:
        spool.close()
        raise
    return counts, names, spool


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
            texts = _item_texts(batch, ReadCounts())
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


def _item_texts(batch: RowBatch, counts: ReadCounts) -> list[str]:
    items = counts.add_batch(batch)
    # Not splitlines: octets above 127 are no line ends.
    return items.split("\n")[:-1] if isinstance(items, str) else items


_Summary = tuple[ReadCounts, set[str], list["array[int]"]]
"""Counts of a part's rows, its attributes' names, and sizes of the groups of digests."""


@dataclass(frozen=True, slots=True)
class _DigestJob:
    """Work on a part: rows to items to digests."""

    digests: ItemDigests
    collect_names: bool

    @property
    def piece_bytes(self) -> int:
        """Bytes to read at a time."""
        return FEED_READ_BYTES

    def work(self, reader: RunReader, batches: Iterator[RowBatch], output: PartOutput) -> _Summary:  # noqa: ARG002 - a PartJob
        """Digest all batches."""
        counts, names = ReadCounts(), set[str]()
        groups: list[array[int]] = []
        waiting: list[bytes] = []

        def write() -> None:
            group = DigestGroup.of(waiting)
            output.write(group.data)
            groups.append(group.counts)
            waiting.clear()

        for batch in batches:
            waiting += self.digest(batch, counts, names)
            if len(waiting) >= GROUP_ITEMS:
                write()
        if waiting:
            write()
        return counts, names, groups

    def digest(self, batch: RowBatch, counts: ReadCounts, names: set[str]) -> list[bytes]:
        """Return the digests of a batch's items, and count its rows."""
        texts = _item_texts(batch, counts)
        found = json.loads(f"[{','.join(texts)}]".encode("latin-1"))
        items = [each["Item"] for each in found]
        if self.collect_names:
            names.update(*items)
        return self.digests.digest_all(items)


class _FileTaker:
    """Takes the digests of parts in order."""

    def __init__(
        self,
        record: RunRecord,
        job: _DigestJob,
        spool: DigestSpool,
        counts: ReadCounts,
        names: set[str],
        watch: Watch,
    ) -> None:
        self._record, self._job, self._spool = record, job, spool
        self._counts, self._names, self._watch = counts, names, watch

    def take(self, summary: _Summary, output: PartOutput, start: Cursor) -> bool:  # noqa: ARG002 - a PartTaker
        """Take the digests of a part that a worker read."""
        counts, names, groups = summary
        self._spool.add_groups(groups, output.pieces())
        self._counts.add(counts)
        self._names |= names
        self._show()
        return True

    def read(self, batches: Iterator[RowBatch]) -> None:
        """Digest a part here."""
        for batch in batches:
            self._spool.add(self._job.digest(batch, self._counts, self._names))
            self._show()
        # Groups of other parts follow.
        self._spool.finish()

    def _show(self) -> None:
        rows = RowCounts(read=self._counts.read, written=self._spool.items)
        self._watch(WorkTotals(rows, bytes=self._counts.bytes), expected_bytes(self._record))
