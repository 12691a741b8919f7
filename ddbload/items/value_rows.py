"""Encodes rows whose values were read by attribute, a column at a time.

The rules are those of `DocumentBuilder`, which judges each row that cannot be shown to be right
here. Rows with rules that are not compiled here are read as lines of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from ddbload.contracts.payload import EMPTY
from ddbload.dynamodb.attribute_values import check_name
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.errors import DdbloadError
from ddbload.items.batch_encoder import BatchEncoder, EncodedRows, are_plain_numbers
from ddbload.items.document_builder import DocumentBuilder
from ddbload.items.item_requests import Joiner
from ddbload.items.row_attributes import ItemLayout
from ddbload.rows.blocks import RowBytes
from ddbload.rows.columns import Columns


class ValueRows:
    """Encoder for rows that all have the same attributes."""

    def __init__(self, builder: DocumentBuilder, joiner: Joiner) -> None:
        self._builder, self._joiner, rules = builder, joiner, builder.rules
        of_values = rules.where, rules.markers, rules.changes.templates, builder.needs.adds
        of_rows = rules.nulls == EMPTY, rules.mode.deletes, builder.position_attribute
        self._is_compiled = not any((*of_values, *of_rows))
        self._compiled = lru_cache(self._compile)

    def encode(self, rows: RowBytes) -> EncodedRows | None:
        """Encode rows, once; None if they are to be read as lines."""
        # Blocks are kept until their rows are written, but not the values of whole batches.
        read, rows.columns = rows.columns, None
        compiled = self._compiled(rows.names, rows.kinds) if self._is_compiled else None
        try:
            rows.decode()
        except UnicodeDecodeError:
            compiled = None
        if compiled is None or read is None:
            return None
        fields, encoder = compiled
        cells, around = list[Sequence[str]](), list[tuple[str, str] | None]()
        values = read()
        for place, is_read in fields:
            kind, (column, before, after) = rows.kinds[place], values[place]
            column = column[rows.part]
            if is_read:
                # Empty text is not null, and numbers become text as DynamoDB has them.
                if not before or (kind == "N" and not are_plain_numbers(column)):
                    return None
                if kind == "S" and "\\" in "".join(column):
                    column = [json.loads(f'"{text}"') for text in column]
            cells.append(column)
            around.append(None if is_read or kind in ("N", "") else (before, after))
        return encoder.encode(Columns(len(cells[0]), cells, around=around))

    def _compile(
        self, names: tuple[str, ...], kinds: tuple[str, ...]
    ) -> tuple[list[tuple[int, bool]], BatchEncoder] | None:
        """Compile the rules for rows with these attributes; None if they are read as lines.

        Returns for each field the place of its column, and whether to read the values of it: those
        of keys are identified, and others may have to be converted.
        """
        builder, rules = self._builder, self._builder.rules
        try:
            layout = ItemLayout.of(names, rules.changes)
            for name in (*names, *layout.attributes):
                check_name(name)
        except (BadValue, DdbloadError):
            return None
        key_types = {key.name: key.type for key in builder.checked_keys}
        fields, types = list[tuple[int, bool]](), list[str]()
        for name, place in zip(layout.attributes, map(str, layout.origins), strict=True):
            kind = kinds[int(place)]
            wanted = builder.declared.get(name, kind)
            is_read = wanted != kind or (name in key_types and kind != "N")
            if (is_read and kind not in ("S", "N")) or key_types.get(name, wanted) != wanted:
                return None
            fields.append((int(place), is_read))
            types.append(wanted)
        needed = builder.needs.condition_columns.union(builder.key_names)
        is_whole = fields and needed.issubset(layout.attributes)
        if not is_whole or not self._joiner.fits(layout.attributes):
            return None
        joins_text = self._joiner.joins_text
        return fields, BatchEncoder(
            layout.attributes, types, rules.table, rules.nulls, builder.needs, joins_text=joins_text
        )
