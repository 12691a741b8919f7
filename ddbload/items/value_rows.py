"""Encodes rows whose typed values were read by attribute, as the text that the rows have.

The rules are those of `JsonRows`, compiled once for rows with the same attributes. A row that may
have to change, or be rejected, is left to the readers of lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache

from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.document_rows import (
    LONGEST_PUT,
    NULL_TEXT,
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

Check = Callable[[str | None], Hashable]


class ValueRows:
    """Encoder for rows that all have the same attributes."""

    def __init__(self, rows: JsonRows) -> None:
        self._rows = rows
        self._rules = lru_cache(self._compile)

    def encode(self, rows: RowBytes) -> list[EncodedRow | None] | None:
        """Encode rows, once; None for each that is for the builder, or for all read as lines."""
        # Blocks are kept until their rows are written, but not the values of whole batches.
        values, rows.values = rows.values, None
        rules = values and self._rules(values.names, values.kinds, values.nulls)
        if not values or not rules:
            return None
        omits_nulls, checks, keys = rules
        try:
            made = values.items()[rows.part] if omits_nulls else None
            items = made or to_octets(rows.decode()).split("\n")[:-1]
            checked = [_checked(check, values.texts(place)[rows.part]) for place, check in checks]
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

    def _compile(
        self, names: tuple[str, ...], kinds: tuple[str, ...], nulls: tuple[bool, ...]
    ) -> tuple[bool, list[tuple[int, Check]], int] | None:
        """Compile the rules for rows with these attributes; None if they are read as lines.

        Returns whether nulls are left out; places of values to check, each with its function, those
        of keys first; and the number of the table's keys.
        """
        if not self._rows.can_keep_text or self._rows.has_filter:
            return None
        try:
            _, fields, keys = self._rows.shape(
                names, tuple(_TYPES.get(kind, Typed) for kind in kinds)
            )
            null_texts = {
                encode and encode(None)
                for name, has_nulls in zip(names, nulls, strict=True)
                if has_nulls
                for encode in [self._rows.field(name, type(None))[1]]
            }
        except BadValue:
            return None
        if any(encode not in UNCHANGED for _, encode, _, _ in fields):
            return None
        if null_texts not in (set(), {None}, {NULL_TEXT}):
            return None
        count = self._rows.key_count
        checks = [
            (place, _key_check(identify, is_required=number < count))
            for number, (place, identify) in enumerate(keys)
        ]
        checks += [(place, check_text) for place, kind in enumerate(kinds) if not kind]
        return None in null_texts, checks, count


def _key_check(identify: Callable[[str], Hashable], *, is_required: bool) -> Check:
    def check(text: str | None) -> Hashable:
        if text is None:
            return _BAD if is_required else None
        return identify(json.loads(f'"{text}"') if "\\" in text else text)

    return check


def _checked(check: Check, texts: Sequence[str | None]) -> list[Hashable]:
    """Check each distinct text. Returns what `check` returns, `_BAD` for texts it refuses."""
    known: dict[str | None, Hashable] = {}
    for text in set(texts):
        try:
            known[text] = check(text)
        except BadValue:
            known[text] = _BAD
    return [known[text] for text in texts]
