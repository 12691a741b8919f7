"""Reconciling the ledger: nothing but a whole and consistent one is a success."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.control import WORKING, WorkerProgress
from ddbload.contracts.results import Failure, Report
from ddbload.contracts.row_counts import RowCounts, WriteStats
from ddbload.contracts.row_counts import WorkTotals as Totals
from ddbload.ledger.counted_chunks import CountedChunks, reconcile
from ddbload.runs.retry_rejects import iter_rejects
from ddbload.steps.report import read_run
from tests.fakes.dynamodb_faults import fails
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
    for chunk in world.manifest:
        world.import_one(chunk)
    return world


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
    assert found.seconds == 12.5
    assert found.rejects == f"memory:runs/{RUN}/rejects/"
    assert found.failures == ()
    assert found.work.requests == len(world.manifest)
    assert found.work.consumed_wcu == 39.0
    assert world.ledger.find_report() == found


def test_report_status_tells_whether_rows_were_rejected():
    assert World(b"id\na\nb\n").run().status == "SUCCEEDED"


@pytest.mark.parametrize("chunk_bytes", [10, 10**6])
@pytest.mark.parametrize("allowed", [900, 10**9])
def test_report_fails_when_every_row_was_rejected(allowed, chunk_bytes):
    data = b"id,n\n" + b"".join(b"r%d,x\n" % n for n in range(900))
    options = {"max_rejects": allowed, "chunk_bytes": chunk_bytes}
    world = World(data, types={"n": "N"}, options=options)
    world.preflight()
    for chunk in world.manifest:
        world.import_one(chunk)
    found = failed(world, "NothingWritten", "all 900 rows were rejected")
    assert found.rows == RowCounts(900, 0, 900)
    assert found.chunks_done == found.chunks
    # Every reject is there all the same.
    assert len(list(iter_rejects(RUN, world.context()))) == 900
    assert read_run(RUN, world.context()).report.error == found.error


def test_skipped_rows_are_no_rejects():
    world = World(b"id\na\nb\n", options={"mode": "insert"})
    for key in ("a", "b"):
        world.dynamodb.put_item(TableName=TABLE, Item={"id": {"S": key}, "n": {"N": "1"}})
    found = world.run()
    assert (found.status, found.rows) == ("SUCCEEDED", RowCounts(2, 0, 0, 0, 2))


# The table.


def make_anew(world: World) -> None:
    world.dynamodb.delete_table(TableName=TABLE)
    world.create_table()


def test_report_counts_units_that_only_workers_tell(world):
    """A killed worker has consumed units, and has written no segment for them."""
    segments = list(world.ledger.iter_segments())
    own = [
        each for each in segments if each.times and each.times.worker == segments[0].times.worker
    ]
    units = sum(each.work.consumed_wcu for each in own)
    rest = sum(each.work.consumed_wcu for each in segments) - units

    def tell(worker: str, settled: float, current: float) -> None:
        totals = [Totals(work=WriteStats(consumed_wcu=each)) for each in (settled, current)]
        told = WorkerProgress(worker, 0, WORKING, None, None, totals[0], current=totals[1])
        world.ledger.put_worker(told, None)

    tell("dead", 0, 500)
    # Two figures that are rounded up are no units more.
    tell(segments[0].times.worker, units - 0.5, 0.5)
    assert world.report().work.consumed_wcu == units + rest + 500
    tell(segments[0].times.worker, units, 70)
    found = world.report()
    assert found.work.consumed_wcu == units + rest + 570
    assert read_run(RUN, world.context()).report == found


def test_report_fails_when_table_was_replaced(world):
    make_anew(world)
    found = failed(world, "TableReplaced", "table books was deleted and made again")
    assert found.rows.written == 39
    # Also to whoever asks later, when nobody looks at the table.
    assert read_run(RUN, world.context()).report.error == found.error


def test_report_fails_when_table_is_missing(world):
    world.dynamodb.delete_table(TableName=TABLE)
    failed(world, "TableNotFound", "table books is not there any more")


def test_report_fails_when_table_is_being_deleted(world):
    real = world.dynamodb.describe_table

    def deleting(**params: Any) -> Any:
        answer = real(**params)
        answer["Table"]["TableStatus"] = "DELETING"
        return answer

    world.dynamodb.describe_table = deleting
    failed(world, "TableNotFound", "table books is being deleted")


def test_report_fails_when_describing_table_is_denied(world):
    # Whoever renewed their credentials meanwhile is let in at the second time.
    world.dynamodb.faults.add("describe_table", fails("AccessDeniedException"), times=2)
    failed(world, "AccessDenied")


def test_report_uses_renewed_credentials(world):
    world.dynamodb.faults.add("describe_table", fails("ExpiredTokenException"))
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


def test_report_raises_when_table_cannot_be_described_now(world):
    world.dynamodb.faults.add("describe_table", fails("InternalServerError"), times=6)
    with pytest.raises(errors.ServiceUnavailable):
        world.report()
    assert world.ledger.find_report() is None
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


def test_report_of_plan_ignores_replaced_table():
    world = World(b"id\na\n", options={"mode": "plan"})
    world.preflight()
    for chunk in world.manifest:
        world.import_one(chunk)
    make_anew(world)
    assert world.report().status == "SUCCEEDED"


def test_reconcile_writes_nothing(world):
    before = dict(world.store.objects)
    found = reconcile(world.ledger.record(), world.ledger, CountedChunks.read(world.ledger), 0.0)
    assert found.status == "SUCCEEDED_WITH_REJECTS"
    assert world.store.objects == before


def test_seconds_are_not_negative_when_clock_was_set_back(world):
    world.clock.time = 5.0
    assert world.report().seconds == 0.0


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


def test_report_fails_when_segment_is_missing():
    world = World(DATA, types={"n": "N"}, request_seconds=1.0)
    world.preflight()
    world.import_one(world.manifest[0], seconds=0.5)
    names = world.in_ledger("chunks/")
    assert len(names) == 2
    for name in names:
        data = world.store.objects.pop(f"runs/{RUN}/{name}")
        failed(world, "IncompleteRun", "chunk 0 is imported to byte")
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


def test_segment_that_ends_before_its_start_does_not_count(world):
    tamper(world, FIRST, "end", "byte", to=5)
    found = failed(world, "IncompleteRun", "chunk 0 is imported to byte 5")
    assert found.rows.read < 40


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
    del manifest[place]
    world.write_json("manifest.json", manifest)
    failed(world, "IncompleteRun", "the manifest")


def test_report_fails_when_manifest_repeats_chunk(world):
    manifest = world.read_json("manifest.json")
    world.write_json("manifest.json", [*manifest[:2], *manifest[1:]])
    failed(world, "IncompleteRun", "does not tile the source")


def test_report_fails_when_chunks_are_out_of_order(world):
    manifest = world.read_json("manifest.json")
    world.write_json("manifest.json", manifest[::-1])
    failed(world, "IncompleteRun", "does not tile the source at byte 5")


@pytest.mark.parametrize(
    ("which", "field", "by"), [(0, "start", 1), (0, "start", -5), (-1, "end", 1)]
)
def test_report_fails_when_manifest_does_not_fit_source(world, which, field, by):
    value = world.read_json("manifest.json")[which][field]
    tamper(world, "manifest.json", which, field, to=value + by)
    if field == "end":
        failed(world, "IncompleteRun", f"ends at byte {len(DATA) + 1} of {len(DATA)}")
    else:
        failed(world, "IncompleteRun", "does not tile the source at byte 5")


def test_report_fails_when_manifest_is_empty_but_file_has_rows(world):
    world.write_json("manifest.json", [])
    failed(world, "IncompleteRun", f"the manifest ends at byte 5 of {len(DATA)}")


def test_report_fails_when_chunk_number_is_wrong(world):
    tamper(world, "manifest.json", 1, "chunk", to=77)
    failed(world, "IncompleteRun", "does not tile the source")


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


def test_conservation_is_checked_right_after_failures(world):
    tamper(world, FIRST, "rows", "written", to=0)
    del world.store.objects[f"runs/{RUN}/{world.in_ledger('chunks/')[-1]}"]
    failed(world, "ConservationViolated")


# What chunks left word of.


def test_report_names_failed_chunk(world):
    names = world.in_ledger("chunks/")
    for number in (1, 3):
        del world.store.objects[f"runs/{RUN}/{names[number]}"]
        world.ledger.put_failure(Failure("SplitMismatch", f"words of {number}", number))
    found = failed(world, "SplitMismatch", "words of 1 (and 1 more chunk failed)", 1)
    assert [each.chunk for each in found.failures] == [1, 3]


def test_failure_of_imported_chunk_is_ignored(world):
    world.ledger.put_failure(Failure("ServiceUnavailable", "for a while", 1))
    found = world.report()
    assert (found.status, found.failures) == ("SUCCEEDED_WITH_REJECTS", ())


def test_failure_of_unknown_chunk_is_ignored(world):
    world.ledger.put_failure(Failure("ServiceUnavailable", "stray", 4711))
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


# Interrupted.


def test_interrupted_run_has_no_error_and_no_success(world):
    name = world.in_ledger("chunks/")[-1]
    del world.store.objects[f"runs/{RUN}/{name}"]
    found = world.report(interrupted=True)
    assert (found.status, found.error) == ("INTERRUPTED", None)
    assert found.chunks_done == found.chunks - 1


def test_run_succeeds_when_interrupted_after_its_end(world):
    assert world.report(interrupted=True).status == "SUCCEEDED_WITH_REJECTS"


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
    world.store.objects[f"runs/{RUN}/{name}"] = damage
    with pytest.raises(errors.LedgerDamaged, match=f"memory:runs/{RUN}/{name} is not what"):
        world.report()
    assert world.in_ledger("report") == []


@pytest.mark.parametrize("name", ["run.json", "manifest.json", FIRST])
def test_truncated_object_is_named(world, name):
    data = world.store.objects[f"runs/{RUN}/{name}"]
    for end in range(len(data)):
        world.store.objects[f"runs/{RUN}/{name}"] = data[:end]
        with pytest.raises(errors.LedgerDamaged):
            world.report()


@pytest.mark.parametrize("name", ["run.json", "manifest.json", FIRST, "manifest/5.json"])
def test_unknown_field_is_damage(world, name):
    value = world.read_json(name)
    inner = value["chunks"][0] if name == "manifest/5.json" else value
    inner = inner[0] if isinstance(inner, list) else inner
    inner["more"] = 1
    world.write_json(name, value)
    read = world.report if name != "manifest/5.json" else lambda: world.ledger.find_manifest_part(5)
    with pytest.raises(errors.LedgerDamaged):
        read()


def test_removed_damaged_segment_is_imported_again(world):
    del world.store.objects[f"runs/{RUN}/{FIRST}"]
    world.import_one(world.manifest[0])
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


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


def test_segment_of_same_configuration_and_other_id_is_refused(world):
    segment = world.read_json(FIRST)
    assert (segment["run"], segment["configuration"]) == (RUN, world.ledger.record().configuration)
    tamper(world, FIRST, "run", to="another")
    with pytest.raises(errors.LedgerDamaged, match="was not written by this run"):
        world.report()


@pytest.mark.parametrize("name", ["run", "configuration"])
def test_segment_without_stamp_is_refused(world, name):
    segment = world.read_json(FIRST)
    del segment[name]
    world.write_json(FIRST, segment)
    with pytest.raises(errors.LedgerDamaged, match="was not written by this run"):
        world.report()


def test_remains_of_removed_run_are_refused(world):
    """Earlier versions advised this: rows were never written, and the run succeeded."""
    del world.store.objects[f"runs/{RUN}/run.json"]
    world.overwrite(DATA.replace(b"r", b"q"))
    with pytest.raises(errors.LedgerDamaged, match=r"manifest/5\.json was not written by this run"):
        world.preflight()


def test_damage_errors_do_not_advise_removal(world):
    world.store.objects[f"runs/{RUN}/{FIRST}"] = b"{"
    with pytest.raises(errors.LedgerDamaged) as raised:
        world.report()
    assert "remove" not in raised.value.message
    assert "start a new run" in raised.value.message


def test_segment_under_wrong_name_is_damage(world):
    names = [f"runs/{RUN}/{name}" for name in world.in_ledger("chunks/")]
    world.store.objects[names[0]] = world.store.objects[names[-1]]
    with pytest.raises(errors.LedgerDamaged, match=names[0]):
        world.report()
    with pytest.raises(errors.LedgerDamaged, match=names[0]):
        world.import_one(world.manifest[0])


def test_preflight_names_damaged_manifest_part(world):
    del world.store.objects[f"runs/{RUN}/manifest.json"]
    world.store.objects[f"runs/{RUN}/manifest/5.json"] = b"{"
    with pytest.raises(errors.LedgerDamaged, match=r"manifest/5\.json"):
        world.preflight()


# Rejects.


def test_rejects_are_in_order_of_source():
    data = b"id,n\n" + b"".join(b"r%d,%s\n" % (n, b"x" if n % 3 else b"1") for n in range(60))
    world = World(data, types={"n": "N"}, options={"chunk_bytes": 70}, request_seconds=1.0)
    world.preflight()
    for chunk in reversed(world.manifest):
        world.import_one(chunk, seconds=0.5)
    lines = [json.loads(line) for line in iter_rejects(RUN, world.context())]
    assert [line["byte"] for line in lines] == [
        row.byte for row in outcome(data, types={"n": "N"}).rejects
    ]


def test_rejects_exclude_segments_that_do_not_count(world):
    world.ledger.put_rejects(0, 5, 11, [b'{"stray": 1}\n'])
    assert len(list(iter_rejects(RUN, world.context()))) == 1


def test_missing_rejects_are_damage(world):
    (name,) = world.in_ledger("rejects/")
    del world.store.objects[f"runs/{RUN}/{name}"]
    with pytest.raises(errors.LedgerDamaged, match="is missing"):
        list(iter_rejects(RUN, world.context()))


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


def test_report_fails_when_rejects_are_missing(world):
    (name,) = world.in_ledger("rejects/")
    del world.store.objects[f"runs/{RUN}/{name}"]
    failed(world, "LedgerDamaged", "is missing")


def test_segments_are_read_once_when_nothing_was_rejected():
    world = World(DATA.replace(b"x", b"1"), options={"chunk_bytes": 10})
    world.preflight()
    for chunk in world.manifest:
        world.import_one(chunk)
    read: list[str] = []
    world.store.hook = lambda moment, name, _data: read.append(name) if moment == "get" else None
    assert world.report().status == "SUCCEEDED"
    segments = [name for name in read if "/chunks/" in name]
    assert len(segments) == len(set(segments)) == len(world.manifest) > 10


def test_rejects_raise_run_not_found_without_record():
    with pytest.raises(errors.RunNotFound):
        iter_rejects("other", World(DATA).context())


def test_rejects_are_empty_without_manifest():
    world = World(DATA)
    world.preflight()
    del world.store.objects[f"runs/{RUN}/manifest.json"]
    assert list(iter_rejects(RUN, world.context())) == []


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


def test_current_report_is_of_now_without_last_report(world):
    world.clock.sleep(5.0)
    found = read_run(RUN, world.context()).report
    # Nobody looked whether the table is still the same.
    assert (found.status, found.error, found.seconds) == ("INTERRUPTED", None, 0.0)
    assert found.chunks_done == found.chunks
    assert world.in_ledger("report") == []


def test_current_report_trusts_ledger_over_last_report(world):
    world.report()
    tamper(world, "report.json", "rows", "read", to=999)
    del world.store.objects[f"runs/{RUN}/{world.in_ledger('chunks/')[-1]}"]
    found = read_run(RUN, world.context()).report
    assert (found.status, found.error.name) == ("FAILED", "IncompleteRun")
    assert found.rows.read < 40


def test_damaged_report_is_ignored(world):
    world.store.objects[f"runs/{RUN}/report.json"] = b"{"
    assert read_run(RUN, world.context()).report.status == "INTERRUPTED"
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


@pytest.mark.parametrize(
    "answer",
    [
        *({}, {"Table": {}}, {"Table": []}, {"Table": None}),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ],
    ids=str,
)
def test_damaged_table_description_is_read_again(world, answer):
    real, broken = world.dynamodb.describe_table, 3

    def describe_table(**params: Any) -> Any:
        nonlocal broken
        broken -= 1
        if broken < 0:
            return real(**params)
        if isinstance(answer, Exception):
            # As botocore fails on a body that is not text.
            raise answer
        return answer

    world.dynamodb.describe_table = describe_table
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"
    broken = 6
    with pytest.raises(errors.ServiceUnavailable, match="check the endpoint"):
        world.report()


def test_record_of_another_run_is_refused(world):
    tamper(world, "run.json", "run", to="another")
    with pytest.raises(errors.LedgerDamaged, match="is that of run another"):
        world.report()


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


def test_refused_options_of_a_resume_leave_the_run_alone():
    world = World(b"id,n\na,1\n")
    world.preflight()
    before = dict(world.store.objects)
    bad = {"run": {"resume_of": RUN}, "options": {"workers": -1}}
    assert execute(world, bad, "bad")["error"]["name"] == "InvalidPayload"
    assert world.store.objects == before


def test_failed_preflight_of_a_resume_is_reported_in_the_run():
    world = World(b"id,n\na,1\n")
    world.preflight()
    world.overwrite(b"id,n\na,2\n")
    outcome = execute(world, {"run": {"resume_of": RUN}}, "later")
    assert outcome["error"]["name"] == "SourceChanged"
    report = world.ledger.find_report()
    assert report is not None
    assert (report.status, report.error and report.error.name) == ("FAILED", "SourceChanged")
    assert world.ledger.find_execution() == "arn:of:later"


@pytest.mark.parametrize("named", ["\ud800", "../../etc", "a/b", "", "x" * 100_000, 7, {}, "\n"])
def test_run_id_that_is_none_is_not_repeated_in_the_output(named):
    """A lone surrogate, which JSON can write and UTF-8 cannot, crashed Report."""
    world = World(b"id,n\na,1\n")
    outcome = execute(world, {**world.payload, "run": {"id": named}}, "given-name")
    if named == "":
        assert outcome["error"]["name"] == "InvalidPayload"
    assert outcome["run"] == "given-name"
    json.dumps(outcome, ensure_ascii=False).encode()
