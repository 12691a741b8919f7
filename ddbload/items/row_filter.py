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
from ddbload.contracts.comparisons import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    GREATER,
    LESS,
    UNEQUAL,
    Comparison,
)
from ddbload.contracts.payload import Payload, attribute_type
from ddbload.dynamodb.attribute_values import AttributeValue
from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.errors import InvalidPayload, UnknownColumn
from ddbload.items.batch_encoder import are_plain_numbers
from ddbload.items.row_attributes import ItemLayout, missing, text_reader
from ddbload.rows.blocks import Defect
from ddbload.rows.columns import Columns, from_octets, to_octets

FILTERED = Defect("filtered", "left out by 'where'")
"""Result of a build for a row that `where` leaves out: it is neither an item nor a reject."""

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    EQUAL: operator.eq,
    UNEQUAL: operator.ne,
    LESS: operator.lt,
    AT_MOST: operator.le,
    GREATER: operator.gt,
    AT_LEAST: operator.ge,
}
_COMPARED = ("S", "N", "BOOL")


def _compared_value(kind: str, text: str) -> Any:
    """Return a text as a value of a type that compares. Raises `BadValue`."""
    ((_, value),) = text_reader(kind)(text).items()
    return Decimal(value) if attribute_type(kind) == "N" else value


class Test:
    """One comparison of a filter, with the type and the place of its column if they are known."""

    def __init__(self, comparison: Comparison, kind: str | None, place: int | None = None) -> None:
        """Take a comparison, and the declared type of its column. Raises `InvalidPayload`."""
        self.comparison, self.kind, self.place = comparison, kind, place
        self._wanted: dict[str, Any] = {}
        try:
            if kind is not None and comparison.value:
                self._wanted[attribute_type(kind)] = _compared_value(kind, comparison.value)
        except BadValue as bad:
            raise InvalidPayload(
                f"'where': {str(comparison)!r} compares {shown(comparison.column)}, of type"
                f" {attribute_type(str(kind))}, with what is {bad.detail}"
            ) from None

    def matches(self, value: AttributeValue | None) -> bool:
        """Return whether a value matches. Raises `BadValue` if it cannot be compared."""
        comparison = self.comparison
        ((kind, content),) = (value or {"NULL": True}).items()
        if kind == "NULL" or content == "":
            return not comparison.value and comparison.op == EQUAL
        if not comparison.value:
            return comparison.op == UNEQUAL
        if kind not in _COMPARED or (kind == "BOOL" and comparison.orders):
            raise BadValue("wrong_type", f"of type {kind}, which 'where' cannot compare so")
        if kind == "S" and self.kind is None and _is_number_order(comparison):
            raise BadValue("wrong_type", "text, and 'where' compares it with a number")
        if kind not in self._wanted:
            try:
                self._wanted[kind] = _compared_value(kind, comparison.value)
            except BadValue:
                raise BadValue(
                    "wrong_type", f"of type {kind}, and 'where' compares it with other than that"
                ) from None
        compared = _compared_value(kind, content) if kind == "N" else content
        return _COMPARE[comparison.op](compared, self._wanted[kind])

    def mask(self, column: Sequence[str], bad: set[int]) -> Sequence[bool]:
        """Return which cells match, in octets; add those that cannot be compared to `bad`."""
        comparison, kind = self.comparison, str(self.kind)
        compare, is_text = _COMPARE[comparison.op], kind == "S"
        if is_text and not comparison.value:
            return [(cell != "") is (comparison.op == UNEQUAL) for cell in column]
        if is_text:
            # Octets sort as text does, by code point.
            wanted = to_octets(comparison.value)
            return [cell != "" and compare(cell, wanted) for cell in column]
        if kind == "N" and comparison.value and are_plain_numbers(column):
            wanted = self._wanted[kind]
            return [cell != "" and compare(Decimal(cell), wanted) for cell in column]
        known, read = dict[str, bool](), text_reader(kind)
        wrong: set[str] = set()
        for cell in set(column):
            try:
                known[cell] = self.matches(read(from_octets(cell)) if cell else None)
            except BadValue:
                known[cell] = False
                wrong.add(cell)
        if wrong:
            bad.update(row for row, cell in enumerate(column) if cell in wrong)
        return [known[cell] for cell in column]


