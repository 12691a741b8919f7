"""Makes items and requests from a run's rows: delimited text, or lines of JSON.

`row_encoder_for` picks the encoder of a run. Every mode checks and encodes rows alike, but for the
attributes that are sent: `last-wins` adds each row's position, and `delete` sends the keys only.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from ddbload.contracts.column_mapping import Dialect, column_changes, encoded_changes, row_writes
from ddbload.contracts.payload import OMIT
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.source import DYNAMODB_EXPORT, DYNAMODB_JSON, JSON, MONGO_JSON, PARQUET
from ddbload.dynamodb.limits import WRITE_UNIT_BYTES
from ddbload.dynamodb.modes import POSITION_LENGTH, RowWrites, position
from ddbload.items.batch_encoder import MAX_ROW_BYTES, BatchEncoder, EncodedRows
from ddbload.items.document_builder import (
    DocumentBuilder,
    DocumentRules,
    bare,
    export_line,
    item_line,
)
from ddbload.items.document_rows import REFUSALS, EncodedRow, JsonRows, Shape
from ddbload.items.item_requests import NO_NEEDS, Item, Joiner, joiner_for
from ddbload.items.mongo_json import mongo_line
from ddbload.items.row_attributes import ItemLayout, item_layout
from ddbload.items.row_filter import FILTERED, row_filter
from ddbload.items.row_values import RowValues
from ddbload.rows.blocks import (
    WHITE_SPACE,
    Block,
    Defect,
    JsonLineBoundaries,
    RowBoundaries,
    RowBytes,
    RowPositions,
    field_count,
)
from ddbload.rows.columns import ColumnReader, Columns, RowParser, header_names
from ddbload.rows.dialect_grammar import dialect_boundaries

_ENVELOPES = {
    JSON: bare,
    MONGO_JSON: mongo_line,
    DYNAMODB_JSON: item_line,
    PARQUET: item_line,
    DYNAMODB_EXPORT: export_line,
}

T = TypeVar("T")
_bad_byte = re.compile("[\udc80-\udcff]").search
LONGEST_LINE = 500_000
"""Most characters of a line that is read with others; a longer one is built by itself."""


class RowEncoder(ABC):
    """Encoder that turns blocks of whole rows into requests."""

    ends: RowBoundaries
    """Row boundaries of the format."""
    batches = True
    """False if each row goes in a request of its own, since no statement can insert it."""

    def __init__(self, joiner: Joiner) -> None:
        self.joiner = joiner
        """Joiner of the encoded rows into the bodies of calls."""

    def reordered(self, places: Sequence[int]) -> RowEncoder:  # noqa: ARG002 - see below
        """Return the encoder for an object whose columns have these places among the run's.

        Documents name their attributes themselves.
        """
        return self

    def request(self, built: Item | Defect) -> EncodedRow:
        """Return the request of an item.

        Without a body if the row is rejected, or cannot be sent with others.
        """
        if (
            isinstance(built, Defect)
            or built.wire_bytes > MAX_ROW_BYTES
            or not self.joiner.fits(built.attributes)
        ):
            return "", (), 0
        return self.joiner.request(built), built.key, built.size

    @abstractmethod
    def read(self, block: Block) -> tuple[RowPositions, EncodedRows]:
        """Return the positions of a block's rows, and the request for each.

        Rows that `where` leaves out are not among them; the positions count them.
        """

    @abstractmethod
    def build(self, data: bytes, byte: int) -> Item | Defect:
        """Build the item of one row, which begins at `byte` of the source.

        Returns `FILTERED` for a row that `where` leaves out.
        """


class FieldEncoder:
    """Encoder for rows of fields: one by one with every reason, or columns at once."""

    def __init__(
        self, record: RunRecord, layout: ItemLayout, joiner: Joiner, writes: RowWrites | None = None
    ) -> None:
        """`record` has one type for each attribute of the layout.

        `writes` are the rules of rows that go one by one.
        """
        table, types, nulls = record.table, record.cell_types, record.payload.empty_policy
        needs = writes or NO_NEEDS
        if record.mode.deletes:
            keys = [key.name for key in table.keys]
            names = list(dict.fromkeys([*keys, *sorted(needs.condition_columns)]))
            types = tuple(types[layout.attributes.index(name)] for name in names)
            # A deletion touches no index, so the limits of index keys do not apply.
            layout, table, nulls = layout.only(names), replace(table, index_keys=()), OMIT
        attributes = layout.attributes
        self._started: float | None = None
        position_attribute = record.payload.options.position_attribute
        if record.mode.keeps_position and position_attribute is not None:
            self._started = record.created
            attributes, types = (*attributes, position_attribute), (*types, "S")
        self._layout = layout
        self.encoder = BatchEncoder(
            attributes, types, table, nulls, needs, joins_text=joiner.joins_text
        )
        """Encoder of the columns of attributes."""

    def build(self, fields: Sequence[str], byte: int) -> Item | Defect:
        """Build the item of one row.

        A defect names the file's column, or the attribute if it comes from no column.
        """
        layout = self._layout
        if len(fields) != len(layout.columns):
            return field_count(len(fields), len(layout.columns))
        texts = layout.row(fields)
        if self._started is not None:
            texts = [*texts, position(self._started, byte)]
        built = self.encoder.builder.build(texts)
        if isinstance(built, Defect) and isinstance(built.column, int):
            origin = layout.origins[built.column]
            named = origin if isinstance(origin, int) else layout.attributes[built.column]
            return replace(built, column=named)
        return built

    def attributes(self, columns: Columns, places: RowPositions) -> Columns:
        """Return the columns of a block's attributes, for `encoder`."""
        columns = self._layout.apply(columns)
        if self._started is None:
            return columns
        positions = [position(self._started, places.byte(row)) for row in columns.numbers]
        longest = None if columns.longest is None else columns.longest + 1 + POSITION_LENGTH
        return replace(columns, cells=[*columns.cells, positions], longest=longest, lengths=None)


