"""Encodes lines of plain JSON: rows with the same names by column, and others row by row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from json.encoder import encode_basestring as quoted
from operator import itemgetter

from ddbload.contracts.payload import OMIT
from ddbload.contracts.template import Template
from ddbload.dynamodb.attribute_values import AttributeValue, check_name
from ddbload.dynamodb.limits import MAX_DIGITS
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.dynamodb.write_modes import DELETE
from ddbload.items.documents.attribute_templates import (
    FOR_BUILDER,
    MIN_COLUMN_ROWS,
    AttributeTemplate,
    EncodedRow,
    all_to_builder,
    check_keys,
    constant_template,
    encode_requests,
    encode_rows,
    nested_template,
    number_template,
    spread_template,
    string_template,
    value_or_odd,
    value_template,
)
from ddbload.items.documents.document_builder import AttributeDefect, DocumentBuilder, identity
from ddbload.items.encode.batch_encoder import EncodedRows
from ddbload.items.encode.request_json import PUT_BEGIN, PUT_END, compact_json
from ddbload.items.json_values import Json, Members, attribute_json, parse_object
from ddbload.rows.columns import to_octets

MAX_KNOWN_NAMES, LONGEST_KNOWN_NAME = 10_000, 100
"""Limits of the attribute names that are kept encoded."""
MOST_COLUMNS = 1000
"""Most names of rows that are encoded by column."""
MAX_SHAPES, LONGEST_SHAPE = 1000, 20_000
"""Limits of the row shapes that are kept: their number, and characters of names in one."""
_MARKUP = len('"":{"L":[]},') - 3
"""Fewest bytes of JSON around an attribute's value that DynamoDB does not count."""

Names = tuple[str, ...]
"""Shape of a row: the names of its members, in order."""
Sources = dict[str, int | Template]
"""For each attribute the place of its column, or a template."""

_name_of, _value_of = itemgetter(0), itemgetter(1)


@dataclass(frozen=True, slots=True)
class _Name:
    """Beginning of an attribute in JSON, up to its value."""

    bare: str
    text: str
    number: str
    is_special: bool
    """True if the attribute has a declared type, or is a key."""


class JsonRows:
    """Encoder for single rows of a run that sends values as they are."""

    def __init__(self, builder: DocumentBuilder) -> None:
        rules = builder.rules
        self._builder = builder
        self._special = {*builder.declared, *(key.name for key in builder.checked_keys)}
        self._names: dict[str, _Name] = {}
        self.possible = (
            rules.changes.is_empty
            and rules.nulls == OMIT
            and not rules.markers
            and rules.mode != DELETE
            and builder.position_attribute is None
        )
        """False if the run's rules change values: then rows are for the builder."""

    def encode(self, rows: Sequence[Members]) -> EncodedRows:
        """Encode rows one by one."""
        return encode_rows(rows, self._encode_row)

    def _encode_row(self, members: Members) -> EncodedRow:
        """Return a row's request, key and uncounted bytes; no request if it is for the builder.

        Raises `BadValue` and `UnicodeEncodeError` for the same.
        """
        attributes: list[str] = []
        keys: dict[str, Hashable] = {}
        if len(dict(members)) < len(members):
            return FOR_BUILDER
        for name, value in members:
            known = self._names.get(name) or self._name(name)
            if value is None and name not in self._builder.key_names:
                continue
            if known.is_special:
                found = self._builder.attribute_of(name, value)
                if found is None:
                    return FOR_BUILDER
                self._builder.check_key(name, found)
                attributes.append(known.bare + compact_json(found))
                if name in self._builder.key_names:
                    keys[name] = identity(found)
            elif isinstance(value, str):
                attributes.append(f"{known.text}{quoted(value)}}}")
            elif isinstance(value, bytes) and len(value) <= MAX_DIGITS and value.isdigit():
                attributes.append(f'{known.number}{value.decode()}"}}')
            else:
                attributes.append(known.bare + attribute_json(value))
        if len(keys) < len(self._builder.key_names):
            return FOR_BUILDER
        put = f"{PUT_BEGIN}{','.join(attributes)}{PUT_END}"
        key = tuple([keys[name] for name in self._builder.key_names])
        return to_octets(put), key, -_MARKUP * len(members)

    def _name(self, name: str) -> _Name:
        check_name(name)
        if len(self._names) >= MAX_KNOWN_NAMES:
            self._names.clear()
        bare = f"{quoted(name)}:"
        known = _Name(bare, f'{bare}{{"S":', f'{bare}{{"N":"', name in self._special)
        # With this limit the names take a few megabytes at most, whatever the rows hold.
        if len(name) <= LONGEST_KNOWN_NAME:
            self._names[name] = known
        return known


