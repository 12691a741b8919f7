"""Encodes lines of JSON, row by row.

`DocumentBuilder` makes the item of one row with every rule and every reason. Here each attribute's
rules are compiled once for each type of its values. A row that cannot be shown to be right that way
is left to the builder, so that rules and reasons have one home.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from json.encoder import encode_basestring as quoted
from typing import Any, TypeVar

from ddbload.contracts.payload import OMIT
from ddbload.dynamodb.attribute_values import check_name, check_value
from ddbload.dynamodb.limits import MAX_DIGITS
from ddbload.dynamodb.modes import SETS
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.items.document_builder import Composed, DocumentBuilder
from ddbload.items.item_requests import (
    PUT_BEGIN,
    PUT_END,
    REMOVAL_JSON,
    Joiner,
    Request,
    compact_json,
)
from ddbload.items.json_values import (
    Json,
    Members,
    attribute_json,
    name_json,
    number_json,
    parse,
    parse_object,
    plain,
)
from ddbload.items.row_filter import FILTERED
from ddbload.items.row_values import RowValues, json_column
from ddbload.items.typed_json import (
    TypedValue,
    content_of,
    is_plain_number,
    is_spelled_well,
    left_to_builder,
    typed,
    typed_json,
    untyped,
)
from ddbload.rows.blocks import WHITE_SPACE, Defect, ReadValues, RowBytes
from ddbload.rows.columns import to_octets

LONGEST_PUT = 200_000
"""Most bytes of JSON for a row. Written in ASCII it would take three times as many at most."""
MAX_SHAPES, LONGEST_SHAPE = 1000, 20_000
"""Limits of the row shapes that are kept: their number, and characters of names in one."""
MAX_FIELDS, LONGEST_NAME = 10_000, 100
"""Limits of the attributes that are kept: their number, and characters of a name."""
UNCOUNTED_BYTES = len('"":{"L":[]},') - 3
"""Fewest bytes of JSON around an attribute's value that DynamoDB does not count."""
UNCOUNTED_MEMBER_BYTES = UNCOUNTED_BYTES - 1
"""The same, also around a member of a map, for which DynamoDB counts a byte."""