class DelimitedRowEncoder(RowEncoder):
    """Encoder for delimited text: all rows of an object have the same columns."""

    def __init__(self, record: RunRecord, hmac_key: bytes | None = None) -> None:
        payload, options = record.payload, record.payload.options
        dialect = Dialect.of(payload.source)
        self.ends = dialect_boundaries(dialect)
        writes = row_writes(payload, record.table)
        super().__init__(joiner_for(record.table, record.mode, options.position_attribute, writes))
        self._parser = RowParser(dialect, self.ends, payload.nulls.markers)
        self._count = len(record.columns)
        self._names = header_names(payload.source, record.columns)
        self.reader = ColumnReader(self._parser, self._count, names=self._names)
        """Reader of rows as columns, in the order of the run's."""
        layout = item_layout(record.columns, payload, hmac_key)
        changes = column_changes(payload.mapping)
        self._filter = (
            row_filter(record.columns, layout, record.types, changes, payload)
            if payload.where and record.columns
            else None
        )
        self.batches = self.joiner.fits(layout.attributes)
        self.fields = FieldEncoder(record, layout, self.joiner, writes)

    def reordered(self, places: Sequence[int]) -> DelimitedRowEncoder:
        """Return the encoder for an object whose columns have these places among the run's."""
        encoder = copy(self)
        encoder.reader = ColumnReader(self._parser, self._count, places, self._names)
        return encoder

    def read(self, block: Block) -> tuple[RowPositions, EncodedRows]:
        """Return the positions of a block's rows, and the request for each."""
        # Columns are not kept: a row's JSON takes less memory than its cells.
        places, columns = self.columns(block)
        return places, self.fields.encoder.encode(self.fields.attributes(columns, places))

    def columns(self, block: Block) -> tuple[RowPositions, Columns]:
        """Return the positions of a block's rows, and their cells."""
        columns = self.reader.read(block)
        places = RowPositions(block, self.ends, columns.count)
        if self._filter is None:
            return places, columns

        def is_filtered(row: int) -> bool:
            return self.build(places.data(row), 0) is FILTERED

        columns, kept = self._filter.select(columns, is_filtered)
        places.keep(kept)
        return places, columns

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """Build the item of one row, which begins at `byte` of the source."""
        row = self.reader.parse_row(data)
        if isinstance(row, Defect):
            return row
        if self._filter is not None and len(row) == self._count:
            verdict = self._filter.judge_fields(row)
            if verdict is not None:
                return verdict
        return self.fields.build(row, byte)


