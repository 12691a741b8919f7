"""Survey of a source: statistics of all its rows, gathered without I/O."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ddbload.contracts.run_record import RunRecord
from ddbload.plan.attribute_profiles import ColumnProfile, DocumentProfile
from ddbload.plan.distinct_keys import EXACT_ROWS, DistinctKeys, KeyCounter
from ddbload.plan.hot_partitions import HeavyHitters, HotPartition, KeyOrder
from ddbload.reading.measure import Measure, MeasuredRows, SizeHistogram, TableIndex
from ddbload.reading.parts import PartOutput
from ddbload.reading.row_batches import RowBatch
from ddbload.reading.row_blocks import RunReader
from ddbload.rows.blocks import Defect

MAX_PROFILES = 10_000
"""Maximum columns to profile; each profile takes about a kilobyte."""
MAX_REJECT_KINDS = 1000
"""Maximum kinds of rejects, by cause and column, to count."""


@dataclass(slots=True)
class RejectKind:
    """Rows rejected for one cause in one column."""

    cause: str
    column: str | None
    rows: int
    first: Mapping[str, Any]
    """Position of the first such row: line, byte, and the object if there are several."""
    detail: str
    """Detail of the first such row."""


@dataclass(slots=True)
class IndexSurvey:
    """Statistics of the entries in an index."""

    index: TableIndex
    sizes: SizeHistogram
    hot: HeavyHitters


class Survey:
    """Statistics of the rows read so far, in bounded memory."""

    def __init__(
        self,
        record: RunRecord,
        indexes: Sequence[TableIndex],
        *,
        expires: str | None = None,
        exact_rows: int = EXACT_ROWS,
        measure: Measure | None = None,
    ) -> None:
        """Gather statistics for a table with these indexes; items expire by `expires`.

        Surveys of one source may share a `measure`.
        """
        self.rows = 0
        """Rows that `where` keeps."""
        self.filtered = 0
        """Rows that `where` leaves out."""
        self.rejected = 0
        self.bytes = 0
        self.kept = 0
        """Bytes read of the source, before decompression."""
        self.expansion: float | None = None
        """Bytes of rows per byte of the compressed source; None until known."""
        self.sizes = SizeHistogram()
        self.hot = HeavyHitters()
        self.order = KeyOrder()
        self.indexes = [IndexSurvey(index, SizeHistogram(), HeavyHitters()) for index in indexes]
        self.deletions = 0
        """Rows of an incremental export that delete an item."""
        self.columns: dict[str, ColumnProfile] = {}
        """Profiles of the columns of delimited text, by attribute."""
        self.documents = DocumentProfile(expires)
        """Profiles of the attributes of documents."""
        self._record = record
        self._measure = measure or Measure.of(record, indexes)
        self.layout = self._measure.layout
        self._key_counter = KeyCounter(exact_rows)
        keys = record.table.keys
        self._keyed = bool(keys)
        self._numeric = self._keyed and keys[0].type == "N"
        self._single = len(keys) == 1
        self._rejects: dict[tuple[str, str | None], RejectKind] = {}
        # Bytes of rows, and of the source as stored, when more of it was last read.
        self._known: tuple[int, int] | None = None
        self._first_kept = 0
        self._name: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only `add` needs: another process merges the survey."""
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("_record", "_measure", "layout")
        }

    def merge(self, other: Survey, *, lines: int = 0) -> None:
        """Add the survey of the rows that follow, which counts lines from `lines` on.

        The other survey must not be used any more.
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
        self.kept = other.kept or self.kept
        self.deletions += other.deletions
        self.sizes.merge(other.sizes)
        self.hot.merge(other.hot)
        self.order.merge(other.order)
        self._key_counter.merge(other._key_counter)
        for index, more in zip(self.indexes, other.indexes, strict=True):
            index.sizes.merge(more.sizes)
            index.hot.merge(more.hot)
        for kind in other._rejects.values():
            self._merge_rejects(kind, lines)
        for name, profile in other.columns.items():
            self.columns.setdefault(name, ColumnProfile()).merge(profile)
        self.documents.merge(other.documents)

    def _merge_rejects(self, kind: RejectKind, lines: int) -> None:
        known = self._rejects.get((kind.cause, kind.column))
        if known is not None:
            known.rows += kind.rows
        elif len(self._rejects) < MAX_REJECT_KINDS:
            kind.first = {**kind.first, "line": kind.first["line"] + lines}
            self._rejects[kind.cause, kind.column] = kind

    def add(self, batch: RowBatch) -> None:
        """Add a batch of rows."""
        measured = self._measure.measure(batch)
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
        self._add_keys(measured.keys)
        self.sizes.add(measured.sizes)
        for each, entries, partitions in zip(
            self.indexes, measured.entries, measured.partitions, strict=True
        ):
            each.sizes.add([size for size in entries if size] if 0 in entries else entries)
            each.hot.add(Counter(partitions))
        for row, defect in measured.rejected:
            self._reject(batch, row, defect)
        self.deletions += measured.deletions
        self._add_profiles(measured)

    @property
    def read(self) -> int:
        """Rows read, those that `where` leaves out included."""
        return self.rows + self.filtered

    @property
    def keys(self) -> DistinctKeys:
        """Counts of the keys."""
        return self._key_counter.keys()

    @property
    def rejects(self) -> list[RejectKind]:
        """Kinds of rejects, the most frequent first."""
        return sorted(
            self._rejects.values(), key=lambda each: (-each.rows, each.cause, each.column or "")
        )

    @property
    def hottest(self) -> HotPartition | None:
        """Partition key with the most rows."""
        return self.hot.hottest()

    def _add_keys(self, keys: Sequence[tuple[Hashable, ...]]) -> None:
        if not keys or not self._keyed:
            return
        partitions = [key[0] for key in keys]
        self._key_counter.add(_as_bytes(keys, single=self._single))
        self.hot.add(Counter(partitions))
        texts = [str(each) for each in partitions]
        self.order.add(_numbers(texts) if self._numeric else texts)

    def _reject(self, batch: RowBatch, row: int, defect: Defect) -> None:
        self.rejected += 1
        column = batch.column_of(defect)
        known = self._rejects.get((defect.cause, column))
        if known is not None:
            known.rows += 1
        elif len(self._rejects) < MAX_REJECT_KINDS:
            line = json.loads(batch.reject_line(row, defect))
            at = {name: line[name] for name in ("source", "line", "byte") if name in line}
            self._rejects[defect.cause, column] = RejectKind(
                defect.cause, column, 1, at, defect.detail
            )

    def _add_profiles(self, measured: MeasuredRows) -> None:
        columns = measured.cells
        if columns is None:
            self.documents.add(measured.items)
            return
        profiled = islice(zip(self.layout.attributes, columns.cells, strict=True), MAX_PROFILES)
        for name, column in profiled:
            self.columns.setdefault(name, ColumnProfile()).add(column)

    @property
    def types(self) -> dict[str, str]:
        """Type of each attribute; for documents, its most frequent type."""
        if self.columns:
            return dict(zip(self.layout.attributes, self._record.types, strict=True))
        return {name: profile.type for name, profile in self.documents.attributes.items()}

    def range_of(self, name: str) -> tuple[float, float]:
        """Return the smallest and largest number of an attribute, if it has whole numbers."""
        found = self.columns.get(name) or self.documents.attributes.get(name) or ColumnProfile()
        return found.range


@dataclass(slots=True)
class SurveyJob:
    """Survey of the rows of a part."""

    indexes: tuple[TableIndex, ...]
    expires: str | None
    piece_bytes: int
    _measure: Measure | None = None

    def work(
        self,
        reader: RunReader,
        batches: Iterator[RowBatch],
        output: PartOutput,  # noqa: ARG002 - a survey is all that there is
    ) -> Survey:
        """Survey all batches."""
        survey = self.begin(reader)
        for batch in batches:
            survey.add(batch)
        return survey

    def begin(self, reader: RunReader) -> Survey:
        """Make an empty survey."""
        record = reader.record
        if self._measure is None:
            self._measure = Measure.of(record, self.indexes)
        return Survey(record, self.indexes, expires=self.expires, measure=self._measure)


def _as_bytes(keys: Sequence[tuple[Hashable, ...]], *, single: bool) -> list[bytes]:
    """Encode each key as unambiguous bytes; its values are strings of octets or numbers."""
    if single:
        return [str(key[0]).encode() for key in keys]
    return [f"{len(str(one))} {one} {other}".encode() for one, other in keys]


def _numbers(identities: Sequence[str]) -> list[str | float]:
    """Convert canonical numbers to floats, which are precise enough to compare neighbours."""
    return [float(each) if "E" not in each else _fraction(each) for each in identities]


def _fraction(identity: str) -> float:
    # In the canonical form the decimal point after the first digit is left out.
    digits, _, power = identity.partition("E")
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    return float(f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}")
