r"""Which attributes a row's fields become: renamed, left out, constant, or composed of several.

The same for rows one by one and for columns as a whole. Nulls are made alike here, too: a
marker, such as `\N`, becomes the empty text that an absent value is everywhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from ddbload.contracts.column_mapping import ColumnChanges, Template, column_changes, shown
from ddbload.contracts.payload import Payload
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.errors import (
    DuplicateColumn,
    InvalidPayload,
    UnknownColumn,
)
from ddbload.items.typed_values import TEXT_READERS
from ddbload.rows.columns import JSON_ESCAPED, Columns, has_none_of, to_octets


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


def item_layout(columns: Sequence[str], payload: Payload) -> ItemLayout:
    """The layout of a run's file. Raises what `changes_of` and `Layout.of` raise."""
    escape = payload.source.escape
    # Of those with an escape in them the parser knows which are text, and which are markers.
    markers = [each for each in payload.nulls.markers if escape is None or escape not in each]
    return ItemLayout.of(columns, column_changes(payload.mapping), markers)


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
            plain = plain and _needs_no_escapes(origin.template)
            parts = [cells[place] for place in origin.places]
            made.append(_fill_columns(origin.template, parts, columns.height))
        longest = None if is_composed else columns.longest
        return replace(columns, cells=made, longest=longest, plain=plain)


def _blanked(column: Sequence[str], marker: str) -> Sequence[str]:
    if marker not in column:
        return column
    return ["" if cell == marker else cell for cell in column]


def _needs_no_escapes(template: Template) -> bool:
    return has_none_of(JSON_ESCAPED, "".join(template.literals).encode())


def _fill_columns(template: Template, parts: Sequence[Sequence[str]], count: int) -> Sequence[str]:
    """Fill a template for `count` rows, in octets."""
    literals = [to_octets(literal) for literal in template.literals]
    if not parts:
        return literals * count
    form = "%s".join(literal.replace("%", "%%") for literal in literals)
    rows = zip(*parts, strict=True)
    if all(map(all, parts)):
        return [form % row for row in rows]
    return [form % row if all(row) else "" for row in rows]
