"""Lines of JSON, many at a time: rows with the same names, a column for each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from json.decoder import JSONDecodeError
from json.encoder import encode_basestring as quoted
from operator import itemgetter

from ddbload.contracts.column_mapping import Template
from ddbload.contracts.payload import OMIT
from ddbload.dynamodb.attribute_values import AttributeValue, check_name
from ddbload.dynamodb.limits import MAX_DIGITS
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.dynamodb.write_modes import DELETE
from ddbload.items.documents.attribute_templates import (
    FEW_ROWS,
    AttributeTemplate,
    all_to_builder,
    constant_template,
    encode_one_by_one,
    encode_requests,
    expanded,
    fits_keys,
    number_template,
    string_template,
    value_or_left,
    value_template,
)
from ddbload.items.documents.document_builder import AttributeDefect, DocumentBuilder, identity
from ddbload.items.encode.batch_encoder import EncodedRows
from ddbload.items.encode.request_json import compact_json
from ddbload.items.json_values import Json, Members, attribute, scan
from ddbload.rows.boundaries.row_boundaries import WHITE_SPACE
from ddbload.rows.columns import to_octets

MAX_KNOWN_NAMES = 10_000
_MARKUP = len('"":{"L":[]},') - 3
"""What is around an attribute's value in JSON, and DynamoDB does not count, at least."""


@dataclass(frozen=True, slots=True)
class Name:
    """What stands before an attribute's value."""

    bare: str
    text: str
    number: str
    is_special: bool
    """Whether its value has to fit something."""


class JsonRows:
    """Encodes rows of a run that takes values as they are."""

    def __init__(self, builder: DocumentBuilder) -> None:
        rules = builder.rules
        self._builder = builder
        self._special = {*builder.declared, *(key.name for key in builder.checked_keys)}
        self._names: dict[str, Name] = {}
        self.possible = (
            rules.changes.none
            and rules.nulls == OMIT
            and not rules.markers
            and rules.mode != DELETE
            and builder.position_attribute is None
        )
        """Whether anything can be made of any row."""

    def made(self, rows: Sequence[Members]) -> EncodedRows:
        """The requests of some rows."""
        return encode_one_by_one(rows, self._encoded, lambda members: -_MARKUP * len(members))

    def _encoded(self, members: Members) -> tuple[str, tuple[Hashable, ...]]:
        """A row's request and key; nothing of what only the builder understands.

        Raises `BadValue` and `UnicodeEncodeError` for the same.
        """
        attributes: list[str] = []
        keys: dict[str, Hashable] = {}
        if len(dict(members)) < len(members):
            return "", ()
        for name, value in members:
            known = self._names.get(name) or self._name(name)
            if value is None and name not in self._builder.key_names:
                continue
            if known.is_special:
                found = self._builder.attribute_of(name, value)
                if found is None:
                    return "", ()
                self._builder.check_key(name, found)
                attributes.append(known.bare + compact_json(found))
                if name in self._builder.key_names:
                    keys[name] = identity(found)
            elif isinstance(value, str):
                attributes.append(f"{known.text}{quoted(value)}}}")
            elif isinstance(value, bytes) and len(value) <= MAX_DIGITS and value.isdigit():
                attributes.append(f'{known.number}{value.decode()}"}}')
            else:
                attributes.append(known.bare + compact_json(attribute(value)))
        if len(keys) < len(self._builder.key_names):
            return "", ()
        put = f'{{"PutRequest":{{"Item":{{{",".join(attributes)}}}}}}}'
        return to_octets(put), tuple(keys[name] for name in self._builder.key_names)

    def _name(self, name: str) -> Name:
        check_name(name)
        if len(self._names) >= MAX_KNOWN_NAMES:
            self._names.clear()
        bare = f"{quoted(name)}:"
        known = Name(bare, f'{bare}{{"S":', f'{bare}{{"N":"', name in self._special)
        # All together then take a few megabytes, whatever comes.
        if len(name) <= 100:
            self._names[name] = known
        return known


Names = tuple[str, ...]
Sources = dict[str, int | Template]

MAX_COLUMNS = 1000
"""Names that rows have which are read together."""
MAX_PLANS, LONGEST_NAMES = 1000, 20_000
"""Of how many kinds of rows is remembered what becomes of them, and characters of their names."""


_name, _value = itemgetter(0), itemgetter(1)


