"""Encodes rows whose values were read by attribute, a column at a time.

The rules are those of `DocumentBuilder`, which judges each row that cannot be shown to be right
here. Rows with rules that are not compiled here are read as lines of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ddbload.dynamodb.attribute_values import check_name
from ddbload.dynamodb.modes import position
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.errors import DdbloadError
from ddbload.items.batch_encoder import BatchEncoder, EncodedRows, are_plain_numbers
from ddbload.items.document_builder import DocumentBuilder
from ddbload.items.document_rows import is_spelled_well
from ddbload.items.item_requests import Joiner
from ddbload.items.json_values import parse
from ddbload.items.row_attributes import ItemLayout
from ddbload.rows.blocks import RowPositions, Values
from ddbload.rows.columns import Columns, from_octets

_MAX_COMPILED = 100
"""Most orders of attributes and types whose rules are kept."""
_EMPTY = '{"S":""}'


class _Field(NamedTuple):
    """Attribute that is made of a column of values."""

    place: int
    """Place of the column."""
    kind: str
    """Type of its values, empty if each is to be checked."""
    converted: bool
    """True if the encoder gets the values' text, because it converts or identifies them."""


class ValueRows:
    """Encoder for rows that all have the same attributes."""

    def __init__(self, builder: DocumentBuilder, joiner: Joiner) -> None:
        self._builder, self._joiner = builder, joiner
        self._compiled = lru_cache(_MAX_COMPILED)(self._compile)

    def encode(self, values: Values, places: RowPositions) -> EncodedRows | None:
        """Encode the rows of a block; None if they are to be read as lines."""
        compiled = self._compiled(values.names, values.kinds)
        if compiled is None:
            return None
        fields, encoder = compiled
        try:
            read = values.columns()
        except UnicodeDecodeError:
            return None
        cells, around, odd = list[Sequence[str]](), list[tuple[str, str] | None](), set[int]()
        for place, kind, converted in fields:
            column, before, after = read[place]
            if not kind:
                odd.update(_misspelled(column))
            elif converted or kind == "N":
                texts = column if before else _inner(column, kind, odd)
                if kind == "N":
                    odd.update(_bad_numbers(texts))
                if converted:
                    if kind == "S" and "\\" in "".join(texts):
                        texts = [json.loads(f'"{text}"') for text in texts]
                    column = texts
            cells.append(column)
            around.append(None if converted else (before, after))
        if self._builder.position_attribute is not None:
            started = self._builder.rules.started
            cells.append([position(started, places.byte(row)) for row in range(places.count)])
            around.append(None)
        encoded = encoder.encode(Columns(places.count, cells, around=around))
        encoded.odd |= odd
        return encoded

    def _compile(
        self, names: tuple[str, ...], kinds: tuple[str, ...]
    ) -> tuple[list[_Field], BatchEncoder] | None:
        """Compile the rules for rows with these attributes; None if they are read as lines."""
        builder, rules = self._builder, self._builder.rules
        if builder.filter or builder.needs.adds or rules.markers or rules.changes.templates:
            return None
        try:
            layout = ItemLayout.of(names, rules.changes)
            for name in (*names, *layout.attributes):
                check_name(name)
        except (BadValue, DdbloadError):
            return None
        key_types = {key.name: key.type for key in builder.checked_keys}
        fields, attributes, types = list[_Field](), list[str](), list[str]()
        for name, place in zip(layout.attributes, layout.origins, strict=True):
            if rules.mode.deletes and name not in builder.kept_names:
                continue
            kind, wanted = kinds[int(str(place))], builder.declared.get(name)
            converted = name in key_types or wanted not in (None, kind)
            if converted and (kind not in ("S", "N") or key_types.get(name, wanted) != wanted):
                return None
            fields.append(_Field(int(str(place)), kind, converted))
            attributes.append(name)
            types.append(wanted or "S")
        if builder.position_attribute is not None:
            attributes.append(builder.position_attribute)
            types.append("S")
        needed = builder.needs.condition_columns.union(builder.key_names)
        is_whole = len(set(attributes)) == len(attributes) and needed.issubset(attributes)
        if not is_whole or not attributes or not self._joiner.fits(attributes):
            return None
        table = builder.table
        encoder = BatchEncoder(
            attributes,
            types,
            table,
            rules.nulls,
            builder.needs,
            joins_text=self._joiner.joins_text,
        )
        return fields, encoder


def _inner(column: Sequence[str], kind: str, odd: set[int]) -> Sequence[str]:
    """Return the text within the JSON of values; add rows with empty text to `odd`."""
    if _EMPTY in column:
        odd.update(row for row, cell in enumerate(column) if cell == _EMPTY)
    begin, end = len(f'{{"{kind}":"'), -len('"}')
    return [cell[begin:end] for cell in column]


def _bad_numbers(texts: Sequence[str]) -> set[int]:
    """Return the rows whose numbers DynamoDB does not take as they are."""
    if are_plain_numbers(texts):
        return set()
    bad = {text for text in set(texts) if text and not _is_taken(text)}
    return {row for row, text in enumerate(texts) if text in bad}


def _is_taken(text: str) -> bool:
    try:
        return parse_number(text).text == text
    except BadValue:
        return False


def _misspelled(column: Sequence[str]) -> set[int]:
    """Return the rows whose values DynamoDB does not take as they are written."""
    bad = {cell for cell in set(column) if cell and not _is_well(cell)}
    return {row for row, cell in enumerate(column) if cell in bad}


def _is_well(cell: str) -> bool:
    try:
        ((kind, content),) = parse(from_octets(cell))  # type: ignore[misc, union-attr]
        return is_spelled_well(kind, content, 0)
    except (BadValue, ValueError, RecursionError):
        return False
