"""Lines of DynamoDB's JSON, many at a time: rows in which only some texts differ.

A line is cut at its quotes. What stands outside of strings, and the strings that are names, make
a kind of rows, and of its first row all is found out. What is left of the others is the strings
that are values: a column for each place where one stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from json.decoder import JSONDecodeError
from json.encoder import encode_basestring as quoted
from operator import itemgetter

from ddbload.contracts.column_mapping import Template
from ddbload.contracts.run_record import KeyAttribute
from ddbload.dynamodb.attribute_values import utf8_size, value_size
from ddbload.dynamodb.limits import MAX_DIGITS
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.dynamodb.write_modes import DELETE, PUT
from ddbload.items.documents.attribute_templates import (
    FEW_ROWS,
    AttributeTemplate,
    all_to_builder,
    encode_one_by_one,
    encode_requests,
    escaped,
)
from ddbload.items.documents.ddb_json_templates import (
    DynamoDBJsonTemplates,
    ValueSketch,
    check_sketch,
    filled,
    least,
    value_sketch,
)
from ddbload.items.documents.document_builder import AttributeDefect, DocumentBuilder
from ddbload.items.encode.batch_encoder import EncodedRows
from ddbload.items.encode.request_json import (
    DELETE_BEGIN,
    DELETE_END,
    PUT_BEGIN,
    PUT_END,
    compact_json,
)
from ddbload.items.json_values import plain, scan
from ddbload.rows.boundaries.row_boundaries import WHITE_SPACE
from ddbload.rows.columns import has_none_of, to_octets


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


MAX_KINDS, LONGEST_FRAME = 2000, 20_000
"""Kinds that are remembered, and characters that one has outside of strings, and in names."""

_CONTROL = bytes(range(0x20))
_CONTROLS = re.compile("[\x00-\x1f]")
# Stand for an escaped backslash and an escaped quote, in lines that have no such characters.
_BACKSLASH, _QUOTE = "\x00\x01", "\x02\x03"

Pick = Callable[[Sequence[str]], tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class RowShape:
    """Rows that differ in some texts only."""

    sources: dict[str, ValueSketch | Template]
    """What their attributes are made of."""
    values: dict[str, ValueSketch]
    """What templates are filled with."""
    deleted: bool
    form: RequestTemplate | None
    """What a few rows are made by."""


@dataclass(slots=True)
class Frame:
    """Lines that are the same outside of strings."""

    names: Pick
    """Those of a line's pieces that are names."""
    texts: Pick
    """And those that are values."""
    kinds: dict[tuple[str, ...], RowShape] = field(default_factory=dict)
    """By their names."""
    once: set[tuple[str, ...]] = field(default_factory=set)
    """Names of lines that came once at least."""
    seen: set[tuple[str, ...]] = field(default_factory=set)
    """Names of lines of which the builder has to tell."""


