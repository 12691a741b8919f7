"""Encodes lines of JSON, of DynamoDB JSON and of DynamoDB exports as requests.

A reader encodes the rows of a block that have the same shape together. Rows that it cannot judge
are built one by one by `DocumentBuilder`, which has every rule and every reason.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ddbload.dynamodb.limits import WRITE_UNIT_BYTES
from ddbload.dynamodb.write_modes import position
from ddbload.items.documents.attribute_templates import AttributeTemplate, string_template
from ddbload.items.documents.ddb_json_columns import DynamoDBJsonColumns
from ddbload.items.documents.document_builder import DocumentBuilder, DocumentRules
from ddbload.items.documents.json_columns import JsonColumns
from ddbload.items.encode.batch_encoder import MAX_ROW_BYTES, EncodedRows
from ddbload.items.encode.request_json import batch_request, request_body
from ddbload.items.item_builder import Item
from ddbload.rows.block_splitter import Block
from ddbload.rows.boundaries.row_boundaries import WHITE_SPACE, JsonLineBoundaries
from ddbload.rows.reject_lines import Defect
from ddbload.rows.row_positions import RowPositions

LONGEST_LINE = 500_000
"""Most characters of a line that is read with others; a longer one is built by itself."""


class DocumentEncoder:
    """Encoder for rows that are lines of JSON, each with attribute names in it."""

    def __init__(self, rules: DocumentRules) -> None:
        self.ends = JsonLineBoundaries()
        self.body = request_body(rules.table, rules.mode, rules.position_attribute)
        self._builder = DocumentBuilder(rules)
        self._started = rules.started
        self._reader = (DynamoDBJsonColumns if rules.typed else JsonColumns)(self._builder)

    def read(self, block: Block) -> tuple[RowPositions, EncodedRows]:
        """Return the positions of a block's rows, and the request for each."""
        lines, is_utf8 = _lines(block.data)
        places = RowPositions(block, self.ends, len(lines))
        collected = _RowCollector(len(lines))

        def positions(rows: Sequence[int]) -> AttributeTemplate | None:
            name = self._builder.position_attribute
            if name is None:
                return None
            return string_template(
                name, [position(self._started, places.byte(row)) for row in rows], set()
            )

        for rows, encoded in self._reader.read(lines, positions):
            collected.add(rows, encoded)
        # Bad UTF-8 is the reason to report, whatever else is wrong with such a row.
        collected.missing |= {row for row, is_good in enumerate(is_utf8) if not is_good}
        for row in collected.missing:
            collected.add_built(row, self._builder.build(places.data(row), places.byte(row)))
        return places, collected.rows()

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """Build the item of one row, which begins at `byte` of the source."""
        return self._builder.build(data, byte)


class _RowCollector:
    """Requests for the rows of a block, collected in any order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._puts = [""] * count
        self._keys: list[tuple[Hashable, ...]] = [()] * count
        self._units: list[int] | None = None
        self._odd: set[int] = set()
        self.missing = set(range(count))
        """Numbers of rows without a request yet."""

    def add(self, rows: Sequence[int], encoded: EncodedRows) -> None:
        """Add rows that were encoded together. Those that are odd stay missing."""
        if len(rows) == self._count:
            self._puts, self._keys, self._units = encoded.puts, encoded.keys, encoded.units
            self.missing = set(encoded.odd)
            return
        puts, keys = self._puts, self._keys
        for row, put, key in zip(rows, encoded.puts, encoded.keys, strict=True):
            puts[row] = put
            keys[row] = key
        if encoded.units is not None:
            if self._units is None:
                self._units = [1] * self._count
            for row, units in zip(rows, encoded.units, strict=True):
                self._units[row] = units
        self.missing.difference_update(rows)
        self.missing.update([rows[place] for place in encoded.odd])

    def add_built(self, row: int, built: Item | Defect) -> None:
        """Add a row that the builder judged. It is odd if rejected, or too long for a batch."""
        if isinstance(built, Defect) or built.wire_bytes > MAX_ROW_BYTES:
            self._odd.add(row)
            self._puts[row], self._keys[row] = "", ()
            return
        self._puts[row], self._keys[row] = batch_request(built), built.key
        units = max(1, -(-built.size // WRITE_UNIT_BYTES))
        if units > 1 and self._units is None:
            self._units = [1] * self._count
        if self._units is not None:
            self._units[row] = units

    def rows(self) -> EncodedRows:
        """Return all rows of the block, once none is missing."""
        size = sum(map(len, self._puts))
        good = max(1, self._count - len(self._odd))
        return EncodedRows(self._puts, self._keys, self._units, -(-size // good), self._odd)


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
