"""Statistics of a source's rows, gathered in bounded memory and without I/O."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Any

from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.limits import WRITE_UNIT_BYTES
from ddbload.items.batch_encoder import join_text
from ddbload.items.row_attributes import item_layout
from ddbload.items.row_values import RowValues
from ddbload.items.type_inference import DATE_FORMATS, TypeGuess
from ddbload.planning.key_counts import HeavyHitters, KeyCounter
from ddbload.reading.parts import PartOutput
from ddbload.reading.row_batches import RowBatch
from ddbload.reading.row_blocks import RunReader, hmac_key
from ddbload.records import MutableRecord, Record
from ddbload.rows.blocks import Defect
from ddbload.rows.columns import NO_OCTET

MAX_PROFILES = 10_000
"""Maximum number of columns whose cells are examined, at about a kilobyte each."""
MAX_NAMES = 1000
"""Maximum number of attributes counted in documents, whose names may be data such as dates."""
MAX_REJECT_KINDS = 1000
"""Maximum number of pairs of cause and column for which rejects are counted."""
EXAMPLE_LENGTH = 40
"""Maximum number of characters in an example value."""


class ItemSizes:
    """Totals of item sizes in bytes, and the write units that they take."""

    def __init__(self) -> None:
        self.count = self.bytes = self.units = 0
        self.largest = 0
        self.smallest: int | None = None

    def add(self, sizes: Sequence[int]) -> None:
        """Count the sizes of some items."""
        if not sizes:
            return
        low, high = min(sizes), max(sizes)
        self.count += len(sizes)
        self.bytes += sum(sizes)
        if high <= WRITE_UNIT_BYTES:
            # Size 0 stands for no item.
            self.units += len(sizes) - (0 if low else sizes.count(0))
        else:
            self.units += sum([-(-size // WRITE_UNIT_BYTES) for size in sizes])
        self.largest = max(self.largest, high)
        self.smallest = low if self.smallest is None else min(low, self.smallest)

    def merge(self, other: ItemSizes) -> None:
        """Add what others have counted."""
        self.count += other.count
        self.bytes += other.bytes
        self.units += other.units
        self.largest = max(self.largest, other.largest)
        found = (each for each in (self.smallest, other.smallest) if each is not None)
        self.smallest = min(found, default=None)


class TableIndex(Record):
    """Secondary index as described by DescribeTable."""

    name: str
    is_global: bool
    partition: tuple[str, ...]
    """Attributes of the partition key."""
    sort: tuple[str, ...]
    projection: str
    """ALL, KEYS_ONLY or INCLUDE."""
    projected: frozenset[str] | None
    """Attributes that the index holds; None for all."""
    described: Mapping[str, Any] = field(default_factory=dict)
    """The index by DescribeTable."""

    @property
    def keys(self) -> tuple[str, ...]:
        """All key attributes. An item without one of them is not in the index."""
        return (*self.partition, *self.sort)


class IndexSurvey(MutableRecord):
    """Statistics of a secondary index's entries."""

    index: TableIndex
    sizes: ItemSizes = field(default_factory=ItemSizes)
    hot: HeavyHitters = field(default_factory=HeavyHitters)

    def add(self, batch: Sequence[RowValues]) -> None:
        """Add the entries of a batch of rows. A row without a key of the index has none."""
        partitions: list[Hashable] = []
        for values in batch:
            if not set(self.index.keys).issubset(values.names):
                continue
            entries = values.having(self.index.keys)
            names = values.names if self.index.projected is None else self.index.projected
            self.sizes.add(entries.sizes_of(names))
            parts = [entries.texts(name) for name in self.index.partition]
            partitions += zip(*parts, strict=True) if parts[1:] else parts[0]
        self.hot.add(partitions)


