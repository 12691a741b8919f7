"""Compare a source's items with those of a table (see docs/verify.md)."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import islice
from mmap import mmap
from typing import IO, Any

from ddbload.aws.table_description import (
    STANDARD_IA,
    describe_table_with_response,
    is_on_demand,
    read_capacity,
    table_class_of,
)
from ddbload.context import Context
from ddbload.contracts.options import parse_percent
from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import (
    LIST_PRICE_REGION,
    READ_UNIT_PRICE,
    READ_UNIT_PRICE_IA,
    amount_text,
)
from ddbload.dynamodb.item_equality import SALT_BYTES, ItemDigests, same
from ddbload.errors import InvalidUsage, MaxCostReached, NothingCompared
from ddbload.ledger.ledger import Ledger
from ddbload.reading.parts import ReadCounts
from ddbload.reading.row_blocks import expected_bytes, rare_gc
from ddbload.records import Record
from ddbload.steps.prepare import prepare_run
from ddbload.verification.compare_digests import (
    DIFFERENT_MARK,
    MISSING_MARK,
    DigestSpool,
    KeyCounts,
    MarkedItem,
    Watch,
    choose_sample,
    compare_digests,
    item_marks,
    marked_items,
    read_digests,
    temporary_files_errors,
)
from ddbload.verification.table_reader import (
    BATCH_KEYS,
    READ_UNIT_BYTES,
    ReadUsage,
    TableReader,
    raw_reads,
)

DEFAULT_PERCENT = 50.0
"""Default limit: percentage of a provisioned table's read capacity."""
_SMALL_ITEM_BYTES = 100


class VerifySettings(Record):
    """Settings of a comparison."""

    sample: float | None = None
    """Number of keys to look up (int), or share of all keys (float); None scans the table."""
    ignored: frozenset[str] = frozenset()
    """Names of attributes that are not compared."""
    ignore_extra_attributes: bool = False
    """Compare only attributes that the source's row has."""
    consistent: bool = True
    max_rcu: float | str | None = None
    """Maximum read units per second, or a share of the table's capacity such as `50%`.

    None means the default.
    """


class ReadEstimate(Record):
    """Estimate of the read units of a comparison, from the table's last item count and size."""

    table_items: int
    table_bytes: int
    units: float
    unit_price: float
    """Price in dollars of a million read units, at us-east-1's list price."""
    is_billed: bool
    """False for a provisioned table, which is not billed per read unit."""
    units_per_second: float | None
    """Limit of the rate; None for no limit."""

    @property
    def dollars(self) -> float:
        """Price of the comparison."""
        return self.price(self.units)

    def price(self, units: float) -> float:
        """Return the price of read units in dollars; 0 if they are not billed."""
        return units * self.unit_price / 1e6 if self.is_billed else 0.0

    @property
    def item_bytes(self) -> float:
        """Size of an average item; that of one read unit if unknown."""
        return self.table_bytes / self.table_items if self.table_items else float(READ_UNIT_BYTES)

    def most_units(self, dollars: float, times: float = 1.0) -> float | None:
        """Return the units at which a comparison stops; None if they are not billed.

        `dollars`: price that is agreed to; `times`: of the estimated units, if these are more.
        """
        paid_for = dollars * 1e6 / self.unit_price
        return max(self.units * times, paid_for) if self.is_billed else None

    def text(self, table: str, *, consistent: bool) -> str:
        """Describe reads, price and duration of the comparison in one line."""
        amount = amount_text(self.dollars)
        about = "" if amount.startswith("less") else "about "
        price = " of its provisioned capacity"
        if self.is_billed:
            price = f", {about}{amount} by {LIST_PRICE_REGION}'s list price"
        rate, limit = self.units_per_second, ""
        if rate is not None:
            seconds = max(1.0, self.units / rate)
            limit = f", at most {rate:,.0f} a second, which takes about {seconds:,.0f} s"
        units = f"{self.units:,.0f} read unit{'s' * (round(self.units) != 1)}"
        how = "" if consistent else ", eventually consistent"
        return (
            f"reading table {table} takes about {units}{how}{price}{limit}; AWS last counted"
            f" {self.table_items:,} items and {self.table_bytes:,} bytes there, and counts about"
            " every six hours"
        )