class JsonColumns:
    """Encoder for lines that are objects of any names and values."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._keys_only = builder.rules.mode == DELETE
        self._special = {*builder.declared, *(key.name for key in builder.checked_keys)}
        self._rows = JsonRows(builder)
        self._known_sources: dict[Names, Sources | None] = {}

    def read(
        self,
        lines: Sequence[str],
        positions: Callable[[Sequence[int]], AttributeTemplate | None],
        parsed: Sequence[Members | None] | None = None,
    ) -> Iterator[tuple[Sequence[int], EncodedRows]]:
        """Yield the numbers of rows of one shape, in order, and their requests.

        Lines that are not objects, or have too many members, are left out. `positions` gives rows
        the position attribute, if any. `parsed`: the lines as `parse_object` returns them.
        """
        rows = list(map(parse_object, lines)) if parsed is None else parsed
        few: list[int] = []
        for names, places in _rows_by_shape(rows).items():
            if len(places) < MIN_COLUMN_ROWS and self._rows.possible:
                few += places
            elif len(names) <= MOST_COLUMNS:
                columns = _columns([rows[place] for place in places], len(names))
                yield places, self._encode(names, columns, len(places), positions(places))

        if few:
            few.sort()
            yield few, self._rows.encode([rows[place] or () for place in few])

    def _encode(
        self,
        names: Names,
        columns: Sequence[Sequence[Json]],
        count: int,
        added: AttributeTemplate | None,
    ) -> EncodedRows:
        """Encode `count` rows of one shape, with the position attribute added, if any."""
        sources = self._sources(names)
        if sources is None or (added is not None and added.name in sources):
            return all_to_builder(count)
        odd: set[int] = set()
        attributes: list[AttributeTemplate] = []
        for name, source in sources.items():
            if isinstance(source, Template):
                attribute: AttributeTemplate | None = self._composed(
                    name, source, names, columns, count, odd
                )
            else:
                attribute = self._attribute(name, columns[source], odd)
            if attribute is not None:
                attributes.append(attribute)
            if len(odd) == count:
                return all_to_builder(count)
        if added is not None:
            attributes.append(added)
        return encode_requests(self._builder, attributes, count, odd)

    def _sources(self, names: Names) -> Sources | None:
        """Return the sources of attributes for a shape; None if its rows are for the builder."""
        if names in self._known_sources:
            return self._known_sources[names]
        sources: Sources | None = None
        try:
            sources = self._builder.sources((name, place) for place, name in enumerate(names))
        except (BadValue, AttributeDefect):
            pass
        else:
            if self._keys_only:
                keys = self._builder.kept_names
                sources = {name: source for name, source in sources.items() if name in keys}
        if len(self._known_sources) >= MAX_SHAPES:
            self._known_sources.clear()
        if sum(map(len, names)) <= LONGEST_SHAPE:
            self._known_sources[names] = sources
        return sources

    def _attribute(
        self, name: str, column: Sequence[Json], odd: set[int]
    ) -> AttributeTemplate | None:
        """Encode a column of values; None if no row has the attribute."""
        kinds = set(map(type, column))
        if type(None) in kinds:
            return self._attribute_with_nulls(name, column, odd)
        same_type = self._scalars(name, column, kinds.pop(), odd) if len(kinds) == 1 else None
        if same_type is None or not check_keys(self._builder, same_type, odd):
            return self._any_values(name, column, odd)
        return same_type

    def _scalars(
        self, name: str, column: Sequence[Json], kind: type, odd: set[int]
    ) -> AttributeTemplate | None:
        """Encode scalars of one Python type; None if they must be read one by one."""
        declared = self._builder.declared.get(name)
        texts: Sequence[str] = column  # type: ignore[assignment] # of strings
        if kind is bool and declared in (None, "BOOL"):
            cells = ["true" if value else "false" for value in column]
            template = constant_template(name, {"BOOL": True})
            template.form, template.columns = template.form.replace("true}", "%s}"), [cells]
            return template
        if kind is bytes:
            numbers: Sequence[bytes] = column  # type: ignore[assignment]
            texts = b"\n".join(numbers).decode().split("\n")
            declared = declared or "N"
        elif kind is not str or not self._builder.rules.markers.isdisjoint(texts):
            return None
        if declared in (None, "S"):
            return string_template(name, texts, odd)
        return number_template(name, texts, odd) if declared == "N" else None

    def _attribute_with_nulls(
        self, name: str, column: Sequence[Json], odd: set[int]
    ) -> AttributeTemplate | None:
        """Encode a column in which some values, or all, are null."""
        absent = ""
        empty = [place for place, value in enumerate(column) if value is None]
        try:
            null = self._builder.attribute_of(name, None)
        except BadValue:
            odd.update(empty)
        else:
            if null is not None:
                absent = value_template(self._builder, name, [null]).columns[0][0]
            elif name in self._builder.key_names:
                odd.update(empty)
        there = [place for place, value in enumerate(column) if value is not None]
        if not there:
            return None if not absent else AttributeTemplate(name, "%s", [[absent] * len(column)])
        odd_there: set[int] = set()
        template = self._attribute(name, [column[place] for place in there], odd_there)
        odd.update(there[place] for place in odd_there)
        return None if template is None else spread_template(template, there, len(column), absent)

    def _any_values(self, name: str, column: Sequence[Json], odd: set[int]) -> AttributeTemplate:
        """Encode values of any type, one by one."""
        if name not in self._special and {list, tuple}.issuperset(map(type, column)):
            return nested_template(name, column, odd)
        read = self._builder.attribute_of
        values: list[AttributeValue | None] = [
            value_or_odd(self._builder, name, place, lambda value=value: read(name, value), odd)  # type: ignore[misc]
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
        odd: set[int],
    ) -> AttributeTemplate:
        """Encode an attribute that a template composes of other members."""
        values: list[AttributeValue | None] = []
        template = template.named(names)
        parts = {part: columns[names.index(part)] for part in template.names if part in names}
        for place in range(count):
            given = {part: column[place] for part, column in parts.items()}
            values.append(
                value_or_odd(
                    self._builder,
                    name,
                    place,
                    lambda given=given: self._builder.composed(name, template, given),  # type: ignore[misc]
                    odd,
                )
            )
        return value_template(self._builder, name, values)


def _rows_by_shape(rows: Sequence[Members | None]) -> dict[Names, Sequence[int]]:
    """Return the numbers of rows with the same names, by these names."""
    first = rows[0] if rows else None
    if first:
        names = tuple(map(_name_of, first))
        if _have_names(rows, names):
            return {names: range(len(rows))}
    shapes: dict[Names, list[int]] = {}
    for place, row in enumerate(rows):
        if row is not None:
            shapes.setdefault(tuple(map(_name_of, row)), []).append(place)
    return dict(shapes)


def _have_names(rows: Sequence[Members | None], names: Names) -> bool:
    if None in rows:
        return False
    members: list[Members] = rows  # type: ignore[assignment]
    count = len(names)
    if set(map(len, members)) != {count}:
        return False
    found = list(map(_name_of, chain.from_iterable(members)))
    return all(found[place::count].count(name) == len(rows) for place, name in enumerate(names))


def _columns(rows: Sequence[Members | None], count: int) -> list[list[Json]]:
    members: list[Members] = rows  # type: ignore[assignment]
    values = list(map(_value_of, chain.from_iterable(members)))
    return [values[place::count] for place in range(count)]
