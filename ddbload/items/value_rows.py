"""Encodes rows whose typed values were read by attribute, as the text that the rows have.

The rules are those of `JsonRows`, compiled once for rows with the same attributes. A row that may
have to change, or be rejected, is left to the readers of lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial

from ddbload.contracts.payload import OMIT
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.document_rows import (
    LONGEST_PUT,
    UNCHANGED,
    EncodedRow,
    JsonRows,
    Typed,
    check_text,
)
from ddbload.rows.blocks import RowBytes
from ddbload.rows.columns import to_octets

_MEMBER, _UNCOUNTED_BYTES = '":{"', len('"":{"L":[]},') - 4
"""JSON in every attribute and member of a map, and fewest bytes of these that are not counted."""
_TYPES = {"S": str, "N": bytes, "BOOL": bool}
_BAD = object()

Check = tuple[int, Callable[[str], Hashable], object]
"""Place of an attribute whose values are checked, the function that does, and what a null gives."""


class ValueRows:
    """Encoder for rows that all have the same attributes."""

    def __init__(self, rows: JsonRows, nulls: str) -> None:
        """`nulls`: the policy for nulls."""
        self._rows, self._omits_nulls = rows, nulls == OMIT
        self._checks = lru_cache(self._compile)

    def encode(self, rows: RowBytes) -> list[EncodedRow | None] | None:
        """Encode rows, once; None for each that is for the builder, or for all read as lines."""
        # Blocks are kept until their rows are written, but not the values of whole batches.
        values, rows.values = rows.values, None
        if values is None or (values.has_nulls and not self._omits_nulls):
            return None
        checks, keys = self._checks(values.names, values.kinds), self._rows.key_count
        if checks is None:
            return None
        try:
            made = values.items()[rows.part] if values.has_nulls else None
            items = made or to_octets(rows.decode()).split("\n")[:-1]
            checked = [
                _checked(check, {None: null}, values.texts(place)[rows.part])
                for place, check, null in checks
            ]
        except UnicodeDecodeError:
            return None
        return [
            None
            if _BAD in found or len(item) > LONGEST_PUT
            else (
                f'{{"PutRequest":{item}}}',
                tuple(found[:keys]),
                len(item) - _UNCOUNTED_BYTES * item.count(_MEMBER),
            )
            for item, *found in zip(items, *checked, strict=True)
        ]

    def _compile(self, names: tuple[str, ...], kinds: tuple[str, ...]) -> list[Check] | None:
        """Return the checks of rows with these attributes, those of keys first.

        None if the rows are read as lines.
        """
        rows = self._rows
        if not rows.can_keep_text or rows.has_filter:
            return None
        try:
            types = tuple(_TYPES.get(kind, Typed) for kind in kinds)
            _, fields, keys = rows.shape(names, types)
        except BadValue:
            return None
        if any(encode not in UNCHANGED for _, encode, _, _ in fields):
            return None
        checks: list[Check] = [
            (place, partial(_identity, identify), _BAD if number < rows.key_count else None)
            for number, (place, identify) in enumerate(keys)
        ]
        return checks + [(place, check_text, None) for place, kind in enumerate(kinds) if not kind]


def _identity(identify: Callable[[str], Hashable], text: str) -> Hashable:
    return identify(json.loads(f'"{text}"') if "\\" in text else text)


def _checked(
    check: Callable[[str], Hashable], known: dict[str | None, object], texts: Sequence[str | None]
) -> list[object]:
    """Check each distinct text. Returns what `check` returns, `_BAD` for texts it refuses."""
    for text in set(texts):
        if text is not None:
            try:
                known[text] = check(text)
            except BadValue:
                known[text] = _BAD
    return [known[text] for text in texts]
