"""Runs of the state machine's steps: their JSON messages, caught errors, and resume."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.contracts.results import Failure
from ddbload.contracts.states import PreflightTask
from ddbload.errors import InvalidPayload, RunNotFound, SourceNotFound
from ddbload.steps.preflight import preflight
from ddbload.steps.report import read_run
from tests.unit.steps.machine import caught, execute, report
from tests.unit.steps.world import BUCKET, KEY, RUN, TABLE, World

ROWS = 60
FILE = b"id,n\n" + b"".join(b"k%03d,%d\n" % (n, n) for n in range(ROWS))


@pytest.fixture
def world() -> World:
    return World(FILE, types={"n": "N"}, options={"chunk_bytes": 100, "workers": 3})


def named(world: World, **changes: Any) -> dict[str, Any]:
    return {**world.payload, "run": {"id": RUN}, **changes}


def test_run_id_comes_from_payload_or_execution_name(world):
    assert execute(world, world.payload, RUN)["run"] == RUN
    other = execute(world, {**world.payload, "run": {"id": "mine"}}, "execution-7")
    assert (other["run"], other["status"]) == ("mine", "SUCCEEDED")


def test_run_imports_all_rows(world):
    outcome = execute(world, world.payload, RUN)
    assert outcome["rows"]["written"] == ROWS
    assert outcome["chunks"] == outcome["chunks_done"] == len(world.manifest) > 3
    assert len(world.items) == ROWS
    assert world.ledger.find_execution() == f"arn:of:{RUN}"
    assert world.ledger.find_report().status == "SUCCEEDED"


@pytest.mark.parametrize("data", [b"", b"id,n\n", b"\xef\xbb\xbf"])
def test_run_succeeds_when_source_has_no_rows(data):
    world = World(data)
    assert execute(world, world.payload, RUN)["status"] == "SUCCEEDED"


def test_states_stay_small_when_file_is_large():
    columns = ",".join(["id", *(f"column {n}" for n in range(5000))])
    world = World(columns.encode() + b"\nk" + b"," * 5000 + b"\n")
    task = PreflightTask(world.payload, RUN)
    assert len(str(preflight(task, world.context()).to_json())) < 300


def test_execution_fails_without_ledger_when_preflight_refuses_payload(world):
    outcome = execute(world, named(world, target={"table": "nothing"}), "e")
    assert (outcome["run"], outcome["error"]["name"]) == (RUN, "TableNotFound")
    assert world.beyond_request == {}


@pytest.mark.parametrize(
    "given", [None, [], "x", {"run": 3}, {"run": {"id": ["x"]}}, {"run": {"id": "../x"}}]
)
def test_report_names_error_of_any_bad_input(world, given):
    outcome = execute(world, given, "e")
    assert (outcome["status"], outcome["error"]["name"]) == ("FAILED", "InvalidPayload")
    assert world.store.objects == {}


def test_report_names_error_of_failed_scan(world):
    world = World(b'id,n\na,1\nb,"never closed\n')
    outcome = execute(world, world.payload, RUN)
    assert outcome["error"]["name"] == "UnterminatedQuote"
    assert world.ledger.find_report().error.name == "UnterminatedQuote"
    assert read_run(RUN, world.context()).report.error.name == "UnterminatedQuote"


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
    for chunk in world.manifest:
        world.import_one(chunk)
    error = {"Error": "States.ResultWriterFailed", "Cause": "words"}
    outcome = report(world, {**result.to_json(), "error": error})
    assert (outcome["status"], outcome["rows"]["written"]) == ("SUCCEEDED", ROWS)
    assert outcome["error"] is None
    assert world.ledger.find_report().status == "SUCCEEDED"


def test_report_names_error_of_map_when_ledger_has_none(world):
    preflight(PreflightTask(named(world), RUN), world.context())
    error = {"Error": "States.ItemReaderFailed", "Cause": "no text of ours"}
    outcome = report(world, {"run": RUN, "chunks": 9, "error": error})
    assert outcome["error"] == {
        "name": "ItemReaderFailed",
        "message": "no text of ours",
        "chunk": None,
    }


def test_report_prefers_error_of_chunk_to_error_of_map(world):
    planned = preflight(PreflightTask(named(world), RUN), world.context()).to_json()
    world.ledger.put_failure(Failure("NoProgress", "words", 1))
    outcome = report(world, {**planned, "error": {"Error": "States.TaskFailed", "Cause": ""}})
    assert (outcome["error"]["name"], outcome["error"]["chunk"]) == ("NoProgress", 1)


def test_refused_execution_names_its_error_and_not_that_of_an_earlier_one(world):
    execute(world, world.payload, RUN, lost=frozenset({1}), killed={2: "Lambda.Unknown"})
    assert world.ledger.find_report().error.name == "Lambda.Unknown"
    outcome = execute(world, {**named(world), "types": {}}, "again")
    assert (outcome["status"], outcome["error"]["name"]) == ("FAILED", "RunMismatch")
    assert "began with another types" in outcome["error"]["message"]
    # The run itself is what it was: the refused execution did not work on it.
    assert read_run(RUN, world.context()).report.error.name == "Lambda.Unknown"


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


def test_cause_is_truncated(world):
    error = {"Error": "X", "Cause": "c" * 40_000}
    outcome = report(world, {"run": "never-was", "error": error})
    assert outcome["error"]["message"] == "c" * 2000 + "..."


def test_resume_imports_missing_rows(world):
    assert execute(world, named(world), "e", lost=frozenset({0, 3}))["status"] == "FAILED"
    sent = len(world.dynamodb.items("books"))
    assert sent < ROWS
    outcome = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (outcome["run"], outcome["status"]) == (RUN, "SUCCEEDED")
    assert outcome["rows"]["written"] == len(world.items) == ROWS
    assert world.ledger.find_execution() == "arn:of:again"


def test_resume_changes_nothing_when_run_is_done(world):
    execute(world, named(world), "e")
    calls = len(world.dynamodb.calls)
    outcome = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (outcome["status"], outcome["rows"]["written"]) == ("SUCCEEDED", ROWS)
    assert [c.operation for c in world.dynamodb.calls[calls:]] == ["describe_table"]


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


def test_resume_continues_interrupted_preflight(world):
    world.options["max_row_bytes"] = 50
    first = preflight(PreflightTask(named(world), RUN), world.context(0.0))
    assert first.cursor is not None
    outcome = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (outcome["status"], outcome["rows"]["written"]) == ("SUCCEEDED", ROWS)


def test_resume_is_refused_when_source_was_overwritten(world):
    execute(world, named(world), "e", lost=frozenset({1}))
    world.overwrite(FILE.replace(b"k0", b"q0"))
    outcome = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (outcome["run"], outcome["error"]["name"]) == (RUN, "SourceChanged")
    assert world.ledger.find_report().error.name == "SourceChanged"


def test_resume_reads_old_version_when_object_was_overwritten():
    world = World(FILE, types={"n": "N"}, options={"chunk_bytes": 100})
    world.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    world.s3.put_object(Bucket=BUCKET, Key=KEY, Body=FILE)
    execute(world, named(world), "e", lost=frozenset({1}))
    world.overwrite(b"id,n\nother,1\n")
    outcome = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (outcome["status"], outcome["rows"]["written"]) == ("SUCCEEDED", ROWS)


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


def test_resume_fails_when_run_is_unknown(world):
    with pytest.raises(RunNotFound, match="no run r9"):
        preflight(PreflightTask({"run": {"resume_of": "r9"}}, "e"), world.context())


def test_report_has_message_of_function_without_trace(world):
    outcome = report(world, {"run": "x", "error": caught(SourceNotFound("no such object"))})
    assert outcome["error"] == {
        "name": "SourceNotFound",
        "message": "no such object",
        "chunk": None,
    }
