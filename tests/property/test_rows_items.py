"""Laws of items: values, sizes, keys and rejects are those of DynamoDB's documentation."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ddbload.items.item_requests import Item
from ddbload.rows.blocks import Defect
from tests.property.sheets import Sheet, sheets
from tests.unit.items.expected_items import absent, causes, read_back, value_bytes, value_of


def _item(sheet: Sheet, row: int = 0) -> Item:
    built = sheet.builder.build(sheet.rows[row])
    assert isinstance(built, Item)
    return built


@given(sheets(good=False), st.sampled_from([-1, 0, 0, 0, 1]))
def test_row_is_rejected_exactly_when_there_is_a_cause(sheet: Sheet, more: int) -> None:
    row = sheet.rows[0] + ["x"] * more if more >= 0 else sheet.rows[0][:-1]
    expected = set(causes(row, sheet.columns, sheet.keys, sheet.limits, sheet.nulls))
    built = sheet.builder.build(row)
    if isinstance(built, Defect):
        assert (built.cause, built.column) in expected
    else:
        assert not expected


def _values(sheet: Sheet) -> dict[str, tuple[str, Any]]:
    """Return the values that the first row's attributes must have."""
    found = {
        name: value_of(kind, text)
        if text
        else absent(kind, sheet.nulls, indexed=name in sheet.indexed)
        for (name, kind), text in zip(sheet.columns.items(), sheet.rows[0], strict=True)
    }
    return {name: value for name, value in found.items() if value is not None}


@given(sheets())
def test_item_has_the_values_of_its_cells(sheet: Sheet) -> None:
    # How a number is written is the business of its own laws.
    found = {name: read_back(value) for name, value in _item(sheet).attributes.items()}
    assert found == _values(sheet)


@given(sheets())
def test_item_size_is_that_of_names_and_values(sheet: Sheet) -> None:
    assert _item(sheet).size == sum(
        len(name.encode()) + value_bytes(value) for name, value in _values(sheet).items()
    )


@given(sheets())
def test_wire_bytes_cover_the_items_json(sheet: Sheet) -> None:
    item = _item(sheet)
    assert item.wire_bytes >= len(json.dumps(item.attributes))


@given(sheets(rows=2), st.lists(st.booleans(), min_size=5, max_size=5))
def test_items_share_a_key_exactly_when_dynamodb_says_so(sheet: Sheet, same: list[bool]) -> None:
    first, second = sheet.rows
    second[:] = [a if equal else b for a, b, equal in zip(first, second, same, strict=False)]

    def key(row: list[str]) -> list[Any]:
        cells = dict(zip(sheet.columns, row, strict=True))
        return [value_of(sheet.columns[name], cells[name]) for name in sheet.keys]

    assert (_item(sheet, 0).key == _item(sheet, 1).key) == (key(first) == key(second))
