"""What each mode makes of a row: the item or key, and the body of the request that sends it.

`put` is what `ItemBuilder` and `Encoder` do by themselves. The other modes give these other
columns (a position more, or nothing but keys), and make their bodies of the puts that come out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from json.encoder import encode_basestring as quoted

from ddbload.contracts.run_record import RunRecord, Table
from ddbload.dynamodb.write_modes import (
    DELETE,
    POSITION_LENGTH,
    Condition,
    position,
    write_condition,
)
from ddbload.items.encode.batch_encoder import BatchEncoder, EncodedRows
from ddbload.items.item_builder import Item, ItemBuilder, field_count
from ddbload.items.item_layout import ItemLayout, item_layout
from ddbload.items.typed_values import OMIT
from ddbload.rows.columns import Columns
from ddbload.rows.octets import to_octets
from ddbload.rows.reject_lines import Defect
from ddbload.rows.row_positions import RowPositions

_ITEM = slice(len('{"PutRequest":{"Item":'), -len("}}"))
"""Where the item's JSON stands in that of its put."""
_POSITION = slice(-POSITION_LENGTH - len('"}}}}'), -len('"}}}}'))
"""The same for its last attribute's text."""


class PutEncoder:
    """Rows as puts of items: `put`."""

    def __init__(
        self, layout: ItemLayout, types: Sequence[str], table: Table, nulls: str = OMIT
    ) -> None:
        """`types`: one an attribute of the layout. `nulls`: one of `values.POLICIES`."""
        self._layout = layout
        self._builder = ItemBuilder(layout.attributes, types, table, nulls)
        self._encoder = BatchEncoder(layout.attributes, types, table, nulls)

    def build(self, fields: Sequence[str], byte: int) -> Item | Defect:
        """What is sent of a row that begins at `byte`.

        A `Defect` names the file's column, or an attribute that is none of the file's.
        """
        layout = self._layout
        if len(fields) != layout.count:
            return field_count(len(fields), layout.count)
        built = self._build(layout.row(fields), byte)
        if isinstance(built, Defect) and isinstance(built.column, int):
            return replace(built, column=layout.column(built.column))
        return built

    def encode(self, columns: Columns, places: RowPositions) -> EncodedRows:
        """Check the rows of a block, and make them ready for `body`."""
        return self._examine(self._layout.apply(columns), places)

    def _build(self, texts: Sequence[str], byte: int) -> Item | Defect:  # noqa: ARG002 - as others
        return self._builder.build(texts)

    def _examine(self, columns: Columns, places: RowPositions) -> EncodedRows:  # noqa: ARG002 - as others
        return self._encoder.encode(columns)

    def body(self, puts: Sequence[str]) -> bytes:
        """The body of the request that writes rows of a window, or of `build`."""
        return self._encoder.body(puts)


class InsertEncoder(PutEncoder):
    """Rows as items that are put one by one, under a condition: `insert`."""

    def __init__(
        self,
        layout: ItemLayout,
        types: Sequence[str],
        table: Table,
        condition: Condition,
        nulls: str = OMIT,
    ) -> None:
        super().__init__(layout, types, table, nulls)
        names = json.dumps(dict(condition.names), ensure_ascii=False, separators=(",", ":"))
        self._prefix = to_octets(f'{{"TableName":{quoted(table.name)},"Item":')
        self._condition = to_octets(
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


class LastWinsEncoder(InsertEncoder):
    """The same with one attribute more, in which each says where its row stands: `last-wins`."""

    def __init__(
        self,
        layout: ItemLayout,
        types: Sequence[str],
        table: Table,
        condition: Condition,
        started: float,
        nulls: str = OMIT,
    ) -> None:
        super().__init__(layout, types, table, condition, nulls)
        # Last, where `_values` looks for it.
        attributes, types = (*layout.attributes, condition.position or ""), (*types, "S")
        self._builder = ItemBuilder(attributes, types, table, nulls)
        self._encoder = BatchEncoder(attributes, types, table, nulls)
        self._started = started

    def _build(self, texts: Sequence[str], byte: int) -> Item | Defect:
        return self._builder.build([*texts, position(self._started, byte)])

    def _examine(self, columns: Columns, places: RowPositions) -> EncodedRows:
        started, count, longest = self._started, columns.count, columns.longest
        at = [position(started, places.byte(row)) for row in range(count)]
        more = replace(
            columns,
            cells=[*columns.cells, at],
            longest=None if longest is None else longest + 1 + POSITION_LENGTH,
        )
        return self._encoder.encode(more)

    def _values(self, put: str) -> str:
        return f',"ExpressionAttributeValues":{{":position":{{"S":"{put[_POSITION]}"}}}}'


class DeleteEncoder(PutEncoder):
    """Rows as deletions: `delete`. Attributes that are no keys are not looked at."""

    def __init__(self, layout: ItemLayout, types: Sequence[str], table: Table) -> None:
        names = [key.name for key in table.keys]
        types = [types[layout.attributes.index(name)] for name in names]
        # What is not there is in no index: their limits do not matter.
        super().__init__(layout.only(names), types, replace(table, index_keys=()))

    def _examine(self, columns: Columns, places: RowPositions) -> EncodedRows:  # noqa: ARG002 - as others
        # The size of the other columns does not matter: too much is no harm.
        return self._encoder.encode(columns)

    def body(self, puts: Iterable[str]) -> bytes:
        return self._encoder.body([f'{{"DeleteRequest":{{"Key":{put[_ITEM]}}}}}' for put in puts])


def mode_encoder(record: RunRecord) -> PutEncoder:
    """What a run makes of its rows."""
    options, table, types = record.payload.options, record.table, record.types
    nulls = record.payload.nulls.policy
    layout = item_layout(record.columns, record.payload)
    if options.mode == DELETE:
        return DeleteEncoder(layout, types, table)
    key = table.keys[0].name if table.keys else ""
    condition = write_condition(options.mode, key, options.position_attribute)
    if condition is None:
        return PutEncoder(layout, types, table, nulls)
    if condition.position is None:
        return InsertEncoder(layout, types, table, condition, nulls)
    return LastWinsEncoder(layout, types, table, condition, record.created, nulls)
