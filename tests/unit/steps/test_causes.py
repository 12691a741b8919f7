"""Rejects counted by cause, in segments and reports."""

from __future__ import annotations

import pytest

from tests.unit.steps.world import World

ROWS = b"id,n\n" + b"".join(
    (b"k%d,x\n", b"k%d\n", b"k%d,1\n", b",%d\n")[number % 4] % number for number in range(60)
)
CAUSES = {"empty_key": 15, "field_count": 15, "not_a_number": 15}


@pytest.mark.parametrize("mode", ["put", "plan"])
@pytest.mark.parametrize("seconds", [1.5, float("inf")])
def test_segments_count_their_rejects_by_cause(mode, seconds):
    world = World(
        ROWS, types={"n": "N"}, options={"chunk_bytes": 100, "mode": mode}, request_seconds=1.0
    )
    report = world.run(seconds)
    assert report.causes == CAUSES
    assert world.read_json("report.json")["causes"] == CAUSES
    for segment in world.ledger.iter_segments():
        assert sum((segment.causes or {}).values()) == segment.rows.rejected
