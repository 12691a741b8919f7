"""Runs are listed newest first, with few requests, whatever their ids and wherever they run."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.context import Context
from ddbload.contracts.results import Heartbeat
from ddbload.contracts.row_counts import RowCounts
from ddbload.runs.list_runs import RunSummary, list_runs
from ddbload.steps.executions import Executions
from ddbload.steps.report import machine
from tests.fakes.stepfunctions import FakeStepFunctions
from tests.unit.steps.machine import execute
from tests.unit.steps.world import BUCKET, KEY, TABLE, World

FILE = b"id,n\na,1\nb,2\n,3\n"


def given(world: World, run: str, **more: Any) -> dict[str, Any]:
    return {**world.payload, "run": {"id": run, **more}}


def listed(context: Context, limit: int = 20, **how: Any) -> list[str]:
    return [each.run for each in list_runs(context, None, limit, **how)]


@pytest.fixture
def world() -> World:
    """Ledger with three runs whose ids do not sort by time."""
    world = World(FILE)
    for number, run in enumerate(("zebra", "apple", "m")):
        world.clock.time = 1000.0 + number
        execute(world, given(world, run), run, lost=frozenset({0} if run == "m" else ()))
    return world


def test_newest_run_comes_first(world):
    assert listed(world.context()) == ["m", "apple", "zebra"]
    assert listed(world.context(), 2) == ["m", "apple"]
    newest, done, _ = list_runs(world.context(), None, 9)
    assert (newest.status, newest.error) == ("FAILED", "IncompleteRun")
    assert done == RunSummary(
        run="apple",
        status="SUCCEEDED_WITH_REJECTS",
        began=1001.0,
        seconds=0.0,
        source=f"s3://{BUCKET}/{KEY}",
        table=TABLE,
        mode="put",
        rows=RowCounts(3, 2, 1, 0, 0),
    )


def test_filters_look_further_back(world):
    assert listed(world.context(), 1, statuses=["SUCCEEDED_WITH_REJECTS"]) == ["apple"]
    assert listed(world.context(), 5, table="others") == []
    assert listed(world.context(), 5, table=TABLE, statuses=["FAILED"]) == ["m"]


def test_only_runs_that_are_shown_are_read(world):
    seen: list[str] = []
    world.store.hook = lambda moment, name, _: seen.append(name) if moment == "get" else None
    listed(world.context(), 1)
    assert {name.split("/")[1] for name in seen} == {"m"}
    assert len(seen) <= 4


def test_run_at_work_shows_its_heartbeat(world):
    context = world.context()
    host, boot = machine()
    rows = RowCounts(7, 7, 0, 0, 0)
    # Process 1 exists everywhere.
    beat = Heartbeat("running", "import", host, boot, 1, context.now(), 2.0, rows, 9, 99)
    context.ledger("m").put_heartbeat(beat)
    (newest,) = list_runs(context, None, 1)
    assert (newest.status, newest.rows, newest.error) == ("RUNNING", rows, None)


def test_run_without_a_report_was_interrupted(world):
    world.store.delete("runs/m/report.json")
    (newest,) = list_runs(world.context(), None, 1)
    assert (newest.status, newest.rows) == ("INTERRUPTED", None)


def test_damaged_run_does_not_hide_the_others(world):
    world.store.put("runs/m/run.json", b"{}")
    found = list_runs(world.context(), None, 9)
    assert [(each.run, each.status) for each in found][-1] == ("m", "LedgerDamaged")
    assert len(found) == 3


def test_retry_of_rejects_names_its_run(world):
    execute(world, given(world, "again", retry_of="apple"), "again")
    (newest,) = [each for each in list_runs(world.context(), None, 9) if each.run == "again"]
    assert newest.retry_of == "apple"


def test_stack_shows_runs_that_work_and_runs_that_never_began(world):
    fake = FakeStepFunctions()
    executions = Executions(fake, fake.machine)
    context = world.context()
    context.ledger("m").put_execution(executions.start("m-r0a1b2c3d", {"run": {"resume_of": "m"}}))
    refused = executions.start("refused", {"source": {"bucket": "b", "key": "k"}, "run": {"id": 7}})
    fake.end(refused, "FAILED", error="InvalidPayload", cause="no")
    executions.start("new", {**world.payload, "run": {"id": "\ud800/x"}})
    executions.start("odd", [])
    for name in ("zebra", "apple"):
        fake.end(executions.start(name, given(world, name)))
    found = {each.run: each for each in list_runs(context, executions, 9)}
    assert set(found) == {"m", "apple", "zebra", "refused", "new", "odd"}
    assert (found["m"].status, found["m"].rows) == ("RUNNING", RowCounts())
    assert (found["refused"].status, found["refused"].error) == ("FAILED", "InvalidPayload")
    assert found["refused"].source == "s3://b/k"
    assert (found["new"].status, found["new"].table) == ("RUNNING", TABLE)
    assert found["apple"].status == "SUCCEEDED_WITH_REJECTS"
