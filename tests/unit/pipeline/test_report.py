"""Reconciling the ledger: nothing but a whole and consistent one is a success."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.results import Failure, Report, RowCounts
from ddbload.pipeline.report import current_report, reconcile
from ddbload.runs.retry_rejects import iter_rejects
from tests.fakes.dynamodb_faults import fails
from tests.unit.pipeline.expected import counts, outcome
from tests.unit.pipeline.world import RUN, TABLE, World

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


def test_a_whole_ledger_is_a_success(world):
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


def test_a_run_without_rejects_has_a_word_of_its_own():
    assert World(b"id\na\nb\n").run().status == "SUCCEEDED"


@pytest.mark.parametrize("chunk_bytes", [10, 10**6])
@pytest.mark.parametrize("allowed", [900, 10**9])
def test_a_run_that_wrote_nothing_is_no_success_however_many_rejects_are_allowed(
    allowed, chunk_bytes
):
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
    assert current_report(RUN, world.context()).error == found.error


def test_rows_that_were_skipped_are_no_rejects():
    world = World(b"id\na\nb\n", options={"mode": "insert"})
    for key in ("a", "b"):
        world.dynamodb.put_item(TableName=TABLE, Item={"id": {"S": key}, "n": {"N": "1"}})
    found = world.run()
    assert (found.status, found.rows) == ("SUCCEEDED", RowCounts(2, 0, 0, 0, 2))


def test_an_earlier_version_s_word_for_a_success_is_kept(world):
    world.report()
    tamper(world, "report.json", "status", to="SUCCEEDED")
    assert current_report(RUN, world.context()).status == "SUCCEEDED"


# The table.


def make_anew(world: World) -> None:
    world.dynamodb.delete_table(TableName=TABLE)
    world.create_table()


def test_a_table_that_was_made_again_has_not_what_was_written(world):
    make_anew(world)
    found = failed(world, "TableReplaced", "table books was deleted and made again")
    assert found.rows.written == 39
    # Also to whoever asks later, when nobody looks at the table.
    assert current_report(RUN, world.context()).error == found.error


def test_a_table_that_is_gone_has_nothing(world):
    world.dynamodb.delete_table(TableName=TABLE)
    failed(world, "TableNotFound", "table books is not there any more")


def test_a_table_that_is_being_deleted_is_as_good_as_gone(world):
    real = world.dynamodb.describe_table

    def deleting(**params: Any) -> Any:
        answer = real(**params)
        answer["Table"]["TableStatus"] = "DELETING"
        return answer

    world.dynamodb.describe_table = deleting
    failed(world, "TableNotFound", "table books is being deleted")


def test_a_table_that_may_not_be_looked_at_is_no_success(world):
    # Whoever renewed their credentials meanwhile is let in at the second time.
    world.dynamodb.faults.add("describe_table", fails("AccessDeniedException"), times=2)
    failed(world, "AccessDenied")


def test_credentials_that_were_renewed_since_are_found(world):
    world.dynamodb.faults.add("describe_table", fails("ExpiredTokenException"))
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


def test_a_table_that_cannot_be_looked_at_now_is_asked_for_later(world):
    world.dynamodb.faults.add("describe_table", fails("InternalServerError"), times=6)
    with pytest.raises(errors.ServiceUnavailable):
        world.report()
    assert world.ledger.find_report() is None
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


def test_of_a_plan_the_table_may_be_made_again():
    world = World(b"id\na\n", options={"mode": "plan"})
    world.preflight()
    for chunk in world.manifest:
        world.import_one(chunk)
    make_anew(world)
    assert world.report().status == "SUCCEEDED"


def test_to_reconcile_writes_nothing(world):
    before = dict(world.store.objects)
    found = reconcile(world.ledger.record(), world.ledger, 0.0)
    assert found.status == "SUCCEEDED_WITH_REJECTS"
    assert world.store.objects == before


def test_a_clock_that_was_set_back_gives_no_negative_time(world):
    world.clock.time = 5.0
    assert world.report().seconds == 0.0


# What is missing.


def test_preflight_that_did_not_finish():
    world = World(DATA)
    world.preflight()
    del world.store.objects[f"runs/{RUN}/manifest.json"]
    found = failed(world, "IncompleteRun", "preflight did not finish")
    assert (found.chunks, found.rows.read) == (0, 0)


def test_every_chunk_must_be_there(world):
    for name in world.in_ledger("chunks/"):
        data = world.store.objects.pop(f"runs/{RUN}/{name}")
        number = int(name.split("/")[1])
        found = failed(world, "IncompleteRun", f"chunk {number} is imported to byte")
        assert found.chunks_done == found.chunks - 1
        world.store.objects[f"runs/{RUN}/{name}"] = data
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


def test_every_segment_must_be_there():
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


def test_every_end_must_be_proven(world):
    for name in world.in_ledger("chunks/"):
        tamper(world, name, "proven", to=False)
        failed(world, "IncompleteRun", "is imported to byte")
        tamper(world, name, "proven", to=True)
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


@pytest.mark.parametrize("by", [-1, 1])
def test_a_proof_short_of_the_end_or_beyond_is_none(world, by):
    for number, name in enumerate(world.in_ledger("chunks/")):
        end = world.read_json(name)["end"]["byte"]
        tamper(world, name, "end", "byte", to=end + by)
        found = failed(world, "IncompleteRun", f"chunk {number} is imported to byte")
        # What goes beyond its chunk is not believed in anything.
        assert found.bytes <= len(DATA)
        tamper(world, name, "end", "byte", to=end)


def test_a_segment_that_goes_backwards_counts_nothing(world):
    tamper(world, FIRST, "end", "byte", to=5)
    found = failed(world, "IncompleteRun", "chunk 0 is imported to byte 5")
    assert found.rows.read < 40


def test_a_segment_that_is_not_linked_counts_nothing(world):
    stray = world.read_json(FIRST)
    stray["start"]["byte"] = 11
    world.write_json("chunks/00000/11.json", stray)
    stray["chunk"] = 99
    world.write_json("chunks/00099/11.json", stray)
    assert world.report().rows.read == 40


# A manifest that does not fit.


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_chunk_that_is_missing_from_the_manifest(world, place):
    manifest = world.read_json("manifest.json")
    del manifest[place]
    world.write_json("manifest.json", manifest)
    failed(world, "IncompleteRun", "the manifest")


def test_a_chunk_that_stands_twice_in_the_manifest(world):
    manifest = world.read_json("manifest.json")
    world.write_json("manifest.json", [*manifest[:2], *manifest[1:]])
    failed(world, "IncompleteRun", "does not tile the source")


def test_chunks_out_of_order(world):
    manifest = world.read_json("manifest.json")
    world.write_json("manifest.json", manifest[::-1])
    failed(world, "IncompleteRun", "does not tile the source at byte 5")


@pytest.mark.parametrize(
    ("which", "field", "by"), [(0, "start", 1), (0, "start", -5), (-1, "end", 1)]
)
def test_a_manifest_that_does_not_fit_the_source(world, which, field, by):
    value = world.read_json("manifest.json")[which][field]
    tamper(world, "manifest.json", which, field, to=value + by)
    if field == "end":
        failed(world, "IncompleteRun", f"ends at byte {len(DATA) + 1} of {len(DATA)}")
    else:
        failed(world, "IncompleteRun", "does not tile the source at byte 5")


def test_an_empty_manifest_of_a_file_with_rows(world):
    world.write_json("manifest.json", [])
    failed(world, "IncompleteRun", f"the manifest ends at byte 5 of {len(DATA)}")


def test_another_number_for_a_chunk(world):
    tamper(world, "manifest.json", 1, "chunk", to=77)
    failed(world, "IncompleteRun", "does not tile the source")


# Counts.


@pytest.mark.parametrize("field", ["read", "written", "rejected", "superseded", "skipped"])
def test_counts_that_do_not_add_up(world, field):
    count = world.read_json(FIRST)["rows"][field]
    tamper(world, FIRST, "rows", field, to=count + 1)
    found = failed(world, "ConservationViolated", "please report it")
    assert "rows read are not" in found.error.message


def test_counts_that_add_up_only_in_sum(world):
    names = world.in_ledger("chunks/")
    for name, by in ((names[0], 1), (names[1], -1)):
        tamper(world, name, "rows", "written", to=world.read_json(name)["rows"]["written"] + by)
    assert world.report().rows == RowCounts(40, 39, 1)
    failed(world, "ConservationViolated")


def test_counts_are_doubted_before_anything_else_but_failures(world):
    tamper(world, FIRST, "rows", "written", to=0)
    del world.store.objects[f"runs/{RUN}/{world.in_ledger('chunks/')[-1]}"]
    failed(world, "ConservationViolated")


# What chunks left word of.


def test_a_failed_chunk_is_named(world):
    names = world.in_ledger("chunks/")
    for number in (1, 3):
        del world.store.objects[f"runs/{RUN}/{names[number]}"]
        world.ledger.put_failure(Failure("SplitMismatch", f"words of {number}", number))
    found = failed(world, "SplitMismatch", "words of 1 (and 1 more chunks failed)", 1)
    assert [each.chunk for each in found.failures] == [1, 3]


def test_a_failure_that_was_made_good_is_forgotten(world):
    world.ledger.put_failure(Failure("ServiceUnavailable", "for a while", 1))
    found = world.report()
    assert (found.status, found.failures) == ("SUCCEEDED_WITH_REJECTS", ())


def test_a_failure_of_a_chunk_that_is_not_there_does_no_harm(world):
    world.ledger.put_failure(Failure("ServiceUnavailable", "stray", 4711))
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


# Interrupted.


def test_interrupted_is_no_error_and_no_success(world):
    name = world.in_ledger("chunks/")[-1]
    del world.store.objects[f"runs/{RUN}/{name}"]
    found = world.report(interrupted=True)
    assert (found.status, found.error) == ("INTERRUPTED", None)
    assert found.chunks_done == found.chunks - 1


def test_interrupted_too_late_is_a_success(world):
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
def test_what_is_damaged_is_named(world, name, damage):
    if (name, damage) == ("manifest.json", b"[]"):
        return  # that is a manifest, and the report notices it
    world.store.objects[f"runs/{RUN}/{name}"] = damage
    with pytest.raises(errors.LedgerDamaged, match=f"memory:runs/{RUN}/{name} is not what"):
        world.report()
    assert world.in_ledger("report") == []


@pytest.mark.parametrize("name", ["run.json", "manifest.json", FIRST])
def test_what_is_cut_short_anywhere_is_named(world, name):
    data = world.store.objects[f"runs/{RUN}/{name}"]
    for end in range(len(data)):
        world.store.objects[f"runs/{RUN}/{name}"] = data[:end]
        with pytest.raises(errors.LedgerDamaged):
            world.report()


@pytest.mark.parametrize("name", ["run.json", "manifest.json", FIRST, "manifest/5.json"])
def test_an_unknown_field_is_named(world, name):
    value = world.read_json(name)
    inner = value["chunks"][0] if name == "manifest/5.json" else value
    inner = inner[0] if isinstance(inner, list) else inner
    inner["more"] = 1
    world.write_json(name, value)
    read = world.report if name != "manifest/5.json" else lambda: world.ledger.find_manifest_part(5)
    with pytest.raises(errors.LedgerDamaged):
        read()


def test_a_damaged_segment_that_is_removed_is_done_again(world):
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
def test_segments_of_another_run_are_not_taken_for_this_one_s(world, differently):
    """Nor where all is the same but the table."""
    other = other_run(**differently)
    name = FIRST
    world.store.objects[f"runs/{RUN}/{name}"] = other.store.objects[f"runs/{RUN}/{name}"]
    for step in (world.report, lambda: world.import_one(world.manifest[0])):
        with pytest.raises(errors.LedgerDamaged, match=f"{name} was not written by this run"):
            step()


def test_a_segment_of_the_same_run_under_another_id_is_not_taken(world):
    segment = world.read_json(FIRST)
    assert (segment["run"], segment["configuration"]) == (RUN, world.ledger.record().configuration)
    tamper(world, FIRST, "run", to="another")
    with pytest.raises(errors.LedgerDamaged, match="was not written by this run"):
        world.report()


@pytest.mark.parametrize("name", ["run", "configuration"])
def test_a_segment_that_does_not_say_whose_it_is_is_not_taken(world, name):
    segment = world.read_json(FIRST)
    del segment[name]
    world.write_json(FIRST, segment)
    with pytest.raises(errors.LedgerDamaged, match="was not written by this run"):
        world.report()


def test_what_is_left_of_a_run_whose_record_was_removed_is_not_another_run_s(world):
    """As an earlier advice had it: rows were never written, and the run succeeded."""
    del world.store.objects[f"runs/{RUN}/run.json"]
    world.overwrite(DATA.replace(b"r", b"q"))
    with pytest.raises(errors.LedgerDamaged, match=r"manifest/5\.json was not written by this run"):
        world.preflight()


def test_no_advice_is_to_remove_what_is_damaged(world):
    world.store.objects[f"runs/{RUN}/{FIRST}"] = b"{"
    with pytest.raises(errors.LedgerDamaged) as raised:
        world.report()
    assert "remove" not in raised.value.message
    assert "start a new run" in raised.value.message


def test_a_segment_in_another_s_place_is_damage_and_no_gap(world):
    names = [f"runs/{RUN}/{name}" for name in world.in_ledger("chunks/")]
    world.store.objects[names[0]] = world.store.objects[names[-1]]
    with pytest.raises(errors.LedgerDamaged, match=names[0]):
        world.report()
    with pytest.raises(errors.LedgerDamaged, match=names[0]):
        world.import_one(world.manifest[0])


def test_a_damaged_part_is_named_in_preflight(world):
    del world.store.objects[f"runs/{RUN}/manifest.json"]
    world.store.objects[f"runs/{RUN}/manifest/5.json"] = b"{"
    with pytest.raises(errors.LedgerDamaged, match=r"manifest/5\.json"):
        world.preflight()


# Rejects.


def test_rejects_come_in_the_source_s_order():
    data = b"id,n\n" + b"".join(b"r%d,%s\n" % (n, b"x" if n % 3 else b"1") for n in range(60))
    world = World(data, types={"n": "N"}, options={"chunk_bytes": 70}, request_seconds=1.0)
    world.preflight()
    for chunk in reversed(world.manifest):
        world.import_one(chunk, seconds=0.5)
    lines = [json.loads(line) for line in iter_rejects(RUN, world.context())]
    assert [line["byte"] for line in lines] == [
        row.byte for row in outcome(data, types={"n": "N"}).rejects
    ]


def test_rejects_of_segments_that_do_not_count_are_not_shown(world):
    world.ledger.put_rejects(0, 5, 11, [b'{"stray": 1}\n'])
    assert len(list(iter_rejects(RUN, world.context()))) == 1


def test_rejects_that_are_missing_are_named(world):
    (name,) = world.in_ledger("rejects/")
    del world.store.objects[f"runs/{RUN}/{name}"]
    with pytest.raises(errors.LedgerDamaged, match="is missing"):
        list(iter_rejects(RUN, world.context()))


@pytest.mark.parametrize("data", [b"", b'{"a": 1}\n{"a": 2}\n', b'{"a": 1}\n{"a'])
def test_rejects_that_are_not_as_many_as_were_counted_are_no_success(world, data):
    (name,) = world.in_ledger("rejects/")
    world.store.objects[f"runs/{RUN}/{name}"] = data
    failed(world, "LedgerDamaged", "and 1 were counted in chunk")
    with pytest.raises(errors.LedgerDamaged, match="and 1 were counted in chunk"):
        list(iter_rejects(RUN, world.context()))


@pytest.mark.parametrize("kept", [1, 10, -2, -1])
def test_rejects_that_are_cut_in_their_last_line_are_no_success(world, kept):
    (name,) = world.in_ledger("rejects/")
    data = world.store.objects[f"runs/{RUN}/{name}"]
    world.store.objects[f"runs/{RUN}/{name}"] = data[:kept]
    failed(world, "LedgerDamaged", "is cut short in its last line")
    # Whoever asks later hears of it, too.
    assert current_report(RUN, world.context()).error.name == "LedgerDamaged"


def test_rejects_that_no_file_is_named_for_are_no_success(world):
    names = [name for name in world.in_ledger("chunks/") if world.read_json(name)["rejects"]]
    tamper(world, names[0], "rejects", to=None)
    failed(world, "LedgerDamaged", "has 0 rejects, and 1 were counted")


def test_missing_rejects_are_no_success(world):
    (name,) = world.in_ledger("rejects/")
    del world.store.objects[f"runs/{RUN}/{name}"]
    failed(world, "LedgerDamaged", "is missing")


def test_segments_are_read_once_where_nothing_was_rejected():
    world = World(DATA.replace(b"x", b"1"), options={"chunk_bytes": 10})
    world.preflight()
    for chunk in world.manifest:
        world.import_one(chunk)
    read: list[str] = []
    world.store.hook = lambda moment, name, _data: read.append(name) if moment == "get" else None
    assert world.report().status == "SUCCEEDED"
    segments = [name for name in read if "/chunks/" in name]
    assert len(segments) == len(set(segments)) == len(world.manifest) > 10


def test_rejects_of_a_run_that_never_began():
    with pytest.raises(errors.RunNotFound):
        iter_rejects("other", World(DATA).context())


def test_rejects_of_a_run_without_a_manifest():
    world = World(DATA)
    world.preflight()
    del world.store.objects[f"runs/{RUN}/manifest.json"]
    assert list(iter_rejects(RUN, world.context())) == []


# Reviewed later.


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_review_is_the_report_again_and_writes_nothing(world, interrupted):
    del world.store.objects[f"runs/{RUN}/{world.in_ledger('chunks/')[-1]}"]
    world.clock.sleep(5.0)
    found = world.report(interrupted=interrupted)
    world.clock.sleep(100.0)
    before = dict(world.store.objects)
    assert current_report(RUN, world.context()) == found
    assert world.store.objects == before


def test_a_review_of_a_run_without_a_report_is_of_now(world):
    world.clock.sleep(5.0)
    found = current_report(RUN, world.context())
    # Nobody looked whether the table is still the same.
    assert (found.status, found.error, found.seconds) == ("INTERRUPTED", None, 5.0)
    assert found.chunks_done == found.chunks
    assert world.in_ledger("report") == []


def test_a_review_believes_the_ledger_and_not_the_report(world):
    world.report()
    tamper(world, "report.json", "rows", "read", to=999)
    del world.store.objects[f"runs/{RUN}/{world.in_ledger('chunks/')[-1]}"]
    found = current_report(RUN, world.context())
    assert (found.status, found.error.name) == ("FAILED", "IncompleteRun")
    assert found.rows.read < 40


def test_a_damaged_report_is_none(world):
    world.store.objects[f"runs/{RUN}/report.json"] = b"{"
    assert current_report(RUN, world.context()).status == "INTERRUPTED"
    assert world.report().status == "SUCCEEDED_WITH_REJECTS"


@pytest.mark.parametrize(
    "answer",
    [
        *({}, {"Table": {}}, {"Table": []}, {"Table": None}),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ],
    ids=str,
)
def test_an_answer_that_is_not_dynamodb_s_is_asked_for_again(world, answer):
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


def test_a_record_of_another_run_is_not_this_one_s(world):
    tamper(world, "run.json", "run", to="another")
    with pytest.raises(errors.LedgerDamaged, match="is that of run another"):
        world.report()
