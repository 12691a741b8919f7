"""Makes items and requests from a run's rows: delimited text, or lines of JSON.

`row_encoder_for` picks the encoder of a run. Every mode checks and encodes rows alike, but for the
attributes that are sent: `last-wins` adds each row's position, and `delete` sends the keys only.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Protocol

from ddbload.contracts.column_mapping import column_changes, encoded_changes, row_writes
from ddbload.contracts.dialect import Dialect
from ddbload.contracts.payload import OMIT
from ddbload.contracts.run_record import RunRecord, Table
from ddbload.contracts.source import DYNAMODB_EXPORT, DYNAMODB_JSON, JSON, PARQUET, Source
from ddbload.dynamodb.limits import WRITE_UNIT_BYTES
from ddbload.dynamodb.modes import POSITION_LENGTH, PUT, WriteMode, position
from ddbload.dynamodb.row_writes import RowWrites
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.documents.ddb_json_rows import DynamoDBJsonRows
from ddbload.items.documents.document_builder import (
    DocumentBuilder,
    DocumentRules,
    bare,
    export_line,
    item_line,
)
from ddbload.items.documents.json_rows import FOR_BUILDER, EncodedRow, JsonRows
from ddbload.items.encode.batch_encoder import MAX_ROW_BYTES, BatchEncoder, EncodedRows
from ddbload.items.encode.insert_statements import (
    InsertStatements,
    mode_body,
    statements_for,
)
from ddbload.items.encode.request_json import RequestBody, batch_request, item_of_request
from ddbload.items.encode.row_write_bodies import RowWriteBodies
from ddbload.items.item_builder import Item, ItemBuilder, row_needs
from ddbload.items.item_layout import ItemLayout, item_layout
from ddbload.items.json_values import parse_object
from ddbload.items.row_filter import FILTERED, row_filter
from ddbload.rows.blocks import (
    WHITE_SPACE,
    Block,
    Defect,
    JsonLineBoundaries,
    RowBoundaries,
    RowPositions,
    field_count,
)
from ddbload.rows.columns import ColumnReader, Columns, RowParser
from ddbload.rows.dialect_grammar import dialect_boundaries

_ENVELOPES = {
    JSON: bare,
    DYNAMODB_JSON: item_line,
    PARQUET: item_line,
    DYNAMODB_EXPORT: export_line,
}

LONGEST_PUT = 200_000
"""Most bytes of JSON for a row. Written in ASCII it would take three times as many at most."""
LONGEST_LINE = 500_000
"""Most characters of a line that is read with others; a longer one is built by itself."""


class RowEncoder(Protocol):
    """Encoder that turns blocks of whole rows into requests."""

    @property
    def ends(self) -> RowBoundaries:
        """Row boundaries of the format."""

    @property
    def body(self) -> RequestBody:
        """Function that makes the body of one call from the requests for its rows."""

    @property
    def batches(self) -> bool:
        """False if each row goes in a request of its own, since no statement can insert it."""

    def goes_alone(self, item: Item) -> bool:
        """Return whether an item goes in a request of its own, since no statement can insert it."""

    def reordered(self, places: Sequence[int]) -> RowEncoder:
        """Return the encoder for an object whose columns have these places among the run's."""

    def read(self, block: Block) -> tuple[RowPositions, EncodedRows]:
        """Return the positions of a block's rows, and the request for each.

        Rows that `where` leaves out are not among them; the positions count them.
        """

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """Build the item of one row, which begins at `byte` of the source.

        Returns `FILTERED` for a row that `where` leaves out.
        """


class FieldEncoder:
    """Encoder for rows of fields: one by one with every reason, or columns at once."""

    def __init__(
        self,
        layout: ItemLayout,
        types: Sequence[str],
        table: Table,
        *,
        mode: WriteMode = PUT,
        nulls: str = OMIT,
        position_attribute: str | None = None,
        started: float = 0.0,
        writes: RowWrites | None = None,
    ) -> None:
        """Take one type for each attribute of the layout, and a null policy.

        `position_attribute` and `started`, when the run began, are for mode `last-wins`; `writes`
        are the rules of rows that go one by one.
        """
        needs = row_needs(writes)
        if mode.deletes:
            names = list(dict.fromkeys([*(key.name for key in table.keys), *sorted(needs.values)]))
            types = [types[layout.attributes.index(name)] for name in names]
            # A deletion touches no index, so the limits of index keys do not apply.
            layout, table, nulls = layout.only(names), replace(table, index_keys=()), OMIT
        attributes = layout.attributes
        self._started: float | None = None
        if mode.keeps_position and position_attribute is not None:
            self._started = started
            # Last, where the request's body looks for it.
            attributes, types = (*attributes, position_attribute), (*types, "S")
        self._layout = layout
        self._builder = ItemBuilder(attributes, types, table, nulls, needs)
        marks = mode.inserts or writes is not None
        self._encoder = BatchEncoder(attributes, types, table, nulls, needs, marks=marks)

    def build(self, fields: Sequence[str], byte: int) -> Item | Defect:
        """Build the item of one row.

        A defect names the file's column, or the attribute if it comes from no column.
        """
        layout = self._layout
        if len(fields) != layout.count:
            return field_count(len(fields), layout.count)
        texts = layout.row(fields)
        if self._started is not None:
            texts = [*texts, position(self._started, byte)]
        built = self._builder.build(texts)
        if isinstance(built, Defect) and isinstance(built.column, int):
            return replace(built, column=layout.column(built.column))
        return built

    def encode(self, columns: Columns, places: RowPositions) -> EncodedRows:
        """Encode the rows of a block."""
        return self._encoder.encode(self._attributes(columns, places))

    def encode_lines(self, columns: Columns, places: RowPositions) -> str | None:
        """Encode the rows of a block as lines, see `BatchEncoder.encode_lines`."""
        return self._encoder.encode_lines(self._attributes(columns, places))

    def _attributes(self, columns: Columns, places: RowPositions) -> Columns:
        columns = self._layout.apply(columns)
        if self._started is not None:
            columns = _with_positions(columns, places, self._started)
        return columns