class DynamoDBJsonColumns:
    """Reads lines that hold items, or keys, in DynamoDB's JSON."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._parts = DynamoDBJsonTemplates(builder)
        self._frames: dict[str, Frame] = {}
        self._known = 0

    def read(
        self, lines: Sequence[str], more: Callable[[Sequence[int]], AttributeTemplate | None]
    ) -> Iterator[tuple[Sequence[int], EncodedRows]]:
        """The requests of rows, kind by kind, with the rows' places in order; not of all rows.

        `more`: gives the rows at some places one attribute more.
        """
        found: dict[RowShape, tuple[list[int], list[Sequence[str]]]] = {}
        is_clean = has_none_of(_CONTROL, "".join(lines).encode(errors="replace"))
        for row, line in enumerate(lines):
            if not is_clean:
                line = line.strip(WHITE_SPACE)
                if _CONTROLS.search(line):
                    continue
            escapes = "\\" in line
            masked = _masked(line) if escapes else line
            pieces = masked.split('"')
            frame = self._frame('"'.join(pieces[::2]), pieces)
            if frame is None:
                continue
            names = frame.names(pieces)
            kind = frame.kinds.get(names)
            if kind is None:
                kind = self._new_kind(frame, names, line)
            if kind is None:
                continue
            texts = frame.texts(pieces)
            if escapes:
                try:
                    texts = tuple(map(_unescaped, texts))
                except JSONDecodeError:
                    continue
            known = found.get(kind)
            if known is None:
                found[kind] = ([row], [texts])
            else:
                known[0].append(row)
                known[1].append(texts)
        for kind, (rows, texts_of_rows) in found.items():
            if len(rows) < FEW_ROWS and kind.form is not None:
                yield rows, kind.form.made(texts_of_rows)
                continue
            columns = list(zip(*texts_of_rows, strict=True))
            yield rows, self._made(kind, columns, len(rows), more(rows))

    def _made(
        self,
        kind: RowShape,
        columns: Sequence[Sequence[str]],
        count: int,
        more: AttributeTemplate | None,
    ) -> EncodedRows:
        left: set[int] = set()
        parts: list[AttributeTemplate] = []
        try:
            for name, source in kind.sources.items():
                if isinstance(source, Template):
                    part: AttributeTemplate | None = self._parts.composed(
                        name, source, kind.values, columns, left, count
                    )
                else:
                    part = self._parts.part(name, source, columns, left, count)
                if part is not None:
                    parts.append(part)
        except BadValue:
            return all_to_builder(count)
        if more is not None:
            if more.name in kind.sources:
                return all_to_builder(count)
            parts.append(more)
        return encode_requests(self._builder, parts, count, left, deleted=kind.deleted)

    def _new_kind(self, frame: Frame, names: tuple[str, ...], line: str) -> RowShape | None:
        """A kind, from the second line on that is of it: many lines may be of a kind alone."""
        if names in frame.seen or sum(map(len, names)) > LONGEST_FRAME:
            return None
        if names not in frame.once:
            frame.once.add(names)
            self._known += 1
            return None
        kind = self._kind(line)
        if kind is None:
            frame.seen.add(names)
        else:
            frame.kinds[names] = kind
        return kind

    def _frame(self, between: str, pieces: Sequence[str]) -> Frame | None:
        """The frame of a line in these pieces; None for what is unlike any JSON, or too long."""
        frame = self._frames.get(between)
        if frame is None and len(pieces) % 2 and len(between) <= LONGEST_FRAME:
            if self._known >= MAX_KINDS:
                self._frames.clear()
                self._known = 0
            names: list[int] = []
            texts: list[int] = []
            for place in range(1, len(pieces), 2):
                is_name = pieces[place + 1].lstrip(WHITE_SPACE).startswith(":")
                (names if is_name else texts).append(place)
            frame = self._frames[between] = Frame(_pick(names), _pick(texts))
        return frame

    def _kind(self, line: str) -> RowShape | None:
        """What rows are that are like this one. None where the builder has to tell."""
        rules = self._builder.rules
        try:
            value, end = scan(line, 0)
            if line[end:].strip(WHITE_SPACE) or not isinstance(value, tuple):
                return None
            row = rules.envelope(value_sketch(value))
            sources = self._builder.sources(row.members)
            deletes = rules.mode == DELETE
            keys = self._builder.key_names
            if deletes or row.deleted:
                sources = {name: source for name, source in sources.items() if name in keys}
            for source in sources.values():
                if not isinstance(source, Template):
                    check_sketch(source)
        except (BadValue, JSONDecodeError, AttributeDefect, RecursionError, StopIteration):
            return None
        if row.deleted:
            has_others = rules.changes.none and len(row.members) > len(keys)
            if has_others or rules.mode not in (PUT, DELETE):
                return None
        deleted = row.deleted and not deletes
        form = request_template(self._builder, sources, deleted=deleted)
        return RowShape(dict(sources), dict(row.members), deleted, form)


def _pick(places: Sequence[int]) -> Pick:
    if not places:
        return lambda _: ()
    if len(places) == 1:
        (only,) = places
        return lambda pieces: (pieces[only],)
    return itemgetter(*places)


def _masked(line: str) -> str:
    return line.replace("\\\\", _BACKSLASH).replace('\\"', _QUOTE)


def _unescaped(text: str) -> str:
    """What a piece of a masked line is. Raises `JSONDecodeError`."""
    if _CONTROLS.search(text) is None and "\\" not in text:
        return text
    written = text.replace(_BACKSLASH, "\\\\").replace(_QUOTE, '\\"')
    return str(scan(f'"{written}"', 0)[0])
