"""Tests of mappings: renamed, dropped and composed attributes."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.contracts.column_mapping import ColumnChanges
from ddbload.errors import (
    ColumnNameTooLong,
    DuplicateColumn,
    EmptyColumnName,
    InvalidPayload,
    UnknownColumn,
)
from ddbload.items.row_attributes import ItemLayout
from ddbload.rows.columns import Columns

COLUMNS = ["id", "name", "year"]
ROW = ["7", "Ada", "1815"]


def laid_out(columns: list[str] | None = None, **mapping: Any) -> ItemLayout:
    return ItemLayout.of(COLUMNS if columns is None else columns, ColumnChanges.of(**mapping))


def made(row: list[str] = ROW, **mapping: Any) -> dict[str, str]:
    layout = laid_out(**mapping)
    return dict(zip(layout.attributes, layout.row(row), strict=True))


def test_layout_makes_a_single_table_design() -> None:
    assert made(
        rename={"name": "title"},
        drop=["id"],
        set={"pk": "USER#{id}", "sk": "{year}#{name}", "type": "USER"},
    ) == {"title": "Ada", "year": "1815", "pk": "USER#7", "sk": "1815#Ada", "type": "USER"}


def test_composed_attribute_is_empty_when_a_part_is() -> None:
    row = ["", "Ada", "1815"]
    assert made(row, set={"pk": "USER#{id}", "sk": "{name}"})["pk"] == ""
    assert ItemLayout.of(["id"], ColumnChanges.of(set={"pk": "USER#{id}"}), ["NULL"]).row(
        ["NULL"]
    ) == [
        "",
        "",
    ]


def test_columns_can_swap_names() -> None:
    assert made(rename={"id": "name", "name": "id"}) == {"name": "7", "id": "Ada", "year": "1815"}


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"rename": {"nmae": "x"}}, "'nmae' is to be renamed, and is none of the file's 3 columns"),
        ({"drop": ["Id"]}, "'Id' is to be dropped, and .*'id' is one, and names are compared"),
        ({"set": {"pk": "{id:05}"}}, "'id:05' is a part of what 'pk' is set to"),
    ],
)
def test_unknown_column_is_refused(mapping: dict[str, Any], words: str) -> None:
    with pytest.raises(UnknownColumn, match=words):
        laid_out(**mapping)


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"rename": {"id": "name"}}, "'id' is renamed to 'name', which is a column, too"),
        ({"rename": {"name": "id"}}, "'name' is renamed to 'id', which is a column, too"),
        ({"rename": {"id": "x", "name": "x"}}, "'id' and 'name' are both renamed to 'x'"),
        (
            {"rename": {"id": "x"}, "set": {"x": "1"}},
            "'id' is renamed to 'x', which the mapping also sets",
        ),
    ],
)
def test_two_attributes_of_one_name_are_refused(mapping: dict[str, Any], words: str) -> None:
    with pytest.raises(DuplicateColumn, match=words):
        laid_out(**mapping)


@pytest.mark.parametrize(
    ("mapping", "error"),
    [
        ({"rename": {"id": ""}}, EmptyColumnName),
        ({"set": {"": "x"}}, EmptyColumnName),
        ({"rename": {"id": "é" * 32_768}}, ColumnNameTooLong),
        ({"set": {"x" * 65_536: "x"}}, ColumnNameTooLong),
        ({"rename": {"id": "\ud800"}}, InvalidPayload),
        ({"set": {"x": "\udcff"}}, InvalidPayload),
        ({"rename": {"id": "x"}, "drop": ["id"]}, InvalidPayload),
        ({"set": {"x": "{"}}, InvalidPayload),
        ({"set": {"x": "a}b"}}, InvalidPayload),
        ({"set": {"x": "{}"}}, InvalidPayload),
        ({"set": {"x": "{{id}"}}, InvalidPayload),
        ({"set": {"x": "{a{id}}"}}, InvalidPayload),
    ],
)
def test_senseless_mapping_is_refused(mapping: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ColumnChanges.of(**mapping)


def test_constant_is_checked_before_any_row() -> None:
    layout = laid_out(set={"size": "many", "of": "{id}"})
    layout.check_constants(["S"] * 5)
    layout.check_constants(["S", "S", "S", "S", "N"])
    with pytest.raises(InvalidPayload, match="'size' is of type N, and its constant is not"):
        layout.check_constants(["S", "S", "S", "N", "S"])
    laid_out(set={"empty": ""}).check_constants(["S", "S", "S", "N"])


def test_null_marker_is_compared_exactly() -> None:
    layout = ItemLayout.of(["a", "b", "c"], markers=["NULL", "\\N", ""])
    assert layout.row(["NULL", "null", "\\N"]) == ["", "null", ""]
    columns = layout.apply(Columns(2, [["NULL", "x"], ["null", " NULL"], ["\\N", "N"]]))
    assert [list(cells) for cells in columns.cells] == [["", "x"], ["null", " NULL"], ["", "N"]]
