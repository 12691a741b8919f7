"""Splits blocks of long quoted texts into columns, escaped for JSON, without parsing characters.

`csv` looks at each character of a quoted text, and escaping its cells for JSON looks at each again.
Here a block is cut at its quotes: every other piece lies inside a quoted field. Delimiters and line
ends of the pieces outside are marked by bytes that UTF-8 never contains, and the whole text is put
together, escaped, and cut at these marks. For long texts that takes two thirds of the time. It is
slower for short cells, and leaves all but plain, well-formed blocks to `csv`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ddbload.rows.columns import RARELY_ESCAPED, SHORT_ESCAPES, has_none_of

LONG_CELL_BYTES = 16
"""Average bytes of a cell from which on this is faster than `csv`."""
LEAST_QUOTE_BYTES = 12
"""Average bytes for each quote from which on this is faster than `csv`. Each piece between quotes
is an object, so a text of doubled quotes would also take fifty times its size in memory."""
MOST_OUTSIDE = 0.5
"""Share of a block outside quoted fields up to which it is faster."""
QUOTE_SAMPLE_BYTES = 4096
"""Bytes of a block by which this share is estimated."""

_QUOTED, _CELL_END, _ROW_END = "\xff", "\xfe", "\xfd"
"""Marks: a piece inside a quoted field, the end of a cell, and a row's end, a cell of its own."""
_INNER_QUOTE = f'{_QUOTED}\\"{_QUOTED}'
_BACKSLASH, _, *_WHITE_SPACE = SHORT_ESCAPES


def escaped_columns(octets: str, delimiter: str, count: int) -> list[Sequence[str]] | None:
    """Split rows of `count` cells into columns, whose cells are escaped as in a JSON string.

    The dialect is RFC 4180's, with `"` for the quote, and a delimiter of one byte that is not a
    backslash. None if a row is malformed or has another number of cells, if a text needs a rare
    escape, and if most text is not quoted or has many quotes.
    """
    if len(octets) < LEAST_QUOTE_BYTES * octets.count('"'):
        return None
    sample = octets[:QUOTE_SAMPLE_BYTES]
    if len("".join(sample.split('"')[::2])) > MOST_OUTSIDE * len(sample):
        return None
    if count < 2 or not octets.endswith("\n"):
        return None
    # `in` is far faster than a `replace` that finds nothing.
    if _BACKSLASH[0] in octets:
        octets = octets.replace(*_BACKSLASH)
    pieces = octets.split('"')
    if len(pieces) % 2 == 0:
        return None
    outside = _QUOTED.join(pieces[::2])
    if not has_none_of(RARELY_ESCAPED, octets.encode("latin-1")):
        return None
    if "\r" in outside:
        outside = outside.replace("\r\n", "\n")
        if "\r" in outside:
            return None
    rows = outside.count("\n")
    outside = outside.replace(delimiter, _CELL_END)
    outside = outside.replace("\n", f"{_CELL_END}{_ROW_END}{_CELL_END}")
    # Two pieces side by side have a doubled quote between them. Three in a row overlap.
    neighbours = _QUOTED + _QUOTED
    outside = outside.replace(neighbours, _INNER_QUOTE).replace(neighbours, _INNER_QUOTE)
    if not _fills_fields(outside):
        return None
    pieces[::2] = outside.split(_QUOTED)
    text = "".join(pieces)
    for character, escaped in _WHITE_SPACE:
        if character in text:
            text = text.replace(character, escaped)
    cells = text.split(_CELL_END)
    if len(cells) != rows * (count + 1) + 1 or cells[count :: count + 1].count(_ROW_END) != rows:
        return None
    cells.pop()
    return [cells[place :: count + 1] for place in range(count)]


def unescaped(column: Sequence[str]) -> Sequence[str]:
    """Return the cells of an escaped column as they were, in octets."""
    if "\\" not in "".join(column):
        return column
    return [json.loads(f'"{cell}"') if "\\" in cell else cell for cell in column]


def _fills_fields(outside: str) -> bool:
    """Tell whether quoted pieces stand between a cell's ends, or beside a doubled quote."""
    pieces = outside.count(_QUOTED)
    before = outside.count(_CELL_END + _QUOTED) + outside.count(f'"{_QUOTED}')
    after = outside.count(_QUOTED + _CELL_END) + outside.count(f'{_QUOTED}\\"')
    return before + outside.startswith(_QUOTED) == after == pieces
