"""Statistics of all rows of a source. Pure: what is read is given, and nothing is written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ddbload.contracts.run_record import RunRecord
from ddbload.pipeline.reading.measure import Measure, Measured, SizeHistogram, TableIndex
from ddbload.pipeline.reading.row_batches import RowBatch
from ddbload.plan.column_profile import ColumnProfile
from ddbload.plan.distinct_keys import EXACT_ROWS, DistinctKeys, KeyCounter
from ddbload.plan.document_profile import DocumentProfile
from ddbload.plan.hot_partitions import HeavyHitters, HotPartition, KeyOrder
from ddbload.rows.reject_lines import Defect

MOST_COLUMNS = 10_000
"""Columns whose texts are looked at: what is known of one takes a kilobyte."""
MOST_KINDS = 1000
"""Kinds of rejects, by cause and column, that are told apart."""


@dataclass(slots=True)
class Rejected:
    """Rows that are rejected for one cause in one column."""

    cause: str
    column: str | None
    rows: int
    first: Mapping[str, Any]
    """Where the first of them begins: line, byte, and the object where there are several."""
    detail: str
    """What is wrong with that one."""

    def to_json(self) -> dict[str, Any]:
        """The entry of a plan's `rejects`."""
        return {
            "cause": self.cause,
            "column": self.column,
            "rows": self.rows,
            "first": dict(self.first),
            "detail": self.detail,
        }


@dataclass(slots=True)
class IndexSurvey:
    """What the rows put into one index."""

    index: TableIndex
    sizes: SizeHistogram
    hot: HeavyHitters


class Survey:
    """Takes rows as they are read, and knows in bounded memory what they come to."""

    def __init__(
        self,
        record: RunRecord,
        indexes: Sequence[TableIndex],
        *,
        expires: str | None = None,
        exact_rows: int = EXACT_ROWS,
    ) -> None:
        """`expires`: the attribute that items expire by."""
        self.rows = 0
        self.rejected = 0
        self.bytes = 0
        self.kept = 0
        """How far reading is, in bytes of the source as it is kept."""
        self.expansion: float | None = None
        """Bytes of rows for each that is kept; None before that is known."""
        self.sizes = SizeHistogram()
        self.hot = HeavyHitters()
        self.order = KeyOrder()
        self.indexes = [IndexSurvey(index, SizeHistogram(), HeavyHitters()) for index in indexes]
        self.deletions = 0
        """Rows that delete an item: changes of an export."""
        self.evidence: dict[str, ColumnProfile] = {}
        """Of delimited text's attributes."""
        self.members = DocumentProfile(expires)
        """Of documents' attributes."""
        self._record = record
        self._measure = Measure.of(record, indexes)
        self.layout = self._measure.layout
        self._census = KeyCounter(exact_rows)
        keys = record.table.keys
        self._keyed = bool(keys)
        self._numeric = self._keyed and keys[0].type == "N"
        self._single = len(keys) == 1
        self._rejects: dict[tuple[str, str | None], Rejected] = {}

    def add(self, walked: RowBatch) -> None:
        """Take rows."""
        measured = self._measure.measure(walked)
        self.rows += walked.count
        if walked.kept > self.kept > 0:
            # What was read before is used up, or nothing more would have been read.
            self.expansion = self.bytes / self.kept
        self.bytes += walked.bytes
        self.kept = walked.kept
        self._add_keys(measured.keys)
        self.sizes.add(measured.sizes)
        for each, entries, partitions in zip(
            self.indexes, measured.entries, measured.partitions, strict=True
        ):
            each.sizes.add([size for size in entries if size] if 0 in entries else entries)
            each.hot.add(Counter(partitions))
        for row, defect in measured.rejected:
            self._reject(walked, row, defect)
        self.deletions += measured.deletions
        self._look(measured)

    @property
    def keys(self) -> DistinctKeys:
        """What is known of the keys."""
        return self._census.keys()

    @property
    def rejects(self) -> list[Rejected]:
        """Rows that are none, by cause and column: the most frequent first."""
        return sorted(
            self._rejects.values(), key=lambda each: (-each.rows, each.cause, each.column or "")
        )

    @property
    def hottest(self) -> HotPartition | None:
        """The partition key with the most rows."""
        return self.hot.hottest()

    def _add_keys(self, keys: Sequence[tuple[Hashable, ...]]) -> None:
        if not keys or not self._keyed:
            return
        partitions = [key[0] for key in keys]
        self._census.add(_as_bytes(keys, single=self._single))
        self.hot.add(Counter(partitions))
        texts = [str(each) for each in partitions]
        self.order.add(_numbers(texts) if self._numeric else texts)

    def _reject(self, walked: RowBatch, row: int, defect: Defect) -> None:
        self.rejected += 1
        column = walked.column_of(defect)
        known = self._rejects.get((defect.cause, column))
        if known is not None:
            known.rows += 1
        elif len(self._rejects) < MOST_KINDS:
            told = json.loads(walked.reject_line(row, defect))
            at = {name: told[name] for name in ("source", "line", "byte") if name in told}
            self._rejects[defect.cause, column] = Rejected(
                defect.cause, column, 1, at, defect.detail
            )

    def _look(self, measured: Measured) -> None:
        columns = measured.cells
        if columns is None:
            self.members.add(measured.items)
            return
        looked_at = islice(zip(self.layout.attributes, columns.cells, strict=True), MOST_COLUMNS)
        for name, column in looked_at:
            self.evidence.setdefault(name, ColumnProfile()).add(column)

    @property
    def types(self) -> dict[str, str]:
        """The type of each attribute; of documents' the most frequent."""
        if self.evidence:
            return dict(zip(self.layout.attributes, self._record.types, strict=True))
        return {name: member.type for name, member in self.members.known.items()}

    def range_of(self, name: str) -> tuple[float, float]:
        """The least and the greatest number of an attribute, where its values are such."""
        found = self.evidence.get(name) or self.members.known.get(name) or ColumnProfile()
        return found.range


def _as_bytes(keys: Sequence[tuple[Hashable, ...]], *, single: bool) -> list[bytes]:
    """Each key as bytes that are no other's. Texts are octets, or they are numbers."""
    if single:
        return [str(key[0]).encode() for key in keys]
    return [f"{len(str(one))} {one} {other}".encode() for one, other in keys]


def _numbers(identities: Sequence[str]) -> list[str | float]:
    """Numbers' identities as numbers, near enough to be compared with their neighbours."""
    return [float(each) if "E" not in each else _fraction(each) for each in identities]


def _fraction(identity: str) -> float:
    # The point stands after the first digit, and is not written.
    digits, _, power = identity.partition("E")
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    return float(f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}")
