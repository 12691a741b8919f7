"""Digest a source's items as an import would write them, and compare both sides' digests.

Digests are stored on disk in 256 partitions by key. Both sides put a key into the same partition,
so only one partition of each side must be in memory. Differing items are marked by their number, so
that they can be found when a side is read again.
"""

from __future__ import annotations

import json
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from mmap import mmap
from struct import Struct
from typing import Any, NamedTuple

from ddbload.context import Context
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.dynamodb.item_equality import DIGEST_BYTES, ItemDigests
from ddbload.errors import ConservationViolated, OutputUnwritable, SourceChanged
from ddbload.ledger.ledger import Ledger
from ddbload.reading.parts import PartOutput, ReadCounts, read_parts
from ddbload.reading.row_batches import RowBatch, iter_row_batches
from ddbload.reading.row_blocks import RunReader, expected_bytes, rare_gc
from ddbload.records import Record
from ddbload.rows.columns import from_octets
from ddbload.steps.row_feeder import FEED_READ_BYTES

PARTITIONS = 256
GROUP_ITEMS = 65_536
"""Maximum number of items sorted together."""
PARTITION_ITEMS = 400_000
"""Maximum items of a partition in memory. A larger partition is compared in several passes."""
MISSING_MARK, DIFFERENT_MARK, EXTRA_MARK, SAMPLED_MARK = 1, 2, 3, 4
_ENTRY = Struct(f">{DIGEST_BYTES}s{DIGEST_BYTES}sI")
_NUMBER = Struct(">I")
_READ_ENTRIES = 16_384


class DigestEntry(NamedTuple):
    """Digests of one item, and the item's number on its side."""

    key: bytes
    item: bytes
    number: int


def digest_group(digests: Sequence[bytes]) -> tuple[bytes, array[int]]:
    """Sort the digests of consecutive items by key; return them, and their number by partition.

    `digests` have the form that `ItemDigests` produces.
    """
    numbers = map(_NUMBER.pack, range(len(digests)))
    ordered = sorted(map(bytes.__add__, digests, numbers))
    counts = array("L", bytes(PARTITIONS * array("L").itemsize))
    for entry in ordered:
        counts[entry[0]] += 1
    return b"".join(ordered), counts


class DigestSpool:
    """Digests of all items of one side, in a temporary file that the system deletes."""

    def __init__(self) -> None:
        self.items = 0
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        self._end = 0
        self._pending: list[bytes] = []
        # For each partition: offset, item count and number of the group's first item, repeated for
        # each group.
        self._places = [array("Q") for _ in range(PARTITIONS)]
        self.sizes = array("Q", bytes(PARTITIONS * array("Q").itemsize))
        """Number of items in each partition."""

    def add(self, digests: Iterable[bytes]) -> None:
        """Add items. Raises `OSError` if the disk is full."""
        self._pending += digests
        while len(self._pending) >= GROUP_ITEMS:
            self._flush()

    def finish(self) -> None:
        """Write the items that are still buffered. Raises `OSError`."""
        while self._pending:
            self._flush()
        self._file.flush()

    def _flush(self) -> None:
        data, counts = digest_group(self._pending[:GROUP_ITEMS])
        del self._pending[:GROUP_ITEMS]
        self.add_groups([counts], [data])

    def add_groups(self, counts: Iterable[array[int]], pieces: Iterable[bytes]) -> None:
        """Add groups whose data is consecutive in `pieces`. Raises `OSError`."""
        for group in counts:
            base = self.items
            for partition, items in enumerate(group):
                if items:
                    self._places[partition].extend((self._end, items, base))
                    self.sizes[partition] += items
                    self._end += items * _ENTRY.size
                    self.items += items
        self._file.seek(0, 2)
        self._file.writelines(pieces)

    def entries(self, partition: int) -> Iterator[DigestEntry]:
        """Yield the entries of a partition. Raises `OSError`."""
        places = self._places[partition]
        for at in range(0, len(places), 3):
            offset, items, base = places[at : at + 3]
            while items:
                some = min(items, _READ_ENTRIES)
                self._file.seek(offset)
                data = self._file.read(some * _ENTRY.size)
                if len(data) != some * _ENTRY.size:
                    raise OSError(5, "a temporary file was cut short")
                for key, item, number in _ENTRY.iter_unpack(data):
                    yield DigestEntry(key, item, base + number)
                offset, items = offset + len(data), items - some

    def close(self) -> None:
        """Close the temporary file, which deletes it."""
        self._file.close()


