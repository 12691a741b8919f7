"""Tests of inferred types: a column stays text wherever something could be lost."""

from __future__ import annotations

import pytest

from ddbload.contracts.column_mapping import ColumnChanges
from ddbload.items.row_attributes import ItemLayout
from ddbload.items.type_inference import DATE_FORMATS, TypeGuess, infer_types, inferred_column_types
from ddbload.rows.columns import Columns


def guessed(*cells: str) -> TypeGuess:
    guess = TypeGuess(formats=DATE_FORMATS)
    guess.add(cells)
    return guess


@pytest.mark.parametrize(
    ("cells", "kind", "why"),
    [
        (["1", "0", "-17", ""], "N", "whole numbers"),
        (["1.5", "0.25", "3", "0"], "N", "numbers"),
        (["9.90", "10.00"], "N", "numbers"),
        (["1999.0", "2001.0"], "N", "numbers that all end in .0"),
        (["0", "1"], "N", "whole numbers"),
        (["9" * 18], "N", "whole numbers"),
        (["0." + "1" * 36], "N", "numbers"),
        (["true", "False", "TRUE", ""], "BOOL", "true and false only"),
        (["1" * 19], "S", "more than 18 digits"),
        (["1", "4006381333931000001"], "S", "more than 18 digits"),
        (["1" * 19 + ".0"], "N", "numbers"),
        (["0." + "1" * 40], "S", "more than 38 digits"),
        (["01", "2"], "S", "leading zeros"),
        (["007.5"], "S", "leading zeros"),
        (["-05"], "S", "leading zeros"),
        (["+4915112345"], "S", "several spellings"),
        (["-0", "1"], "S", "several spellings"),
        ([".5", "1"], "S", "several spellings"),
        (["5."], "S", "several spellings"),
        (["12E4", "1"], "S", "exponent"),
        (["1", "x"], "S", "text"),
        (["1,000"], "S", "text"),
        (["1 "], "S", "text"),
        (["٣"], "S", "text"),
        (["NaN"], "S", "stand for nothing"),
        (["1", "NULL"], "S", "stand for nothing"),
        (["1", "\\N"], "S", "stand for nothing"),
        (["yes", "no", "Y", "off"], "S", "yes and no"),
        (["31/12/2024", "01/02/2024"], "date:%d/%m/%Y", "dates of one form"),
        (["12/31/2024", "01/02/2024", ""], "date:%m/%d/%Y", "dates of one form"),
        (["1.2.2024 10:05", "28.2.2024 0:00"], "date:%d.%m.%Y %H:%M", "dates of one form"),
        (["01-Feb-2024"], "date:%d-%b-%Y", "dates of one form"),
        (["01/02/2024"], "S", "no day above 12 shows the order: declare date:%d/%m/%Y or date:%m"),
        (["31/12/2024", "12/31/2024"], "S", "text"),
        (["30/02/2024"], "date:%d/%m/%Y", "dates of one form"),
        (["31/12/2024", "N/A"], "S", "stand for nothing"),
        (["true", "1"], "S", "text"),
        (["2024-01-31", "2024-01-31T12:00:00Z"], "S", "dates"),
        (["2024"], "N", "whole numbers"),
        (['{"a": 1}', "[]"], "S", "JSON"),
        (["", ""], "S", "no cell has anything"),
        ([], "S", "no cell has anything"),
    ],
)
def test_type_is_inferred_from_cells(cells: list[str], kind: str, why: str) -> None:
    inferred = guessed(*cells).inferred()
    assert inferred.type == kind
    assert why in inferred.why


def test_types_are_inferred_after_the_mapping() -> None:
    changes = ColumnChanges.of(rename={"n": "count"}, drop=["zip"], set={"pk": "{n}", "one": "1"})
    layout = ItemLayout.of(["n", "zip", "ok"], changes, ["-"])
    rows = Columns(3, [["1", "-"], ["01", "2"], ["true", "-"]], odd={2})
    types = inferred_column_types(infer_types(layout, [rows, rows]))
    assert types == {"count": "N", "ok": "BOOL"}


def test_order_of_a_date_is_decided_by_the_rows_of_all_parts() -> None:
    whole = guessed("01/02/2024")
    assert whole.inferred().type == "S"
    whole.merge(guessed("02/25/2024"))
    assert whole.inferred().type == "date:%m/%d/%Y"
    # Only plan proposes a format: a column with one stays text.
    assert inferred_column_types({"day": whole}) == {}


def test_numbers_are_inferred_in_their_form_alone() -> None:
    for cells, kind in (["1.000", "-1,5"], "N"), (["1.5"], "S"), (["true"], "BOOL"):
        guess = TypeGuess(signs=",.")
        guess.add(cells)
        assert guess.inferred().type == kind


@pytest.mark.parametrize(
    "later", [["007"], ["", "5"], ["NA", "5"], ["-0"], ["+5"], ["1" * 40], ["5.0"], ["0", "0"]]
)
def test_a_type_is_the_same_if_cells_come_in_several_blocks(later):
    numbers = [str(n) for n in range(1, 300)]
    guess = guessed(*numbers)
    guess.add([*numbers, *later])
    whole = guessed(*numbers, *numbers, *later)
    assert guess.inferred() == whole.inferred()
    assert (guess.filled, guess.empty) == (whole.filled, whole.empty)
    assert (guess.longest, guess.has_markers) == (whole.longest, whole.has_markers)
