"""What each mode makes of a row: the item or key, and the body of the request that sends it.

`put` is what `ItemBuilder` and `Encoder` do by themselves. The other modes give these other
columns (a position more, or nothing but keys), and make their bodies of the puts that come out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from json.encoder import encode_basestring as quoted

from ddbload.contracts import RunRecord, Table
from ddbload.modes import DELETE, POSITION_LENGTH, Condition, condition_of, position
from ddbload.rows.columns import Columns, octets
from ddbload.rows.encode import Encoder, Window
from ddbload.rows.items import Item, ItemBuilder, field_count
from ddbload.rows.parse import Defect
from ddbload.rows.places import Places

_ITEM = slice(len('{"PutRequest":{"Item":'), -len("}}"))
"""Where the item's JSON stands in that of its put."""
_POSITION = slice(-POSITION_LENGTH - len('"}}}}'), -len('"}}}}'))
"""The same for its last attribute's text."""


class Shape:
    """Rows as puts of items: `put`."""

    def __init__(self, columns: Sequence[str], types: Sequence[str], table: Table) -> None:
        self._builder = ItemBuilder(columns, types, table)
        self._encoder = Encoder(columns, types, table)

    def build(self, fields: Sequence[str], byte: int) -> Item | Defect:  # noqa: ARG002 - as others
        """What is sent of a row that begins at `byte`. A `Defect` names the file's column."""
        return self._builder.build(fields)

    def examine(self, columns: Columns, places: Places) -> Window:  # noqa: ARG002 - as others
        """Check the rows of a block, and make them ready for `body`."""
        return self._encoder.examine(columns)

    def body(self, puts: Sequence[str]) -> bytes:
        """The body of the request that writes rows of a window, or of `build`."""
        return self._encoder.body(puts)


class Conditional(Shape):
    """Rows as items that are put one by one, under a condition: `insert`."""

    def __init__(
        self, columns: Sequence[str], types: Sequence[str], table: Table, condition: Condition
    ) -> None:
        super().__init__(columns, types, table)
        names = json.dumps(dict(condition.names), ensure_ascii=False, separators=(",", ":"))
        self._prefix = octets(f'{{"TableName":{quoted(table.name)},"Item":')
        self._condition = octets(
            f',"ConditionExpression":{quoted(condition.expression)}'
            f',"ExpressionAttributeNames":{names}'
        )
        self._suffix = (
            ',"ReturnValuesOnConditionCheckFailure":"ALL_OLD","ReturnConsumedCapacity":"TOTAL"}'
        )

    def body(self, puts: Sequence[str]) -> bytes:
        (put,) = puts
        values = self._values(put)
        body = f"{self._prefix}{put[_ITEM]}{self._condition}{values}{self._suffix}"
        return body.encode("latin-1")

    def _values(self, put: str) -> str:  # noqa: ARG002 - as the other's
        return ""


class Positioned(Conditional):
    """The same with one attribute more, in which each says where its row stands: `last-wins`."""

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[str],
        table: Table,
        condition: Condition,
        started: float,
    ) -> None:
        # Last, where `_values` looks for it.
        super().__init__([*columns, condition.position or ""], [*types, "S"], table, condition)
        self._count = len(columns)
        self._started = started

    def build(self, fields: Sequence[str], byte: int) -> Item | Defect:
        if len(fields) != self._count:
            return field_count(len(fields), self._count)
        return self._builder.build([*fields, position(self._started, byte)])

    def examine(self, columns: Columns, places: Places) -> Window:
        started, count, longest = self._started, columns.count, columns.longest
        at = [position(started, places.byte(row)) for row in range(count)]
        more = replace(
            columns,
            cells=[*columns.cells, at],
            longest=None if longest is None else longest + 1 + POSITION_LENGTH,
        )
        return self._encoder.examine(more)

    def _values(self, put: str) -> str:
        return f',"ExpressionAttributeValues":{{":position":{{"S":"{put[_POSITION]}"}}}}'


class Keys(Shape):
    """Rows as deletions: `delete`. Columns that are no keys are not looked at."""

    def __init__(self, columns: Sequence[str], types: Sequence[str], table: Table) -> None:
        names = [key.name for key in table.keys]
        places = [columns.index(name) for name in names]
        # What is not there is in no index: their limits do not matter.
        super().__init__(names, [types[place] for place in places], replace(table, index_keys=()))
        self._count = len(columns)
        self._places = places

    def build(self, fields: Sequence[str], byte: int) -> Item | Defect:  # noqa: ARG002 - as others
        if len(fields) != self._count:
            return field_count(len(fields), self._count)
        built = self._builder.build([fields[place] for place in self._places])
        if isinstance(built, Defect) and built.column is not None:
            return replace(built, column=self._places[built.column])
        return built

    def examine(self, columns: Columns, places: Places) -> Window:  # noqa: ARG002 - as others
        cells = [columns.cells[place] for place in self._places]
        # The size of the other columns does not matter: too much is no harm.
        return self._encoder.examine(replace(columns, cells=cells))

    def body(self, puts: Iterable[str]) -> bytes:
        return self._encoder.body([f'{{"DeleteRequest":{{"Key":{put[_ITEM]}}}}}' for put in puts])


def shape_of(record: RunRecord) -> Shape:
    """What a run makes of its rows."""
    options, table = record.payload.options, record.table
    if options.mode == DELETE:
        return Keys(record.columns, record.types, table)
    condition = condition_of(options.mode, table.keys[0].name, options.position_attribute)
    if condition is None:
        return Shape(record.columns, record.types, table)
    if condition.position is None:
        return Conditional(record.columns, record.types, table, condition)
    return Positioned(record.columns, record.types, table, condition, record.created)
