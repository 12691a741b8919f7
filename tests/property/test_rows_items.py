"""Laws of items."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts import KeyAttribute, Table
from ddbload.rows.items import Item, ItemBuilder
from ddbload.rows.parse import Defect
from tests.property.test_rows_types import numerals
from tests.unit.rows.expected_items import BOOLEANS, causes, value_bytes

_characters = st.characters(codec="utf-8") | st.sampled_from('"\\\x01\x7fé漢😀\u2028')
_names = st.text(_characters, min_size=1, max_size=5) | st.tuples(
    _characters, st.integers(1, 60)
).map(lambda it: it[0] * it[1])
_good_cells = {
    "S": st.text(_characters, max_size=12),
    "N": st.one_of(
        st.sampled_from(["0", "-0", "1", "1.0", "01", "+1", "10e-1", "-1.50", "1E5", ".5", "5."]),
        st.integers(0, 400).map(lambda zeros: "0" * zeros + "7"),
        st.decimals(-(10**9), 10**9, places=3).map(str),
    ),
    "BOOL": st.sampled_from(["true", "No", "YES", "1", "0", "False"]),
}
_bad_cells = {
    "S": st.text(_characters, max_size=30),
    "N": st.sampled_from(["1e-999", "1,5", ",", "1,000.5"]) | numerals,
    "BOOL": st.sampled_from(["y", "ſ", "2", "TRUE ", "nо"]),
}


@dataclass(frozen=True)
class Sheet:
    """A table's keys, a file's columns and some of its rows."""

    columns: dict[str, str]
    keys: list[str]
    limits: dict[str, int]
    rows: list[list[str]]
    builder: ItemBuilder
    table: Table


@st.composite
def sheets(draw: st.DrawFn, *, rows: int = 1, good: bool = True) -> Sheet:
    """`good`: no row has a cause to be rejected."""
    names = draw(st.lists(_names, min_size=1, max_size=5, unique=True))
    kinds = [draw(st.sampled_from(["S", "S", "N", "BOOL"])) for _ in names]
    keys = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    kinds = [
        "N" if name in keys and kind == "BOOL" else kind
        for name, kind in zip(names, kinds, strict=True)
    ]
    columns = dict(zip(names, kinds, strict=True))
    indexed = [name for name, kind in columns.items() if kind != "BOOL"]
    attributes = [
        KeyAttribute(name, columns.get(name, "S"), 1024 if good else draw(st.integers(1, 20)))
        for name in [*keys, *draw(st.lists(st.sampled_from([*indexed, "elsewhere"]), max_size=3))]
    ]
    limits: dict[str, int] = {}
    for key in attributes:
        limits[key.name] = min(key.max_bytes, limits.get(key.name, key.max_bytes))
    table = Table("t", "id", tuple(attributes[: len(keys)]), tuple(attributes[len(keys) :]))
    cells = [
        (
            _good_cells[kind].filter(bool)
            if good and name in keys
            else _good_cells[kind] | st.just("")
            if good
            else _good_cells[kind] | st.just("") | _bad_cells[kind]
        )
        for name, kind in columns.items()
    ]
    some = [list(draw(st.tuples(*cells))) for _ in range(rows)]
    return Sheet(columns, keys, limits, some, ItemBuilder(names, kinds, table), table)


def _item(sheet: Sheet, row: int = 0) -> Item:
    built = sheet.builder.build(sheet.rows[row])
    assert isinstance(built, Item)
    return built


@given(sheets(good=False), st.sampled_from([-1, 0, 0, 0, 1]))
def test_a_row_is_rejected_exactly_when_there_is_a_cause(sheet: Sheet, more: int) -> None:
    row = sheet.rows[0] + ["x"] * more if more >= 0 else sheet.rows[0][:-1]
    expected = set(causes(row, sheet.columns, sheet.keys, sheet.limits))
    built = sheet.builder.build(row)
    if isinstance(built, Defect):
        assert (built.cause, built.column) in expected
    else:
        assert not expected


@given(sheets())
def test_an_item_has_the_cells_that_are_not_empty(sheet: Sheet) -> None:
    expected = {}
    for (name, kind), text in zip(sheet.columns.items(), sheet.rows[0], strict=True):
        if text:
            value = {"S": text, "N": Decimal(text) if kind == "N" else 0}
            expected[name] = (kind, {**value, "BOOL": BOOLEANS.get(text.lower())}[kind])
    found = {name: next(iter(each.items())) for name, each in _item(sheet).attributes.items()}
    # How a number is written is the business of its own laws.
    by_value = {n: (k, Decimal(v) if k == "N" else v) for n, (k, v) in found.items()}
    assert by_value == expected


@given(sheets())
def test_an_items_size_is_of_names_and_values(sheet: Sheet) -> None:
    assert _item(sheet).size == sum(
        len(name.encode()) + value_bytes(kind, text)
        for (name, kind), text in zip(sheet.columns.items(), sheet.rows[0], strict=True)
        if text
    )


@given(sheets())
def test_an_item_takes_no_more_of_a_request_than_it_says(sheet: Sheet) -> None:
    item = _item(sheet)
    assert item.wire_bytes >= len(json.dumps(item.attributes))


@given(sheets(rows=2), st.lists(st.booleans(), min_size=5, max_size=5))
def test_items_share_a_key_exactly_when_dynamodb_says_so(sheet: Sheet, same: list[bool]) -> None:
    first, second = sheet.rows
    second[:] = [a if equal else b for a, b, equal in zip(first, second, same, strict=False)]

    def key(row: list[str]) -> list[str | Decimal]:
        cells = dict(zip(sheet.columns, row, strict=True))
        return [Decimal(cells[k]) if sheet.columns[k] == "N" else cells[k] for k in sheet.keys]

    assert (_item(sheet, 0).key == _item(sheet, 1).key) == (key(first) == key(second))