class JsonColumns:
    """Reads lines that are objects of any names and values."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._keys_only = builder.rules.mode == DELETE
        self._rows = JsonRows(builder)
        self._plans: dict[Names, Sources | None] = {}

    def read(
        self, lines: Sequence[str], more: Callable[[Sequence[int]], AttributeTemplate | None]
    ) -> Iterator[tuple[Sequence[int], EncodedRows]]:
        """The requests of rows, kind by kind, with the rows' places in order; not of all rows.

        `more`: gives the rows at some places one attribute more.
        """
        rows = list(map(_members, lines))
        alone: list[int] = []
        for names, places in _kinds(rows).items():
            if len(places) < FEW_ROWS and self._rows.possible:
                alone += places
            elif len(names) <= MAX_COLUMNS:
                columns = _columns([rows[place] for place in places], len(names))
                yield places, self._made(names, columns, len(places), more(places))

        if alone:
            alone.sort()
            yield alone, self._rows.made([rows[place] or () for place in alone])

    def _made(
        self,
        names: Names,
        columns: Sequence[Sequence[Json]],
        count: int,
        more: AttributeTemplate | None,
    ) -> EncodedRows:
        sources = self._sources(names)
        if sources is None or (more is not None and more.name in sources):
            return all_to_builder(count)
        left: set[int] = set()
        parts: list[AttributeTemplate] = []
        for name, source in sources.items():
            part: AttributeTemplate | None
            if isinstance(source, Template):
                part = self._composed(name, source, names, columns, count, left)
            else:
                part = self._part(name, columns[source], left)
            if part is not None:
                parts.append(part)
            if len(left) == count:
                return all_to_builder(count)
        if more is not None:
            parts.append(more)
        return encode_requests(self._builder, parts, count, left, deleted=False)

    def _sources(self, names: Names) -> Sources | None:
        """What rows with these names are made of; None: of that the builder has to tell."""
        if names in self._plans:
            return self._plans[names]
        sources: Sources | None = None
        try:
            sources = self._builder.sources((name, place) for place, name in enumerate(names))
        except (BadValue, AttributeDefect):
            pass
        else:
            if self._keys_only:
                keys = self._builder.key_names
                sources = {name: source for name, source in sources.items() if name in keys}
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        if sum(map(len, names)) <= LONGEST_NAMES:
            self._plans[names] = sources
        return sources

    def _part(self, name: str, column: Sequence[Json], left: set[int]) -> AttributeTemplate | None:
        kinds = set(map(type, column))
        if type(None) in kinds:
            return self._part_with_nulls(name, column, left)
        part = self._part_of(name, column, kinds.pop(), left) if len(kinds) == 1 else None
        if part is None or not fits_keys(self._builder, part, left):
            part = self._any(name, column, left)
        return part

    def _part_of(
        self, name: str, column: Sequence[Json], kind: type, left: set[int]
    ) -> AttributeTemplate | None:
        """Of values of one type. None where they have to be understood one by one."""
        meant = self._builder.declared.get(name)
        texts: Sequence[str] = column  # type: ignore[assignment] # of strings
        if kind is bool and meant in (None, "BOOL"):
            cells = ["true" if value else "false" for value in column]
            part = constant_template(name, {"BOOL": True})
            part.form, part.columns = part.form.replace("true}", "%s}"), [cells]
            return part
        if kind is bytes:
            numbers: Sequence[bytes] = column  # type: ignore[assignment]
            texts = b"\n".join(numbers).decode().split("\n")
            meant = meant or "N"
        elif kind is not str or not self._builder.rules.markers.isdisjoint(texts):
            return None
        if meant in (None, "S"):
            return string_template(name, texts, left)
        return number_template(name, texts, left) if meant == "N" else None

    def _part_with_nulls(
        self, name: str, column: Sequence[Json], left: set[int]
    ) -> AttributeTemplate | None:
        absent = ""
        empty = [place for place, value in enumerate(column) if value is None]
        try:
            null = self._builder.attribute_of(name, None)
        except BadValue:
            left.update(empty)
        else:
            if null is not None:
                absent = value_template(self._builder, name, [null]).columns[0][0]
            elif name in self._builder.key_names:
                left.update(empty)
        there = [place for place, value in enumerate(column) if value is not None]
        if not there:
            return None if not absent else AttributeTemplate(name, "%s", [[absent] * len(column)])
        left_there: set[int] = set()
        part = self._part(name, [column[place] for place in there], left_there)
        left.update(there[place] for place in left_there)
        return None if part is None else expanded(part, there, len(column), absent)

    def _any(self, name: str, column: Sequence[Json], left: set[int]) -> AttributeTemplate:
        read = self._builder.attribute_of
        values: list[AttributeValue | None] = [
            value_or_left(self._builder, name, place, lambda value=value: read(name, value), left)  # type: ignore[misc]
            for place, value in enumerate(column)
        ]
        return value_template(self._builder, name, values)

    def _composed(
        self,
        name: str,
        template: Template,
        names: Names,
        columns: Sequence[Sequence[Json]],
        count: int,
        left: set[int],
    ) -> AttributeTemplate:
        values: list[AttributeValue | None] = []
        parts = {part: columns[names.index(part)] for part in template.names if part in names}
        for place in range(count):
            given = {part: column[place] for part, column in parts.items()}
            values.append(
                value_or_left(
                    self._builder,
                    name,
                    place,
                    lambda given=given: self._builder.composed(name, template, given),  # type: ignore[misc]
                    left,
                )
            )
        return value_template(self._builder, name, values)


def _members(line: str) -> Members | None:
    """A line's object. None where it is none: the builder says why."""
    try:
        value, end = scan(line, 0)
    except (BadValue, JSONDecodeError, RecursionError, StopIteration):
        if not line or line[0] not in WHITE_SPACE:
            return None
        return _members(line.lstrip(WHITE_SPACE))
    if (end != len(line) and line[end:].strip(WHITE_SPACE)) or not isinstance(value, tuple):
        return None
    return value


def _kinds(rows: Sequence[Members | None]) -> dict[Names, Sequence[int]]:
    """The places of rows with the same names."""
    first = rows[0] if rows else None
    if first:
        names = tuple(map(_name, first))
        if _are_alike(rows, names):
            return {names: range(len(rows))}
    kinds: dict[Names, list[int]] = {}
    for place, row in enumerate(rows):
        if row is not None:
            kinds.setdefault(tuple(map(_name, row)), []).append(place)
    return dict(kinds)


def _are_alike(rows: Sequence[Members | None], names: Names) -> bool:
    if None in rows:
        return False
    members: list[Members] = rows  # type: ignore[assignment]
    count = len(names)
    if set(map(len, members)) != {count}:
        return False
    found = list(map(_name, chain.from_iterable(members)))
    return all(found[place::count].count(name) == len(rows) for place, name in enumerate(names))


def _columns(rows: Sequence[Members | None], count: int) -> list[list[Json]]:
    members: list[Members] = rows  # type: ignore[assignment]
    values = list(map(_value, chain.from_iterable(members)))
    return [values[place::count] for place in range(count)]
