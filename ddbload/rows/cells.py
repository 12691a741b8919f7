"""A column's cells as they stand in JSON, all at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from json.encoder import encode_basestring as quoted

from ddbload.rows.types import BadValue, boolean, number

_PLAIN_NUMBERS = re.compile(r"(?:-?[0-9]++(?:\.[0-9]++)?+)?+(?:,(?:-?[0-9]++(?:\.[0-9]++)?+)?+)*+")
ESCAPED = bytes(range(0x20)) + b'"\\'
"""What does not stand for itself in a JSON string."""
FILLER = "0"
"""Stands where there is no cell, or no good one, and troubles nobody: any type takes it."""
PLAIN_LENGTH = 38
"""Characters of a number, so no more digits than DynamoDB keeps, and nothing out of range."""


class Form(Enum):
    """What cells are."""

    BARE = "bare"
    """As they stand between the quotes of a string."""
    QUOTED = "quoted"
    """With their quotes."""
    WHOLE = "whole"
    """Values with their types."""


Read = tuple[Sequence[str], Form]


def has_none_of(bad: bytes, data: bytes) -> bool:
    """Whether none of these bytes is there."""
    # A table of bytes to drop takes a fifth of the time of a regular expression.
    return len(data.translate(None, bad)) == len(data)


def _strings(column: Sequence[str], odd: set[int], *, plain: bool, short: bool) -> Read:  # noqa: ARG001 - like the others
    if plain or has_none_of(ESCAPED, "".join(column).encode("latin-1")):
        return column, Form.BARE
    return list(map(quoted, column)), Form.QUOTED


def _numbers(column: Sequence[str], odd: set[int], *, plain: bool, short: bool) -> Read:  # noqa: ARG001
    if short or max(map(len, column), default=0) <= PLAIN_LENGTH:
        text = "".join(column)
        if not text or (text.isascii() and text.isdigit()):
            return column, Form.BARE
        if "," not in text and _PLAIN_NUMBERS.fullmatch(",".join(column)):
            return column, Form.BARE
    cells = list(column)
    for place, cell in enumerate(column):
        if cell:
            try:
                cells[place] = number(cell).text
            except BadValue:
                odd.add(place)
                cells[place] = FILLER
    return cells, Form.BARE


def _booleans(column: Sequence[str], odd: set[int], *, plain: bool, short: bool) -> Read:  # noqa: ARG001
    meant = {"": ""}
    bad: set[str] = set()
    for cell in set(column) - {""}:
        try:
            meant[cell] = "true" if boolean(cell) else "false"
        except BadValue:
            meant[cell] = FILLER
            bad.add(cell)
    if bad:
        odd.update(place for place, cell in enumerate(column) if cell in bad)
    elif all(cell == written for cell, written in meant.items()):
        return column, Form.BARE
    return [meant[cell] for cell in column], Form.BARE


READERS: dict[str, Callable[..., Read]] = {"S": _strings, "N": _numbers, "BOOL": _booleans}
"""By a column's type. They add the rows that only the builder understands to `odd`.

`plain`: nothing is to be escaped. `short`: no cell is longer than `PLAIN_LENGTH`.
"""


def identities(column: Sequence[str], *, short: bool) -> Sequence[Hashable]:
    """The same for numbers of the same value, as the builder has it."""
    if short or max(map(len, column), default=0) <= PLAIN_LENGTH:
        digits = "".join(column)
        if digits.isascii() and digits.isdigit() and all(column):
            # Without leading zeros digits are what the value is written with.
            if ",0" not in "," + ",".join(column):
                return column
            return [cell.lstrip("0") or "0" for cell in column]
    return [_identity(cell) for cell in column]


def _identity(cell: str) -> Hashable:
    try:
        return number(cell).value
    except BadValue:
        return None