class DelimitedRowEncoder:
    """Encoder for delimited text: all rows of an object have the same columns."""

    def __init__(self, record: RunRecord, hmac_key: bytes | None = None) -> None:
        payload, options = record.payload, record.payload.options
        dialect = Dialect.of(payload.source)
        self.ends = dialect_boundaries(dialect)
        self._statements = statements_for(record.mode, record.table)
        writes = row_writes(payload, record.table)
        self.body = (
            RowWriteBodies(writes).body
            if writes is not None
            else mode_body(self._statements, record.table, record.mode, options.position_attribute)
        )
        self._parser = RowParser(dialect, self.ends, payload.nulls.markers)
        self._count = len(record.columns)
        self.reader = ColumnReader(self._parser, self._count)
        """Reader of rows as columns, in the order of the run's."""
        layout = item_layout(record.columns, payload, hmac_key)
        changes = column_changes(payload.mapping)
        self._filter = row_filter(record.columns, layout, record.types, changes, payload)
        self.batches = self._statements is None or self._statements.fits(layout.attributes)
        self._fields = FieldEncoder(
            layout,
            record.types,
            record.table,
            mode=record.mode,
            nulls=payload.empty_policy,
            position_attribute=options.position_attribute,
            started=record.created,
            writes=writes,
        )

    def reordered(self, places: Sequence[int]) -> DelimitedRowEncoder:
        """Return the encoder for an object whose columns have these places among the run's."""
        encoder = copy(self)
        encoder.reader = ColumnReader(self._parser, self._count, places)
        return encoder

    def read(self, block: Block) -> tuple[RowPositions, EncodedRows]:
        """Return the positions of a block's rows, and the request for each."""
        # Columns are not kept: a row's JSON takes less memory than its cells.
        places, columns = self.columns(block)
        return places, self.encode(columns, places)

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

    def encode(self, columns: Columns, places: RowPositions) -> EncodedRows:
        """Return the request for each row."""
        return self._fields.encode(columns, places)

    def encode_lines(self, columns: Columns, places: RowPositions) -> str | None:
        """Return the items as one text, a line each; None if `encode` has to look at the rows."""
        return self._fields.encode_lines(columns, places)

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """Build the item of one row, which begins at `byte` of the source."""
        row = self.reader.parse_row(data)
        if isinstance(row, Defect):
            return row
        if self._filter is not None and len(row) == self._count:
            verdict = self._filter.judge(row)
            if verdict is not None:
                return verdict
        return self._fields.build(row, byte)

    def goes_alone(self, item: Item) -> bool:  # noqa: ARG002 - other formats ask for each item
        """Return whether an item goes in a request of its own, since no statement can insert it."""
        return not self.batches


