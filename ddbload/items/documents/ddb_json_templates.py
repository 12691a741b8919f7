"""Attributes of DynamoDB's JSON in rows in which only some texts differ."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from ddbload.contracts.column_mapping import Template
from ddbload.dynamodb.attribute_values import check_value, decode_base64, value_size
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.documents.attribute_templates import (
    AttributeTemplate,
    constant_template,
    fits_keys,
    in_octets,
    number_template,
    string_template,
    template_name,
    value_or_left,
    value_template,
    written_numbers,
    written_strings,
)
from ddbload.items.documents.document_builder import DocumentBuilder
from ddbload.items.encode.column_encoders import key_identities
from ddbload.items.encode.request_json import compact_json
from ddbload.items.json_values import Json, plain
from ddbload.rows.columns import to_octets

_FILLED_BASE64 = "QQ=="


@dataclass(frozen=True, slots=True)
class Slot:
    """Stands where a string is a value."""

    number: int
    """How many there are before it in the line."""


ValueSketch = Any
"""As `Json`, with slots for strings."""


def value_sketch(value: Json) -> ValueSketch:
    """A line with slots for the strings that are values."""
    count = 0

    def walk(value: Json) -> ValueSketch:
        nonlocal count
        if isinstance(value, str):
            count += 1
            return Slot(count - 1)
        if isinstance(value, tuple):
            return tuple((name, walk(member)) for name, member in value)
        return [walk(member) for member in value] if isinstance(value, list) else value

    return walk(value)


def filled(value: ValueSketch, text_of: Callable[[Slot, str], str], kind: str = "") -> Json:
    """A sketch with texts in its slots. `text_of` is told the name before the slot, a type's."""
    if isinstance(value, Slot):
        return text_of(value, kind)
    if isinstance(value, tuple):
        return tuple((name, filled(member, text_of, name)) for name, member in value)
    if isinstance(value, list):
        return [filled(member, text_of, kind) for member in value]
    known: Json = value
    return known


def check_sketch(value: ValueSketch) -> None:
    """Raise `BadValue` where no texts at all can make it an attribute value."""
    check_value(plain(filled(value, _different)))


def _different(slot: Slot, kind: str) -> str:
    if kind.startswith("B"):
        return b2a_base64(slot.number.to_bytes(3), newline=False).decode()
    return str(slot.number)


def least(slot: Slot, kind: str) -> str:  # noqa: ARG001 - as the other
    """A text for a slot that counts no more than what one of any length counts besides."""
    # A number of one digit counts for two bytes.
    return "0" if kind.startswith("N") else ""


