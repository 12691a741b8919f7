"""Statistics of a source's rows, gathered in bounded memory and without I/O."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ddbload.contracts.run_record import RunRecord
from ddbload.items.type_inference import DATE_FORMATS, TypeGuess
from ddbload.planning.key_counts import HeavyHitters, KeyCounter
from ddbload.reading.measure import ItemSizes, Measure, TableIndex
from ddbload.reading.parts import PartOutput
from ddbload.reading.row_batches import RowBatch
from ddbload.reading.row_blocks import RunReader
from ddbload.rows.blocks import Defect

MAX_PROFILES = 10_000
"""Maximum number of columns whose cells are examined, at about a kilobyte each."""
MAX_NAMES = 1000
"""Maximum number of attributes counted in documents, whose names may be data such as dates."""
MAX_REJECT_KINDS = 1000
"""Maximum number of pairs of cause and column for which rejects are counted."""
EXAMPLE_LENGTH = 40
"""Maximum number of characters in an example value."""


@dataclass(slots=True)
class IndexSurvey:
    """Statistics of a secondary index's entries."""

    index: TableIndex
    sizes: ItemSizes = field(default_factory=ItemSizes)
    hot: HeavyHitters = field(default_factory=HeavyHitters)


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
        self._record = record
        self._measure = Measure(record, indexes)
        self.layout = self._measure.layout
        signs = record.payload.source.number_signs
        names = self.layout.attributes[:MAX_PROFILES] if record.columns else ()
        self.columns = {name: TypeGuess(signs=signs, formats=DATE_FORMATS) for name in names}
        """Types of the columns of delimited text, by attribute name."""
        self._rejects: dict[tuple[str, str | None], dict[str, Any]] = {}
        # Row bytes and stored bytes at the time of the last read.
        self._known: tuple[int, int] | None = None
        self._first_kept = 0
        self._name: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Drop the state that only `add` needs; another process merges the pickled survey."""
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("_record", "_measure", "layout")
        }

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
        self.kept = other.kept or self.kept
        self.deletions += other.deletions
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
        if self._record.table.keys:
            self.keys.add(map(_key_bytes, measured.keys))
            self.hot.add(key[0] for key in measured.keys)
        self.sizes.add(measured.sizes)
        for each, entries, partitions in zip(
            self.indexes, measured.entries, measured.partitions, strict=True
        ):
            each.sizes.add([size for size in entries if size] if 0 in entries else entries)
            each.hot.add(partitions)
        for row, defect in measured.rejected:
            self._reject(batch, row, defect)
        self.deletions += measured.deletions
        if measured.cells is None:
            found: dict[str, list[str]] = defaultdict(list)
            for item in measured.items:
                for name, value in item.items():
                    # An attribute value is a dict with its type as the only key.
                    found[name].extend(value)
            for name, kinds in found.items():
                self._count_types(name, kinds)
        else:
            for guess, cells in zip(self.columns.values(), measured.cells.cells):  # noqa: B905
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

    def _count_types(self, name: str, types: Iterable[str]) -> None:
        if name in self.documents or len(self.documents) < MAX_NAMES:
            self.documents.setdefault(name, Counter()).update(types)


@dataclass(frozen=True, slots=True)
class SurveyJob:
    """Job that surveys the rows of one part."""

    indexes: tuple[TableIndex, ...]
    piece_bytes: int

    def work(
        self,
        reader: RunReader,
        batches: Iterator[RowBatch],
        output: PartOutput,  # noqa: ARG002 - a survey is all that there is
    ) -> Survey:
        """Survey all batches of the part."""
        survey = Survey(reader.record, self.indexes)
        for batch in batches:
            survey.add(batch)
        return survey


def _key_bytes(key: tuple[Hashable, ...]) -> bytes:
    """Encode a key as unambiguous bytes; its values are strings of octets or numbers."""
    if len(key) == 1:
        return str(key[0]).encode()
    one, other = key
    return f"{len(str(one))} {one} {other}".encode()