class RowFilter:
    """Filter of a run's rows, by all comparisons of `where`."""

    def __init__(self, tests: Sequence[Test], markers: Sequence[str] = ()) -> None:
        """`markers`: cells that stand for null, besides empty ones."""
        self._tests = tests
        self._markers = frozenset(markers)
        self._octets = frozenset(map(to_octets, markers))

    def judge(self, read: Callable[[Test], AttributeValue | None]) -> Defect | None:
        """Return `FILTERED` for a row to leave out, its defect if it cannot be compared.

        `read` returns the value of a test's column, converted to its type, None for a null.
        """
        is_kept = True
        for test in self._tests:
            try:
                matches = test.matches(read(test))
            except BadValue as bad:
                column = test.comparison.column if test.place is None else test.place
                return Defect(bad.cause, bad.detail, column)
            is_kept = is_kept and matches
        return None if is_kept else FILTERED

    def judge_fields(self, fields: Sequence[str]) -> Defect | None:
        """Judge a row of fields as `judge` does."""

        def read(test: Test) -> AttributeValue | None:
            text = fields[test.place or 0]
            return text_reader(str(test.kind))(text) if text and text not in self._markers else None

        return self.judge(read)

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
            column = columns.cells[test.place or 0]
            if not self._octets.isdisjoint(column):
                column = ["" if cell in self._octets else cell for cell in column]
            found = test.mask(column, bad)
            mask = found if not mask else list(map(operator.and_, mask, found))
        numbers = [row for row in range(columns.count) if row not in columns.odd]
        mask = [match and place not in bad for place, match in enumerate(mask)]
        odd = {numbers[place] for place in bad}
        odd.update(row for row in columns.odd if not is_filtered(row))
        kept = sorted([*compress(numbers, mask), *odd])
        renumbered = {place for place, row in enumerate(kept) if row in odd}
        cells: list[Sequence[str]] = [list(compress(column, mask)) for column in columns.cells]
        taken = Columns(len(kept), cells, renumbered, columns.longest, columns.plain)
        return taken, None if len(kept) == columns.count else kept


def row_filter(
    columns: Sequence[str],
    layout: ItemLayout,
    types: Sequence[str],
    changes: ColumnChanges,
    payload: Payload,
) -> RowFilter:
    """Return the filter of a run of delimited text.

    `types`: those of the layout's attributes. Raises `UnknownColumn` and `InvalidPayload`.
    """
    kinds = dict(zip(layout.attributes, types, strict=True))
    tests = []
    for comparison in payload.where:
        name = comparison.column
        if name not in columns:
            raise UnknownColumn(
                f"'where' has {str(comparison)!r}, and {shown(name)} is {missing(name, columns)}"
            )
        attribute = _attribute(name, changes)
        declared = payload.types.get(attribute)
        kind = declared or kinds.get(attribute, "S")
        _require_comparable(comparison, kind)
        if kind == "S" and declared is None and _is_number_order(comparison):
            raise InvalidPayload(
                f"'where': {str(comparison)!r} would compare text, in which 1000 comes before 9:"
                f" declare the column's type, --types {attribute}=N to compare numbers, or"
                f" {attribute}=S to compare text (in a payload, types)"
            )
        tests.append(Test(comparison, payload.source.cell_type(kind), columns.index(name)))
    return RowFilter(tests, layout.markers)


def _require_comparable(comparison: Comparison, kind: str) -> None:
    if kind not in _COMPARED or (kind == "BOOL" and comparison.orders):
        raise InvalidPayload(
            f"'where': {str(comparison)!r} compares {shown(comparison.column)}, which is of"
            f" type {kind}: S and N can be compared, and BOOL with = and !="
        )


def _is_number_order(comparison: Comparison) -> bool:
    try:
        parse_number(comparison.value)
    except BadValue:
        return False
    return comparison.orders


def document_filter(
    where: Sequence[Comparison], changes: ColumnChanges, types: Mapping[str, str]
) -> RowFilter | None:
    """Return the filter of items whose values say their types; None without `where`.

    `types`: declared types of attributes. Raises `InvalidPayload`.
    """
    kinds = [types.get(_attribute(each.column, changes)) for each in where]
    for comparison, kind in zip(where, kinds, strict=True):
        if kind is not None:
            _require_comparable(comparison, kind)
    tests = [Test(*each) for each in zip(where, kinds, strict=True)]
    return RowFilter(tests) if tests else None


def _attribute(column: str, changes: ColumnChanges) -> str:
    return column if column in changes.drop else changes.rename.get(column, column)