class DynamoDBJsonTemplates:
    """Makes parts of sketches and columns of texts."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder

    def part(
        self,
        name: str,
        value: ValueSketch,
        columns: Sequence[Sequence[str]],
        left: set[int],
        count: int,
    ) -> AttributeTemplate | None:
        """An attribute of `count` rows; None where they have none. Raises `BadValue` for all."""
        ((kind, content),) = value
        if kind == "NULL":
            null = self._builder.attribute_of(name, value)
            if null is None:
                return None
            self._builder.check_key(name, null)
            return constant_template(name, null)
        part = self._part_of(name, kind, content, columns, left)
        if part is None or not fits_keys(self._builder, part, left):
            return self.any(
                name,
                lambda row: self._builder.attribute_of(name, _row(value, columns, row)),
                left,
                count,
            )
        return part

    def composed(
        self,
        name: str,
        template: Template,
        values: dict[str, ValueSketch],
        columns: Sequence[Sequence[str]],
        left: set[int],
        count: int,
    ) -> AttributeTemplate:
        """An attribute that is made of others."""
        given = {part: values[part] for part in template.names if part in values}

        def read(row: int) -> dict[str, Any] | None:
            found = {part: _row(value, columns, row) for part, value in given.items()}
            return self._builder.composed(name, template, found)

        return self.any(name, read, left, count)

    def any(
        self, name: str, read: Callable[[int], Any], left: set[int], count: int
    ) -> AttributeTemplate:
        """An attribute that is understood row by row."""
        builder = self._builder
        values = [
            value_or_left(builder, name, row, lambda row=row: read(row), left)  # type: ignore[misc]
            for row in range(count)
        ]
        return value_template(builder, name, values)

    def _part_of(
        self,
        name: str,
        kind: str,
        content: ValueSketch,
        columns: Sequence[Sequence[str]],
        left: set[int],
    ) -> AttributeTemplate | None:
        """None where the values have to be understood one by one."""
        meant = self._builder.declared.get(name) or kind
        if kind not in ("S", "N"):
            return self._whole(name, kind, content, columns, left) if meant == kind else None
        texts = columns[content.number]
        if kind == "S" and not self._builder.rules.markers.isdisjoint(texts):
            return None
        if meant == "S":
            return string_template(
                name, texts if kind == "S" else written_numbers(texts, left), left
            )
        return number_template(name, texts, left) if meant == "N" else None

    def _whole(
        self,
        name: str,
        kind: str,
        content: ValueSketch,
        columns: Sequence[Sequence[str]],
        left: set[int],
    ) -> AttributeTemplate:
        value = ((kind, content),)
        cells: list[Sequence[str]] = []
        form = _form(value, columns, cells, left)
        size = len(to_octets(name)) + value_size(plain(filled(value, least)))
        part = AttributeTemplate(name, template_name(name) + form, cells, size)
        if kind == "B":
            part.kind, part.texts = "B", cells[0]
        return part


def _row(value: ValueSketch, columns: Sequence[Sequence[str]], row: int) -> Json:
    return filled(value, lambda slot, _: columns[slot.number][row])


def _form(
    value: ValueSketch,
    columns: Sequence[Sequence[str]],
    cells: list[Sequence[str]],
    left: set[int],
) -> str:
    """JSON of a value, with a `%s` for each of the columns that it adds to `cells`."""
    ((kind, content),) = value
    match kind:
        case "S" | "N" | "B":
            form, written = _written(kind, columns[content.number], left)
            cells.append(written)
            return f'{{"{kind}":{form}}}'
        case "SS" | "NS" | "BS":
            members = [_written(kind[0], columns[slot.number], left) for slot in content]
            _check_set(kind, [written for _, written in members], left)
            cells += [written for _, written in members]
            return f'{{"{kind}":[{",".join(form for form, _ in members)}]}}'
        case "L":
            forms = [_form(member, columns, cells, left) for member in content]
            return f'{{"L":[{",".join(forms)}]}}'
        case "M":
            forms = [
                template_name(name) + _form(member, columns, cells, left)
                for name, member in content
            ]
            return f'{{"M":{{{",".join(forms)}}}}}'
        case _:
            return compact_json({kind: content})


def _written(kind: str, texts: Sequence[str], left: set[int]) -> tuple[str, Sequence[str]]:
    if kind == "S":
        before, cells, after = written_strings(in_octets(texts, left), left)
        return f"{before}%s{after}", cells
    return '"%s"', written_numbers(texts, left) if kind == "N" else _base64(texts, left)


def _base64(texts: Sequence[str], left: set[int]) -> Sequence[str]:
    cells: list[str] = []
    for row, text in enumerate(texts):
        try:
            cells.append(decode_base64(text))
        except BadValue:
            left.add(row)
            cells.append(_FILLED_BASE64)
    return cells


def _check_set(kind: str, members: Sequence[Sequence[str]], left: set[int]) -> None:
    found: list[Sequence[Hashable]] = [
        key_identities(cells, short=False) if kind == "NS" else cells for cells in members
    ]
    left.update(
        row
        for row, values in enumerate(zip(*found, strict=True))
        if len(set(values)) < len(members)
    )
