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

from ddbload.contracts.template import Template
from ddbload.dynamodb.attribute_values import AttributeValue
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.dynamodb.write_modes import DELETE
from ddbload.items.documents.document_builder import AttributeDefect, DocumentBuilder, identity
from ddbload.items.encode.request_json import PUT_BEGIN, PUT_END, compact_json
from ddbload.items.json_values import Members, attribute_json, number_text, parse_object
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


class _Slot(NamedTuple):
    """Attribute of a shape."""

    form: str
    """JSON of name and value, with `%s` for the value unless it is a constant."""
    encode: Callable[[Any], str] | None = None
    """Encoder of the value; None for a constant."""
    identify: Callable[[Any], Hashable] | None = None
    """Function that checks a key, and returns an identity that is equal for equal keys."""


class _Shape(NamedTuple):
    """Compiled encoding of rows with the same names and types."""

    form: str
    encoders: Sequence[tuple[int, Callable[[Any], str]]]
    """For each `%s` in the form the place of its value, and its encoder."""
    keys: Sequence[tuple[int, Callable[[Any], Hashable]]]
    """For each key, those of the table first, the place of its value, and its check."""
    size: int
    """Bytes of all attributes' JSON that DynamoDB does not count, at least."""
    is_extended: bool
    """True if the row as a whole, and its position, stand behind the values."""


class JsonRows:
    """Encoder for lines that are objects of any names and values."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._keys = {key.name: key for key in builder.checked_keys}
        self._markers = builder.rules.markers
        self._shapes: dict[tuple[object, ...], _Shape | None] = {}
        self._slots: dict[tuple[str, type], _Slot | None] = {}
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
        if not members:
            return FOR_BUILDER
        names, values = zip(*members, strict=True)
        if self._markers:
            values = tuple(
                None if isinstance(value, str) and value in self._markers else value
                for value in values
            )
        kinds = tuple(map(type, values))
        try:
            shape = self._shapes[names, kinds]
        except KeyError:
            shape = self._shape(names, kinds)
        if shape is None:
            return FOR_BUILDER
        if shape.is_extended:
            values = (*values, dict(zip(names, values, strict=True)), position)
        put = to_octets(shape.form % tuple([encode(values[at]) for at, encode in shape.encoders]))
        keys = [identify(values[at]) for at, identify in shape.keys]
        return put, tuple(keys[: len(self._builder.key_names)]), len(put) - shape.size

    def _shape(self, names: tuple[str, ...], kinds: tuple[type, ...]) -> _Shape | None:
        """Compile the rows of one shape, once; None if they are for the builder."""
        try:
            shape = self._compiled(names, kinds)
        except (BadValue, AttributeDefect):
            shape = None
        if len(self._shapes) >= MAX_SHAPES:
            self._shapes.clear()
        if sum(map(len, names)) <= LONGEST_SHAPE:
            self._shapes[names, kinds] = shape
        return shape

    def _compiled(self, names: tuple[str, ...], kinds: tuple[type, ...]) -> _Shape | None:
        builder = self._builder
        forms: list[str] = []
        encoders: list[tuple[int, Callable[[Any], str]]] = []
        keys: dict[str, tuple[int, Callable[[Any], Hashable]]] = {}
        whole_row, position = len(names), len(names) + 1
        sources = builder.sources(zip(names, range(len(names)), strict=True))
        for name, source in sources.items():
            if builder.rules.mode == DELETE and name not in builder.kept_names:
                continue
            if isinstance(source, Template):
                read = partial(builder.composed, name, source.named(names))
                at, slot = whole_row, self._built(name, read)
            else:
                at, slot = source, self._slot(name, kinds[source])
            if slot is None:
                continue
            forms.append(slot.form)
            if slot.encode is not None:
                encoders.append((at, slot.encode))
            if slot.identify is not None:
                keys[name] = (at, slot.identify)
        if any(name not in keys for name in builder.key_names):
            return None
        if builder.position_attribute is not None:
            if builder.position_attribute in sources:
                return None
            forms.append(f'{_name_form(builder.position_attribute)}{{"S":"%s"}}')
            encoders.append((position, str))
        form = f"{PUT_BEGIN}{','.join(forms)}{PUT_END}"
        ordered = [keys[name] for name in self._keys if name in keys]
        is_extended = any(at >= whole_row for at, _ in encoders)
        return _Shape(form, encoders, ordered, UNCOUNTED_BYTES * len(forms), is_extended)

    def _slot(self, name: str, kind: type) -> _Slot | None:
        """Return the encoding of an attribute's values of one type; None to leave it out."""
        if (name, kind) not in self._slots:
            slot = self._new_slot(name, kind)
            if len(name) > LONGEST_NAME:
                return slot
            if len(self._slots) >= MAX_SLOTS:
                self._slots.clear()
            self._slots[name, kind] = slot
        return self._slots[name, kind]

    def _new_slot(self, name: str, kind: type) -> _Slot | None:
        builder, form, key = self._builder, _name_form(name), self._keys.get(name)
        declared = builder.declared.get(name)
        if kind is type(None):
            null = builder.attribute_of(name, None)
            return None if null is None else _Slot(form + compact_json(null).replace("%", "%%"))
        if kind is str and declared in (None, "S") and (key is None or key.type == "S"):
            identify = None if key is None else partial(_text_key, key.max_bytes)
            return _Slot(f'{form}{{"S":%s}}', quoted, identify)
        if kind is bytes and declared == "S" and (key is None or key.type == "S"):
            identify = None if key is None else partial(_text_key, key.max_bytes)
            return _Slot(f'{form}{{"S":"%s"}}', bytes.decode, identify)
        if kind is bytes and declared in (None, "N") and (key is None or key.type == "N"):
            return _Slot(f'{form}{{"N":"%s"}}', number_text, None if key is None else _number_key)
        if kind is bool and declared in (None, "BOOL") and key is None:
            return _Slot(f'{form}{{"BOOL":%s}}', _BOOLEANS.__getitem__)
        if kind in (list, tuple) and declared is None and key is None:
            return _Slot(f"{form}%s", attribute_json)
        return self._built(name, partial(builder.attribute_of, name))

    def _built(self, name: str, read: Callable[[Any], AttributeValue | None]) -> _Slot:
        """Return the encoding of values that the builder has to read."""

        def encode(value: Any) -> str:
            found = read(value)
            if found is None:
                raise BadValue("", "left to the builder")
            self._builder.check_key(name, found)
            self._found[name] = found
            return compact_json(found)

        is_key = name in self._builder.key_names
        return _Slot(
            f"{_name_form(name)}%s",
            encode,
            (lambda _: identity(self._found[name])) if is_key else None,
        )


def _name_form(name: str) -> str:
    """Return an attribute's name and colon for use in a `%` template."""
    return f"{quoted(name)}:".replace("%", "%%")


def _text_key(most: int, value: str | bytes) -> str:
    text = to_octets(value if isinstance(value, str) else value.decode())
    if not 0 < len(text) <= most:
        raise BadValue("", "left to the builder")
    return text


def _number_key(value: bytes) -> str:
    return parse_number(value.decode()).value
