"""Mode `plan` of the state machine: all steps, without writes to the table."""

from __future__ import annotations

import pytest

from ddbload import errors
from ddbload.contracts.row_counts import RowCounts
from tests.unit.steps.world import World

ROWS = b"id,a\n" + b"".join(b"%d,x\n" % n for n in range(50)) + b",y\n7,y,z\n"
PLAN = {"mode": "plan", "chunk_bytes": 60}


@pytest.mark.parametrize("chunk_bytes", [1, 60, 10**6])
def test_mode_plan_counts_result_of_each_row(chunk_bytes):
    world = World(ROWS, options={**PLAN, "chunk_bytes": chunk_bytes})
    report = world.run()
    assert report.status == "SUCCEEDED_WITH_REJECTS"
    assert report.rows == RowCounts(read=52, written=0, rejected=2, superseded=0, skipped=50)
    assert [each["cause"] for each in world.rejects()] == ["empty_key", "field_count"]
    assert world.items == []
    assert "batch_write_item" not in {call.operation for call in world.dynamodb.calls}


def test_mode_plan_counts_all_rejects_when_they_exceed_limit():
    world = World(b"id\n" + b"k\n" + b",\n" * 20, options={**PLAN, "max_rejects": 5})
    report = world.run()
    assert (report.status, report.rows.rejected) == ("FAILED", 20)
    assert report.error is not None
    assert report.error.name == errors.TooManyRejects.__name__
