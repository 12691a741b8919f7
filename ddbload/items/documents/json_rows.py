"""Encodes lines of plain JSON by a template for each set of names and types.

`DocumentBuilder` makes the item of one row, value by value, with every rule and every reason. Here
rows with the same names and the same types of values share a `%` template. Rows that cannot be
shown to be right that way are left to the builder, so that rules and reasons have one home.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from json.encoder import encode_basestring as quoted
from typing import Any, NamedTuple

from ddbload.contracts.column_mapping import Template
from ddbload.dynamodb.attribute_values import AttributeValue, check_name
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.items.documents.document_builder import AttributeDefect, DocumentBuilder, identity
from ddbload.items.encode.request_json import PUT_BEGIN, PUT_END, compact_json
from ddbload.items.json_values import Json, Members, attribute_json, number_text, parse_object
from ddbload.rows.columns import to_octets

MAX_SHAPES, LONGEST_SHAPE = 1000, 20_000
"""Limits of the row shapes that are kept: their number, and characters of names in one."""
MAX_SLOTS, LONGEST_NAME = 10_000, 100
"""Limits of the attributes that are kept: their number, and characters of a name."""
UNCOUNTED_BYTES = len('"":{"L":[]},') - 3
"""Fewest bytes of JSON around an attribute's value that DynamoDB does not count."""

EncodedRow = tuple[str, tuple[Hashable, ...], int]
"""Request for a row, its key, and an upper bound of the bytes that DynamoDB counts."""
FOR_BUILDER: EncodedRow = ("", (), 0)
"""Result for a row that only the builder can judge."""

_BOOLEANS = {True: "true", False: "false"}


class Slot(NamedTuple):
    """Attribute of a shape."""

    form: str
    """JSON of name and value, with `%s` for the value unless it is a constant; empty for none."""
    encode: Callable[[Any], str] | None = None
    """Encoder of the value; None for a constant."""
    identify: Callable[[Any], Hashable] | None = None
    """Function that checks a key, and returns an identity that is equal for equal keys."""


class _Shape(NamedTuple):
    """Compiled encoding of rows with the same names and types."""

    form: str
    encoders: Sequence[Callable[[Any], str] | None]
    """Encoder of each value; None for one that is not in the form."""
    places: Sequence[int] | None
    """Place of each of these values among those of the row; None if they are the same."""
    keys: Sequence[tuple[int, Callable[[Any], Hashable]]]
    """For each key, those of the table first, the place of its value, and its check."""
    size: int
    """Bytes of all attributes' JSON that DynamoDB does not count, at least."""