EncodedRow = tuple[Request, tuple[Hashable, ...], int]
"""Request for a row, its key, and an upper bound of the bytes that DynamoDB counts."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_NULL = (("NULL", True),)
_BAD = object()
"""Result of a check that a value does not pass."""
_BOOLEANS = {True: '{"BOOL":true}', False: '{"BOOL":false}'}

T = TypeVar("T")
Encode = Callable[[Any], str]
Field = tuple[str, Encode | None, str, Callable[[Any], Hashable] | None, str]
"""Rules for the values of one type of an attribute: the JSON before a value, the encoder of the
value, None for no attribute, the JSON after it, for keys the function that checks a value and
returns an identity that is equal for equal keys, and the kind of `RowValues`."""
Shape = tuple[tuple[str, ...], list[tuple[str, Encode, str, int, str]], list[Any]]
"""Rules for rows with the same names and types: names of the attributes, their fields with their
places among the members, and for each key its place and its function."""
ShapedRow = tuple[Shape, Sequence[Any]]
"""Shape of a row, and the values of its members."""
REFUSALS = (BadValue, RecursionError, UnicodeEncodeError)
"""Errors of rows that are left to the builder."""


ValueCheck = tuple[int, Callable[[str], object], object]
"""Place of an attribute, the function that checks the text of a value, and the result for null."""


class JsonRows:
    """Encoder for lines that are objects of any names and values.

    With `typed` rules these are items in DynamoDB JSON, in the form in which DynamoDB takes them:
    each value is checked, and the item's text is sent as the line has it, unless it must change.
    """

    def __init__(self, builder: DocumentBuilder, joiner: Joiner) -> None:
        self._builder, self._joiner = builder, joiner
        self._joins_text = joiner.joins_text
        self._limits: dict[str, tuple[str, int]] = {}
        """Type and most bytes of each key, those of the table first."""
        for key in builder.checked_keys:
            _, most = self._limits.get(key.name, ("", key.max_bytes))
            self._limits[key.name] = (key.type, min(most, key.max_bytes))
        self._key_count = len(builder.key_names)
        self._index_keys = len(self._limits) > self._key_count
        self._markers = builder.rules.markers
        self._keeps_nulls = builder.rules.keeps_nulls
        self._envelope, self._has_filter = builder.rules.envelope, builder.filter is not None
        self._changes_members = builder.changes_members
        self._is_plain = not builder.rules.typed and not self._markers
        self._declared = tuple(builder.declared.items())
        self._can_keep_text = (
            builder.rules.typed
            and joiner.joins_text
            and not builder.changes_members
            and not self._markers
        )
        self._legal_names: set[str] = set()
        self._shapes: dict[tuple[object, ...], Shape] = {}
        self._fields: dict[tuple[str, type], Field] = {}
        self._value_checks = lru_cache(self._new_value_checks)

    def encode(self, line: str, position: str | None) -> EncodedRow | Defect | None:
        """Encode a row, with the position attribute if any; None if it is for the builder.

        Returns `FILTERED` for a row that `where` leaves out. Raises one of `REFUSALS` for rows that
        are for the builder, too.
        """
        parsed = self._parse(line)
        if not isinstance(parsed, tuple):
            return parsed
        whole, members = parsed
        found = self._unchanged(line, whole, members) if self._can_keep_text else None
        if found is None:
            shaped = self._shaped(members, position)
            found = shaped and self._encode(*shaped)
        return found if found and found[2] <= LONGEST_PUT else None

    def members(self, line: str, position: str | None) -> ShapedRow | Defect | None:
        """Return a row's shape and members, to measure them; otherwise as `encode` does."""
        parsed = self._parse(line)
        return self._shaped(parsed[1], position) if isinstance(parsed, tuple) else parsed

    def values(
        self, shape: Shape, rows: Sequence[int], members: Sequence[Sequence[Any]]
    ) -> RowValues:
        """Return the values of rows of a shape, without those that are for the builder.

        `rows`: numbers of the rows in the block.
        """
        names, fields, keys = shape
        columns, bad = list(zip(*members, strict=True)), set[int]()
        cells = []
        for name, (before, encode, after, place, kind) in zip(names, fields, strict=True):
            if self._joins_text:
                before = before.removeprefix(name_json(name))
            cells.append(_texts(kind, before, encode, after, columns[place], bad))
        key_columns = [_each(identify, columns[place], bad) for place, identify in keys]
        kinds = [kind for *_, kind in fields]
        # Empty strings are values.
        absent = [len(name.encode()) * bool(kind) for name, kind in zip(names, kinds, strict=True)]
        values = RowValues(rows, names, kinds, cells, key_columns[: self._key_count], absent)
        return values.without(bad).fitting()

    def _parse(self, line: str) -> tuple[Members, Members] | Defect | None:
        """Parse a line to an object, and the members of the row in it."""
        whole = parse_object(line)
        if whole is None:
            return None
        members, deleted = self._envelope(whole)
        if self._has_filter:
            verdict = self._builder.judge(members)
            if verdict is not None:
                return FILTERED if verdict is FILTERED else None
        return None if deleted else (whole, members)

    def encode_values(self, rows: RowBytes) -> list[EncodedRow | None] | None:
        """Encode rows by their values, once: None for each that is for the builder.

        Returns None or raises as `_take_values` does.
        """
        found = self._take_values(rows)
        if found is None:
            return None
        (*_, has_nulls, items_of, _), checked = found
        items = items_of()[rows.part] if has_nulls else to_octets(rows.decode()).split("\n")[:-1]
        return [
            None
            if _BAD in found or len(item) > LONGEST_PUT
            else (
                f'{{"PutRequest":{item}}}',
                tuple(found[: self._key_count]),
                # The end of a text looks like a member, too, but for the backslash.
                len(item) - UNCOUNTED_MEMBER_BYTES * (item.count('":{"') - item.count('\\":{"')),
            )
            for item, *found in zip(items, *checked, strict=True)
        ]

    def column_values(self, rows: RowBytes) -> tuple[int, RowValues] | None:
        """Return the number of rows, and values of those not for the builder; see above."""
        found = self._take_values(rows)
        if found is None or not found[0][0]:
            return None
        (names, kinds, *_, texts_of), checked = found
        texts = [texts_of(place)[rows.part] for place in range(len(names))]
        kinds, cells, absent = zip(*map(json_column, names, kinds, texts), strict=True)
        places = range(len(cells[0]))
        values = RowValues(places, names, kinds, cells, checked[: self._key_count], absent)
        bad = {row for column in checked if _BAD in column for row in places if column[row] is _BAD}
        return len(places), values.without(bad).fitting()

    def _take_values(self, rows: RowBytes) -> tuple[ReadValues, list[list[object]]] | None:
        """Take the values of rows by column, and the results of their checks, once.

        Returns None, or raises `UnicodeDecodeError`, if the rows are to be read as lines.
        """
        # Blocks are kept until their rows are written, but not the values of whole batches.
        values, rows.values = rows.values, None
        if values is None or not self._can_keep_text or self._has_filter:
            return None
        names, kinds, has_nulls, _, texts_of = values
        checks = self._value_checks(names, kinds)
        if checks is None or (has_nulls and self._builder.rules.nulls != OMIT):
            return None
        return values, [
            _checked(check, {None: null}, texts_of(place)[rows.part])
            for place, check, null in checks
        ]

    def _new_value_checks(
        self, names: tuple[str, ...], kinds: tuple[str, ...]
    ) -> list[ValueCheck] | None:
        """Return the checks of rows with these attributes and types, those of keys first.

        None if a value may be written otherwise than it is read.
        """
        types = tuple(_PYTHON_TYPES.get(kind, TypedValue) for kind in kinds)
        try:
            _, fields, keys = self._shape(names, types)
        except BadValue:
            return None
        if any(encode not in _UNCHANGED for _, encode, *_ in fields):
            return None
        checks: list[ValueCheck] = [
            (place, partial(_identity, identify), _BAD if number < self._key_count else None)
            for number, (place, identify) in enumerate(keys)
        ]
        return checks + [(place, _check_text, None) for place, kind in enumerate(kinds) if not kind]

    def _shaped(self, members: Members, position: str | None) -> ShapedRow | None:
        """Return the shape of a row, and the values of all members. Raises `BadValue`."""
        if self._changes_members:
            builder = self._builder
            deletes = builder.rules.mode.deletes
            members = tuple(builder.changed(members, position, keys_only=deletes).items())
        if not members:
            return None
        names, values = zip(*members)  # noqa: B905 - pairs
        contents = values if self._is_plain else self._contents(values)
        kinds = tuple(map(type, contents))
        return self._shapes.get((names, kinds)) or self._shape(names, kinds), contents

    def _encode(self, shape: Shape, contents: Sequence[Any]) -> EncodedRow:
        written, fields, keys = shape
        key = tuple([identify(contents[place]) for place, identify in keys])
        if self._index_keys:
            key = key[: self._key_count]
        texts = [
            f"{before}{encode(contents[place])}{after}"
            for before, encode, after, place, _ in fields
        ]
        if self._joins_text:
            put = to_octets(f"{PUT_BEGIN}{','.join(texts)}{PUT_END}")
            return put, key, len(put) - UNCOUNTED_BYTES * len(texts)
        row = written, tuple(map(to_octets, texts))
        return row, key, sum(map(len, row[1])) + sum(len(name.encode()) for name in written)

    def _contents(self, values: Sequence[Json]) -> Sequence[Any]:
        """Return values as plain JSON where it has a form; None for those that stand for null."""
        markers = self._markers
        if self._builder.rules.typed:
            values = [untyped(value, keeps_nulls=self._keeps_nulls) for value in values]
        if not markers:
            return values
        return [None if type(each) is str and each in markers else each for each in values]

    def _shape(self, names: tuple[str, ...], kinds: tuple[type, ...]) -> Shape:
        """Compile the rows of one shape, once. Raises `BadValue`."""
        known, builder = self._fields, self._builder
        found = [known.get(each) or self._field(*each) for each in zip(names, kinds, strict=True)]
        keys = [
            (names.index(name), found[names.index(name)][3])
            for name in self._limits
            if name in names and found[names.index(name)][3]
        ]
        fields = [
            (before, encode, after, place, kind)
            for place, (before, encode, after, _, kind) in enumerate(found)
            if encode is not None
        ]
        written = tuple([names[place] for *_, place, _ in fields])
        needed = builder.needs.condition_columns.union(builder.key_names)
        is_whole = len(set(names)) == len(names) and needed.issubset(written)
        if not is_whole or not self._joiner.fits(written):
            raise left_to_builder()
        shape = (written, fields, keys)
        # Where hardly two rows are alike, to compile each is cheaper than to keep it.
        if len(self._shapes) < MAX_SHAPES and sum(map(len, names)) <= LONGEST_SHAPE:
            self._shapes[names, kinds] = shape
        return shape

    def _field(self, name: str, kind: type) -> Field:
        """Compile an attribute's values of one type, once. Raises `BadValue`."""
        field = self._rules(name, kind)
        if self._joins_text:
            field = (name_json(name) + field[0], *field[1:])
        if len(self._fields) >= MAX_FIELDS:
            self._fields.clear()
        if len(name) <= LONGEST_NAME:
            self._fields[name, kind] = field
        return field

    def _rules(self, name: str, kind: type) -> Field:
        check_name(name)
        builder = self._builder
        if kind is BadValue:
            raise left_to_builder()
        is_key, (key_type, most) = name in self._limits, self._limits.get(name, (None, 0))
        # Sets that are added to are read by the builder.
        declared = builder.declared.get(name, "SS" if name in builder.needs.adds else None)
        if kind is type(None):
            null = builder.or_null(name)
            if null is None:
                return "", None, "", None, ""
            builder.check_key(name, null)
            text = compact_json(null)
            return "", lambda _: text, "", None, ""
        if declared in (None, "S") and key_type in (None, "S"):
            identify = _text_key(most) if is_key else None
            if kind is str:
                return '{"S":', quoted, "}", identify, "S"
            if kind is Composed:
                return '{"S":', _composed_json, "}", identify, ""
            if kind is bytes and declared == "S":
                return '{"S":"', bytes.decode, '"}', identify, "S"
        if kind is bytes and declared in (None, "N") and key_type in (None, "N"):
            return "", number_json, "", _number_key if is_key else None, "N"
        if kind is bool and declared in (None, "BOOL") and not is_key:
            return "", _BOOLEANS.__getitem__, "", None, "BOOL"
        if declared is None and not is_key and kind not in (str, Composed):
            return "", typed_json if kind is TypedValue else attribute_json, "", None, ""
        if name in builder.key_names:
            raise left_to_builder()

        def encode(value: Any) -> str:
            found = builder.attribute_of(name, typed(value) if builder.rules.typed else value)
            if found is None or (name in builder.needs.adds and SETS.isdisjoint(found)):
                raise left_to_builder()
            builder.check_key(name, found)
            return compact_json(found)

        return "", encode, "", None, ""

    def _unchanged(self, line: str, whole: Members, members: Members) -> EncodedRow | None:
        """Encode a row whose text can be sent as it is; None for other rows."""
        if members is not whole and len(whole) > 1:
            return None
        text = line.strip(WHITE_SPACE)
        around = whole
        while around is not members:
            text = text[text.index(":") + 1 : -1].strip(WHITE_SPACE)
            content = around[0][1]
            if not isinstance(content, tuple):
                return None
            around = content
        values = dict(members)
        if len(values) < len(members) or not members or "\r" in text:
            return None
        if "\\u" in text and _SURROGATE.search(text):
            return None
        if not self._keeps_nulls and _NULL in values.values():
            return None
        if not self._legal_names.issuperset(values):
            short = [name for name in values if name_json(name) and len(name) <= LONGEST_NAME]
            if len(self._legal_names) < MAX_FIELDS:
                self._legal_names.update(short)
        for value in values.values():
            kind, content = content_of(value, 0)
            # Most values are of these two types.
            if kind == "S":
                if not isinstance(content, str):
                    return None
            elif kind == "N":
                if not isinstance(content, str) or is_plain_number(content) is None:
                    return None
            elif not is_spelled_well(kind, content, 0):
                return None
        for name, kind in self._declared:
            if name in values and content_of(values[name], 0)[0] != kind:
                return None
        key: list[Hashable] = []
        for name, (kind, most) in self._limits.items():
            found, content = content_of(values.get(name, _NULL), 0)
            if name in values and found == kind and kind in ("S", "N") and isinstance(content, str):
                key.append((_text_key(most) if kind == "S" else _number_key)(content))
            elif name in values or name in self._builder.key_names:
                return None
        put = to_octets(f"{PUT_BEGIN[:-1]}{text}{PUT_END[1:]}")
        size = len(put) - UNCOUNTED_BYTES * len(members)
        return put, tuple(key[: len(self._builder.key_names)]), size


