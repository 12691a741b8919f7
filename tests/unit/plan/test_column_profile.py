"""What a column's texts look like."""

from __future__ import annotations

import pytest

from ddbload.plan.column_profile import ColumnProfile


def evidence(*cells, block=2, nulls=()):
    found = ColumnProfile(nulls)
    for start in range(0, len(cells), block):
        found.add(cells[start : start + block])
    return found


def test_declared_nulls_are_no_cells():
    found = evidence("NULL", "1", "", nulls=("NULL",))
    assert found.inferred()[0] == "N"
    assert (found.filled, found.empty, found.notes()) == (1, 2, [])


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (("1999.0", "2008.0"), ["years", ".0"]),
        (("1999.0", "2008.0", *["2000.0"] * 20, "-750.0"), ["whole numbers"]),
        ((*[f"{n}.0" for n in range(1900, 1990)], "-750.0"), ["years"]),
        (("17.0", "99999.0"), ["whole numbers", ".0"]),
        (("9.78e+12", "9"), ["exponent"]),
        (("NULL", "x", "NULL"), ["'NULL' in 2 rows"]),
    ],
)
def test_notes(cells, words):
    (note,) = evidence(*cells, block=100).notes()
    assert all(word in note for word in words)


@pytest.mark.parametrize("cells", [("1999", "2008"), ("a", "b"), ("2.5",), (), ("007.0", "1.0")])
def test_nothing_to_note(cells):
    assert evidence(*cells).notes() == []


def test_examples_are_few_different_and_short():
    found = evidence("a", "a", "b" * 100, "", "é".encode().decode("latin-1"), "d", block=3)
    assert found.to_json()["examples"] == ["a", "b" * 39 + "…", "é"]
    assert found.longest == 100


def test_the_range_of_whole_numbers():
    assert evidence("5", "-3", "700").range == (-3.0, 700.0)
