"""Mode `plan` of the state machine: all steps, without writes to the table."""

from __future__ import annotations

import json

import pytest

from ddbload import errors
from ddbload.contracts.results import PlanTotals, Report
from ddbload.contracts.row_counts import RowCounts
from tests.unit.steps.world import World
from tests.unit.steps.worlds import SlowReads

ROWS = b"id,a\n" + b"".join(b"%d,x\n" % n for n in range(50)) + b",y\n7,y,z\n"
PLAN = {"mode": "plan", "chunk_bytes": 60}


@pytest.mark.parametrize("chunk_bytes", [1, 60, 10**6])
def test_mode_plan_counts_result_of_each_row(chunk_bytes):
    world = World(ROWS, options={**PLAN, "chunk_bytes": chunk_bytes})
    report = world.run()
    assert report.status == "SUCCEEDED_WITH_REJECTS"
    assert report.rows == RowCounts(read=52, written=0, rejected=2, superseded=0, skipped=50)
    # An item has the names of two attributes, a digit or two, and a letter.
    assert report.planned == PlanTotals(50, 10 * 5 + 40 * 6, 50, 6)
    assert [each["cause"] for each in world.rejects()] == ["empty_key", "field_count"]
    assert world.items == []
    assert "batch_write_item" not in {call.operation for call in world.dynamodb.calls}


def test_mode_plan_measures_all_attributes():
    world = World(b"id,a\n1," + b"x" * 3000 + b"\n", options=PLAN)
    assert world.run().planned == PlanTotals(1, 3004, 3, 3004)


def test_mode_plan_rejects_rows_of_import():
    planned, imported = World(ROWS, options=PLAN), World(ROWS, options={"chunk_bytes": 60})
    planned.run()
    imported.run()
    assert planned.rejects() == imported.rejects()


def test_mode_plan_reads_json_lines():
    data = b'{"id": "1", "n": [1, 2]}\n{"n": 1}\n'
    world = World(data, source={"format": "json"}, options=PLAN)
    report = world.run()
    assert report.rows == RowCounts(read=2, rejected=1, skipped=1)
    assert report.planned is not None
    assert report.planned.items == 1


def test_mode_plan_continues_after_deadline(monkeypatch):
    monkeypatch.setattr("ddbload.steps.plan_mode.PLAN_READ_BYTES", 32)
    monkeypatch.setattr("ddbload.source.s3_object.RANGE_BYTES", 32)
    world = SlowReads(ROWS, options={**PLAN, "chunk_bytes": 10**6})
    world.preflight()
    (chunk,) = world.manifest
    assert world.import_one(chunk, 2.5) == 3
    report = world.report()
    assert (report.rows.read, report.rows.skipped) == (52, 50)
    assert report.planned == PlanTotals(50, 290, 50, 6)


def test_mode_plan_counts_all_rejects_when_they_exceed_limit():
    world = World(b"id\n" + b"k\n" + b",\n" * 20, options={**PLAN, "max_rejects": 5})
    report = world.run()
    assert (report.status, report.rows.rejected) == ("FAILED", 20)
    assert report.error is not None
    assert report.error.name == errors.TooManyRejects.__name__


def test_mode_plan_keeps_counts_in_ledger():
    world = World(ROWS, options=PLAN)
    report = world.run()
    assert Report.from_json(world.read_json("report.json")) == report
    assert json.loads(json.dumps(report.to_json()))["planned"]["items"] == 50


def test_reports_of_other_modes_have_no_planned_counts():
    world = World(b"id\n1\n")
    assert "planned" not in world.run().to_json()
