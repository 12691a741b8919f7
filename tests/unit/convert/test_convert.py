"""Conversions of rows to items."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ddbload.contracts.row_counts import RowCounts
from ddbload.errors import KeyColumnMissing, RowTooLong, TooManyRejects, UnterminatedQuote
from tests.unit.convert.conversion import Conversion
from tests.unit.steps.world import TABLE


def converted(
    folder: Path, data: str | bytes, *, first: int | None = None, **how: Any
) -> Conversion:
    path = folder / f"{random.getrandbits(64)}.csv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return Conversion(str(path), **how).run(first)


def test_convert_writes_item_of_each_row(tmp_path: Path) -> None:
    made = converted(
        tmp_path, 'id,year,ok\n1,1900,yes\n"é\n",,\n', types={"year": "N", "ok": "BOOL"}
    )
    assert made.items == [
        {"id": {"S": "1"}, "year": {"N": "1900"}, "ok": {"BOOL": True}},
        {"id": {"S": "é\n"}},
    ]
    assert made.converted.rows == RowCounts(read=2, written=2)
    assert made.converted.bytes == next(tmp_path.iterdir()).stat().st_size
    assert made.watched == [2]


def test_convert_rejects_bad_rows_with_position(tmp_path: Path) -> None:
    data = b"id,year\n1,x\n2,5,6\n\n,\n\xff,1\n3,1\n"
    made = converted(tmp_path, data, types={"year": "N"})
    assert made.items == [{"id": {"S": "3"}, "year": {"N": "1"}}]
    told = [(each["line"], each["byte"], each["column"], each["cause"]) for each in made.rejects]
    assert told == [
        (2, 8, "year", "not_a_number"),
        (3, 12, None, "field_count"),
        (5, 19, None, "no_attributes"),
        (6, 21, "id", "bad_encoding"),
    ]
    assert made.rejects[3]["raw"] == "\udcff,1"
    assert made.converted.rows == RowCounts(read=5, written=1, rejected=4)
    assert made.converted.causes == {
        ("not_a_number", "year"): 1,
        ("field_count", None): 1,
        ("no_attributes", None): 1,
        ("bad_encoding", "id"): 1,
    }


def test_causes_do_not_name_attributes_that_only_rows_have(tmp_path: Path) -> None:
    """The summary is printed, and names in JSON rows are row data. The rejects have them."""
    rows = '{"id":"1"}\n{"id":"2","secret":1,"secret":2}\n{"id":"3","year":"x"}\n'
    made = converted(tmp_path, rows, types={"year": "N"}, source={"format": "json"})
    assert [each["column"] for each in made.rejects] == ["secret", "year"]
    assert made.converted.causes == {("duplicate_name", None): 1, ("not_a_number", "year"): 1}


@pytest.mark.parametrize("seed", range(8))
def test_convert_ends_exactly_after_the_first_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("ddbload.convert.convert.FEED_READ_BYTES", rng.choice((7, 64, 10**6)))
    rows = [rng.choice(("%d,a\n", '%d,"b\n"\r\n', "\n%d,c\n", "# x\n%d,\n")) for _ in range(40)]
    data = "id,x\n" + "".join(row % number for number, row in enumerate(rows))
    whole = converted(tmp_path, data, source={"comment": "#"})
    for first in (1, 2, rng.randrange(3, 40), 40, 41):
        made = converted(tmp_path, data, source={"comment": "#"}, first=first)
        assert made.items == whole.items[:first]
        assert made.converted.rows.read == min(first, 40)


def test_convert_takes_key_types_of_table(tmp_path: Path) -> None:
    made = converted(tmp_path, "id,x\n1,a\n,b\n" + "k" * 3000 + ",c\n", table=TABLE)
    assert made.items == [{"id": {"S": "1"}, "x": {"S": "a"}}]
    assert [each["cause"] for each in made.rejects] == ["empty_key", "key_too_long"]
    # For no table in particular they are items.
    assert converted(tmp_path, "id,x\n,b\n" + "k" * 3000 + ",c\n").rejects == []
    with pytest.raises(KeyColumnMissing):
        converted(tmp_path, "x\n1\n", table=TABLE)


@pytest.mark.parametrize(
    ("data", "options", "error"),
    [
        ('a\n"1\n2\n', {}, UnterminatedQuote),
        ("a\n" + "x" * 100 + "\n", {"max_row_bytes": 50}, RowTooLong),
        ("a\n1,2\n3\n4,5\n", {"max_rejects": 1}, TooManyRejects),
        ("a\n1,2\n3\n4,5\n", {"max_rejects": "66%"}, TooManyRejects),
        ("a\n1,2\n" + "3,4\n" * 5000 + "5\n" * 50, {"max_rejects": "1%"}, TooManyRejects),
    ],
)
def test_convert_raises_when_source_or_payload_is_bad(
    tmp_path: Path, data: str, options: Any, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        converted(tmp_path, data, options=options)
    assert "xxx" not in str(caught.value)


@pytest.mark.parametrize("data", ["", "a,b\n", "a,b"])
def test_convert_writes_nothing_when_file_has_no_rows(tmp_path: Path, data: str) -> None:
    made = converted(tmp_path, data)
    assert (made.items, made.converted.rows) == ([], RowCounts())
    assert made.converted.bytes == len(data)


def test_large_source_may_have_rows_longer_than_a_scan_by_edges_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddbload.steps.prepare.EDGES_ABOVE_BYTES", 10)
    long = "x" * (1024 * 1024 + 1)
    # Too large for an item, so it is a reject.
    made = converted(tmp_path, f"id,a\n1,{long}\n2,b\n")
    assert (len(made.items), len(made.rejects)) == (1, 1)