def estimate_reads(
    described: Mapping[str, Any], settings: VerifySettings, source_bytes: int
) -> ReadEstimate:
    """Estimate the read units of a comparison.

    Args:
        described: The `Table` of DescribeTable.
        settings: Settings of the comparison.
        source_bytes: Size of the source.
    """
    items = int(described.get("ItemCount") or 0)
    counted = int(described.get("TableSizeBytes") or 0)
    # DynamoDB updates the count about every six hours, so a new table may count as empty.
    table_bytes = max(counted, source_bytes)
    weight = 1.0 if settings.consistent else 0.5
    if settings.sample is None:
        units = weight * math.ceil(table_bytes / READ_UNIT_BYTES)
    else:
        each = counted / items if items else 0.0
        keys = settings.sample
        if isinstance(keys, float):
            keys = math.ceil(keys * max(items, source_bytes / max(each, _SMALL_ITEM_BYTES)))
        units = weight * keys * max(1, math.ceil(each / READ_UNIT_BYTES))
    billed = is_on_demand(described)
    price = READ_UNIT_PRICE_IA if table_class_of(described) == STANDARD_IA else READ_UNIT_PRICE
    max_rcu, rate = settings.max_rcu, None
    if isinstance(max_rcu, float | int):
        rate = float(max_rcu)
    elif max_rcu is not None or not billed:
        percent = DEFAULT_PERCENT if max_rcu is None else parse_percent(max_rcu)
        rate = max(1.0, read_capacity(described) * (percent or DEFAULT_PERCENT) / 100)
    return ReadEstimate(items, counted, units, price, billed, rate)


EXPLAINED_ITEMS = 100
"""Maximum differing items that are read again to find the attributes that differ."""
SEGMENT_BYTES = 16 * 1024 * 1024
MAX_SEGMENTS = 64
MISSING, DIFFERENT, EXTRA = "missing", "different", "extra"


DifferenceSink = Callable[[str, Mapping[str, Any]], None]
"""Callback that receives each differing item, with the kind of the difference.

Missing and different items are passed as the source has them, extra ones as the table has them.
"""


@dataclass(slots=True)
class Verdict:
    """Result of a comparison."""

    file: ReadCounts = field(default_factory=ReadCounts)
    items: int = 0
    """Items of the source: its rows except rejected ones."""
    table_items: int = 0
    """Items read from the table."""
    keys: KeyCounts = field(default_factory=KeyCounts)
    attributes: Counter[str] = field(default_factory=Counter)
    """Attributes that differ, with the number of `looked_at` items in which they do."""
    looked_at: int = 0
    """Differing items that were read again to find the attributes that differ."""
    usage: ReadUsage = field(default_factory=ReadUsage)


