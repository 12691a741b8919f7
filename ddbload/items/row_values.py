"""Values of rows by column, and the bytes that DynamoDB counts for them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice, repeat
from typing import Any, Self

from ddbload.dynamodb.attribute_values import value_size
from ddbload.dynamodb.limits import MAX_ITEM_BYTES
from ddbload.dynamodb.modes import without_removals
from ddbload.dynamodb.scalar_text import parse_number
from ddbload.items.item_requests import Item, compact_json
from ddbload.rows.columns import from_octets, to_octets, with_ones


@dataclass(eq=False)
class RowValues:
    """Values of rows that have the same attributes, by column."""

    rows: Sequence[int]
    """Number of each row in its block."""
    names: Sequence[str]
    kinds: Sequence[str]
    """S, N or BOOL for the values of each column; empty if these are JSON of attribute values."""
    cells: Sequence[Sequence[str]]
    """Text of each column's values, in octets, empty for a missing value. Strings are as they are,
    without escapes."""
    keys: Sequence[Sequence[Any]]
    """Identities of the rows' keys, by column."""
    absent: Sequence[int]
    """Bytes that an empty cell takes with the attribute's name; 0 where it is no attribute."""
    lengths: Sequence[int] | None = None
    """Bytes of each row's cells, and one for each but the first; None if unknown."""

    @classmethod
    def of_item(cls, row: int, item: Item) -> Self:
        """Return the values of one item."""
        values = without_removals(item.attributes)
        cells = [[to_octets(compact_json(value))] for value in values.values()]
        keys = [[value] for value in item.key]
        return cls([row], list(values), [""] * len(cells), cells, keys, [0] * len(cells))

    def without(self, places: Collection[int]) -> RowValues:
        """Return the values without the rows at these places."""
        if not places:
            return self
        kept = [place for place in range(len(self.rows)) if place not in places]
        return replace(
            self,
            lengths=None,
            rows=[self.rows[place] for place in kept],
            cells=[[column[place] for place in kept] for column in self.cells],
            keys=[[column[place] for place in kept] for column in self.keys],
        )

    def fitting(self) -> RowValues:
        """Return the values of the rows that are not too large for DynamoDB."""
        if max(self.sizes, default=0) <= MAX_ITEM_BYTES:
            return self
        return self.without({at for at, size in enumerate(self.sizes) if size > MAX_ITEM_BYTES})

    @cached_property
    def sizes(self) -> list[int]:
        """Bytes of each row's item."""
        return self.sizes_of(self.names)

    def sizes_of(self, names: Collection[str]) -> list[int]:
        """Return the bytes of each row's attributes with these names."""
        fixed, texts, others = 0, list[Sequence[str]](), list[Iterable[int]]()
        documents = list[Sequence[str]]()
        for name, kind, column, absent in zip(
            self.names, self.kinds, self.cells, self.absent, strict=True
        ):
            if name not in names:
                continue
            size = len(name.encode())
            if absent == size or all(column):
                fixed += size
            else:
                others.append([size if cell else absent for cell in column])
            (texts if kind else documents).append(column)
            if kind in ("N", "BOOL"):
                others.append(_extra_bytes(kind, column))
        if documents:
            others.append(json_sizes(documents))
        if self.lengths is not None and len(texts) == len(self.names):
            others.append(self.lengths)
            fixed -= len(texts) - 1
        elif texts:
            others.append(map(len, map("".join, zip(*texts, strict=True))))
        if len(others) == 1:
            return [size + fixed for size in others[0]]
        return list(map(sum, zip(repeat(fixed, len(self.rows)), *others, strict=True)))

    def having(self, names: Sequence[str]) -> RowValues:
        """Return the values of the rows that have all of these attributes."""
        columns = [self.cells[self.names.index(name)] for name in names]
        gaps = (column for column in columns if not all(column))
        return self.without({row for each in gaps for row, cell in enumerate(each) if not cell})

    def texts(self, name: str) -> Sequence[str]:
        """Return the text of each row's value of an attribute, in octets."""
        place = self.names.index(name)
        column = self.cells[place]
        if self.kinds[place]:
            return column
        found = [json.loads(from_octets(text)) if text else {} for text in column]
        return [to_octets(str(*value.values())) for value in found]

    def types(self) -> Iterator[tuple[int, int, str, str, int]]:
        """Yield row and place of an attribute's first value of a type, both names, and a count."""
        for place, (name, kind, column, absent) in enumerate(
            zip(self.names, self.kinds, self.cells, self.absent, strict=True)
        ):
            if kind and (absent or all(column)):
                yield self.rows[0], place, name, kind, len(column)
                continue
            types = [text and (kind or _type_of(text)) for text in column]
            for each, count in Counter(types).items():
                if each:
                    yield self.rows[types.index(each)], place, name, each, count


