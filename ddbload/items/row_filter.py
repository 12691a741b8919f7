"""Leaves out rows by `where`: columns at once, single rows, and lines of JSON.

A comparison goes by the type of its column: numbers by value, exactly, and text by code point, as
DynamoDB sorts it. A row without a value there matches no comparison but `column=`. A row whose
value cannot be compared is not left out: it is rejected, as it is wherever a value is bad.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import compress
from typing import Any

from ddbload.contracts.column_mapping import ColumnChanges, shown
from ddbload.contracts.payload import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    GREATER,
    LESS,
    UNEQUAL,
    Comparison,
    Payload,
)
from ddbload.dynamodb.attribute_values import AttributeValue
from ddbload.dynamodb.scalar_text import BadValue, parse_boolean, parse_number
from ddbload.errors import InvalidPayload, UnknownColumn
from ddbload.items.encode.column_encoders import are_plain_numbers
from ddbload.items.item_layout import ItemLayout, missing
from ddbload.rows.blocks import Defect
from ddbload.rows.columns import Columns, to_octets

FILTERED = Defect("filtered", "left out by 'where'")
"""What a build returns for a row that `where` leaves out: it is neither an item nor a reject."""

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    EQUAL: operator.eq,
    UNEQUAL: operator.ne,
    LESS: operator.lt,
    AT_MOST: operator.le,
    GREATER: operator.gt,
    AT_LEAST: operator.ge,
}
_COMPARED = ("S", "N", "BOOL")
_FEW = 4
"""Cells for each distinct one, from which it is faster to compare the distinct ones."""


def compared_value(kind: str, text: str) -> Any:
    """Return a text as a value of a type that compares. Raises `BadValue`."""
    if kind == "N":
        return Decimal(parse_number(text).text)
    return parse_boolean(text) if kind == "BOOL" else text


class _CellTest:
    """Comparison with the cells of one column."""

    def __init__(self, comparison: Comparison, place: int, kind: str) -> None:
        """Take a comparison and its column. Raises `InvalidPayload` for a bad value."""
        self.place = place
        self._kind = kind
        self._op = comparison.op
        self._is_for_null = not comparison.value
        self._compare = _COMPARE[comparison.op]
        self._value: Any = ""
        if comparison.value:
            try:
                self._value = compared_value(kind, comparison.value)
            except BadValue as bad:
                raise InvalidPayload(
                    f"'where': {str(comparison)!r} compares {shown(comparison.column)}, of type"
                    f" {kind}, with what is {bad.detail}"
                ) from None

    def matches(self, text: str) -> bool:
        """Return whether a cell matches; the empty text is no value. Raises `BadValue`."""
        if self._is_for_null:
            if text:
                compared_value(self._kind, text)
            return bool(text) is (self._op == UNEQUAL)
        return bool(text) and self._compare(compared_value(self._kind, text), self._value)

    def mask(self, column: Sequence[str], bad: set[int]) -> Sequence[bool]:
        """Return which cells match, in octets; add those that cannot be compared to `bad`."""
        if self._kind == "S":
            return self._text_mask(column)
        distinct = set(column)
        is_varied = len(distinct) * _FEW > len(column)
        if self._kind == "N" and is_varied and not self._is_for_null and are_plain_numbers(column):
            compare, value = self._compare, self._value
            return [cell != "" and compare(Decimal(cell), value) for cell in column]
        known: dict[str, bool] = {}
        wrong: set[str] = set()
        for cell in distinct:
            try:
                # Octets of a bad cell are as bad as its text.
                known[cell] = self.matches(cell)
            except BadValue:
                known[cell] = False
                wrong.add(cell)
        if wrong:
            bad.update(row for row, cell in enumerate(column) if cell in wrong)
        return [known[cell] for cell in column]

    def _text_mask(self, column: Sequence[str]) -> Sequence[bool]:
        value, op = to_octets(self._value), self._op
        if self._is_for_null:
            return [not cell for cell in column] if op == EQUAL else [cell != "" for cell in column]
        if op == EQUAL:
            return [cell == value for cell in column]
        if op == UNEQUAL:
            return [cell not in ("", value) for cell in column]
        compare = self._compare
        if op in (GREATER, AT_LEAST):
            return [compare(cell, value) for cell in column]
        return [cell != "" and compare(cell, value) for cell in column]


class RowFilter:
    """Filter of the rows of delimited text."""

    def __init__(self, tests: Sequence[_CellTest], markers: Sequence[str]) -> None:
        """`markers`: cells that stand for null, besides empty ones."""
        self._tests = tests
        self._markers = frozenset(markers)
        self._octets = frozenset(map(to_octets, markers))

    def judge(self, fields: Sequence[str]) -> Defect | None:
        """Return `FILTERED` for a row to leave out, its defect if it cannot be compared."""
        is_kept = True
        for test in self._tests:
            text = fields[test.place]
            try:
                matches = test.matches("" if text in self._markers else text)
            except BadValue as bad:
                return Defect(bad.cause, bad.detail, test.place)
            is_kept = is_kept and matches
        return None if is_kept else FILTERED

    def select(
        self, columns: Columns, is_filtered: Callable[[int], bool]
    ) -> tuple[Columns, Sequence[int] | None]:
        """Return the columns without rows to leave out, and the numbers of the rows that stay.

        None for these if all stay. Rows that cannot be compared become odd. `is_filtered` judges
        a row that is odd already.
        """
        bad: set[int] = set()
        mask: Sequence[bool] = ()
        for test in self._tests:
            column = columns.cells[test.place]
            if not self._octets.isdisjoint(column):
                column = ["" if cell in self._octets else cell for cell in column]
            found = test.mask(column, bad)
            mask = found if not mask else list(map(operator.and_, mask, found))
        if not bad and not columns.odd:
            if all(mask):
                return columns, None
            kept = list(compress(range(columns.count), mask))
            return self._compressed(columns, mask, len(kept), set()), kept
        numbers = [row for row in range(columns.count) if row not in columns.odd]
        mask = [match and place not in bad for place, match in enumerate(mask)]
        odd = {numbers[place] for place in bad}
        odd.update(row for row in columns.odd if not is_filtered(row))
        kept = sorted([*compress(numbers, mask), *odd])
        renumbered = {place for place, row in enumerate(kept) if row in odd}
        is_whole = len(kept) == columns.count
        columns = self._compressed(columns, mask, len(kept), renumbered)
        return columns, None if is_whole else kept

    @staticmethod
    def _compressed(columns: Columns, mask: Sequence[bool], count: int, odd: set[int]) -> Columns:
        cells: list[Sequence[str]] = [list(compress(column, mask)) for column in columns.cells]
        return Columns(count, cells, odd, columns.longest, columns.plain)


def row_filter(
    columns: Sequence[str],
    layout: ItemLayout,
    types: Sequence[str],
    changes: ColumnChanges,
    payload: Payload,
) -> RowFilter | None:
    """Return the filter of a run of delimited text; None without `where`, or without columns.

    `types`: those of the layout's attributes. Raises `UnknownColumn` and `InvalidPayload`.
    """
    if not payload.where or not columns:
        return None
    kinds = dict(zip(layout.attributes, types, strict=True))
    tests = []
    for comparison in payload.where:
        name = comparison.column
        if name not in columns:
            raise UnknownColumn(
                f"'where' has {str(comparison)!r}, and {shown(name)} is {missing(name, columns)}"
            )
        attribute = name if name in changes.drop else changes.rename.get(name, name)
        declared = payload.types.get(attribute)
        kind = declared or kinds.get(attribute, "S")
        if kind not in _COMPARED:
            raise InvalidPayload(
                f"'where': {str(comparison)!r} compares {shown(name)}, which is of type {kind}:"
                " only columns of type S, N and BOOL can be compared"
            )
        if kind == "BOOL" and comparison.orders:
            raise InvalidPayload(
                f"'where': {str(comparison)!r} asks which is greater, and {shown(name)} is of type"
                " BOOL: compare it with = or !="
            )
        if kind == "S" and declared is None and _is_number_order(comparison):
            raise InvalidPayload(
                f"'where': {str(comparison)!r} would compare text, in which 1000 comes before 9:"
                f" declare the column's type, --types {attribute}=N to compare numbers, or"
                f" {attribute}=S to compare text (in a payload, types)"
            )
        tests.append(_CellTest(comparison, columns.index(name), kind))
    return RowFilter(tests, layout.markers)


def _is_number_order(comparison: Comparison) -> bool:
    try:
        parse_number(comparison.value)
    except BadValue:
        return False
    return comparison.orders


class DocumentFilter:
    """Filter of items with values that say their types, by their attributes."""

    def __init__(
        self, where: Sequence[Comparison], changes: ColumnChanges, types: Mapping[str, str]
    ) -> None:
        """`types`: declared types of attributes. Raises `InvalidPayload`."""
        self._tests = [(each, types.get(_attribute(each.column, changes))) for each in where]
        self._known: dict[tuple[Comparison, str], Any] = {}
        for comparison, kind in self._tests:
            if kind is None:
                continue
            if kind not in _COMPARED or (kind == "BOOL" and comparison.orders):
                raise InvalidPayload(
                    f"'where': {str(comparison)!r} compares {shown(comparison.column)}, which is of"
                    f" type {kind}: S and N can be compared, and BOOL with = and !="
                )
            if comparison.value:
                _CellTest(comparison, 0, kind)

    def is_kept(self, read: Callable[[str, str | None], AttributeValue | None]) -> bool:
        """Return whether an item stays. `read` returns a member's value, converted to a type.

        Raises `UncomparableError` for a value that cannot be compared.
        """
        is_kept = True
        for comparison, declared in self._tests:
            try:
                value = read(comparison.column, declared)
                matches = self._matches(comparison, value, is_declared=declared is not None)
            except BadValue as bad:
                raise UncomparableError(comparison.column, bad) from None
            is_kept = is_kept and matches
        return is_kept

    def _matches(
        self, comparison: Comparison, value: AttributeValue | None, *, is_declared: bool
    ) -> bool:
        found: AttributeValue = {"NULL": True} if value is None else value
        ((kind, content),) = found.items()
        if kind == "NULL" or content == "":
            return not comparison.value and comparison.op == EQUAL
        if not comparison.value:
            return comparison.op == UNEQUAL
        if kind not in _COMPARED or (kind == "BOOL" and comparison.orders):
            raise BadValue("wrong_type", f"of type {kind}, which 'where' cannot compare so")
        if kind == "S" and not is_declared and _is_number_order(comparison):
            raise BadValue("wrong_type", "text, and 'where' compares it with a number")
        wanted = self._known.get((comparison, kind))
        if wanted is None:
            try:
                wanted = compared_value(kind, comparison.value)
            except BadValue:
                raise BadValue(
                    "wrong_type", f"of type {kind}, and 'where' compares it with other than that"
                ) from None
            self._known[comparison, kind] = wanted
        compared = compared_value(kind, content) if kind == "N" else content
        return _COMPARE[comparison.op](compared, wanted)


class UncomparableError(Exception):
    """A value that `where` cannot compare, and the name of its member."""

    def __init__(self, name: str, bad: BadValue) -> None:
        super().__init__(bad.detail)
        self.name = name
        self.bad = bad


def _attribute(column: str, changes: ColumnChanges) -> str:
    return column if column in changes.drop else changes.rename.get(column, column)