class Verification:
    """Prepared comparison of a source with a table. `run` performs it."""

    def __init__(
        self, payload: Payload, settings: VerifySettings, ledger: Ledger, context: Context
    ) -> None:
        """Describe the table, and check the source against it.

        Raises `InvalidUsage` for settings that do not fit the table, and the errors of preflight.
        """
        self._settings, self._ledger, self._context = settings, ledger, context
        client = context.clients.dynamodb
        self.table, self._described = describe_table_with_response(
            client, payload.table, retry_policy=context.retry_policy
        )
        self._keys = tuple(key.name for key in self.table.keys)
        for name in settings.ignored:
            if name in self._keys:
                raise InvalidUsage(f"--ignore {name} is a key of table {payload.table}")
        self.record = prepare_run(
            "verify", payload, ledger, context, table=self.table, described=self._described
        ).record
        self._source_bytes = expected_bytes(self.record)
        self.estimate = estimate_reads(self._described, settings, self._source_bytes)

    def run(
        self,
        verdict: Verdict,
        sink: DifferenceSink | None,
        *,
        most_units: float | None = None,
        watch: Watch = lambda _read, _size, _rows: None,
        processes: int = 1,
        make_context: Callable[[], Context] | None = None,
    ) -> None:
        """Read both sides and compare them.

        Args:
            verdict: Result, updated in place.
            sink: Receiver of differing items; None to discard them.
            most_units: Read units at which to stop: the user agreed to the price of fewer.
            watch: Called while the source is read.
            processes: Processes that read the source.
            make_context: Function that makes the context in another process.

        Raises:
            NothingCompared: If the source has no item.
            MaxCostReached: If the table needs more than `most_units`.
            OutputUnwritable: If temporary files cannot be written.
        """
        settings, salt = self._settings, os.urandom(SALT_BYTES)
        digests = ItemDigests(self._keys, salt, settings.ignored)
        verdict.file, names, spool = read_digests(
            *(self.record, self._ledger, self._context, digests),
            collect_names=settings.ignore_extra_attributes,
            watch=watch,
            processes=processes,
            make_context=make_context,
        )
        with closing(spool), temporary_files_errors(), rare_gc(), ExitStack() as stack:
            verdict.items = spool.items
            self._require_items(verdict)
            only = names if settings.ignore_extra_attributes else None
            digests = ItemDigests(self._keys, salt, settings.ignored, only)
            reader = TableReader(
                raw_reads(self._context.clients.dynamodb),
                self.table.name,
                digests,
                consistent=settings.consistent,
                units_per_second=self.estimate.units_per_second,
                item_bytes=self.estimate.item_bytes,
                policy=self._context.retry_policy,
                clock=self._context.clock,
            )
            verdict.usage = reader.usage
            table = stack.enter_context(closing(DigestSpool()))

            def add(items: list[dict[str, Any]]) -> None:
                table.add(digests.digest_all(items))
                verdict.table_items += len(items)
                if most_units is not None and reader.usage.units > most_units:
                    raise MaxCostReached(
                        f"table {self.table.name} is larger than AWS last counted: instead of"
                        f" {self.estimate.units:,.0f} read units {reader.usage.units:,.0f} are used"
                        " and it goes on; --yes reads it all the same, --sample only a part"
                    )

            marks = stack.enter_context(item_marks(spool.items))
            if settings.sample is not None:
                last_key = choose_sample(spool, settings.sample, marks)
                sampled = self._marked(marks, verdict)
                for items in reader.get(self._key_of(each.item) for each in sampled):
                    add(items)
                marks = stack.enter_context(item_marks(spool.items))
                kept = None
            else:
                last_key = None
                # Keys of the table's items, in the order of their digests, to read extra items
                # again.
                kept = stack.enter_context(tempfile.TemporaryFile()) if sink is not None else None
                size = max(self._source_bytes, self.estimate.table_bytes)
                for items in reader.scan(max(1, min(MAX_SEGMENTS, size // SEGMENT_BYTES))):
                    add(items)
                    if kept is not None:
                        kept.writelines(
                            f"{json.dumps(self._key_of(item))}\n".encode() for item in items
                        )
            table.finish()
            extra = stack.enter_context(item_marks(table.items))
            compare_digests(spool, table, verdict.keys, marks, extra, last_key)
            if verdict.keys.different and settings.ignore_extra_attributes:
                self._ignore_absent(verdict, marks, reader, names)
            if verdict.keys.different:
                self._explain(verdict, marks, reader)
            if sink is not None:
                self._write_marked(sink, verdict, marks, reader)
                if kept is not None and verdict.keys.extra:
                    verdict.keys.extra = self._write_extra(sink, kept, extra, reader)

    def _require_items(self, verdict: Verdict) -> None:
        if verdict.items:
            return
        if verdict.file.read and verdict.file.read == verdict.file.filtered:
            raise NothingCompared(
                f"--where leaves out all {verdict.file.read:,} rows, so there is nothing to compare"
            )
        if verdict.file.read:
            raise NothingCompared(
                f"all {verdict.file.causes.total():,} rows were rejected, so there is nothing to"
                " compare: ddbload plan shows their causes; most often the delimiter, a type or the"
                " key's column is not the file's"
            )
        raise NothingCompared("the source has no rows, so there is nothing to compare")

    def _marked(self, marks: mmap, verdict: Verdict) -> Generator[MarkedItem]:
        return marked_items(self.record, self._ledger, self._context, marks, verdict.items)

    def _key_of(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return {name: item[name] for name in self._keys}

    def _with_the_table(
        self, reader: TableReader, marked: Iterable[MarkedItem]
    ) -> Iterator[tuple[MarkedItem, dict[str, Any] | None]]:
        """Yield items of the source, each with the table's item of the same key or None."""
        marked = iter(marked)
        while some := list(islice(marked, BATCH_KEYS)):
            found = reader.get([self._key_of(each.item) for each in some])
            there = {reader.key_text(item): item for items in found for item in items}
            for each in some:
                yield each, there.get(reader.key_text(each.item))

    def _counts(self, name: str, item: Mapping[str, Any]) -> bool:
        """Return whether an attribute is compared for this item of the source."""
        if name in self._settings.ignored:
            return False
        return name in item or not self._settings.ignore_extra_attributes

    def _differing(self, here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
        """Name the attributes in which two items differ."""
        return [
            name
            for name in here.keys() | there.keys()
            if self._counts(name, here)
            and not (name in here and name in there and same(here[name], there[name]))
        ]

    def _ignore_absent(
        self, verdict: Verdict, marks: mmap, reader: TableReader, names: set[str]
    ) -> None:
        """Undo differences that are only in attributes which the item's own row lacks.

        Digests cover the attributes of all rows, because without its key's row it is unknown which
        attributes an item of the table should have.
        """
        partial = (
            each
            for each in self._marked(marks, verdict)
            if each.mark == DIFFERENT_MARK and not names <= each.item.keys()
        )
        for (number, _, item), other in self._with_the_table(reader, partial):
            if other is not None and not self._differing(item, other):
                marks[number] = 0
                verdict.keys.different -= 1
                verdict.keys.equal += 1

    def _explain(self, verdict: Verdict, marks: mmap, reader: TableReader) -> None:
        """Read some differing items again, and count the attributes in which they differ."""
        with closing(self._marked(marks, verdict)) as marked:
            different = (each for each in marked if each.mark == DIFFERENT_MARK)
            items = list(islice(different, min(EXPLAINED_ITEMS, verdict.keys.different)))
        for each, other in self._with_the_table(reader, items):
            if other is not None:
                verdict.looked_at += 1
                verdict.attributes.update(self._differing(each.item, other))

    def _write_marked(
        self, sink: DifferenceSink, verdict: Verdict, marks: mmap, reader: TableReader
    ) -> None:
        """Pass missing and different items to the sink.

        Different items keep the table's values of attributes that are not compared: putting the
        source's item alone would delete these.
        """
        settings = self._settings
        is_partial = bool(settings.ignored) or settings.ignore_extra_attributes

        def waiting() -> Iterator[MarkedItem]:
            for marked in self._marked(marks, verdict):
                if marked.mark == MISSING_MARK:
                    sink(MISSING, marked.item)
                elif is_partial:
                    yield marked
                else:
                    sink(DIFFERENT, marked.item)

        for (_, _, item), other in self._with_the_table(reader, waiting()):
            left = {n: v for n, v in (other or item).items() if not self._counts(n, item)}
            kept = {n: value for n, value in item.items() if self._counts(n, item)}
            sink(DIFFERENT, {**kept, **left})

    def _write_extra(
        self, sink: DifferenceSink, kept: IO[bytes], extra: mmap, reader: TableReader
    ) -> int:
        """Read the extra items again, of which only keys were kept; return their number.

        Items that were deleted meanwhile are left out.
        """
        found = 0
        kept.seek(0)
        marked = (json.loads(key) for number, key in enumerate(kept) if extra[number])
        for items in reader.get(marked):
            for item in items:
                sink(EXTRA, item)
            found += len(items)
        return found
