"""Reconciling the ledger: nothing but a whole and consistent one is a success."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.results import Failure, Report
from ddbload.contracts.row_counts import RowCounts
from ddbload.runs.retry_rejects import iter_rejects
from ddbload.steps.report import read_run
from tests.unit.steps.expected import counts, outcome
from tests.unit.steps.machine import execute
from tests.unit.steps.world import RUN, TABLE, World

DATA = b"id,n\n" + b"".join(b"r%d,%s\n" % (n, b"x" if n == 17 else b"1") for n in range(40))
FIRST = "chunks/00000/5.json"


@pytest.fixture
def world() -> World:
    """A run that is done, but for its report."""
    world = World(DATA, types={"n": "N"}, options={"chunk_bytes": 60})
    world.preflight()
    world.import_all()
    return world


def chunk_number(chunk: dict[str, int]) -> int:
    return chunk["chunk"]


def tamper(world: World, name: str, *path: Any, to: Any) -> None:
    value = world.read_json(name)
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    world.write_json(name, value)


def failed(world: World, error: str, words: str = "", chunk: int | None = None) -> Report:
    """The report says so, in the ledger too."""
    found = world.report()
    assert found.status == "FAILED"
    assert found.error is not None
    assert found.error.name == error
    assert words in found.error.message
    assert found.error.chunk == chunk
    assert world.read_json("report.json") == json.loads(json.dumps(found.to_json()))
    return found


def test_report_succeeds_when_ledger_is_complete(world):
    world.clock.sleep(12.5)
    found = world.report()
    assert found.status == "SUCCEEDED_WITH_REJECTS"
    assert found.error is None
    assert found.rows == counts(outcome(DATA, types={"n": "N"})) == RowCounts(40, 39, 1)
    assert (found.bytes, found.size) == (len(DATA), len(DATA))
    assert found.chunks == found.chunks_done == len(world.manifest) > 3
    assert found.seconds == pytest.approx(12.5, abs=0.1)
    assert found.rejects == f"memory:runs/{RUN}/rejects/"
    assert found.failures == ()
    # Its rows do not fill more.
    assert found.work.requests == 2
    assert found.work.consumed_wcu == 39.0
    assert world.ledger.find_report() == found


@pytest.mark.parametrize("chunk_bytes", [10, 10**6])
@pytest.mark.parametrize("allowed", [90, 10**9])
def test_report_fails_when_every_row_was_rejected(allowed, chunk_bytes):
    data = b"id,n\n" + b"".join(b"r%d,x\n" % n for n in range(90))
    options = {"max_rejects": allowed, "chunk_bytes": chunk_bytes}
    world = World(data, types={"n": "N"}, options=options)
    world.preflight()
    world.import_all()
    found = failed(world, "NothingWritten", "all 90 rows were rejected")
    assert found.rows == RowCounts(90, 0, 90)
    assert found.chunks_done == found.chunks
    # Every reject is there all the same.
    assert len(list(iter_rejects(RUN, world.context()))) == 90
    assert read_run(RUN, world.context()).report.error == found.error


# The table.


def make_anew(world: World) -> None:
    world.dynamodb.delete_table(TableName=TABLE)
    world.create_table()


def test_report_fails_when_table_was_replaced(world):
    make_anew(world)
    found = failed(world, "TableReplaced", "table books was deleted and made again")
    assert found.rows.written == 39
    # Also to whoever asks later, when nobody looks at the table.
    assert read_run(RUN, world.context()).report.error == found.error


def test_report_fails_when_table_is_being_deleted(world):
    real = world.dynamodb.describe_table

    def deleting(**params: Any) -> Any:
        answer = real(**params)
        answer["Table"]["TableStatus"] = "DELETING"
        return answer

    world.dynamodb.describe_table = deleting
    failed(world, "TableNotFound", "table books is being deleted")


# What is missing.


def test_report_fails_when_preflight_did_not_finish():
    world = World(DATA)
    world.preflight()
    del world.store.objects[f"runs/{RUN}/manifest.json"]
    found = failed(world, "IncompleteRun", "preflight did not finish")
    assert (found.chunks, found.rows.read) == (0, 0)


def test_report_fails_when_chunk_has_no_segment(world):
    for name in world.in_ledger("chunks/"):
        data = world.store.objects.pop(f"runs/{RUN}/{name}")
        number = int(name.split("/")[1])
        found = failed(world, "IncompleteRun", f"chunk {number} is imported to byte")
        assert found.chunks_done == found.chunks - 1
        world.store.objects[f"runs/{RUN}/{name}"] = data
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


def test_report_fails_when_end_is_not_proven(world):
    for name in world.in_ledger("chunks/"):
        tamper(world, name, "proven", to=False)
        failed(world, "IncompleteRun", "is imported to byte")
        tamper(world, name, "proven", to=True)
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


@pytest.mark.parametrize("by", [-1, 1])
def test_report_fails_when_proven_end_differs_from_chunk_end(world, by):
    for number, name in enumerate(world.in_ledger("chunks/")):
        end = world.read_json(name)["end"]["byte"]
        tamper(world, name, "end", "byte", to=end + by)
        found = failed(world, "IncompleteRun", f"chunk {number} is imported to byte")
        # What goes beyond its chunk is not believed in anything.
        assert found.bytes <= len(DATA)
        tamper(world, name, "end", "byte", to=end)


def test_unlinked_segment_does_not_count(world):
    stray = world.read_json(FIRST)
    stray["start"]["byte"] = 11
    world.write_json("chunks/00000/11.json", stray)
    stray["chunk"] = 99
    world.write_json("chunks/00099/11.json", stray)
    assert world.report().rows.read == 40


# A manifest that does not fit.


@pytest.mark.parametrize("place", [0, 1, -1])
def test_report_fails_when_manifest_lacks_chunk(world, place):
    manifest = world.read_json("manifest.json")
    chunks = sorted((each for group in manifest for each in group["chunks"]), key=chunk_number)
    del chunks[place]
    manifest = [{"chunks": chunks}]
    world.write_json("manifest.json", manifest)
    failed(world, "IncompleteRun", "the manifest")


def test_report_fails_when_manifest_leaves_out_bytes(world):
    manifest = world.read_json("manifest.json")
    (second,) = (each for group in manifest for each in group["chunks"] if each["chunk"] == 1)
    start = second["start"]
    second["start"] += 1
    world.write_json("manifest.json", manifest)
    segment = world.read_json(f"chunks/00001/{start}.json")
    segment["start"]["byte"] += 1
    world.write_json(f"chunks/00001/{start + 1}.json", segment)
    failed(world, "IncompleteRun", f"does not tile the source at byte {start}")


# Counts.


@pytest.mark.parametrize("field", ["read", "written", "rejected", "superseded", "skipped"])
def test_report_fails_when_counts_do_not_add_up(world, field):
    count = world.read_json(FIRST)["rows"][field]
    tamper(world, FIRST, "rows", field, to=count + 1)
    found = failed(world, "ConservationViolated", "please report it")
    assert "rows read are not" in found.error.message


def test_report_fails_when_counts_add_up_only_in_sum(world):
    names = world.in_ledger("chunks/")
    for name, by in ((names[0], 1), (names[1], -1)):
        tamper(world, name, "rows", "written", to=world.read_json(name)["rows"]["written"] + by)
    assert world.report().rows == RowCounts(40, 39, 1)
    failed(world, "ConservationViolated")


# What chunks left word of.


def test_report_names_failed_chunk(world):
    names = world.in_ledger("chunks/")
    for number in (1, 3):
        del world.store.objects[f"runs/{RUN}/{names[number]}"]
        world.ledger.put_failure(Failure("SplitMismatch", f"words of {number}", number))
    found = failed(world, "SplitMismatch", "words of 1 (and 1 more chunk failed)", 1)
    assert [each.chunk for each in found.failures] == [1, 3]


# Interrupted.


def test_interrupted_run_has_no_error_and_no_success(world):
    name = world.in_ledger("chunks/")[-1]
    del world.store.objects[f"runs/{RUN}/{name}"]
    found = world.report(interrupted=True)
    assert (found.status, found.error) == ("INTERRUPTED", None)
    assert found.chunks_done == found.chunks - 1


# A damaged ledger.


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b"7",
        b"\xff\xfe",
        b'"text"',
        b"[1]",
        b'[{"chunk": 0}]',
        b'{"chunk": 0}',
        b"\0" * 200,
    ],
)
@pytest.mark.parametrize("name", ["run.json", "manifest.json", FIRST, "failures/00001.json"])
def test_damaged_object_is_named(world, name, damage):
    if (name, damage) == ("manifest.json", b"[]"):
        return  # that is a manifest, and the report notices it
    if name.startswith("failures/"):
        # Failures of chunks that are whole are of no interest.
        del world.store.objects[f"runs/{RUN}/{world.in_ledger('chunks/')[-1]}"]
    world.store.objects[f"runs/{RUN}/{name}"] = damage
    with pytest.raises(errors.LedgerDamaged, match=f"memory:runs/{RUN}/{name} is not what"):
        world.report()
    assert world.in_ledger("report") == []


def other_run(**differently: Any) -> World:
    """A run like the world's, but for something."""
    given = {"types": {"n": "N"}, "options": {"chunk_bytes": 60}, **differently}
    other = World(given.pop("data", DATA), **given)
    if not differently:
        other.dynamodb.delete_table(TableName=TABLE)
        other.create_table()
    other.preflight()
    for chunk in other.manifest:
        other.import_one(chunk)
    return other


