"""Encodes rows whose values were read by attribute, a column at a time.

The rules are those of `DocumentBuilder`, which judges each row that cannot be shown to be right
here. Rows with rules that are not compiled here are read as lines of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache

from ddbload.contracts.payload import NULL, OMIT
from ddbload.contracts.run_record import KeyAttribute
from ddbload.dynamodb.attribute_values import check_name, check_value
from ddbload.dynamodb.limits import WRITE_UNIT_BYTES
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.errors import DdbloadError
from ddbload.items.batch_encoder import EncodedRows, key_identities
from ddbload.items.document_builder import DocumentBuilder
from ddbload.items.document_rows import LONGEST_PUT
from ddbload.items.item_requests import Joiner
from ddbload.items.json_values import parse, plain
from ddbload.items.row_attributes import ItemLayout
from ddbload.rows.blocks import Field, RowBytes
from ddbload.rows.columns import to_octets

_MEMBER, _UNCOUNTED_BYTES = '":{"', len('"":{"L":[]},') - 4
"""JSON in every attribute and member of a map, and fewest bytes of these that are not counted."""


class ValueRows:
    """Encoder for rows that all have the same attributes, as puts into one table."""

    def __init__(self, builder: DocumentBuilder, joiner: Joiner) -> None:
        self._builder, rules = builder, builder.rules
        self._keeps_nulls = rules.nulls == NULL
        others = rules.where, rules.markers, rules.changes.templates, builder.position_attribute
        has_others = rules.mode.deletes or any(others)
        self._is_compiled = (
            joiner.joins_text and not has_others and (self._keeps_nulls or rules.nulls == OMIT)
        )
        self._fields = lru_cache(self._compile)

    def encode(self, rows: RowBytes) -> EncodedRows | None:
        """Encode rows, once; None if they are to be read as lines."""
        # Blocks are kept until their rows are written, but not the values of whole batches.
        values, rows.values = rows.values, None
        if values is None or not self._is_compiled:
            return None
        fields = self._fields(values.names, values.kinds)
        if not fields:
            return None

        def texts(place: int) -> list[str | None]:
            return values.texts(place)[rows.part]

        try:
            made = values.items(fields, self._keeps_nulls)
            items = made[rows.part] if made else to_octets(rows.decode()).split("\n")[:-1]
        except UnicodeDecodeError:
            return None
        odd = {row for row, item in enumerate(items) if len(item) > LONGEST_PUT}
        for place, _, kind in fields:
            if not kind:
                odd.update(_bad_rows(texts(place)))
        places = {name: place for place, name, _ in fields}
        identities = {
            key.name: self._identities(key, texts(places[key.name]), odd)
            for key in self._builder.checked_keys
            if key.name in places
        }
        keys = [identities[name] for name in self._builder.key_names]
        sizes = [1]
        if max(map(len, items)) > WRITE_UNIT_BYTES:
            sizes = [len(item) - _UNCOUNTED_BYTES * item.count(_MEMBER) for item in items]
        is_small = max(sizes) <= WRITE_UNIT_BYTES
        return EncodedRows(
            [f'{{"PutRequest":{item}}}' for item in items],
            list(zip(*keys, strict=True)) if keys else [()] * len(items),
            None if is_small else [max(1, -(-size // WRITE_UNIT_BYTES)) for size in sizes],
            sum(map(len, items)) // len(items) + len('{"PutRequest":}'),
            odd,
        )

    def _identities(
        self, key: KeyAttribute, texts: Sequence[str | None], odd: set[int]
    ) -> Sequence[Hashable]:
        """Return an identity for each value of a key; add rows without a legal one to `odd`."""
        cells = [
            "" if not text else to_octets(json.loads(f'"{text}"') if "\\" in text else text)
            for text in texts
        ]
        can_lack = key.name not in self._builder.key_names and not self._keeps_nulls
        for row, (text, cell) in enumerate(zip(texts, cells, strict=True)):
            if not 0 < len(cell) <= key.max_bytes and not (text is None and can_lack):
                odd.add(row)
        return cells if key.type == "S" else key_identities(cells, short=False)

    def _compile(self, names: tuple[str, ...], kinds: tuple[str, ...]) -> tuple[Field, ...]:
        """Compile the rules for rows with these attributes; empty if they are read as lines."""
        builder = self._builder
        key_types = {key.name: key.type for key in builder.checked_keys}
        try:
            layout = ItemLayout.of(names, builder.rules.changes)
            for name in (*names, *layout.attributes):
                check_name(name)
        except (BadValue, DdbloadError):
            return ()
        fields = list[Field]()
        for name, place in zip(layout.attributes, map(str, layout.origins), strict=True):
            kind = kinds[int(place)]
            wanted = builder.declared.get(name, kind)
            if wanted not in (kind, "S" if kind == "N" else kind):
                return ()
            if name in key_types and (wanted not in ("S", "N") or wanted != key_types[name]):
                return ()
            fields.append((int(place), name, wanted))
        is_whole = set(builder.key_names).issubset(layout.attributes)
        return tuple(fields) if is_whole else ()


def _bad_rows(texts: Iterable[str | None]) -> Iterator[int]:
    """Yield the numbers of the rows with a value that is not one of DynamoDB's."""
    known: dict[str | None, bool] = {None: True}
    for row, text in enumerate(texts):
        if text not in known:
            try:
                known[text] = bool(check_value(plain(parse(text or ""))))
            except BadValue:
                known[text] = False
        if not known[text]:
            yield row