class JsonRows:
    """Encoder for lines that are objects of any names and values."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._limits: dict[str, tuple[str, int]] = {}
        """Type and most bytes of each key, those of the table first."""
        for key in builder.checked_keys:
            _, most = self._limits.get(key.name, ("", key.max_bytes))
            self._limits[key.name] = (key.type, min(most, key.max_bytes))
        self._table_keys = set(builder.key_names)
        self._markers = builder.rules.markers
        self._is_plain = (
            builder.rules.changes.is_empty
            and not builder.rules.mode.deletes
            and builder.position_attribute is None
        )
        """True if the attributes of a row are its members."""
        self._shapes: dict[tuple[object, ...], _Shape | None] = {}
        self._slots: dict[tuple[str, Hashable], Slot] = {}
        self._found: dict[str, AttributeValue] = {}
        """Last values that the builder read, by attribute."""

    def encode(
        self, line: str, position: str | None = None, parsed: Members | None = None
    ) -> EncodedRow:
        """Encode a row, with the position attribute if any; `FOR_BUILDER` if it is not plain.

        `parsed`: the line as `parse_object` returns it. Raises `BadValue` and `UnicodeEncodeError`
        for rows that are for the builder, too.
        """
        members = parsed or parse_object(line)
        return self._encode(members, position) if members else FOR_BUILDER

    def _encode(self, members: Members, position: str | None) -> EncodedRow:
        names, values = zip(*members, strict=True)
        kinds, contents = self._kinds(values)
        try:
            shape = self._shapes[names, kinds]
        except KeyError:
            shape = self._shape(names, kinds)
        if shape is None:
            return FOR_BUILDER
        if shape.places is not None:
            # Templates take the row as a whole.
            contents = (*contents, dict(members), position)
            contents = [contents[at] for at in shape.places]
        cells = [each(value) for each, value in zip(shape.encoders, contents) if each]  # noqa: B905
        put = to_octets(shape.form % tuple(cells))
        keys = [identify(contents[at]) for at, identify in shape.keys]
        return put, tuple(keys[: len(self._table_keys)]), len(put) - shape.size

    def _kinds(self, values: Sequence[Json]) -> tuple[tuple[Hashable, ...], Sequence[Any]]:
        """Return the type of each value, and what its encoder takes."""
        if self._markers:
            values = [
                None if isinstance(value, str) and value in self._markers else value
                for value in values
            ]
        return tuple(map(type, values)), values

    def _shape(self, names: tuple[str, ...], kinds: tuple[Hashable, ...]) -> _Shape | None:
        """Compile the rows of one shape, once; None if they are for the builder."""
        try:
            shape = self._compiled(names, kinds)
        except (BadValue, AttributeDefect):
            shape = None
        # Where hardly two rows are alike, to compile each is cheaper than to keep it.
        if len(self._shapes) < MAX_SHAPES and sum(map(len, names)) <= LONGEST_SHAPE:
            self._shapes[names, kinds] = shape
        return shape

    def _compiled(self, names: tuple[str, ...], kinds: tuple[Hashable, ...]) -> _Shape | None:
        # Rows of which hardly two are alike have a shape each, so this has to be fast.
        known, places = self._slots, None
        if self._is_plain:
            if len(set(names)) < len(names):
                return None
            attributes: Sequence[str] = names
            slots = [known.get(each) or self._slot(*each) for each in zip(names, kinds)]  # noqa: B905
        else:
            sources = self._sources(names)
            attributes = [*sources]
            places = [len(names) if isinstance(at, Template) else at for at in sources.values()]
            slots = [self._slot_of(name, at, names, kinds) for name, at in sources.items()]
        forms = [slot.form for slot in slots if slot.form]
        encoders = [slot.encode for slot in slots]
        keys: list[tuple[int, Callable[[Any], Hashable]]] = []
        for name in self._limits:
            if name in attributes:
                at = attributes.index(name)
                identify = slots[at].identify
                if identify is not None:
                    keys.append((at, identify))
            elif name in self._table_keys:
                return None
        if places is not None and self._builder.position_attribute is not None:
            if self._builder.position_attribute in attributes:
                return None
            forms.append(f'{name_form(self._builder.position_attribute)}{{"S":"%s"}}')
            encoders.append(str)
            places.append(len(names) + 1)
        form = f"{PUT_BEGIN}{','.join(forms)}{PUT_END}"
        return _Shape(form, encoders, places, keys, UNCOUNTED_BYTES * len(forms))

    def _sources(self, names: Sequence[str]) -> dict[str, int | Template]:
        """Return the place of the value, or the template, of each attribute that is encoded."""
        builder = self._builder
        sources = builder.sources((name, at) for at, name in enumerate(names))
        if builder.rules.mode.deletes:
            sources = {name: at for name, at in sources.items() if name in builder.kept_names}
        return sources

    def _slot_of(
        self, name: str, source: int | Template, names: Sequence[str], kinds: Sequence[Hashable]
    ) -> Slot:
        if isinstance(source, Template):
            return self._built(name, partial(self._builder.composed, name, source.named(names)))
        kind = kinds[source]
        return self._slots.get((name, kind)) or self._slot(name, kind)

    def _slot(self, name: str, kind: Any) -> Slot:
        """Compile an attribute's values of one type, once."""
        check_name(name)
        slot = self._new_slot(name, kind)
        if len(self._slots) >= MAX_SLOTS:
            self._slots.clear()
        if len(name) <= LONGEST_NAME:
            self._slots[name, kind] = slot
        return slot

    def _new_slot(self, name: str, kind: Any) -> Slot:
        builder, form = self._builder, name_form(name)
        declared, is_key = builder.declared.get(name), name in self._limits
        key_type, most = self._limits.get(name, (None, 0))
        text_key = partial(text_identity, most) if is_key else None
        if kind is type(None):
            return self._null(name, builder.attribute_of(name, None))
        if kind is str and declared in (None, "S") and key_type in (None, "S"):
            return Slot(f'{form}{{"S":%s}}', quoted, text_key)
        if kind is bytes and declared == "S" and key_type in (None, "S"):
            return Slot(f'{form}{{"S":"%s"}}', bytes.decode, text_key)
        if kind is bytes and declared in (None, "N") and key_type in (None, "N"):
            return Slot(f'{form}{{"N":"%s"}}', number_text, _number_key if is_key else None)
        if kind is bool and declared in (None, "BOOL") and not is_key:
            return Slot(f'{form}{{"BOOL":%s}}', _BOOLEANS.__getitem__)
        if kind in (list, tuple) and declared is None and not is_key:
            return Slot(f"{form}%s", attribute_json)
        return self._built(name, partial(builder.attribute_of, name))

    def _null(self, name: str, null: AttributeValue | None) -> Slot:
        """Return the encoding of values that stand for null."""
        if null is None:
            return Slot("", None, _no_key if name in self._table_keys else None)
        self._builder.check_key(name, null)
        return Slot(name_form(name) + compact_json(null).replace("%", "%%"))

    def _built(self, name: str, read: Callable[[Any], AttributeValue | None]) -> Slot:
        """Return the encoding of values that the builder has to read."""

        def encode(value: Any) -> str:
            found = read(value)
            if found is None:
                raise BadValue("", "left to the builder")
            self._builder.check_key(name, found)
            self._found[name] = found
            return compact_json(found)

        is_key = name in self._table_keys
        return Slot(
            f"{name_form(name)}%s",
            encode,
            (lambda _: identity(self._found[name])) if is_key else None,
        )


def name_form(name: str) -> str:
    """Return an attribute's name and colon for use in a `%` template."""
    return f"{quoted(name)}:".replace("%", "%%")


def text_identity(most: int, value: str | bytes) -> str:
    text = to_octets(value if isinstance(value, str) else value.decode())
    if not 0 < len(text) <= most:
        raise BadValue("", "left to the builder")
    return text


def _no_key(_value: object) -> Hashable:
    raise BadValue("", "left to the builder")


def _number_key(value: bytes) -> str:
    return parse_number(value.decode()).value
