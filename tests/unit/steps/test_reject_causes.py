"""Rejects by cause: counted, with few examples, and masked before they are kept."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ddbload.contracts.payload import Payload
from ddbload.contracts.results import REFUSED_BY_DYNAMODB
from ddbload.contracts.source import Source
from ddbload.errors import visible
from ddbload.report_page import reject_causes
from ddbload.report_page.markup import element
from ddbload.report_page.reject_causes import EXAMPLES_OF_CAUSE, RejectTally
from tests.unit.steps.hostile_texts import ElementCollector
from tests.unit.steps.page_scenes import record, reject


def tally_of(*lines: object, show_rows: bool = False, source: Source | None = None) -> RejectTally:
    made = record(1)
    if source is not None:
        made = replace(made, payload=Payload(source, "books"), columns=())
    tally = RejectTally(made, show_rows=show_rows)
    for line in lines:
        tally.add(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
    return tally


def shown(tally: RejectTally) -> tuple[str, str]:
    """Return the detail and the row of the first example, as text."""
    _, _, why, row = tally.groups[0].examples[0]
    return tuple(ElementCollector(str(element("p", each))).text for each in (why, row))


def test_rejects_are_counted_by_cause_and_column():
    lines = [reject(number) for number in range(5)]
    lines += [reject(9, "field_count", column=None), reject(10, column="price")]
    tally = tally_of(*lines)
    assert [(each.cause, each.column, each.rows) for each in tally.groups] == [
        ("not_a_number", "year", 5),
        ("field_count", None, 1),
        ("not_a_number", "price", 1),
    ]
    assert [len(each.examples) for each in tally.groups] == [EXAMPLES_OF_CAUSE, 1, 1]
    assert tally.counted == 7


@pytest.mark.parametrize(
    ("row", "masked"),
    [
        ('B17,"Ünï, x",-1.5e3', 'x99,"xxx,·x",·9·9x9'),
        ("a\tb\x1b[0m\ud800", "x·x··9x·"),
        ("٣½漢字🎉", "9·xx·"),
    ],
)
def test_masked_rows_keep_only_what_separates_cells(row, masked):
    tally = tally_of(reject(1, raw=row))
    assert shown(tally)[1] == masked
    assert shown(tally_of(reject(1, raw=row), show_rows=True))[1] == visible(row)


def test_attributes_of_json_rows_are_not_named():
    source = Source(bucket="b", key="k", format="json")
    lines = [reject(1, column="secret"), reject(2, column="book_id"), reject(3, column="other")]
    assert [each.column for each in tally_of(*lines, source=source).groups] == [None, "book_id"]
    shown = tally_of(*lines, source=source, show_rows=True).groups
    assert sorted(each.column or "" for each in shown) == ["book_id", "other", "secret"]


def test_message_of_dynamodb_is_not_quoted():
    line = reject(1, REFUSED_BY_DYNAMODB, detail="The attribute secret has ...")
    assert "secret" not in shown(tally_of(line))[0]
    assert "secret" in shown(tally_of(line, show_rows=True))[0]


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"\xff", b"{}", {**reject(1), "column": ["x"]}, {**reject(1), "line": "x"}]
)
def test_damaged_lines_are_counted(line):
    tally = tally_of(line, reject(1))
    assert tally.counted == 1


def test_work_and_memory_are_bounded(monkeypatch):
    monkeypatch.setattr(reject_causes, "MAX_GROUPS", 2)
    monkeypatch.setattr(reject_causes, "MAX_BYTES", 1000)
    tally = tally_of(*(reject(number, f"cause-{number % 3}") for number in range(20)))
    assert len(tally.groups) == 2
    assert tally.counted < 6
