"""Runs of the state machine's steps: their JSON messages, caught errors, and resume."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.contracts.states import PreflightTask
from ddbload.errors import InvalidPayload
from ddbload.steps.preflight import preflight
from tests.unit.steps.machine import execute, report
from tests.unit.steps.world import RUN, TABLE, World

ROWS = 60
FILE = b"id,n\n" + b"".join(b"k%03d,%d\n" % (n, n) for n in range(ROWS))


@pytest.fixture
def world() -> World:
    return World(FILE, types={"n": "N"}, options={"chunk_bytes": 100, "workers": 3})


def named(world: World, **changes: Any) -> dict[str, Any]:
    return {**world.payload, "run": {"id": RUN}, **changes}


def test_run_imports_all_rows(world):
    outcome = execute(world, world.payload, RUN)
    assert outcome["rows"]["written"] == ROWS
    assert outcome["chunks"] == outcome["chunks_done"] == len(world.manifest) > 3
    assert len(world.items) == ROWS
    assert world.ledger.find_execution() == f"arn:of:{RUN}"
    assert world.ledger.find_report().status == "SUCCEEDED"


def test_states_stay_small_when_file_is_large():
    columns = ",".join(["id", *(f"column {n}" for n in range(5000))])
    world = World(columns.encode() + b"\nk" + b"," * 5000 + b"\n")
    task = PreflightTask(world.payload, RUN)
    assert len(str(preflight(task, world.context()).to_json())) < 300


def test_report_names_chunk_that_failed_without_error(world):
    outcome = execute(world, world.payload, RUN, lost=frozenset({2}))
    assert outcome["status"] == "FAILED"
    assert (outcome["error"]["name"], outcome["chunks_done"]) == (
        "IncompleteRun",
        outcome["chunks"] - 1,
    )
    assert "chunk 2" in outcome["error"]["message"]


@pytest.mark.parametrize("error", ["Lambda.Unknown", "States.Timeout"])
def test_report_names_chunk_and_cause_when_function_was_killed(world, error):
    outcome = execute(world, world.payload, RUN, killed={2: error})
    name = error.removeprefix("States.")
    assert (outcome["error"]["name"], outcome["error"]["chunk"]) == (name, 2)
    assert outcome["error"]["message"] == "RequestId: 1 signal: killed"
    assert outcome["chunks_done"] == outcome["chunks"] - 1
    again = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (again["status"], again["rows"]["written"]) == ("SUCCEEDED", ROWS)


def test_run_is_done_when_all_rows_are_imported_whatever_was_caught(world):
    """The Map may fail to write its results."""
    result = preflight(PreflightTask(named(world), RUN), world.context())
    world.import_all()
    error = {"Error": "States.ResultWriterFailed", "Cause": "words"}
    outcome = report(world, {**result.to_json(), "error": error})
    assert (outcome["status"], outcome["rows"]["written"]) == ("SUCCEEDED", ROWS)
    assert outcome["error"] is None
    assert world.ledger.find_report().status == "SUCCEEDED"


def test_resume_is_refused_when_table_was_recreated(world):
    execute(world, world.payload, RUN, lost=frozenset({1}))
    world.dynamodb.delete_table(TableName=TABLE)
    world.create_table()
    outcome = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (outcome["status"], outcome["error"]["name"]) == ("FAILED", "RunMismatch")
    assert "wrote to another table" in outcome["error"]["message"]
    assert world.items == []


def test_execution_with_another_source_keeps_ledger_when_run_is_done(world):
    """An execution with another file under the id of a done run leaves that run done."""
    execute(world, named(world), "first")
    world.overwrite(b"id,n\nother,1\n")
    before = dict(world.store.objects)
    outcome = execute(world, named(world), "second")
    assert (outcome["status"], outcome["error"]["name"]) == ("FAILED", "SourceChanged")
    assert world.store.objects == before


def test_resume_imports_missing_rows(world):
    assert execute(world, named(world), "e", lost=frozenset({0, 3}))["status"] == "FAILED"
    sent = len(world.dynamodb.items("books"))
    assert sent < ROWS
    outcome = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (outcome["run"], outcome["status"]) == (RUN, "SUCCEEDED")
    assert outcome["rows"]["written"] == len(world.items) == ROWS
    assert world.ledger.find_execution() == "arn:of:again"


def test_report_keeps_times_when_run_is_done(world):
    execute(world, named(world), "e")
    before = world.store.objects[f"runs/{RUN}/report.json"]
    world.clock.sleep(100.0)
    assert execute(world, {"run": {"resume_of": RUN}}, "again")["status"] == "SUCCEEDED"
    assert world.store.objects[f"runs/{RUN}/report.json"] == before
    # Also where the table was made again since, which the run has nothing to do with.
    world.dynamodb.delete_table(TableName=TABLE)
    world.create_table()
    outcome = execute(world, {"run": {"resume_of": RUN}}, "once more")
    assert (outcome["status"], outcome["error"]["name"]) == ("FAILED", "RunMismatch")
    assert world.store.objects[f"runs/{RUN}/report.json"] == before


def test_resume_applies_new_limits():
    rows = b"".join(b"k%d,%s\n" % (n, b"x" if n % 3 else b"1") for n in range(30))
    world = World(b"id,n\n" + rows, types={"n": "N"}, options={"max_rejects": 2})
    assert execute(world, named(world), "e")["error"]["name"] == "TooManyRejects"
    again = {"run": {"resume_of": RUN, "id": None, "force": False}, "options": {"max_rejects": 99}}
    outcome = execute(world, again, "again")
    assert outcome["status"] == "SUCCEEDED_WITH_REJECTS"
    assert outcome["rows"] == {
        "read": 30,
        "written": 10,
        "rejected": 20,
        "superseded": 0,
        "skipped": 0,
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"source": {"bucket": "b", "key": "k"}}, "'source' cannot be given"),
        ({"target": {"table": "books"}}, "'target' cannot be given"),
        ({"types": {"n": "S"}}, "'types' cannot be given"),
        ({"run": {"resume_of": RUN, "id": "another"}}, "'run.id' cannot be given"),
        ({"run": {"resume_of": RUN, "force": True}}, "'run.force' cannot be given"),
        ({"run": {"resume_of": RUN, "once": True}}, "'run.once' cannot be given"),
        ({"run": {"resume_of": 7}}, "'run.resume_of' must be"),
        ({"run": {"resume_of": "../../x"}}, "a run id has"),
        ({"options": {"worker": 3}}, "unknown field 'options.worker'"),
        ({"options": []}, "'options' must be"),
        ({"more": 1}, "unknown field 'more'"),
    ],
)
def test_resume_refuses_other_fields(world, given, words):
    execute(world, named(world), "e", lost=frozenset({1}))
    whole = {"run": {"resume_of": RUN}, **given}
    with pytest.raises(InvalidPayload, match=words):
        preflight(PreflightTask(whole, "e"), world.context())
