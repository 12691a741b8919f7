r"""Attributes of a row of fields: where the text of each comes from, and how its type reads it.

A mapping renames, drops, and composes columns, for single rows and for whole columns. Null markers,
such as `\N`, become empty text here, which stands for a missing value everywhere else.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Self

from ddbload.contracts.column_mapping import (
    ColumnChanges,
    Template,
    TemplatePart,
    encoded_changes,
    shown,
)
from ddbload.contracts.options import REMOVE
from ddbload.contracts.payload import NULL, OMIT, REJECT, Payload, attribute_type
from ddbload.dynamodb import scalar_text
from ddbload.dynamodb.attribute_values import AttributeValue, check_value, decode_base64
from ddbload.dynamodb.modes import REMOVAL
from ddbload.dynamodb.scalar_text import BadValue, parse_boolean, parse_number
from ddbload.errors import DuplicateColumn, InvalidPayload, UnknownColumn, nearest_name
from ddbload.items.json_values import BAD_JSON, Json, attribute, parse, plain
from ddbload.records import Record
from ddbload.rows.columns import JSON_ESCAPED, Columns, from_octets, has_none_of, to_octets


def _read_null(text: str) -> AttributeValue:
    if text.lower() not in ("null", "true"):
        raise BadValue("not_null", "not a null; write null, or leave it empty")
    return {"NULL": True}


def _parse(text: str, advice: str) -> Json:
    """Parse JSON. Raises `BadValue`, with advice for a text that is not JSON."""
    try:
        return parse(text)
    except BadValue as bad:
        if bad.cause != BAD_JSON:
            raise
        raise BadValue(bad.cause, f"{bad.detail}; {advice}") from None


def _typed_document(kind: str, cause: str, example: str, text: str) -> AttributeValue:
    """Read DynamoDB JSON: the content of a map or list, or that in its envelope."""
    content = plain(parse(text))
    is_envelope = isinstance(content, dict) and content.keys() == {kind}
    if isinstance(content, dict if kind == "M" else list):
        try:
            return check_value({kind: content})
        except BadValue:
            if not is_envelope:
                raise
    if not is_envelope:
        raise BadValue(cause, f"JSON, and not {attribute_type(kind)} in DynamoDB JSON: {example}")
    return check_value(content)


def _document(kind: str, cause: str, wanted: str, text: str) -> AttributeValue:
    found = attribute(_parse(text, f"write {wanted}, or leave it a string"))
    if kind not in found:
        raise BadValue(cause, f"JSON, and not {wanted}")
    return found


def _set(kind: str, wanted: str, text: str) -> AttributeValue:
    # Most often the members stand one after the other.
    members = _parse(text, 'a set is a JSON list, such as ["a", "b"], also in a cell')
    # DynamoDB JSON writes numbers as strings, so a file may do that, too.
    kinds = (str, bytes) if kind == "NS" else (str,)
    if not isinstance(members, list) or not all(isinstance(each, kinds) for each in members):
        raise BadValue("not_a_set", f"JSON, and not a list of {wanted}")
    texts = [each.decode() if isinstance(each, bytes) else each for each in members]
    return check_value({kind: texts})


REFUSED: AttributeValue = {}
"""Placeholder for a missing value that is to be rejected."""
EMPTY_VALUES: dict[str, AttributeValue] = {
    "S": {"S": ""},
    "B": {"B": ""},
    "M": {"M": {}},
    "L": {"L": []},
}
"""Empty value of each type that has one: numbers and sets cannot be empty."""

_MAP = partial(_document, "M", "not_a_map", "a JSON object, such as {}")
_LIST = partial(_document, "L", "not_a_list", "a JSON list, such as []")
TEXT_READERS: Mapping[str, Callable[[str], AttributeValue]] = {
    "S": lambda text: {"S": text},
    "N": lambda text: {"N": parse_number(text).text},
    "BOOL": lambda text: {"BOOL": parse_boolean(text)},
    "B": lambda text: {"B": decode_base64(text)},
    "SS": partial(_set, "SS", "strings"),
    "NS": partial(_set, "NS", "numbers"),
    "BS": partial(_set, "BS", "strings of base64"),
    "M": _MAP,
    "L": _LIST,
    "NULL": _read_null,
    "epoch": lambda text: {"N": str(scalar_text.epoch_seconds(text))},
    "ddb_M": partial(_typed_document, "M", "not_a_map", '{"name": {"S": "text"}}'),
    "ddb_L": partial(_typed_document, "L", "not_a_list", '[{"S": "text"}]'),
    "json_M": _MAP,
    "json_L": _LIST,
}
"""Reader of each type without a form. They take text that is not empty, and raise `BadValue`."""


@cache
def text_reader(kind: str) -> Callable[[str], AttributeValue]:
    """Return the reader of a type, which may have the form in which cells are written."""
    name, sign, form = kind.partition(":")
    if not sign:
        return TEXT_READERS[kind]
    if name == "N":
        return lambda text: {"N": parse_number(scalar_text.plain_number(text, form)).text}
    time = scalar_text.TimeFormat.of(form)
    if name == "date":
        return lambda text: {"S": time.iso_text(text)}
    return lambda text: {"N": str(time.seconds(text))}


TYPED_TYPES = {"M": "ddb_M", "L": "ddb_L"}
PLAIN_TYPES = {"M": "json_M", "L": "json_L"}
"""Types of cells in DynamoDB JSON, and of those that are not, for types that leave it open."""


def null_of(kind: str, policy: str, is_indexed: bool) -> AttributeValue | None:
    """Return the value of a missing attribute: None to leave it out, `REMOVAL`, or `REFUSED`.

    `is_indexed` marks a key of an index: DynamoDB accepts neither null nor an empty value there.
    """
    if policy == REJECT:
        return REFUSED
    if policy == REMOVE:
        # Then the item leaves the index.
        return REMOVAL
    if policy == OMIT or is_indexed:
        return None
    return {"NULL": True} if policy == NULL else EMPTY_VALUES.get(attribute_type(kind))


_NAME = re.compile(r"\s*[^\W\d][\w .-]*")
_JSON = re.compile(r"\s*(?:\{|\[\s*(?:[\]{\"\[\d-]|$))")
_ALIGNED = re.compile(r"[\w-]  +[\w-]")
_YAML = re.compile(r"---|[\w-]+: ")
_SEPARATORS = (";", "\t", "|", ",")
"""Delimiters to look for in the name of a file's only column."""