class Survey:
    """Statistics of the rows read so far, in bounded memory."""

    def __init__(self, record: RunRecord, indexes: Sequence[TableIndex]) -> None:
        """Create an empty survey.

        Args:
            record: Record of the run.
            indexes: Secondary indexes of the table.
        """
        self.rows = 0
        """Rows that match `where`."""
        self.filtered = 0
        """Rows that do not match `where`."""
        self.rejected = 0
        self.bytes = 0
        self.kept = 0
        """Bytes read of the source as stored."""
        self.expansion: float | None = None
        """Bytes of rows per byte of the compressed source; None until known."""
        self.sizes = ItemSizes()
        self.hot = HeavyHitters()
        self.indexes = [IndexSurvey(index) for index in indexes]
        self.deletions = 0
        """Rows of an incremental export that delete an item."""
        self.documents: dict[str, Counter[str]] = {}
        """Count of each type of each attribute of documents, in order of appearance."""
        self.keys = KeyCounter()
        self._record, self._infers = record, record.payload.infer_types
        self.layout = item_layout(record.columns, record.payload, hmac_key(record.payload))
        signs = record.payload.source.number_signs
        names = self.layout.attributes[:MAX_PROFILES] if record.columns else ()
        self.columns = {name: TypeGuess(signs=signs, formats=DATE_FORMATS) for name in names}
        """Types of the columns of delimited text, by attribute name."""
        self._rejects: dict[tuple[str, str | None], dict[str, Any]] = {}
        # Row bytes and stored bytes at the time of the last read.
        self._known: tuple[int, int] | None = None
        self._first_kept = 0
        self._name: str | None = None

    def merge(self, other: Survey, *, lines: int = 0) -> None:
        """Add the survey of the following rows, whose line numbers start at `lines`.

        The other survey must not be used afterwards.
        """
        if other._known is not None:
            rows, stored = other._known
            self.expansion = (self.bytes + rows) / stored
        elif other._first_kept > self.kept > 0:
            self.expansion = self.bytes / self.kept
        self.rows += other.rows
        self.filtered += other.filtered
        self.rejected += other.rejected
        self.bytes += other.bytes
        self.deletions += other.deletions
        self.kept = other.kept or self.kept
        self.sizes.merge(other.sizes)
        self.hot.merge(other.hot)
        self.keys.merge(other.keys)
        for index, more in zip(self.indexes, other.indexes, strict=True):
            index.sizes.merge(more.sizes)
            index.hot.merge(more.hot)
        for place, kind in other._rejects.items():
            known = self._rejects.get(place)
            if known is not None:
                known["rows"] += kind["rows"]
            elif len(self._rejects) < MAX_REJECT_KINDS:
                kind["first"]["line"] += lines
                self._rejects[place] = kind
        for name, guess in other.columns.items():
            self.columns[name].merge(guess)
        for name, types in other.documents.items():
            self._count_types(name, types)

    def add(self, batch: RowBatch) -> None:
        """Add a batch of rows."""
        values = [each for each in batch.values if each.rows]
        keys: list[Sequence[Sequence[str]]] = []
        for row, built in batch.single_rows():
            if isinstance(built, Defect):
                self._reject(batch, row, built)
            elif built.deleted:
                self.deletions += 1
                keys.append([[str(value)] for value in built.key])
            else:
                values.append(RowValues.of_item(row, built))
        self.rows += batch.count
        self.filtered += batch.filtered
        if batch.stored_bytes > self.kept > 0:
            # More was read only after all earlier bytes had become rows: these, too, if they are
            # of the same object, in which one piece is read ahead.
            ahead = batch.bytes if batch.name == self._name else 0
            self._known = (self.bytes + ahead, self.kept)
            self.expansion = self._known[0] / self.kept
        self._name = batch.name
        self.bytes += batch.bytes
        self.kept = batch.stored_bytes
        self._first_kept = self._first_kept or self.kept
        for each in values:
            self.sizes.add(each.sizes)
            keys.append(each.keys)
        if self._record.table.keys:
            self.hot.add(list(chain(*[parts[0] for parts in keys])))
            for parts in keys:
                self.keys.add(_key_bytes(parts))
        for index in self.indexes:
            index.add(values)
        if batch.columns is None:
            # Attributes and types are listed in the order in which they occur.
            for *_, name, kind, count in sorted(chain(*[each.types() for each in values])):
                self._count_types(name, {kind: count})
        elif self.columns:
            for guess, cells in zip(self.columns.values(), self.layout.apply(batch.columns).cells):  # noqa: B905
                guess.add(cells)

    @property
    def read(self) -> int:
        """Number of rows read, including those filtered out by `where`."""
        return self.rows + self.filtered

    @property
    def rejects(self) -> list[dict[str, Any]]:
        """Rejects by cause and column, the most frequent first, in the form of docs/plan.md."""
        return sorted(
            self._rejects.values(),
            key=lambda each: (-each["rows"], each["cause"], each["column"] or ""),
        )

    @property
    def types(self) -> dict[str, str]:
        """Type of each attribute; in documents, the attribute's most frequent type."""
        if self.layout.attributes:
            return dict(zip(self.layout.attributes, self._record.types, strict=True))
        return {
            name: min(types, key=lambda kind: (-types[kind], kind))
            for name, types in self.documents.items()
        }

    def describe(self, name: str, kind: str) -> dict[str, Any]:
        """Return the fields of a plan's column that depend on its cells; empty if not examined."""
        guess, types = self.columns.get(name), self.documents.get(name)
        if guess is not None:
            kind, why = guess.inferred()
            if kind == "N" and guess.proposed == "S" and not self._infers:
                why = "numbers that DynamoDB would return in another spelling; declare N"
                kind = "S"
            examples = [text.encode("latin-1").decode(errors="replace") for text in guess.examples]
            filled, empty, longest = guess.filled, guess.empty, guess.longest
        elif types is not None:
            counts = ", ".join(f"{kind} {count:,}" for kind, count in types.most_common())
            why = "in every row that has it" if len(types) == 1 else f"mixed: {counts}"
            filled, longest, examples = types.total(), None, []
            empty = self.sizes.count - filled
        else:
            return {}
        return {
            "inferred": {"type": kind, "why": why},
            "filled": filled,
            "empty": empty,
            "longest_bytes": longest,
            "examples": [
                text if len(text) <= EXAMPLE_LENGTH else text[: EXAMPLE_LENGTH - 1] + "…"
                for text in examples
            ],
        }

    def _reject(self, batch: RowBatch, row: int, defect: Defect) -> None:
        self.rejected += 1
        column = batch.column_of(defect)
        known = self._rejects.get((defect.cause, column))
        if known is not None:
            known["rows"] += 1
        elif len(self._rejects) < MAX_REJECT_KINDS:
            line = json.loads(batch.reject_line(row, defect))
            at = {name: line[name] for name in ("source", "line", "byte") if name in line}
            self._rejects[defect.cause, column] = {
                "cause": defect.cause,
                "column": column,
                "rows": 1,
                "first": at,
                "detail": defect.detail,
            }

    def _count_types(self, name: str, types: Mapping[str, int]) -> None:
        if name in self.documents or len(self.documents) < MAX_NAMES:
            self.documents.setdefault(name, Counter()).update(types)


class SurveyJob(Record):
    """Job that surveys the rows of one part."""

    indexes: tuple[TableIndex, ...]
    piece_bytes: int

    def work(self, reader: RunReader, batches: Iterator[RowBatch], output: PartOutput) -> Survey:  # noqa: ARG002 - a survey is all that there is
        """Survey all batches of the part."""
        survey = Survey(reader.record, self.indexes)
        for batch in batches:
            survey.add(batch)
        return survey


def _key_bytes(parts: Sequence[Sequence[str]]) -> list[bytes]:
    """Encode keys, given in octets by column, as unambiguous bytes."""
    # Neither byte occurs in octets.
    marks = [*[("", "\xfe")] * (len(parts) - 1), ("", "")]
    text = join_text(parts, marks, "", NO_OCTET)
    return text.encode("latin-1").split(NO_OCTET.encode("latin-1"))[:-1]
