"""Columns whose cells have to be understood one by one: each text that there is, once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from json import JSONEncoder

from ddbload.rows.attributes import AttributeValue
from ddbload.rows.cells import FILLER
from ddbload.rows.cutter import octets, text
from ddbload.rows.types import BadValue
from ddbload.rows.values import TEXT_READERS, Value

to_json = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""As requests have it. `json.dumps` makes one of these each time."""


@dataclass(slots=True)
class Valued:
    """A column's cells, with what its type makes of them."""

    cells: Sequence[str]
    """JSON of the whole value, with its type, in octets; as they were where there is none."""
    identities: Sequence[Hashable]
    extra: Sequence[int]
    """Bytes that DynamoDB counts for the value, beyond those of the cell."""


def read_values(kind: str, column: Sequence[str], odd: set[int], most: int | None = None) -> Valued:
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
            value = known[cell] = read(text(cell))
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
    return Valued(
        [written.get(cell, cell) for cell in column],
        [identities.get(cell) for cell in column],
        [extra.get(cell, 0) for cell in column],
    )


def _written(attribute: AttributeValue) -> str:
    ((kind, content),) = attribute.items()
    if kind in ("N", "B"):
        # Their characters are none that JSON escapes.
        return f'{{"{kind}":"{content}"}}'
    return octets(to_json(attribute))