def json_column(
    name: str, kind: str, texts: Sequence[str | None]
) -> tuple[str, Sequence[str], int]:
    """Return the kind, the cells and the bytes of an empty cell of a column of `ReadValues`."""
    absent = len(name.encode()) if kind == "S" and None not in texts else 0
    if kind == "S" and not absent and "" in texts:
        # Both empty strings and missing values.
        kind, texts = "", [None if text is None else f'{{"S":"{text}"}}' for text in texts]
    cells = [text or "" for text in texts]
    if kind == "S" and "\\" in "".join(cells):
        cells = [json.loads(f'"{text}"') if "\\" in text else text for text in cells]
    if not "".join(cells).isascii():
        cells = list(map(to_octets, cells))
    return kind if kind in ("S", "N", "BOOL") else "", cells, absent


def _extra_bytes(kind: str, cells: Sequence[str]) -> Iterator[int]:
    """Return by how many bytes numbers or booleans are larger than their texts.

    An empty cell has no bytes. Raises `BadValue`.
    """
    # A number's size depends on where it has zeros, and not on its other digits.
    forms = with_ones(cells) if kind == "N" else cells
    return map({form: _extra(kind, form) for form in set(forms)}.__getitem__, forms)


@lru_cache(maxsize=10_000)
def _extra(kind: str, text: str) -> int:
    size = 1 if kind == "BOOL" else parse_number(text or "0").size
    return size - len(text) if text else 0


def json_sizes(columns: Sequence[Sequence[str]]) -> list[int]:
    """Return the bytes of each row's attribute values, given as JSON without blanks by column.

    An empty cell has no bytes.
    """
    rows = list(map("".join, zip(*columns, strict=True)))
    if _has_others("".join(rows)):
        for place, row in enumerate(rows):
            if _has_others(row):
                cells = [column[place] for column in columns if column[place]]
                # A text without syntax is as long as its value has bytes.
                rows[place] = " " * sum(value_size(json.loads(from_octets(cell))) for cell in cells)
    text, sizes = "".join(rows), list(map(len, rows))
    for syntax, uncounted in _UNCOUNTED.items():
        if syntax in text:
            counts = map(str.count, rows, repeat(syntax))
            sizes = [size - uncounted * count for size, count in zip(sizes, counts, strict=True)]
    numbers = [part[: part.index('"')] for part in text.split('{"N":"')[1:]]
    more = _extra_bytes("N", numbers)
    counts = map(str.count, rows, repeat('{"N":"'))
    return [size + sum(islice(more, count)) for size, count in zip(sizes, counts, strict=True)]


_UNCOUNTED = {
    # Members of maps may have names of types, but their values begin with a brace.
    **dict.fromkeys(('{"S":"', '{"N":"'), 8),
    **dict.fromkeys(('{"NULL":t', '{"BOOL":t'), 12),
    '{"BOOL":f': 13,
    # A list or map takes three bytes, and one for each element in place of the commas.
    '{"L":[': 4,
    '{"L":[]': 1,
    # The first member of a map looks like the map as a member, and an empty map has none.
    '":{"': 3,
    '{"M":{': 4 - 3,
    '{"M":{}': 1 + 3,
}
"""Bytes of JSON that DynamoDB does not count, for each occurrence of a syntax.

A quote in a string has a backslash, so all of this is JSON's own syntax.
"""


def _has_others(text: str) -> bool:
    """Return whether a text may have values whose bytes are not told by its length and syntax."""
    return "\\" in text or '{"B":' in text or 'S":[' in text or '":{"}' in text


def _type_of(text: str) -> str:
    """Return the type of an attribute value in JSON without blanks."""
    return text[2 : text.index('"', 2)]