def missing(
    name: str, columns: Sequence[str], gone: Collection[str] = (), *, is_key: bool = False
) -> str:
    """Return the rest of an error about a name that is not a column's.

    `gone` are the file's columns where `columns` are its attributes, some of which the mapping
    adds or takes away; `is_key` is true for a key of the table.
    """
    if name in gone:
        return (
            "a column that the mapping renames or drops: types and keys name attributes, as the"
            " mapping leaves them"
        )
    # Do not list the columns: in a file without a header they are row data.
    of_file = tuple(gone) or columns
    text = f"none of the file's {len(of_file)} columns"
    if len(of_file) == 1:
        text = "not the file's only column"
        advice = _advice_for_one_column(of_file[0])
        if advice is not None:
            return f"{text}{advice}"
    # Only what looks like a name: without a header, the columns are row data.
    near = nearest_name(name, (each for each in columns if _NAME.fullmatch(each)))
    if near is not None and is_key:
        pair = shlex.quote(f"{near}={name}")
        return (
            f"{text}; {shown(near)} is one, and names are compared exactly: --rename {pair} (in a"
            " payload, mapping.rename)"
        )
    if near is not None:
        return f"{text}; {shown(near)} is one, and names are compared exactly"
    return (
        f"{text}: check the delimiter (--delimiter), and whether the file has a header"
        " (--no-header, --columns); ddbload convert FILE - shows how it is read"
    )


def _advice_for_one_column(column: str) -> str | None:
    """Advise on a file with one column, if that looks like several or like JSON; else None."""
    if _JSON.match(column):
        return ", which begins as JSON does: leave out --format, or say --format json"
    if _YAML.match(column):
        return ", which begins as YAML does: ddbload does not read it, so write it as JSON Lines"
    counts = {separator: column.count(separator) for separator in _SEPARATORS}
    best = max(counts, key=lambda separator: counts[separator])
    if not counts[best]:
        if not _ALIGNED.search(column.strip()):
            return None
        return (
            ", whose name has several spaces in a row, as if spaces aligned the columns: if no cell"
            " has a space in it, make them one each: tr -s ' ' < FILE | ddbload import - TABLE"
            " --delimiter space"
        )
    option = "tab" if best == "\t" else shlex.quote(best)
    return (
        f", whose name has {counts[best]} of {best!r} in it, as if it were {counts[best] + 1}"
        f" columns: --delimiter {option}"
    )


def item_layout(
    columns: Sequence[str], payload: Payload, hmac_key: bytes | None = None
) -> ItemLayout:
    """Return the layout of a run's file; with the key its templates can be filled in.

    Raises what `encoded_changes` and `ItemLayout.of` raise.
    """
    escape = payload.source.escape
    # The parser handles markers with an escape: only it can tell them from escaped text.
    markers = [each for each in payload.nulls.markers if escape is None or escape not in each]
    return ItemLayout.of(columns, encoded_changes(payload, hmac_key), markers)


