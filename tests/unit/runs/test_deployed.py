"""Runs as the state machine sees them: one JSON message after the other, caught errors, resume."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.contracts.results import Failure
from ddbload.contracts.states import PreflightTask
from ddbload.errors import InvalidPayload, RunNotFound, SourceNotFound
from ddbload.pipeline.preflight.preflight import preflight
from ddbload.pipeline.report import current_report
from tests.unit.pipeline.machine import caught, execute, report
from tests.unit.pipeline.world import BUCKET, KEY, RUN, TABLE, World

ROWS = 60
FILE = b"id,n\n" + b"".join(b"k%03d,%d\n" % (n, n) for n in range(ROWS))


@pytest.fixture
def world() -> World:
    return World(FILE, types={"n": "N"}, options={"chunk_bytes": 100, "workers": 3})


def named(world: World, **changes: Any) -> dict[str, Any]:
    return {**world.payload, "run": {"id": RUN}, **changes}


def test_a_run_is_named_by_its_payload_or_else_its_execution(world):
    assert execute(world, world.payload, RUN)["run"] == RUN
    other = execute(world, {**world.payload, "run": {"id": "mine"}}, "execution-7")
    assert (other["run"], other["status"]) == ("mine", "SUCCEEDED")


def test_a_whole_run(world):
    outcome = execute(world, world.payload, RUN)
    assert outcome["rows"]["written"] == ROWS
    assert outcome["chunks"] == outcome["chunks_done"] == len(world.manifest) > 3
    assert len(world.items) == ROWS
    assert world.ledger.find_execution() == f"arn:of:{RUN}"
    assert world.ledger.find_report().status == "SUCCEEDED"


@pytest.mark.parametrize("data", [b"", b"id,n\n", b"\xef\xbb\xbf"])
def test_no_rows(data):
    world = World(data)
    assert execute(world, world.payload, RUN)["status"] == "SUCCEEDED"


def test_states_are_small_whatever_the_file():
    columns = ",".join(["id", *(f"column {n}" for n in range(5000))])
    world = World(columns.encode() + b"\nk" + b"," * 5000 + b"\n")
    task = PreflightTask(world.payload, RUN)
    assert len(str(preflight(task, world.context()).to_json())) < 300


def test_what_preflight_refuses_fails_the_execution_and_leaves_no_ledger(world):
    outcome = execute(world, named(world, target={"table": "nothing"}), "e")
    assert (outcome["run"], outcome["error"]["name"]) == (RUN, "TableNotFound")
    assert world.store.objects == {}


@pytest.mark.parametrize(
    "given", [None, [], "x", {"run": 3}, {"run": {"id": ["x"]}}, {"run": {"id": "../x"}}]
)
def test_whatever_the_input_is_report_says_why(world, given):
    outcome = execute(world, given, "e")
    assert (outcome["status"], outcome["error"]["name"]) == ("FAILED", "InvalidPayload")
    assert world.store.objects == {}


def test_a_scan_that_fails_is_told_by_the_report(world):
    world = World(b'id,n\na,1\nb,"never closed\n')
    outcome = execute(world, world.payload, RUN)
    assert outcome["error"]["name"] == "UnterminatedQuote"
    assert world.ledger.find_report().error.name == "UnterminatedQuote"
    assert current_report(RUN, world.context()).error.name == "UnterminatedQuote"


def test_a_chunk_that_fails_without_a_word_is_named(world):
    outcome = execute(world, world.payload, RUN, lost=frozenset({2}))
    assert outcome["status"] == "FAILED"
    assert (outcome["error"]["name"], outcome["chunks_done"]) == (
        "IncompleteRun",
        outcome["chunks"] - 1,
    )
    assert "chunk 2" in outcome["error"]["message"]


@pytest.mark.parametrize("error", ["Lambda.Unknown", "States.Timeout"])
def test_a_chunk_whose_function_was_killed_is_named_with_the_cause(world, error):
    outcome = execute(world, world.payload, RUN, killed={2: error})
    name = error.removeprefix("States.")
    assert (outcome["error"]["name"], outcome["error"]["chunk"]) == (name, 2)
    assert outcome["error"]["message"] == "RequestId: 1 signal: killed"
    assert outcome["chunks_done"] == outcome["chunks"] - 1
    again = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (again["status"], again["rows"]["written"]) == ("SUCCEEDED", ROWS)


def test_what_was_caught_when_all_was_imported_is_reported_too(world):
    """The Map may fail of its own results. The next execution finds all there."""
    result = preflight(PreflightTask(named(world), RUN), world.context())
    for chunk in world.manifest:
        world.import_one(chunk)
    error = {"Error": "States.ResultWriterFailed", "Cause": "words"}
    outcome = report(world, {**result.to_json(), "error": error})
    assert (outcome["status"], outcome["rows"]["written"]) == ("FAILED", ROWS)
    assert world.ledger.find_report().error.name == "ResultWriterFailed"
    assert execute(world, {"run": {"resume_of": RUN}}, "again")["status"] == "SUCCEEDED"


def test_what_the_map_failed_of_is_told_when_the_ledger_knows_no_more(world):
    preflight(PreflightTask(named(world), RUN), world.context())
    error = {"Error": "States.ItemReaderFailed", "Cause": "no text of ours"}
    outcome = report(world, {"run": RUN, "chunks": 9, "error": error})
    assert outcome["error"] == {
        "name": "ItemReaderFailed",
        "message": "no text of ours",
        "chunk": None,
    }


def test_a_chunk_s_own_error_is_worth_more_than_the_map_s(world):
    planned = preflight(PreflightTask(named(world), RUN), world.context()).to_json()
    world.ledger.put_failure(Failure("NoProgress", "words", 1))
    outcome = report(world, {**planned, "error": {"Error": "States.TaskFailed", "Cause": ""}})
    assert (outcome["error"]["name"], outcome["error"]["chunk"]) == ("NoProgress", 1)


def test_what_preflight_failed_of_is_told_and_no_chunk_s_failure_of_an_earlier_execution(world):
    execute(world, world.payload, RUN, lost=frozenset({1}), killed={2: "Lambda.Unknown"})
    assert world.ledger.find_report().error.name == "Lambda.Unknown"
    outcome = execute(world, {**named(world), "types": {}}, "again")
    assert (outcome["status"], outcome["error"]["name"]) == ("FAILED", "RunMismatch")
    assert "began with another types" in outcome["error"]["message"]
    # Also to whoever asks later.
    assert current_report(RUN, world.context()).error.name == "RunMismatch"
    # But not when the run has come farther since.
    world.import_one(world.manifest[1])
    assert current_report(RUN, world.context()).error.name == "Lambda.Unknown"


def test_a_run_is_not_taken_up_into_a_table_that_was_made_again(world):
    execute(world, world.payload, RUN, lost=frozenset({1}))
    world.dynamodb.delete_table(TableName=TABLE)
    world.create_table()
    outcome = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (outcome["status"], outcome["error"]["name"]) == ("FAILED", "RunMismatch")
    assert "wrote to another table" in outcome["error"]["message"]
    assert world.items == []


def test_a_caught_error_is_never_a_success_and_never_spoils_one(world):
    """Another file under the id of a run that is done: that run stays done."""
    execute(world, named(world), "first")
    world.overwrite(b"id,n\nother,1\n")
    before = dict(world.store.objects)
    outcome = execute(world, named(world), "second")
    assert (outcome["status"], outcome["error"]["name"]) == ("FAILED", "SourceChanged")
    assert world.store.objects == before


def test_a_cause_is_kept_short(world):
    error = {"Error": "X", "Cause": "c" * 40_000}
    outcome = report(world, {"run": "never-was", "error": error})
    assert len(outcome["error"]["message"]) == 2000


def test_resume_imports_what_is_missing(world):
    assert execute(world, named(world), "e", lost=frozenset({0, 3}))["status"] == "FAILED"
    sent = len(world.dynamodb.items("books"))
    assert sent < ROWS
    outcome = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (outcome["run"], outcome["status"]) == (RUN, "SUCCEEDED")
    assert outcome["rows"]["written"] == len(world.items) == ROWS
    assert world.ledger.find_execution() == "arn:of:again"


def test_resume_of_a_run_that_is_whole_changes_nothing(world):
    execute(world, named(world), "e")
    calls = len(world.dynamodb.calls)
    outcome = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (outcome["status"], outcome["rows"]["written"]) == ("SUCCEEDED", ROWS)
    assert [c.operation for c in world.dynamodb.calls[calls:]] == ["describe_table"]


def test_the_report_of_a_run_that_is_done_keeps_its_times(world):
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


def test_resume_under_other_limits():
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


def test_resume_after_preflight_was_interrupted(world):
    world.options["max_row_bytes"] = 50
    first = preflight(PreflightTask(named(world), RUN), world.context(0.0))
    assert first.cursor is not None
    outcome = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (outcome["status"], outcome["rows"]["written"]) == ("SUCCEEDED", ROWS)


def test_resume_reads_the_version_that_the_run_began_with(world):
    execute(world, named(world), "e", lost=frozenset({1}))
    world.overwrite(FILE.replace(b"k0", b"q0"))
    outcome = execute(world, {"run": {"resume_of": RUN}}, "again")
    assert (outcome["run"], outcome["error"]["name"]) == (RUN, "SourceChanged")
    assert world.ledger.find_report().error.name == "SourceChanged"


def test_resume_of_a_versioned_object_that_was_overwritten():
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
        ({"run": {"resume_of": RUN, "force": True}}, "'run.force' is not supported"),
        ({"run": {"resume_of": 7}}, "'run.resume_of' must be"),
        ({"run": {"resume_of": "../../x"}}, "a run id has"),
        ({"options": {"worker": 3}}, "unknown field 'options.worker'"),
        ({"options": []}, "'options' must be"),
        ({"more": 1}, "unknown field 'more'"),
    ],
)
def test_a_resume_that_says_too_much(world, given, words):
    execute(world, named(world), "e", lost=frozenset({1}))
    whole = {"run": {"resume_of": RUN}, **given}
    with pytest.raises(InvalidPayload, match=words):
        preflight(PreflightTask(whole, "e"), world.context())


def test_resume_of_nothing(world):
    with pytest.raises(RunNotFound, match="no run r9"):
        preflight(PreflightTask({"run": {"resume_of": "r9"}}, "e"), world.context())


def test_a_function_s_own_words_are_told_and_not_its_trace(world):
    outcome = report(world, {"run": "x", "error": caught(SourceNotFound("no such object"))})
    assert outcome["error"] == {
        "name": "SourceNotFound",
        "message": "no such object",
        "chunk": None,
    }
