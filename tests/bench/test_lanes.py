"""Lanes take every row of a part once, in turn from its pieces."""

from __future__ import annotations

import pytest

from bench import lanes
from bench.lanes import LaneSource


@pytest.mark.parametrize("count", [1, 3, 8])
def test_every_row_is_taken_once(count):
    source = LaneSource(100, 7, count, 1000)
    rows = [row for _ in range(4) for _, row in source.take(30)]
    assert sorted(rows) == list(range(100))
    assert list(source.partition_keys) == [1000 + row // 7 for row in rows]


def test_rows_come_in_turn_from_the_pieces():
    assert [row for _, row in LaneSource(7, 1, 3, 1).take(7)] == [0, 3, 6, 1, 4, 2, 5]


@pytest.mark.parametrize("variant", ["1", "8", "keys", "boto3"])
def test_loads_end(variant, monkeypatch):
    monkeypatch.setitem(lanes.ROWS, 30, 3000)
    (figures,) = lanes.measure("nothing saved, buckets", 30, 2, variant, 1)
    # The table has 4,000 units at the start.
    assert 0.0 < figures["wall"] < 10.0