class DocumentEncoder:
    """Encoder for rows that are lines of JSON, each with attribute names in it."""

    def __init__(self, rules: DocumentRules) -> None:
        self.ends = JsonLineBoundaries()
        self._statements = statements_for(rules.mode, rules.table)
        self.body = (
            RowWriteBodies(rules.writes).body
            if rules.writes is not None
            else mode_body(self._statements, rules.table, rules.mode, rules.position_attribute)
        )
        self.batches = True
        self._builder = DocumentBuilder(rules)
        self._started = rules.started
        self._rows = (DynamoDBJsonRows if rules.typed else JsonRows)(self._builder)

    def read(self, block: Block) -> tuple[RowPositions, EncodedRows]:
        """Return the positions of a block's rows, and the request for each."""
        lines, is_utf8 = _lines(block.data)
        places = RowPositions(block, self.ends, len(lines))
        encoded = EncodedRows([], [], None, 0)
        kept: list[int] = []
        units: list[int] = []
        for row, line in enumerate(lines):
            found = self._encode(row, line, places, is_utf8=not is_utf8 or is_utf8[row])
            if found is None:
                continue
            put, key, size = found
            if not put:
                encoded.odd.add(len(kept))
            kept.append(row)
            encoded.puts.append(put)
            encoded.keys.append(key)
            units.append(max(1, -(-size // WRITE_UNIT_BYTES)))
        if self._builder.filter is not None:
            places.keep(kept)
        encoded.units = units if max(units, default=1) > 1 else None
        good = max(1, len(encoded) - len(encoded.odd))
        encoded.row_bytes = -(-sum(map(len, encoded.puts)) // good)
        if self._statements is not None:
            _mark_values(encoded, self._statements)
        needs = self._builder.needs
        if needs.values or needs.sets:
            _leave_unsuitable(encoded, self._builder)
        return places, encoded

    def _encode(
        self, row: int, line: str, places: RowPositions, *, is_utf8: bool
    ) -> EncodedRow | None:
        """Encode a row; without a request if it is rejected or very long.

        None if `where` leaves it out.
        """
        builder, members = self._builder, None
        # Bad UTF-8 is the reason to report, whatever else is wrong with such a row.
        is_plain: bool | None = is_utf8
        if is_utf8 and builder.filter is not None:
            members = parse_object(line)
            is_plain = None if members is None else builder.is_kept(members)
            if is_plain is False:
                return None
        if is_plain:
            at = None
            if builder.position_attribute is not None:
                at = position(self._started, places.byte(row))
            try:
                found = self._rows.encode(line, at, members)
            except (BadValue, UnicodeEncodeError):
                found = FOR_BUILDER
            if found[0] and len(found[0]) <= LONGEST_PUT:
                return found
        built = builder.build(places.data(row), places.byte(row))
        if built is FILTERED:
            return None
        if isinstance(built, Defect) or built.wire_bytes > MAX_ROW_BYTES:
            return FOR_BUILDER
        return batch_request(built), built.key, built.size

    def goes_alone(self, item: Item) -> bool:
        """Return whether an item goes in a request of its own, since no statement can insert it."""
        return self._statements is not None and not self._statements.fits(item.attributes)

    def reordered(self, places: Sequence[int]) -> DocumentEncoder:  # noqa: ARG002 - protocol
        """Return the same encoder: documents name their attributes themselves."""
        return self

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """Build the item of one row, which begins at `byte` of the source."""
        return self._builder.build(data, byte)


def row_boundaries_for(source: Source) -> RowBoundaries:
    """Return what finds the row ends of a source."""
    if source.kind.has_columns:
        return dialect_boundaries(Dialect.of(source))
    return JsonLineBoundaries()


def row_encoder_for(record: RunRecord, hmac_key: bytes | None = None) -> RowEncoder:
    """Return the encoder for a run's rows. `hmac_key`: for templates that use one."""
    if record.payload.source.kind.has_columns:
        return DelimitedRowEncoder(record, hmac_key)
    return DocumentEncoder(_document_rules(record, hmac_key))


def _mark_values(encoded: EncodedRows, statements: InsertStatements) -> None:
    """Mark the values of rows. A row that fits no statement becomes odd, and is built again."""
    for row, put in enumerate(encoded.puts):
        if row in encoded.odd:
            continue
        marked = statements.marked(put)
        if marked is None:
            encoded.odd.add(row)
        else:
            encoded.puts[row] = marked


def _leave_unsuitable(encoded: EncodedRows, builder: DocumentBuilder) -> None:
    """Mark rows as odd that lack what the run's requests need, so that they are built again."""
    for row, put in enumerate(encoded.puts):
        if row not in encoded.odd and not builder.is_suitable(item_of_request(put)):
            encoded.odd.add(row)


def _with_positions(columns: Columns, places: RowPositions, started: float) -> Columns:
    """Add a column with each row's position."""
    numbers = (row for row in range(columns.count) if row not in columns.odd)
    positions = [position(started, places.byte(row)) for row in numbers]
    longest = columns.longest
    return replace(
        columns,
        cells=[*columns.cells, positions],
        longest=None if longest is None else longest + 1 + POSITION_LENGTH,
    )


def _document_rules(record: RunRecord, hmac_key: bytes | None) -> DocumentRules:
    payload = record.payload
    file_format, options = payload.source.format, payload.options
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
        typed=file_format != JSON,
        native=file_format not in (JSON, PARQUET),
        envelope=_ENVELOPES[file_format],
        writes=row_writes(payload, record.table),
    )


def _lines(data: bytes) -> tuple[list[str], Sequence[bool]]:
    """Return the lines that are rows, and whether each is UTF-8; nothing if all are."""
    is_bad = False
    try:
        text = data.decode()
    except UnicodeDecodeError:
        is_bad = True
        text = data.decode(errors="surrogateescape")
    lines = text.split("\n")
    rows = [line for line in lines if line and (line[0] == "{" or line.strip(WHITE_SPACE))]
    if len(data) > LONGEST_LINE:
        # The builder refuses long lines with too many values before it parses them.
        rows = [line if len(line) <= LONGEST_LINE else "" for line in rows]
    return rows, [_is_utf8(line) for line in rows] if is_bad else ()


def _is_utf8(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True
