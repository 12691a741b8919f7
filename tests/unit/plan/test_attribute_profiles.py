"""Profiles of columns and of documents' attributes."""

from __future__ import annotations

import pytest

from ddbload.plan import attribute_profiles
from ddbload.plan.attribute_profiles import ColumnProfile, DocumentProfile

ITEMS = [
    {"id": {"S": "a"}, "n": {"N": "1.50"}, "tags": {"L": [{"S": "é"}]}},
    {"id": {"S": "b"}, "n": {"S": "none"}},
    {"id": {"S": "c"}, "n": {"N": "-20"}, "ok": {"BOOL": True}},
]


def profile_of(*cells, block=2, nulls=()):
    found = ColumnProfile(nulls)
    for start in range(0, len(cells), block):
        found.add(cells[start : start + block])
    return found


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
def test_column_profile_notes_odd_values(cells, words):
    (note,) = profile_of(*cells, block=100).notes()
    assert all(word in note for word in words)


@pytest.mark.parametrize("cells", [("1999", "2008"), ("a", "b"), ("2.5",), (), ("007.0", "1.0")])
def test_column_profile_has_no_notes_for_ordinary_values(cells):
    assert profile_of(*cells).notes() == []


def test_document_profile_has_types_examples_and_ranges():
    documents = DocumentProfile("n")
    documents.add(ITEMS[:1])
    documents.add(ITEMS[1:])
    assert list(documents.attributes) == ["id", "n", "tags", "ok"]
    found = {name: profile.to_json(3) for name, profile in documents.attributes.items()}
    assert found["id"]["inferred"] == {"type": "S", "why": "in every row that has it"}
    assert (found["id"]["filled"], found["id"]["empty"], found["id"]["notes"]) == (3, 0, [])
    assert found["n"]["inferred"] == {"type": "N", "why": "mixed: N 2, S 1"}
    assert found["n"]["notes"] == ["mixed types: N 2, S 1"]
    assert found["n"]["examples"] == ["1.50", "none", "-20"]
    assert documents.attributes["n"].range == (-20.0, 1.5)
    assert found["tags"]["examples"] == ['[{"S": "é"}]']
    assert documents.attributes["id"].range == (float("inf"), float("-inf"))
    assert (found["ok"]["examples"], found["ok"]["empty"]) == (["true"], 2)


@pytest.mark.parametrize("truncated", [False, True])
def test_document_profile_limits_attributes_when_names_are_data(monkeypatch, truncated):
    monkeypatch.setattr(attribute_profiles, "MAX_NAMES", 3)
    documents = DocumentProfile()
    documents.add([{str(n): {"S": "x"}} for n in range(4 if truncated else 3)] * 2)
    assert len(documents.attributes) == 3
    assert documents.truncated is truncated
    assert documents.attributes["0"].filled == 2
