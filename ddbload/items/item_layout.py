r"""Which attributes a row's fields become: renamed, left out, constant, or composed of several.

The same for rows one by one and for columns as a whole. Nulls are made alike here, too: a
marker, such as `\N`, becomes the empty text that an absent value is everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from ddbload.contracts.payload import ColumnMapping, Payload
from ddbload.dynamodb.limits import MAX_NAME_BYTES
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.errors import (
    ColumnNameTooLong,
    DuplicateColumn,
    EmptyColumnName,
    InvalidPayload,
    UnknownColumn,
)
from ddbload.items.typed_values import TEXT_READERS
from ddbload.rows.columns import JSON_ESCAPED, Columns, has_none_of, to_octets

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}|[{}]")


def shown(name: str) -> str:
    """A name as a message has it."""
    return repr(name if len(name) <= 60 else name[:57] + "...")


def missing(name: str, columns: Sequence[str], gone: Collection[str] = ()) -> str:
    """What a message says of a name that is no column's. `gone`: columns before the mapping."""
    if name in gone:
        return (
            "a column that the mapping renames or drops: types and keys are of what comes out of it"
        )
    # The names are not told: where a file lacks its header they are a row.
    told = f"none of the file's {len(columns)} columns"
    alike = [column for column in columns if column.strip().casefold() == name.strip().casefold()]
    if alike:
        return f"{told}; {shown(alike[0])} is one, and names are compared exactly"
    return f"{told}: check the delimiter, and whether the file has a header"


@dataclass(frozen=True, slots=True)
class Template:
    """A text with columns' names in braces: `USER#{id}`. `{{` and `}}` are braces."""

    literals: tuple[str, ...]
    """What stands before, between and after the columns: one more than there are of these."""
    names: tuple[str, ...]

    @classmethod
    def read(cls, text: str, attribute: str) -> Self:
        """A template for an attribute. Raises `InvalidPayload`."""
        literals, names = [""], []
        position = 0
        for found in _PIECE.finditer(text):
            literals[-1] += text[position : found.start()]
            position = found.end()
            if found[1] is not None:
                names.append(found[1])
                literals.append("")
            elif len(found[0]) == 2:
                literals[-1] += found[0][0]
            else:
                raise InvalidPayload(
                    f"what {shown(attribute)} is set to has a {found[0]!r} by itself: write a"
                    " column as {name}, and a brace that is text as {{ or }}"
                )
        literals[-1] += text[position:]
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InvalidPayload(f"what {shown(attribute)} is set to is no text of UTF-8")
        return cls(tuple(literals), tuple(names))

    def fill(self, parts: Sequence[str]) -> str:
        """The text with these parts, or none where one of them is empty."""
        if not all(parts):
            return ""
        said = [self.literals[0]]
        for part, literal in zip(parts, self.literals[1:], strict=True):
            said += (part, literal)
        return "".join(said)

    @property
    def stands_as_it_is(self) -> bool:
        """Whether its own text needs no escapes in JSON."""
        return has_none_of(JSON_ESCAPED, "".join(self.literals).encode())

    def fill_columns(self, parts: Sequence[Sequence[str]], count: int) -> Sequence[str]:
        """The same for `count` rows, in octets."""
        literals = [to_octets(literal) for literal in self.literals]
        if not parts:
            return literals * count
        form = "%s".join(literal.replace("%", "%%") for literal in literals)
        rows = zip(*parts, strict=True)
        if all(map(all, parts)):
            return [form % row for row in rows]
        return [form % row if all(row) else "" for row in rows]


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """What is to be made of a source's columns, or of a document's names: `mapping`."""

    rename: Mapping[str, str] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()
    templates: Mapping[str, Template] = field(default_factory=dict)
    """Of constants and of what is composed, by attribute. They speak of the source's names."""

    @classmethod
    def of(
        cls,
        rename: Mapping[str, str] | None = None,
        drop: Iterable[str] = (),
        set: Mapping[str, str] | None = None,
    ) -> Self:
        """Read a payload's `mapping`.

        Raises `InvalidPayload`, `DuplicateColumn`, `EmptyColumnName` and `ColumnNameTooLong`.
        """
        renamed, composed, dropped = dict(rename or {}), dict(set or {}), frozenset(drop)
        for name in (*renamed.values(), *composed):
            _check_name(name)
        for name in renamed.keys() & dropped:
            raise InvalidPayload(f"{shown(name)} is to be renamed, and to be dropped: say one")
        seen: dict[str, str] = {}
        for old, new in renamed.items():
            if new in seen:
                raise DuplicateColumn(
                    f"{shown(seen[new])} and {shown(old)} are both renamed to {shown(new)}; one"
                    " would overwrite the other"
                )
            seen[new] = old
            if new in composed:
                raise DuplicateColumn(
                    f"{shown(old)} is renamed to {shown(new)}, which is set, too; one would"
                    " overwrite the other: drop the column, or set another attribute"
                )
        templates = {name: Template.read(text, name) for name, text in composed.items()}
        return cls(renamed, dropped, templates)

    @property
    def none(self) -> bool:
        """Whether everything stays as it is."""
        return not (self.rename or self.drop or self.templates)

    @property
    def named(self) -> dict[str, str]:
        """The source's names that this speaks of, each with what for."""
        parts = {
            part: f"a part of what {shown(name)} is set to"
            for name, template in self.templates.items()
            for part in template.names
        }
        return {
            **parts,
            **dict.fromkeys(self.rename, "to be renamed"),
            **dict.fromkeys(self.drop, "to be dropped"),
        }


