"""Lines of JSON, of DynamoDB's JSON, and of DynamoDB's exports: `RowFormat` for them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ddbload.dynamodb.write_modes import DELETE, position, write_condition
from ddbload.items.documents.attribute_templates import (
    AttributeTemplate,
    EncodedDocuments,
    of_strings,
)
from ddbload.items.documents.ddb_json_columns import DynamoDBJsonColumns
from ddbload.items.documents.document_builder import DocumentBuilder, DocumentRules
from ddbload.items.documents.json_columns import JsonColumns
from ddbload.items.encode.batch_encoder import MAX_ROW_BYTES, EncodedRows, batch_request
from ddbload.items.encode.mode_encoders import (
    DeleteEncoder,
    InsertEncoder,
    LastWinsEncoder,
    PutEncoder,
)
from ddbload.items.item_builder import Item
from ddbload.items.item_layout import ItemLayout
from ddbload.rows.block_splitter import Block
from ddbload.rows.boundaries.json_line_boundaries import WHITE_SPACE, JsonLineBoundaries
from ddbload.rows.reject_lines import Defect
from ddbload.rows.row_positions import RowPositions

LONGEST_LINE = 500_000
"""Characters of a line that is read with others."""


class DocumentEncoder:
    """Rows that are lines of JSON, each with names of its own."""

    def __init__(self, rules: DocumentRules) -> None:
        self.ends = JsonLineBoundaries()
        self._builder = DocumentBuilder(rules)
        self._started = rules.started
        self._reader = (DynamoDBJsonColumns if rules.typed else JsonColumns)(self._builder)
        self._shape = _shape(rules)

    def read(self, block: Block) -> tuple[RowPositions, EncodedRows]:
        """The rows of a block: where they stand, and the request of each."""
        lines, sound = _lines(block.data)
        places = RowPositions(block, self.ends, len(lines))
        gathered = Gathered(len(lines))

        def more(rows: Sequence[int]) -> AttributeTemplate | None:
            name = self._builder.position_attribute
            if name is None:
                return None
            at = [position(self._started, places.byte(row)) for row in rows]
            return of_strings(name, at, set())

        for rows, made in self._reader.read(lines, more):
            gathered.take(rows, made)
        # Of them nothing else may be told, whatever else there is to tell.
        gathered.left |= {row for row, is_sound in enumerate(sound) if not is_sound}
        for row in gathered.left:
            gathered.put(row, self._builder.build(places.data(row), places.byte(row)))
        return places, gathered.window()

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """What is sent of one row, which begins at `byte`; or why it is none."""
        return self._builder.build(data, byte)

    def body(self, puts: Sequence[str]) -> bytes:
        """The body of the request that sends rows of windows."""
        return self._shape.body(puts)


class Gathered:
    """A window, as it comes to be of rows that come in any order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._puts = [""] * count
        self._keys: list[tuple[Hashable, ...]] = [()] * count
        self._units: list[int] | None = None
        self._odd: set[int] = set()
        self.left = set(range(count))
        """Rows that did not come."""

    def take(self, rows: Sequence[int], made: EncodedDocuments) -> None:
        """Take rows that were made together, in their order."""
        if len(rows) == self._count:
            self._puts, self._keys, self._units = made.puts, made.keys, made.units
            self.left = set(made.left)
            return
        puts, keys = self._puts, self._keys
        for row, put, key in zip(rows, made.puts, made.keys, strict=True):
            puts[row] = put
            keys[row] = key
        if made.units is not None:
            if self._units is None:
                self._units = [1] * self._count
            for row, units in zip(rows, made.units, strict=True):
                self._units[row] = units
        self.left.difference_update(rows)
        self.left.update([rows[place] for place in made.left])

    def put(self, row: int, built: Item | Defect) -> None:
        """Take what the builder made of a row."""
        if isinstance(built, Defect) or built.wire_bytes > MAX_ROW_BYTES:
            self._odd.add(row)
            self._puts[row], self._keys[row] = "", ()
            return
        self._puts[row], self._keys[row] = batch_request(built), built.key
        units = max(1, -(-built.size // 1024))
        if units > 1 and self._units is None:
            self._units = [1] * self._count
        if self._units is not None:
            self._units[row] = units

    def window(self) -> EncodedRows:
        """The window, once all rows came."""
        size = sum(map(len, self._puts))
        good = max(1, self._count - len(self._odd))
        return EncodedRows(self._puts, self._keys, self._units, -(-size // good), self._odd)


def _lines(data: bytes) -> tuple[list[str], Sequence[bool]]:
    """The lines that are rows, and whether each is UTF-8, unless all are."""
    unsound = False
    try:
        said = data.decode()
    except UnicodeDecodeError:
        unsound = True
        said = data.decode(errors="surrogateescape")
    lines = said.split("\n")
    rows = [line for line in lines if line and (line[0] == "{" or line.strip(WHITE_SPACE))]
    if len(data) > LONGEST_LINE:
        # By themselves: the builder first looks whether it is worth while.
        rows = [line if len(line) <= LONGEST_LINE else "" for line in rows]
    return rows, [_is_sound(line) for line in rows] if unsound else ()


def _is_sound(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shape(rules: DocumentRules) -> PutEncoder:
    """What makes bodies of a mode's puts."""
    table, mode = rules.table, rules.mode
    layout = ItemLayout.of([key.name for key in table.keys])
    types = [key.type for key in table.keys]
    if mode == DELETE:
        return DeleteEncoder(layout, types, table)
    partition_key = table.keys[0].name if table.keys else ""
    condition = write_condition(mode, partition_key, rules.position_attribute)
    if condition is None:
        return PutEncoder(layout, types, table)
    if condition.position is None:
        return InsertEncoder(layout, types, table, condition)
    return LastWinsEncoder(layout, types, table, condition, rules.started)
