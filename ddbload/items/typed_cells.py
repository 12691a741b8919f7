"""Recognizes columns whose cells are DynamoDB JSON, as the AWS console writes documents to CSV.

The console writes strings and numbers as they are, sets as `["a","b"]`, a list as
`[{"S":"a"},{"N":"1"}]` and a map as `{"k":{"S":"v"}}`. Read as plain JSON, these would become maps
of maps. A column is decided as a whole, by its first cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ddbload.contracts.template import shown
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.item_layout import ItemLayout
from ddbload.items.json_values import parse
from ddbload.items.typed_values import PLAIN_TYPES, TEXT_READERS, TYPED_TYPES
from ddbload.rows.columns import Columns

MAX_CELLS = 1000
"""Cells of a column that are looked at."""


class SettledCells(NamedTuple):
    """Types of attributes, with those of recognized columns replaced."""

    types: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    """What was decided, with the option that decides otherwise."""


def settle_cells(
    layout: ItemLayout, types: Sequence[str], sample: Iterable[Columns]
) -> SettledCells:
    """Decide for each column declared `M` or `L` whether its cells are DynamoDB JSON."""
    counts = {place: [0, 0] for place, kind in enumerate(types) if kind in TYPED_TYPES}
    waiting = set(counts)
    for columns in sample if counts else ():
        cells = layout.apply(columns).cells
        for place in [*waiting]:
            typed = [_is_typed(text, types[place]) for text in cells[place][:MAX_CELLS] if text]
            counts[place][0] += typed.count(True)
            counts[place][1] += typed.count(False)
            if sum(counts[place]) >= MAX_CELLS:
                waiting.discard(place)
        if not waiting:
            break
    found, notices = list(types), []
    for place, (typed_cells, other_cells) in counts.items():
        name, kind = layout.attributes[place], types[place]
        if typed_cells and not other_cells:
            found[place] = TYPED_TYPES[kind]
            notices.append(
                f"column {shown(name)} is in DynamoDB JSON, as the AWS console writes it, and is"
                f" read as {kind} (as plain JSON: --types {name}={PLAIN_TYPES[kind]})"
            )
        elif typed_cells:
            notices.append(
                f"column {shown(name)} is read as plain JSON, although {typed_cells:,} of its first"
                f" {typed_cells + other_cells:,} cells are in DynamoDB JSON; say which it is"
                f" (--types {name}={TYPED_TYPES[kind]} or {name}={PLAIN_TYPES[kind]})"
            )
    return SettledCells(tuple(found), tuple(notices))


def _is_typed(text: str, kind: str) -> bool | None:
    """Return whether a cell is DynamoDB JSON; None for an empty list or map, and for a defect."""
    try:
        value = parse(text)
        if not value or not isinstance(value, tuple | list):
            return None
        TEXT_READERS[kind](text)
    except BadValue:
        # A list in its envelope is an object, and no plain list.
        return _reads(text, kind) or None
    return _reads(text, kind)


def _reads(text: str, kind: str) -> bool:
    try:
        TEXT_READERS[TYPED_TYPES[kind]](text)
    except BadValue:
        return False
    return True