class DocumentEncoder(RowEncoder):
    """Encoder for rows that are lines of JSON, each with attribute names in it."""

    def __init__(self, rules: DocumentRules) -> None:
        super().__init__(
            joiner_for(rules.table, rules.mode, rules.position_attribute, rules.writes)
        )
        self.ends = JsonLineBoundaries()
        self._builder = DocumentBuilder(rules)
        self._started = rules.started
        self._rows = JsonRows(self._builder, self.joiner)

    def read(self, block: Block) -> tuple[RowPositions, EncodedRows]:
        """Return the positions of a block's rows, and the request for each."""
        found = _by_columns(self._rows.encode_values, block)
        lines = _lines(block.data) if found is None else ()
        places = RowPositions(block, self.ends, len(found or lines))
        requests = (
            self._build(row, places) if each is None else each
            for row, each in enumerate(found or self._each(self._rows.encode, lines, places))
        )
        return places, self.collected(requests, places)

    def values(self, block: Block) -> tuple[RowPositions, list[RowValues]]:
        """Return the positions of a block's rows, and values of most of them to measure.

        Rows with other attributes are apart, in the order of the first of each.
        """
        by_columns = _by_columns(self._rows.column_values, block)
        if by_columns is not None:
            return RowPositions(block, self.ends, by_columns[0]), [by_columns[1]]
        lines = _lines(block.data)
        places, kept = RowPositions(block, self.ends, len(lines)), list[int]()
        groups: dict[int, tuple[Shape, list[int], list[Sequence[Any]]]] = {}
        for row, found in enumerate(self._each(self._rows.members, lines, places)):
            if found is None:
                if self._builder.filter and self._build(row, places) is FILTERED:
                    continue
            elif isinstance(found, Defect):
                continue
            else:
                shape, contents = found
                _, rows, members = groups.setdefault(id(shape), (shape, [], []))
                rows.append(len(kept))
                members.append(contents)
            kept.append(row)
        if len(kept) < len(lines):
            places.keep(kept)
        return places, [self._rows.values(*group) for group in groups.values()]

    def collected(
        self, requests: Iterable[EncodedRow | Defect], places: RowPositions
    ) -> EncodedRows:
        """Collect the requests of all rows; those that are left out lose their positions."""
        encoded = EncodedRows([], [], None, 0)
        kept: list[int] = []
        sizes: list[int] = []
        for row, found in enumerate(requests):
            if isinstance(found, Defect):
                continue
            put, key, size = found
            if not put:
                encoded.odd.add(len(kept))
            kept.append(row + places.filtered_before(row))
            encoded.puts.append(put)
            encoded.keys.append(key)
            sizes.append(size)
        if len(kept) < places.count:
            places.keep(kept)
        if max(sizes, default=0) > WRITE_UNIT_BYTES:
            encoded.units = [max(1, -(-size // WRITE_UNIT_BYTES)) for size in sizes]
        good = max(1, len(encoded) - len(encoded.odd))
        lengths = map(len, encoded.puts) if self.joiner.joins_text else sizes
        encoded.row_bytes = -(-sum(lengths) // good)
        return encoded

    def _each(
        self,
        read: Callable[[str, str | None], T | Defect | None],
        lines: Sequence[str],
        places: RowPositions,
    ) -> Iterator[T | Defect | None]:
        """Read each line, with the row's position if the mode keeps it; None for the builder's."""
        has_position = self._builder.position_attribute is not None
        for row, line in enumerate(lines):
            try:
                yield read(
                    line, position(self._started, places.byte(row)) if has_position else None
                )
            except REFUSALS:
                yield None

    def _build(self, row: int, places: RowPositions) -> EncodedRow | Defect:
        """Build a row by itself; `FILTERED` if `where` leaves it out."""
        built = self.build(places.data(row), places.byte(row))
        return FILTERED if built is FILTERED else self.request(built)

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """Build the item of one row, which begins at `byte` of the source."""
        return self._builder.build(data, byte)


def row_encoder_for(record: RunRecord, hmac_key: bytes | None = None) -> RowEncoder:
    """Return the encoder for a run's rows. `hmac_key`: for templates that use one."""
    if record.payload.source.kind.has_columns:
        return DelimitedRowEncoder(record, hmac_key)
    return DocumentEncoder(document_rules(record, hmac_key))


def document_rules(record: RunRecord, hmac_key: bytes | None) -> DocumentRules:
    """Return the rules by which lines of JSON become a run's items."""
    payload = record.payload
    kind, options = payload.source.kind, payload.options
    return DocumentRules(
        table=record.table,
        types=payload.types,
        changes=encoded_changes(payload, hmac_key).named(),
        where=payload.where,
        nulls=payload.empty_policy,
        markers=frozenset(payload.nulls.markers),
        mode=record.mode,
        position_attribute=options.position_attribute,
        started=record.created,
        typed=kind.is_native or kind.is_container,
        native=kind.is_native,
        envelope=_ENVELOPES.get(payload.source.format, bare),
        writes=row_writes(payload, record.table),
    )


def _by_columns(read: Callable[[RowBytes], T | None], block: Block) -> T | None:
    """Read rows by their values; return None if they are to be read as lines."""
    try:
        return read(block.data) if isinstance(block.data, RowBytes) else None
    except UnicodeDecodeError:
        return None


def _lines(data: bytes) -> list[str]:
    """Return the lines that are rows; an empty text for each that is for the builder alone."""
    is_whole = len(data) <= LONGEST_LINE
    try:
        text = data.decode()
    except UnicodeDecodeError:
        is_whole, text = False, data.decode(errors="surrogateescape")
    lines = text.split("\n")
    rows = [line for line in lines if line and (line[0] == "{" or line.strip(WHITE_SPACE))]
    if is_whole:
        return rows
    # Bad UTF-8 is the reason to report, whatever else is wrong with such a row. And the builder
    # refuses long lines with too many values before it parses them.
    return ["" if len(line) > LONGEST_LINE or _bad_byte(line) else line for line in rows]
