"""Encodes lines of DynamoDB JSON, of exports and of Parquet, row by row.

Such a line has its item in the form in which DynamoDB takes it. So each value is checked, and the
item's text is sent as the line has it. An item that must change, because of a null to leave out, a
type to convert, a mapping or the run's mode, is written anew from its parsed values. A line that
does not pass the checks is left to the builder, which knows the reason.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from json.decoder import JSONDecodeError
from json.encoder import encode_basestring as quoted
from typing import Any

from ddbload.contracts.payload import OMIT
from ddbload.dynamodb.attribute_values import (
    BAD_ATTRIBUTE,
    VALUE_TYPES,
    check_name,
    check_value,
    nesting_error,
)
from ddbload.dynamodb.limits import MAX_DEPTH
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.items.documents.document_builder import DocumentBuilder, export_line
from ddbload.items.documents.json_rows import (
    FOR_BUILDER,
    UNCOUNTED_BYTES,
    EncodedRow,
    JsonRows,
    Slot,
    name_form,
    text_identity,
)
from ddbload.items.encode.request_json import PUT_BEGIN, PUT_END, compact_json
from ddbload.items.json_values import Json, Members, parse_object, plain, scan
from ddbload.rows.blocks import WHITE_SPACE
from ddbload.rows.columns import to_octets

MAX_LEGAL_NAMES, LONGEST_LEGAL_NAME = 10_000, 100
"""Limits of the names that are remembered as legal: a megabyte at most."""

_ENVELOPE = re.compile(rf'\{{[{WHITE_SPACE}]*"Item"[{WHITE_SPACE}]*:[{WHITE_SPACE}]*')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_is_plain_number = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,19})?").fullmatch
"""Matches numbers of 38 digits at most, without an exponent: DynamoDB takes them as they are."""
_NULL = (("NULL", True),)
_MARKER = ("S", None)
"""Kind of the strings that stand for null."""


class DynamoDBJsonRows(JsonRows):
    """Encoder for lines that hold items in DynamoDB JSON; deletions are for the builder."""

    def __init__(self, builder: DocumentBuilder) -> None:
        super().__init__(builder)
        rules = builder.rules
        self._keeps_nulls = rules.native and rules.nulls == OMIT
        self._is_export = rules.envelope is export_line
        self._can_keep_text = self._is_plain and not rules.markers
        self._declared = tuple(builder.declared.items())
        self._legal_names: set[str] = set()

    def encode(
        self,
        line: str,
        position: str | None = None,
        parsed: Members | None = None,  # noqa: ARG002 - the text counts, too
    ) -> EncodedRow:
        """Encode a row, with the position attribute if any; `FOR_BUILDER` if it is not plain.

        Raises `BadValue` and `UnicodeEncodeError` for rows that are for the builder, too.
        """
        try:
            found = self._parse_item(line)
            if found is not None:
                members, text = found
                if self._can_keep_text:
                    key = self._key_if_unchanged(members, text)
                    if key is not None:
                        put = to_octets(f"{PUT_BEGIN[:-1]}{text}{PUT_END[1:]}")
                        return put, key, len(put) - UNCOUNTED_BYTES * len(members)
                return self._encode(members, position)
            whole = parse_object(line)
            row = None if whole is None else self._builder.rules.envelope(whole)
            if row is None or row.deleted or not row.members:
                return FOR_BUILDER
            return self._encode(row.members, position)
        except RecursionError:
            return FOR_BUILDER

    def _parse_item(self, line: str) -> tuple[Members, str] | None:
        """Parse the item of a line, and return its text, too. None for other lines."""
        envelope = _ENVELOPE.match(line)
        if envelope is None and self._is_export:
            return None
        begin = 0 if envelope is None else envelope.end()
        try:
            members, end = scan(line, begin)
        except (BadValue, JSONDecodeError, StopIteration):
            return None
        if not isinstance(members, tuple) or not members:
            return None
        rest, expected = line[end:], "" if envelope is None else "}"
        if rest != expected and rest.strip(WHITE_SPACE) != expected:
            return None
        if len(members) == 1 and (envelope is None or not isinstance(members[0][1], tuple)):
            # An attribute may be named Item: the envelope's rule tells.
            return None
        return members, line[begin:end]

    def _key_if_unchanged(self, members: Members, text: str) -> tuple[Hashable, ...] | None:
        """Return the key of an item whose text can be sent as it is; None for other items."""
        values = dict(members)
        if len(values) < len(members) or "\r" in text:
            return None
        if "\\u" in text and _SURROGATE.search(text):
            return None
        if not self._keeps_nulls and _NULL in values.values():
            return None
        try:
            if not self._legal_names >= values.keys():
                self._check_names(values)
            for value in values.values():
                if not isinstance(value, tuple):
                    return None
                ((kind, content),) = value
                # Most values are of these two types.
                if kind == "S":
                    if not isinstance(content, str):
                        return None
                elif kind == "N":
                    if not isinstance(content, str) or _is_plain_number(content) is None:
                        return None
                else:
                    _check_spelling(kind, content, 0)
        except (BadValue, ValueError):
            return None
        for name, kind in self._declared:
            if name in values and _kind_of(values[name]) != kind:
                return None
        return self._key_of(values)

    def _key_of(self, values: Mapping[str, Json]) -> tuple[Hashable, ...] | None:
        """Return an item's key, if that and its index keys are strings or numbers, and legal."""
        key: list[Hashable] = []
        for name, (expected, max_bytes) in self._limits.items():
            value, is_table_key = values.get(name), name in self._table_keys
            if not isinstance(value, tuple):
                if is_table_key:
                    return None
                continue
            ((kind, content),) = value
            if kind != expected or not isinstance(content, str):
                return None
            if kind == "N":
                comparable = parse_number(content).value
            elif kind == "S" and content:
                comparable = to_octets(content)
                if len(comparable) > max_bytes:
                    return None
            else:
                return None
            if is_table_key:
                key.append(comparable)
        return tuple(key)

    def _kinds(self, values: Sequence[Json]) -> tuple[tuple[Hashable, ...], Sequence[Any]]:
        kinds: list[Hashable] = []
        contents: list[Json] = []
        for value in values:
            kind, content = _content_of(value, 0)
            if kind not in VALUE_TYPES:
                raise BadValue(BAD_ATTRIBUTE, "left to the builder")
            if kind == "NULL":
                kinds.append((kind, content is True))
            elif kind == "S" and isinstance(content, str) and content in self._markers:
                kinds.append(_MARKER)
            else:
                kinds.append((kind, type(content)))
            contents.append(content)
        return tuple(kinds), contents

    def _new_slot(self, name: str, kind: Any) -> Slot:
        builder, form = self._builder, name_form(name)
        declared, is_key = builder.declared.get(name), name in self._limits
        key_type, most = self._limits.get(name, (None, 0))
        type_, content_type = kind
        if kind == _MARKER:
            marker = next(iter(self._markers))
            return self._null(name, builder.attribute_of(name, (("S", marker),)))
        if type_ == "NULL":
            return self._null(name, builder.attribute_of(name, (("NULL", content_type),)))
        if declared in (None, type_) and key_type in (None, type_) and content_type is str:
            if type_ == "S":
                text_key = partial(text_identity, most) if is_key else None
                return Slot(f'{form}{{"S":%s}}', quoted, text_key)
            if type_ == "N":
                return Slot(f'{form}{{"N":"%s"}}', _number, _number_key if is_key else None)
        if declared is None and not is_key:
            return Slot(f"{form}%s", lambda content: _value_json(((type_, content),), 0))
        return self._built(name, lambda content: builder.attribute_of(name, ((type_, content),)))

    def _check_names(self, names: Mapping[str, Json]) -> None:
        """Raise `BadValue` for an illegal attribute name; remember the others."""
        for name in names:
            check_name(name)
        if len(self._legal_names) > MAX_LEGAL_NAMES:
            self._legal_names.clear()
        self._legal_names.update(name for name in names if len(name) <= LONGEST_LEGAL_NAME)


