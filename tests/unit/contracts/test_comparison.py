"""Comparisons of `where`: their text, their place in payloads, and counts of filtered rows."""

from __future__ import annotations

import pytest

from ddbload.contracts.comparisons import Comparison
from ddbload.contracts.control import IDLE, WorkerProgress
from ddbload.contracts.payload import Payload
from ddbload.contracts.row_counts import RowCounts, WorkTotals
from ddbload.contracts.upload_rule import UploadRule
from ddbload.errors import InvalidPayload

PAYLOAD = {"source": {"path": "a.csv"}, "target": {"table": "books"}}


@pytest.mark.parametrize(
    ("text", "column", "op", "value"),
    [
        ("year>=2000", "year", ">=", "2000"),
        ("  year  >= 2000 ", "year", ">=", "2000 "),
        ("country!=", "country", "!=", ""),
        ("name=a=b<c", "name", "=", "a=b<c"),
        ("name= =x", "name", "=", "=x"),
        ("{a>b}>=3", "a>b", ">=", "3"),
        ("{ a }=3", " a ", "=", "3"),
        ("first name<m\nn", "first name", "<", "m\nn"),
    ],
)
def test_text_is_a_column_an_operator_and_a_value(text, column, op, value):
    found = Comparison.of_text(text)
    assert found == Comparison(column, op, value)
    assert Comparison.of_text(str(found)) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("year", "not a comparison"),
        ("=2000", "not a comparison"),
        ("{a}b}=1", "not a comparison"),
        ("year==2000", "write = instead"),
        ("year<>2000", "write != instead"),
        ("year=>2000", "write >= instead"),
        ("year<", "no value to compare with"),
    ],
)
def test_text_without_sense_is_refused(text, words):
    with pytest.raises(InvalidPayload, match=words):
        Comparison.of_text(text)


def test_payload_has_one_form_for_texts_and_objects():
    one = {"column": "year", "op": ">=", "value": "2000"}
    payload = Payload.from_json({**PAYLOAD, "where": ["year>=2000", one, "kind="]})
    assert payload.to_json()["where"] == [one, {"column": "kind", "op": "=", "value": ""}]
    assert Payload.from_json(payload.to_json()) == payload
    assert "where" not in Payload.from_json(PAYLOAD).to_json()


def test_upload_rule_with_hmac_is_refused():
    mapping = {"set": {"pk": "{id|hmac}"}}
    rule = UploadRule.from_json({"prefix": "in/", "table": "books", "mapping": mapping})
    with pytest.raises(InvalidPayload, match="hmac"):
        rule.check("uploads[0]")


def test_counts_name_filtered_rows_when_there_are_some():
    unfiltered = {"read": 2, "written": 1, "rejected": 1, "superseded": 0, "skipped": 0}
    assert RowCounts.from_json(unfiltered) == RowCounts(2, 1, 1)
    assert RowCounts(2, 1, 1).to_json() == unfiltered
    counts = RowCounts(read=3, written=1, rejected=1, filtered=1)
    assert counts.conserved
    assert RowCounts.from_json(counts.to_json()) == counts
    assert not RowCounts(read=3, written=1, rejected=1).conserved


@pytest.mark.parametrize("filtered", [(0, 0), (5, 0), (0, 7), (5, 7)])
def test_filtered_rows_are_read_back_from_a_name_of_progress(filtered):
    settled, current = (WorkTotals(RowCounts(2 + n, 2, filtered=n)) for n in filtered)
    progress = WorkerProgress("ab", 1, IDLE, None, None, settled, None, 0, current)
    assert WorkerProgress.from_name(progress.to_name()) == progress