def item_marks(items: int) -> mmap:
    """Make a byte for each item of a side, 0 at first, in memory that is swapped to a file.

    Raises `OSError`.
    """
    with tempfile.TemporaryFile() as file:
        file.truncate(max(1, items))
        return mmap(file.fileno(), max(1, items))


@dataclass(slots=True)
class KeyCounts:
    """Counts of keys, by result of the comparison."""

    keys: int = 0
    """Distinct keys of the source."""
    repeated: int = 0
    """Keys shared by several items of the source."""
    compared: int = 0
    """Keys of the source that were looked up in the table."""
    equal: int = 0
    missing: int = 0
    different: int = 0
    extra: int = 0

    @property
    def are_equal(self) -> bool:
        """True if no difference was found."""
        return not (self.missing or self.different or self.extra)


def partition_passes(*spools: DigestSpool) -> Iterator[tuple[int, int, int]]:
    """Yield `(partition, part, parts)` for all keys; each part fits in memory."""
    for partition in range(PARTITIONS):
        items = max(spool.sizes[partition] for spool in spools)
        parts = 1 + items // PARTITION_ITEMS
        for part in range(parts):
            yield partition, part, parts


def in_part(entries: Iterable[DigestEntry], part: int, parts: int) -> Iterator[DigestEntry]:
    """Select the entries of one part of a partition."""
    if parts == 1:
        yield from entries
        return
    for entry in entries:
        # The first byte, which is the partition, is the same for all.
        if int.from_bytes(entry.key[1:4]) % parts == part:
            yield entry


def choose_sample(spool: DigestSpool, sample: float, marks: mmap) -> bytes:
    """Choose the keys with the lowest digests and mark an item of each; return the last digest.

    Digests are salted hashes, so each comparison chooses other keys at random.
    """
    per_partition = Counter[int]()
    for partition, part, parts in partition_passes(spool):
        keys = {entry.key for entry in in_part(spool.entries(partition), part, parts)}
        per_partition[partition] += len(keys)
    total = per_partition.total()
    wanted = min(total, sample if isinstance(sample, int) else max(1, round(sample * total)))
    before = 0
    for partition, keys_here in per_partition.items():
        if not keys_here:
            continue
        numbers = {entry.key: entry.number for entry in spool.entries(partition)}
        chosen = sorted(numbers)[: wanted - before]
        for key in chosen:
            marks[numbers[key]] = SAMPLED_MARK
        before += len(chosen)
        if before == wanted:
            return chosen[-1]
    raise AssertionError("the sample has as many keys as it wants")


def compare_digests(
    file: DigestSpool,
    table: DigestSpool,
    counts: KeyCounts,
    marks: mmap,
    extra: mmap,
    last_key: bytes | None,
) -> None:
    """Compare the digests of both sides, and mark the items that differ.

    If several items share a key, the last one is marked. With `last_key`, only keys with digests up
    to it were looked up in the table.
    """
    for partition, part, parts in partition_passes(file, table):
        items: dict[bytes, tuple[bytes, int]] = {}
        # The table may hold any of several items with one key.
        others: dict[bytes, set[bytes]] = {}
        for key, item, number in in_part(file.entries(partition), part, parts):
            before = items.get(key)
            if before is not None:
                others.setdefault(key, set()).update((before[0], item))
                # Entries of a group are in the order of their digests.
                if before[1] > number:
                    continue
            items[key] = item, number
        counts.keys += len(items)
        counts.repeated += len(others)
        if last_key is not None:
            items = {key: items[key] for key in items if key <= last_key}
        counts.compared += len(items)
        for key, item, number in in_part(table.entries(partition), part, parts):
            found = items.pop(key, None)
            if found is None:
                counts.extra += 1
                extra[number] = EXTRA_MARK
            elif found[0] == item or item in others.get(key, ()):
                counts.equal += 1
            else:
                counts.different += 1
                marks[found[1]] = DIFFERENT_MARK
        counts.missing += len(items)
        for _, number in items.values():
            marks[number] = MISSING_MARK


Watch = Callable[[int, int, int], None]
"""Callback that receives bytes read, bytes in all, and rows read."""