def _number(text: str) -> str:
    return text if _is_plain_number(text) else parse_number(text).text


def _number_key(text: str) -> str:
    return parse_number(text).value


def _kind_of(value: Json) -> str | None:
    """Return the type of an attribute value; None for other JSON."""
    return value[0][0] if isinstance(value, tuple) and len(value) == 1 else None


def _content_of(value: Json, depth: int) -> tuple[str, Json]:
    """Return the type and the content of an attribute value. Raises `BadValue`."""
    if depth >= MAX_DEPTH or not isinstance(value, tuple) or len(value) != 1:
        raise BadValue(BAD_ATTRIBUTE, "left to the builder")
    return value[0]


def _check_spelling(kind: str, content: Json, depth: int) -> None:
    """Raise `BadValue` unless DynamoDB takes a value in the spelling that it has.

    `depth` counts the lists and maps around it. Raises `ValueError`, too, for other JSON.
    """
    if depth >= MAX_DEPTH:
        raise nesting_error()
    if kind == "S":
        good = isinstance(content, str)
    elif kind == "N":
        good = isinstance(content, str) and _is_plain_number(content) is not None
    elif kind == "BOOL":
        good = isinstance(content, bool)
    elif kind == "NULL":
        good = content is True
    elif kind == "L":
        good = isinstance(content, list)
        for member in content if isinstance(content, list) else ():
            if not isinstance(member, tuple):
                raise BadValue(BAD_ATTRIBUTE, "left to the builder")
            ((kind, inner),) = member
            _check_spelling(kind, inner, depth + 1)
    elif kind == "M":
        good = isinstance(content, tuple) and len(dict(content)) == len(content)
        for name, member in content if isinstance(content, tuple) else ():
            check_name(name)
            if not isinstance(member, tuple):
                raise BadValue(BAD_ATTRIBUTE, "left to the builder")
            ((kind, inner),) = member
            _check_spelling(kind, inner, depth + 1)
    else:
        value = {kind: plain(content)}
        good = check_value(value, depth) == value
    if not good:
        raise BadValue(BAD_ATTRIBUTE, "left to the builder")


def _value_json(value: Json, depth: int) -> str:
    """Return a value as JSON in a spelling that DynamoDB takes. Raises `BadValue`."""
    kind, content = _content_of(value, depth)
    if kind == "S" and isinstance(content, str):
        return f'{{"S":{quoted(content)}}}'
    if kind == "N" and isinstance(content, str):
        return f'{{"N":"{_number(content)}"}}'
    if kind == "L" and isinstance(content, list):
        members = ",".join([_value_json(member, depth + 1) for member in content])
        return f'{{"L":[{members}]}}'
    if kind == "M" and isinstance(content, tuple) and len(dict(content)) == len(content):
        for name, _ in content:
            check_name(name)
        members = ",".join(
            [f"{quoted(name)}:{_value_json(member, depth + 1)}" for name, member in content]
        )
        return f'{{"M":{{{members}}}}}'
    return compact_json(check_value(plain(value), depth))