@pytest.mark.parametrize(
    "differently",
    [
        {"data": DATA.replace(b"r1,", b"q1,")},
        {"types": {}},
        {"options": {"chunk_bytes": 60, "mode": "insert"}},
        {},
    ],
    ids=["source", "types", "mode", "table"],
)
def test_segments_of_another_run_are_refused(world, differently):
    """Nor where all is the same but the table."""
    other = other_run(**differently)
    name = FIRST
    world.store.objects[f"runs/{RUN}/{name}"] = other.store.objects[f"runs/{RUN}/{name}"]
    for step in (world.report, lambda: world.import_one(world.manifest[0])):
        with pytest.raises(errors.LedgerDamaged, match=f"{name} was not written by this run"):
            step()


def test_remains_of_removed_run_are_refused(world):
    """Earlier versions advised this: rows were never written, and the run succeeded."""
    del world.store.objects[f"runs/{RUN}/run.json"]
    world.overwrite(DATA.replace(b"r", b"q"))
    with pytest.raises(errors.LedgerDamaged, match=r"manifest/5\.json was not written by this run"):
        world.preflight()


def test_segment_under_wrong_name_is_damage(world):
    names = [f"runs/{RUN}/{name}" for name in world.in_ledger("chunks/")]
    world.store.objects[names[0]] = world.store.objects[names[-1]]
    with pytest.raises(errors.LedgerDamaged, match=names[0]):
        world.report()
    with pytest.raises(errors.LedgerDamaged, match=names[0]):
        world.import_one(world.manifest[0])