class ItemLayout(Record):
    """Origin of each attribute of a file's rows."""

    columns: tuple[str, ...]
    """Columns of the file."""
    attributes: tuple[str, ...]
    origins: tuple[int | Template, ...]
    """Place of the column for each attribute, or the template that composes it."""
    markers: tuple[str, ...] = ()
    """Cells that stand for null, besides empty ones."""

    @classmethod
    def of(
        cls,
        columns: Sequence[str],
        changes: ColumnChanges | None = None,
        markers: Iterable[str] = (),
    ) -> Self:
        """Lay out a file with these columns. Without columns there are no attributes.

        Raises `UnknownColumn`, `DuplicateColumn` and `InvalidPayload`.
        """
        changes = (changes or ColumnChanges()).named(columns)
        null = tuple(dict.fromkeys(marker for marker in markers if marker))
        if not columns:
            return cls((), (), (), null)
        places = {name: place for place, name in enumerate(columns)}
        for name, use in changes.uses.items():
            if name not in places:
                new = changes.rename.get(name)
                if new in places:
                    pair = shlex.quote(f"{new}={name}")
                    raise UnknownColumn(
                        f"{shown(name)} is {use} to {shown(new)}, which is the column: the order"
                        f" is OLD=NEW, so write --rename {pair} (in a payload, mapping.rename)"
                    )
                raise UnknownColumn(f"{shown(name)} is {use}, and is {missing(name, columns)}")
        composed = changes.templates
        origins: dict[str, int | Template] = {}
        for name, place in places.items():
            if name in changes.drop:
                continue
            attribute = changes.rename.get(name, name)
            if attribute in origins:
                old = next(old for old, new in changes.rename.items() if new == attribute)
                raise DuplicateColumn(
                    f"{shown(old)} is renamed to {shown(attribute)}, which is a column, too; one"
                    " would overwrite the other: drop it, or rename it as well"
                )
            # An attribute set under a column's name takes that column's place in the order.
            origins[attribute] = composed.get(attribute, place)
        for attribute, template in composed.items():
            origins.setdefault(attribute, template)
        return cls(tuple(columns), tuple(origins), tuple(origins.values()), null)

    def only(self, names: Sequence[str]) -> Self:
        """Return the layout of these attributes alone, in this order. Raises `ValueError`."""
        places = [self.attributes.index(name) for name in names]
        origins = tuple(self.origins[place] for place in places)
        return replace(self, attributes=tuple(names), origins=origins)

    def check_constants(self, types: Sequence[str]) -> None:
        """Raise `InvalidPayload` for a constant that is not a value of its attribute's type."""
        for name, origin, kind in zip(self.attributes, self.origins, types, strict=True):
            if isinstance(origin, int) or origin.parts:
                continue
            constant = origin.fill(())
            try:
                if constant:
                    text_reader(kind)(constant)
            except BadValue as bad:
                raise InvalidPayload(
                    f"{shown(name)} is of type {kind}, and its constant is not:"
                    f" {bad.detail} ({bad.cause})"
                ) from None

    def row(self, fields: Sequence[str]) -> Sequence[str]:
        """Return the text of each attribute of a row; empty for a missing value."""
        columns = self.apply(Columns(1, [[to_octets(text)] for text in fields]))
        return [from_octets(cell) for (cell,) in columns.cells]

    def apply(self, columns: Columns) -> Columns:
        """Return a column of cells for each attribute."""
        cells = columns.cells
        markers = frozenset(map(to_octets, self.markers))
        if markers:
            cells = [
                column
                if markers.isdisjoint(column)
                else ["" if cell in markers else cell for cell in column]
                for column in cells
            ]
        plain, longest = columns.plain, columns.longest
        made: list[Sequence[str]] = []
        for origin in self.origins:
            if isinstance(origin, int):
                made.append(cells[origin])
                continue
            longest = None
            plain = plain and has_none_of(JSON_ESCAPED, "".join(origin.literals).encode())
            parts = [cells[self.columns.index(name)] for name in origin.names]
            made.append(_fill_columns(origin, parts, columns.height))
        lengths = columns.lengths if made == columns.cells else None
        return replace(columns, cells=made, longest=longest, plain=plain, lengths=lengths)


def _fill_columns(template: Template, parts: Sequence[Sequence[str]], count: int) -> Sequence[str]:
    """Fill a template for `count` rows, in octets. A row with an empty part becomes empty."""
    literals = [to_octets(literal) for literal in template.literals]
    parts = [
        _filter_column(template, part, cells) if part.filters else cells
        for part, cells in zip(template.parts, parts, strict=True)
    ]
    if not parts:
        return literals * count
    form = "%s".join(literal.replace("%", "%%") for literal in literals)
    return [form % row if all(row) else "" for row in zip(*parts, strict=True)]


def _filter_column(template: Template, part: TemplatePart, cells: Sequence[str]) -> Sequence[str]:
    """Pass the cells of a template's part through its filters, each distinct text once."""
    known = {cell: to_octets(template.filtered(part, from_octets(cell))) for cell in set(cells)}
    return [known[cell] for cell in cells]
