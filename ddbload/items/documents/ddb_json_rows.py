"""Lines of DynamoDB's JSON that have few like them, one by one: a form, and texts to fill in."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring as quoted

from ddbload.contracts.column_mapping import Template
from ddbload.contracts.run_record import KeyAttribute
from ddbload.dynamodb.attribute_values import utf8_size, value_size
from ddbload.dynamodb.limits import MAX_DIGITS
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.items.documents.attribute_templates import encode_one_by_one, escaped
from ddbload.items.documents.ddb_json_templates import ValueSketch, filled, least
from ddbload.items.documents.document_builder import DocumentBuilder
from ddbload.items.encode.batch_encoder import EncodedRows
from ddbload.items.encode.request_json import (
    DELETE_BEGIN,
    DELETE_END,
    PUT_BEGIN,
    PUT_END,
    compact_json,
)
from ddbload.items.json_values import plain
from ddbload.rows.columns import to_octets


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """What the requests of rows of one kind are made by."""

    text: str
    """The request, with a `%s` for each slot; percents doubled."""
    slots: tuple[tuple[int, bool], ...]
    """Of each, which of a row's texts it is, and whether that is a number."""
    keys: tuple[tuple[int, KeyAttribute], ...]
    """Of each key of the table or of an index, which of a row's texts it is."""
    key_count: int
    """How many of these are the table's: the first."""
    size: int
    """What is to be added to a request's length to have bytes that DynamoDB counts, or more."""

    def made(self, rows: Sequence[Sequence[str]]) -> EncodedRows:
        """The requests of rows, of their texts."""
        return encode_one_by_one(rows, self._encoded, lambda _: self.size)

    def _encoded(self, texts: Sequence[str]) -> tuple[str, tuple[Hashable, ...]]:
        """A row's request and key; nothing of what the builder has to look at.

        Raises `BadValue` and `UnicodeEncodeError` for the same.
        """
        key: list[Hashable] = []
        for slot, attribute in self.keys:
            text = texts[slot]
            if attribute.type == "N":
                key.append(parse_number(text).value)
                continue
            if not 0 < utf8_size(text) <= attribute.max_bytes:
                return "", ()
            key.append(to_octets(text))
        cells = tuple(
            [
                quoted(text)
                if not is_number
                else f'"{text}"'
                if len(text) <= MAX_DIGITS and text.isdigit() and text.isascii()
                else f'"{parse_number(text).text}"'
                for slot, is_number in self.slots
                for text in (texts[slot],)
            ]
        )
        return to_octets(self.text % cells), tuple(key[: self.key_count])


def request_template(
    builder: DocumentBuilder, sources: Mapping[str, ValueSketch | Template], *, deleted: bool
) -> RequestTemplate | None:
    """What rows with these attributes are made by; None where it takes more than a form."""
    if builder.rules.markers or builder.position_attribute is not None:
        return None
    attributes: list[str] = []
    slots: list[tuple[int, bool]] = []
    size = 0
    for name, source in sources.items():
        if isinstance(source, Template):
            return None
        ((kind, content),) = source
        if kind == "NULL":
            try:
                null = builder.attribute_of(name, source)
            except BadValue:
                return None
            if null is None:
                continue
            attributes.append(escaped(f"{quoted(name)}:{compact_json(null)}"))
            size += utf8_size(name) + value_size(null)
            continue
        form = _form(source, slots) if builder.declared.get(name, kind) == kind else None
        if form is None:
            return None
        attributes.append(f"{escaped(quoted(name))}:{form}")
        size += utf8_size(name) + value_size(plain(filled(source, least)))
    keys: list[tuple[int, KeyAttribute]] = []
    for key in builder.checked_keys:
        if key.name in sources:
            ((kind, content),) = _sketch(sources[key.name])
            if kind != key.type or kind not in ("S", "N"):
                return None
            keys.append((content.number, key))
        elif key.name in builder.key_names:
            return None
    begin, end = (DELETE_BEGIN, DELETE_END) if deleted else (PUT_BEGIN, PUT_END)
    text = f"{begin}{','.join(attributes)}{end}"
    # A slot's quotes are the cell's.
    size -= len(to_octets(text)) - text.count("%%")
    return RequestTemplate(text, tuple(slots), tuple(keys), len(builder.key_names), size)


def _sketch(source: ValueSketch | Template) -> ValueSketch:
    return source


def _form(value: ValueSketch, slots: list[tuple[int, bool]]) -> str | None:
    ((kind, content),) = value
    match kind:
        case "S" | "N":
            slots.append((content.number, kind == "N"))
            return f'{{"{kind}":%s}}'
        case "BOOL" | "NULL":
            return compact_json({kind: content})
        case "L":
            members = [_form(member, slots) for member in content]
            return None if None in members else f'{{"L":[{",".join(map(str, members))}]}}'
        case "M":
            forms = [(name, _form(member, slots)) for name, member in content]
            if any(form is None for _, form in forms):
                return None
            said = ",".join(f"{escaped(quoted(name))}:{form}" for name, form in forms)
            return f'{{"M":{{{said}}}}}'
        case _:
            return None
