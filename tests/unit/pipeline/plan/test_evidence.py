"""What a column's texts look like."""

from __future__ import annotations

import pytest

from ddbload.pipeline.plan.evidence import Evidence


def evidence(*cells, block=2, nulls=()):
    found = Evidence(frozenset(nulls))
    for start in range(0, len(cells), block):
        found.add(cells[start : start + block])
    return found


@pytest.mark.parametrize(
    ("cells", "kind", "why"),
    [
        ((), "S", "no cell"),
        (("", ""), "S", "no cell"),
        (("1", "-20", "0", ""), "N", "whole"),
        (("1", "2.5"), "N", "numbers"),
        (("1.0", "-750.0"), "N", ".0"),
        (("007", "12"), "S", "leading zeros"),
        (("12", "3", "-007"), "S", "leading zeros"),
        (("0.5", "0"), "N", "numbers"),
        (("1e5", "2"), "S", "exponent"),
        (("+1", "2"), "S", "several spellings"),
        ((".5", "2"), "S", "several spellings"),
        (("123456789012345678", "1"), "N", "whole"),
        (("1234567890123456789", "1"), "S", "18 digits"),
        (("1", "2", "3", "x"), "S", "text"),
        (("true", "FALSE", ""), "BOOL", "true and false"),
        (("true", "1"), "S", "yes"),
        (("2024-01-31", "2024-01-31T10:00:00Z"), "S", "dates"),
        (('{"a": 1}', "[1]"), "S", "JSON"),
        (("1,2", "3"), "S", "text"),
        (("NaN", "1"), "S", "nothing"),
        (("NULL", "1"), "S", "nothing"),
        (("١٢", "3"), "S", "text"),
    ],
)
@pytest.mark.parametrize("block", [1, 2, 100])
def test_types(cells, kind, why, block):
    octets = [cell.encode().decode("latin-1") for cell in cells]
    found = evidence(*octets, block=block).inferred()
    assert found[0] == kind
    assert why in found[1]


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