# Rejects.


@pytest.mark.parametrize("data", [b"", b'{"a": 1}\n{"a": 2}\n', b'{"a": 1}\n{"a'])
def test_report_fails_when_number_of_rejects_differs(world, data):
    (name,) = world.in_ledger("rejects/")
    world.store.objects[f"runs/{RUN}/{name}"] = data
    failed(world, "LedgerDamaged", "and 1 were counted in chunk")
    with pytest.raises(errors.LedgerDamaged, match="and 1 were counted in chunk"):
        list(iter_rejects(RUN, world.context()))


@pytest.mark.parametrize("kept", [1, 10, -2, -1])
def test_report_fails_when_last_reject_is_truncated(world, kept):
    (name,) = world.in_ledger("rejects/")
    data = world.store.objects[f"runs/{RUN}/{name}"]
    world.store.objects[f"runs/{RUN}/{name}"] = data[:kept]
    failed(world, "LedgerDamaged", "is cut short in its last line")
    # Whoever asks later hears of it, too.
    assert read_run(RUN, world.context()).report.error.name == "LedgerDamaged"


def test_report_fails_when_segment_names_no_rejects(world):
    names = [name for name in world.in_ledger("chunks/") if world.read_json(name)["rejects"]]
    tamper(world, names[0], "rejects", to=None)
    failed(world, "LedgerDamaged", "has 0 rejects, and 1 were counted")


# Reviewed later.


@pytest.mark.parametrize("interrupted", [True, False])
def test_current_report_equals_last_report_and_writes_nothing(world, interrupted):
    del world.store.objects[f"runs/{RUN}/{world.in_ledger('chunks/')[-1]}"]
    world.clock.sleep(5.0)
    found = world.report(interrupted=interrupted)
    world.clock.sleep(100.0)
    before = dict(world.store.objects)
    assert read_run(RUN, world.context()).report == found
    assert world.store.objects == before


def test_current_report_trusts_ledger_over_last_report(world):
    world.report()
    tamper(world, "report.json", "rows", "read", to=999)
    del world.store.objects[f"runs/{RUN}/{world.in_ledger('chunks/')[-1]}"]
    found = read_run(RUN, world.context()).report
    assert (found.status, found.error.name) == ("FAILED", "IncompleteRun")
    assert found.rows.read < 40


def test_refused_payload_leaves_the_run_that_it_names_alone():
    """A bad payload with the id of an unfinished run wrote FAILED into that run's report."""
    world = World(b"id,n\na,1\n")
    world.preflight()
    world.ledger.put_execution("arn:of:somebody")
    before = dict(world.store.objects)
    for changes in ({"mode": "no mode"}, {"source": 7}, {"types": {"n": "BOOL"}}):
        bad = {**world.payload, **changes, "run": {"id": RUN}}
        outcome = execute(world, bad, "bad")
        assert outcome["status"] == "FAILED"
        assert outcome["error"]["name"] in ("InvalidPayload", "RunMismatch")
        assert outcome["rows"]["read"] == 0
    assert world.store.objects == before


@pytest.mark.parametrize("named", ["\ud800", "../../etc", "a/b", "", "x" * 100_000, 7, {}, "\n"])
def test_run_id_that_is_none_is_not_repeated_in_the_output(named):
    """A lone surrogate, which JSON can write and UTF-8 cannot, crashed Report."""
    world = World(b"id,n\na,1\n")
    outcome = execute(world, {**world.payload, "run": {"id": named}}, "given-name")
    if named == "":
        assert outcome["error"]["name"] == "InvalidPayload"
    assert outcome["run"] == "given-name"
    json.dumps(outcome, ensure_ascii=False).encode()