class MarkedItem(NamedTuple):
    """Item of a source, its number and its mark."""

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
    watch: Watch = lambda _read, _size, _rows: None,
    processes: int = 1,
    make_context: Callable[[], Context] | None = None,
) -> tuple[ReadCounts, set[str], DigestSpool]:
    """Read a source and keep its items' digests, in source order.

    Args:
        record: Record of the run.
        ledger: Ledger that the record was prepared with.
        context: Clients and clock.
        digests: Digester that knows the table's keys.
        collect_names: Collect the names of all items' attributes.
        watch: Called with bytes read, bytes in all, and rows read.
        processes: Processes that read the source.
        make_context: Function that makes the context in another process.

    Returns:
        Row counts, attribute names (empty unless collected), and the digests.

    Raises:
        OutputUnwritable: If temporary files cannot be written.
        DdbloadError: If the source cannot be read.
    """
    spool, counts = DigestSpool(), ReadCounts(bytes=record.data_start.byte)
    names = set[str]()
    with temporary_files_errors(), ExitStack() as opened:
        opened.callback(spool.close)
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
        opened.pop_all()
    return counts, names, spool


def marked_items(
    record: RunRecord, ledger: Ledger, context: Context, marks: mmap, items: int
) -> Generator[MarkedItem]:
    """Read a source again; yield each item with a mark.

    `items`: number of items in the first reading. Raises `SourceChanged` if the number differs.
    """
    reader, number = RunReader(record), 0
    if items == 0:
        return
    with closing(iter_row_batches(reader, ledger, context)) as batches, rare_gc():
        for batch in batches:
            texts = _item_texts(batch, ReadCounts())
            # The caller may change marks meanwhile, but only of items that were already yielded.
            some = marks[number : number + len(texts)]
            for at, (mark, text) in enumerate(zip(some, texts, strict=False), number):
                if mark:
                    yield MarkedItem(at, mark, json.loads(from_octets(text))["Item"])
            number += len(texts)
    if number != items:
        raise SourceChanged("the source had other rows when it was read again: start again")


@contextmanager
def temporary_files_errors() -> Iterator[None]:
    """Turn an `OSError` in the block into the error for digests that cannot be written to disk."""
    try:
        yield
    except OSError as error:
        raise OutputUnwritable(
            f"temporary files: {error.strerror}; they take about 80 bytes a row: free some space,"
            " or name another folder in TMPDIR"
        ) from None


def _item_texts(batch: RowBatch, counts: ReadCounts) -> list[str]:
    items = counts.add_batch(batch)
    # Not `splitlines`, which also splits at some characters above 127.
    return items.split("\n")[:-1] if isinstance(items, str) else items


_Summary = tuple[ReadCounts, set[str], list["array[int]"]]
"""A part's row counts, attribute names, and sizes of its groups of digests."""


class _DigestJob(Record):
    """Job that digests the items of one part."""

    digests: ItemDigests
    collect_names: bool
    piece_bytes = FEED_READ_BYTES
    """Bytes to read at a time."""

    def work(self, reader: RunReader, batches: Iterator[RowBatch], output: PartOutput) -> _Summary:  # noqa: ARG002 - a PartJob
        """Digest all batches of the part."""
        counts, names = ReadCounts(), set[str]()
        groups: list[array[int]] = []
        waiting: list[bytes] = []

        def write() -> None:
            data, sizes = digest_group(waiting)
            output.write(data)
            groups.append(sizes)
            waiting.clear()

        for batch in batches:
            waiting += self.digest(batch, counts, names)
            if len(waiting) >= GROUP_ITEMS:
                write()
        if waiting:
            write()
        return counts, names, groups

    def digest(self, batch: RowBatch, counts: ReadCounts, names: set[str]) -> list[bytes]:
        """Return the digests of a batch's items, and count the batch's rows."""
        texts = _item_texts(batch, counts)
        found = json.loads(f"[{','.join(texts)}]".encode("latin-1"))
        items = [each["Item"] for each in found]
        if self.collect_names:
            names.update(*items)
        return self.digests.digest_all(items)


class _FileTaker(Record):
    """Collector that adds the digests of parts to one spool, in order."""

    record: RunRecord
    job: _DigestJob
    spool: DigestSpool
    counts: ReadCounts
    names: set[str]
    watch: Watch

    def take(self, summary: _Summary, output: PartOutput, start: Cursor) -> bool:  # noqa: ARG002 - a PartTaker
        """Add the digests of a part that a worker has read."""
        counts, names, groups = summary
        self.spool.add_groups(groups, output.pieces())
        self.counts.add(counts)
        self.names.update(names)
        self._show()
        return True

    def read(self, batches: Iterator[RowBatch]) -> None:
        """Digest a part in this process."""
        for batch in batches:
            self.spool.add(self.job.digest(batch, self.counts, self.names))
            self._show()
        # Flush, because groups of other parts follow.
        self.spool.finish()

    def _show(self) -> None:
        self.watch(self.counts.bytes, expected_bytes(self.record), self.counts.read)