def column_changes(mapping: ColumnMapping) -> ColumnChanges:
    """A payload's mapping. Raises what `Changes.of` raises."""
    return ColumnChanges.of(mapping.rename, mapping.drop, mapping.set)


def item_layout(columns: Sequence[str], payload: Payload) -> ItemLayout:
    """The layout of a run's file. Raises what `changes_of` and `Layout.of` raise."""
    escape = payload.source.escape
    # Of those with an escape in them the parser knows which are text, and which are markers.
    markers = [each for each in payload.nulls.markers if escape is None or escape not in each]
    return ItemLayout.of(columns, column_changes(payload.mapping), markers)


def _check_name(name: str) -> None:
    if not name:
        raise EmptyColumnName(
            "the mapping names an attribute by no characters; attributes need a name"
        )
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidPayload("the mapping names an attribute by no text of UTF-8") from None
    if size > MAX_NAME_BYTES:
        raise ColumnNameTooLong(
            f"the mapping's name {shown(name)} is longer than an attribute's, {MAX_NAME_BYTES}"
            " bytes"
        )


@dataclass(frozen=True, slots=True)
class ComposedAttribute:
    """A template, and the places of the columns that it is made of."""

    template: Template
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ItemLayout:
    """What the attributes of a file's rows are made of."""

    columns: tuple[str, ...]
    """The file's."""
    attributes: tuple[str, ...]
    origins: tuple[int | ComposedAttribute, ...]
    """Each attribute's: the place of its column, or what it is composed of."""
    markers: tuple[str, ...] = ()
    """Cells that are null, besides empty ones."""
    is_plain: bool = field(init=False)
    """Whether rows are as the file has them."""

    def __post_init__(self) -> None:
        plain = not self.markers and self.origins == tuple(range(len(self.columns)))
        object.__setattr__(self, "is_plain", plain)

    @classmethod
    def of(
        cls,
        columns: Sequence[str],
        changes: ColumnChanges | None = None,
        markers: Iterable[str] = (),
    ) -> Self:
        """The layout of a file with these columns. One without any has no attributes either.

        Raises `UnknownColumn` and `DuplicateColumn`.
        """
        changes = changes or ColumnChanges()
        null = tuple(dict.fromkeys(marker for marker in markers if marker))
        if not columns:
            return cls((), (), (), null)
        places = {name: place for place, name in enumerate(columns)}
        for name, use in changes.named.items():
            if name not in places:
                raise UnknownColumn(f"{shown(name)} is {use}, and is {missing(name, columns)}")
        composed = {
            name: ComposedAttribute(template, tuple(places[part] for part in template.names))
            for name, template in changes.templates.items()
        }
        origins: dict[str, int | ComposedAttribute] = {}
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
            # What is set under a column's name takes that column's place.
            origins[attribute] = composed.get(attribute, place)
        for attribute, template in composed.items():
            origins.setdefault(attribute, template)
        return cls(tuple(columns), tuple(origins), tuple(origins.values()), null)

    @property
    def count(self) -> int:
        """Columns of the file."""
        return len(self.columns)

    def only(self, names: Sequence[str]) -> Self:
        """The same for these attributes alone, in this order. Raises `ValueError` for others."""
        places = [self.attributes.index(name) for name in names]
        origins = tuple(self.origins[place] for place in places)
        return replace(self, attributes=tuple(names), origins=origins)

    def check_constants(self, types: Sequence[str]) -> None:
        """Raise `InvalidPayload` for what no row could have a value of its type from."""
        for name, origin, kind in zip(self.attributes, self.origins, types, strict=True):
            if isinstance(origin, int) or origin.places:
                continue
            said = origin.template.fill(())
            try:
                if said:
                    TEXT_READERS[kind](said)
            except BadValue as bad:
                raise InvalidPayload(
                    f"{shown(name)} is of type {kind}, and what it is set to is none:"
                    f" {bad.detail} ({bad.cause})"
                ) from None

    def column(self, attribute: int) -> int | str:
        """What a reject names where an attribute is wrong: a column, or what is no column."""
        origin = self.origins[attribute]
        return origin if isinstance(origin, int) else self.attributes[attribute]

    def row(self, fields: Sequence[str]) -> Sequence[str]:
        """The texts of a row's attributes; empty where there is none."""
        if self.is_plain:
            return fields
        markers = self.markers
        if markers:
            fields = ["" if each in markers else each for each in fields]
        return [
            fields[origin]
            if isinstance(origin, int)
            else origin.template.fill([fields[place] for place in origin.places])
            for origin in self.origins
        ]

    def apply(self, columns: Columns) -> Columns:
        """The same for rows together."""
        if self.is_plain:
            return columns
        cells = columns.cells
        for marker in map(to_octets, self.markers):
            cells = [_blanked(column, marker) for column in cells]
        plain, is_composed = columns.plain, False
        made: list[Sequence[str]] = []
        for origin in self.origins:
            if isinstance(origin, int):
                made.append(cells[origin])
                continue
            is_composed = True
            plain = plain and origin.template.stands_as_it_is
            parts = [cells[place] for place in origin.places]
            made.append(origin.template.fill_columns(parts, columns.height))
        longest = None if is_composed else columns.longest
        return replace(columns, cells=made, longest=longest, plain=plain)


def _blanked(column: Sequence[str], marker: str) -> Sequence[str]:
    if marker not in column:
        return column
    return ["" if cell == marker else cell for cell in column]
