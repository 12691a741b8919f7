"""A column's cells as they stand in JSON, all at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from json.encoder import encode_basestring as quoted

from ddbload.dynamodb.attribute_values import AttributeValue
from ddbload.dynamodb.scalar_text import BadValue, parse_boolean, parse_number
from ddbload.items.encode.request_json import compact_json
from ddbload.items.typed_values import TEXT_READERS, Value
from ddbload.rows.columns import FILLER, JSON_ESCAPED, from_octets, has_none_of, to_octets

_PLAIN_NUMBERS = re.compile(r"(?:-?[0-9]++(?:\.[0-9]++)?+)?+(?:,(?:-?[0-9]++(?:\.[0-9]++)?+)?+)*+")
PLAIN_LENGTH = 38
"""Characters of a number, so no more digits than DynamoDB keeps, and nothing out of range."""


class CellForm(Enum):
    """What cells are."""

    BARE = "bare"
    """As they stand between the quotes of a string."""
    QUOTED = "quoted"
    """With their quotes."""
    WHOLE = "whole"
    """Values with their types."""


EncodedCells = tuple[Sequence[str], CellForm]


def _strings(column: Sequence[str], odd: set[int], *, plain: bool, short: bool) -> EncodedCells:  # noqa: ARG001 - like the others
    if plain or has_none_of(JSON_ESCAPED, "".join(column).encode("latin-1")):
        return column, CellForm.BARE
    return list(map(quoted, column)), CellForm.QUOTED


def _numbers(column: Sequence[str], odd: set[int], *, plain: bool, short: bool) -> EncodedCells:  # noqa: ARG001
    if short or max(map(len, column), default=0) <= PLAIN_LENGTH:
        text = "".join(column)
        if not text or (text.isascii() and text.isdigit()):
            return column, CellForm.BARE
        if "," not in text and _PLAIN_NUMBERS.fullmatch(",".join(column)):
            return column, CellForm.BARE
    cells = list(column)
    for place, cell in enumerate(column):
        if cell:
            try:
                cells[place] = parse_number(cell).text
            except BadValue:
                odd.add(place)
                cells[place] = FILLER
    return cells, CellForm.BARE


def _booleans(column: Sequence[str], odd: set[int], *, plain: bool, short: bool) -> EncodedCells:  # noqa: ARG001
    meant = {"": ""}
    bad: set[str] = set()
    for cell in set(column) - {""}:
        try:
            meant[cell] = "true" if parse_boolean(cell) else "false"
        except BadValue:
            meant[cell] = FILLER
            bad.add(cell)
    if bad:
        odd.update(place for place, cell in enumerate(column) if cell in bad)
    elif all(cell == written for cell, written in meant.items()):
        return column, CellForm.BARE
    return [meant[cell] for cell in column], CellForm.BARE


CELL_ENCODERS: dict[str, Callable[..., EncodedCells]] = {
    "S": _strings,
    "N": _numbers,
    "BOOL": _booleans,
}
"""By a column's type. They add the rows that only the builder understands to `odd`.

`plain`: nothing is to be escaped. `short`: no cell is longer than `PLAIN_LENGTH`.
"""


def key_identities(column: Sequence[str], *, short: bool) -> Sequence[Hashable]:
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
        return parse_number(cell).value
    except BadValue:
        return None


@dataclass(slots=True)
class EncodedColumn:
    """A column's cells, with what its type makes of them."""

    cells: Sequence[str]
    """JSON of the whole value, with its type, in octets; as they were where there is none."""
    identities: Sequence[Hashable]
    extra: Sequence[int]
    """Bytes that DynamoDB counts for the value, beyond those of the cell."""


def encode_values(
    kind: str, column: Sequence[str], odd: set[int], most: int | None = None
) -> EncodedColumn:
    """Read a column, and add the rows that only the builder understands to `odd`.

    `most`: how many bytes a value may have, where there is such a limit.
    """
    read = TEXT_READERS[kind]
    known: dict[str, Value] = {}
    bad: set[str] = set()
    for cell in set(column):
        if not cell:
            continue
        try:
            value = known[cell] = read(from_octets(cell))
        except BadValue:
            bad.add(cell)
            continue
        if most is not None and value.size > most:
            bad.add(cell)
    if bad:
        odd.update(place for place, cell in enumerate(column) if cell in bad)
    written = {cell: _written(value.attribute) for cell, value in known.items()}
    written |= dict.fromkeys(bad, FILLER)
    identities = {cell: value.identity for cell, value in known.items()}
    extra = {cell: max(0, value.size - len(cell)) for cell, value in known.items()}
    return EncodedColumn(
        [written.get(cell, cell) for cell in column],
        [identities.get(cell) for cell in column],
        [extra.get(cell, 0) for cell in column],
    )


def _written(attribute: AttributeValue) -> str:
    ((kind, content),) = attribute.items()
    if kind in ("N", "B"):
        # Their characters are none that JSON escapes.
        return f'{{"{kind}":"{content}"}}'
    return to_octets(compact_json(attribute))
