"""Lines of JSON, of DynamoDB's JSON, and of DynamoDB's exports: `RowFormat` for them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ddbload.modes import DELETE, condition_of
from ddbload.rows.blocks import Block
from ddbload.rows.defects import Defect
from ddbload.rows.document_items import DocumentBuilder, Rules
from ddbload.rows.encode import MAX_ROW_BYTES, Window, request_of
from ddbload.rows.items import Item
from ddbload.rows.json_lines import JsonLineEnds
from ddbload.rows.layout import Layout
from ddbload.rows.places import Places
from ddbload.rows.shapes import Conditional, Keys, Positioned, Shape


class DocumentRows:
    """Rows that are lines of JSON, each with names of its own."""

    def __init__(self, rules: Rules) -> None:
        self.ends = JsonLineEnds()
        self._builder = DocumentBuilder(rules)
        self._shape = _shape(rules)

    def read(self, block: Block) -> tuple[Places, Window]:
        """The rows of a block: where they stand, and the request of each."""
        places = Places(block, self.ends, len(self.ends.spans(block.data)))
        count = places.count
        puts: list[str] = [""] * count
        keys: list[tuple[Hashable, ...]] = [()] * count
        units = [1] * count
        odd: set[int] = set()
        for row in range(count):
            built = self._builder.build(places.data(row), places.byte(row))
            if isinstance(built, Defect) or built.wire_bytes > MAX_ROW_BYTES:
                odd.add(row)
                continue
            puts[row], keys[row] = request_of(built), built.key
            units[row] = max(1, -(-built.size // 1024))
        row_bytes = -(-sum(map(len, puts)) // max(1, count - len(odd)))
        return places, Window(puts, keys, units, row_bytes, odd)

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """What is sent of one row, which begins at `byte`; or why it is none."""
        return self._builder.build(data, byte)

    def body(self, puts: Sequence[str]) -> bytes:
        """The body of the request that sends rows of windows."""
        return self._shape.body(puts)


def _shape(rules: Rules) -> Shape:
    """What makes bodies of a mode's puts."""
    table, mode = rules.table, rules.mode
    layout = Layout.of([key.name for key in table.keys])
    types = [key.type for key in table.keys]
    if mode == DELETE:
        return Keys(layout, types, table)
    partition_key = table.keys[0].name if table.keys else ""
    condition = condition_of(mode, partition_key, rules.position_attribute)
    if condition is None:
        return Shape(layout, types, table)
    if condition.position is None:
        return Conditional(layout, types, table, condition)
    return Positioned(layout, types, table, condition, rules.started)