def _texts(
    kind: str, before: str, encode: Encode, after: str, column: Sequence[Any], bad: set[int]
) -> Sequence[str]:
    """Return values of one type as `RowValues` has them; add places of refused ones to `bad`."""
    if kind == "S":
        texts = column if encode is quoted else list(map(encode, column))
        return texts if "".join(texts).isascii() else _each(to_octets, texts, bad)
    if kind == "N":
        text = b" ".join(column).decode()
        numbers = text.split(" ")
        if "e" not in text.lower() and max(map(len, numbers)) <= MAX_DIGITS:
            return numbers
        return _each(lambda value: parse_number(value.decode()).text, column, bad)
    texts = _each(lambda value: to_octets(f"{before}{encode(value)}{after}"), column, bad)
    return [text if text != REMOVAL_JSON else "" for text in texts]


def _each(function: Callable[[Any], T], column: Sequence[Any], bad: set[int]) -> Sequence[T]:
    """Call a function for each value; add the places of those that it refuses to `bad`."""
    try:
        return list(map(function, column))
    except REFUSALS:
        found = list[Any](column)
    for place, value in enumerate(column):
        try:
            found[place] = function(value)
        except REFUSALS:
            bad.add(place)
    return found


_PYTHON_TYPES = {"S": str, "N": bytes, "BOOL": bool}
_UNCHANGED = (quoted, number_json, _BOOLEANS.__getitem__, typed_json)
"""Encoders that write typed values as they are read."""


def _check_text(text: str) -> None:
    check_value(plain(parse(text)))


def _identity(identify: Callable[[str], Hashable], text: str) -> Hashable:
    return identify(json.loads(f'"{text}"') if "\\" in text else text)


def _checked(
    check: Callable[[str], object], known: dict[str | None, object], texts: Sequence[str | None]
) -> list[object]:
    """Check each distinct text. Returns what `check` returns, `_BAD` for texts it refuses."""
    for text in set(texts):
        if text is not None:
            try:
                known[text] = check(text)
            except BadValue:
                known[text] = _BAD
    return [known[text] for text in texts]


def _composed_json(text: str) -> str:
    if not text:
        raise left_to_builder()
    return quoted(text)


def _text_key(most: int) -> Callable[[str | bytes], str]:
    """Return the function that identifies a key that is text of so many bytes at most."""

    def identify(value: str | bytes) -> str:
        text = value if isinstance(value, str) else value.decode()
        if not text.isascii():
            text = to_octets(text)
        if not 0 < len(text) <= most:
            raise left_to_builder()
        return text

    return identify


def _number_key(value: str | bytes) -> str:
    return parse_number(value if isinstance(value, str) else value.decode()).value
