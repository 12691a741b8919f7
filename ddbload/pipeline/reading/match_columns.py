"""Match the columns of each of several objects with those of the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from ddbload.contracts.source import BY_NAME, Source
from ddbload.contracts.template import shown
from ddbload.errors import HeaderMismatch
from ddbload.pipeline.reading.header import Header

_APART = "import it by itself"


def match_columns(
    header: Header, columns: Sequence[str], keys: Collection[str], source: Source, name: str
) -> tuple[int, ...] | None:
    """Return the place of each of an object's columns among those of the run.

    None if the object has the run's `columns` in their order. `keys`: columns that the table's keys
    are made from; no object may lack one. `name` is the object's. Raises `HeaderMismatch`.
    """
    own = header.columns
    if own == columns:
        return None
    is_named = source.header and source.columns is None
    if not is_named or source.match != BY_NAME:
        raise HeaderMismatch(
            f"{name} {_first_difference(own, columns, is_named=is_named)}: {_APART}"
            + ("; or match columns by name (--match name)" if is_named else "")
        )
    places = {column: place for place, column in enumerate(columns)}
    shared = [column for column in own if column in places]
    if not shared:
        # What stands there may be a row: do not show it.
        raise HeaderMismatch(
            f"{name} has {_columns(own)} and none has the name of one of the first object's"
            f" {len(columns)}: its first row may be no header, or it has another delimiter;"
            f" {_APART}, or name the columns of all (--columns, with --no-header or --header)"
        )
    for key in keys:
        if key in places and key not in shared:
            raise HeaderMismatch(
                f"{name} has no column {shown(key)}, which the table's key is made from:"
                f" add it, leave the object out, or {_APART} with --rename"
            )
    twice = next((column for column, count in Counter(own).items() if count > 1), None)
    if twice is not None or header.numbered:
        column = "a column" if twice is None else f"column {shown(twice)}"
        raise HeaderMismatch(
            f"{name} has {column} twice, and its header differs from the first object's, so that"
            f" nobody knows which of the two is which: {_APART}, with --columns"
        )
    for place, column in enumerate(own):
        is_unnamed = place in header.unnamed
        if column not in places or (is_unnamed and places[column] != place):
            what = f"column {place + 1}, which has no name" if is_unnamed else shown(column)
            raise HeaderMismatch(
                f"{name} has a column that the first object has not, {what} (column {place + 1}"
                f" of {len(own)}){_alike(column, columns)}: {_APART}; or name an object first that"
                " has every column (--manifest)"
            )
    return tuple(places[column] for column in own)


def _columns(names: Sequence[str]) -> str:
    return "1 column," if len(names) == 1 else f"{len(names)} columns,"


def _first_difference(own: Sequence[str], columns: Sequence[str], *, is_named: bool) -> str:
    """Return the rest of a sentence that begins with the object's name."""
    if not is_named or not set(own) & set(columns):
        # Names without a header are row data, or say nothing.
        if len(own) == len(columns):
            return f"has {len(own)} columns with other names than the first object's"
        return f"has {_columns(own)} and the first object has {len(columns)}"
    place = next(
        (place for place, pair in enumerate(zip(own, columns, strict=False)) if pair[0] != pair[1]),
        min(len(own), len(columns)),
    )
    if place == len(own):
        return f"ends before column {place + 1}, which is {shown(columns[place])} in the first"
    if place == len(columns):
        return f"has a column {place + 1}, {shown(own[place])}, and the first object has {place}"
    return (
        f"has {shown(own[place])} as column {place + 1}, and the first object has"
        f" {shown(columns[place])}"
    )


def _alike(name: str, columns: Sequence[str]) -> str:
    folded = name.strip().casefold()
    alike = next((column for column in columns if column.strip().casefold() == folded), None)
    return "" if alike is None else f"; {shown(alike)} is one, and names are compared exactly"
