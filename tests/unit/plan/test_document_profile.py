"""What documents' attributes are like."""

from __future__ import annotations

import pytest

from ddbload.plan import document_profile as told
from ddbload.plan.document_profile import DocumentProfile

ITEMS = [
    {"id": {"S": "a"}, "n": {"N": "1.50"}, "tags": {"L": [{"S": "é"}]}},
    {"id": {"S": "b"}, "n": {"S": "none"}},
    {"id": {"S": "c"}, "n": {"N": "-20"}, "ok": {"BOOL": True}},
]


def test_types_examples_and_mixtures():
    members = DocumentProfile("n")
    members.add(ITEMS[:1])
    members.add(ITEMS[1:])
    assert list(members.known) == ["id", "n", "tags", "ok"]
    found = {name: member.to_json(3) for name, member in members.known.items()}
    assert found["id"]["inferred"] == {"type": "S", "why": "in every row that has it"}
    assert (found["id"]["filled"], found["id"]["empty"], found["id"]["notes"]) == (3, 0, [])
    assert found["n"]["inferred"] == {"type": "N", "why": "mixed: N 2, S 1"}
    assert found["n"]["notes"] == ["not of one type: N 2, S 1"]
    assert found["n"]["examples"] == ["1.50", "none", "-20"]
    assert members.known["n"].range == (-20.0, 1.5)
    assert found["tags"]["examples"] == ['[{"S": "é"}]']
    assert members.known["id"].range == (float("inf"), float("-inf"))
    assert (found["ok"]["examples"], found["ok"]["empty"]) == (["true"], 2)


@pytest.mark.parametrize("more", [False, True])
def test_names_that_are_data_are_not_all_kept(monkeypatch, more):
    monkeypatch.setattr(told, "MOST_NAMES", 3)
    members = DocumentProfile()
    members.add([{str(n): {"S": "x"}} for n in range(4 if more else 3)] * 2)
    assert len(members.known) == 3
    assert members.more is more
    assert members.known["0"].filled == 2
