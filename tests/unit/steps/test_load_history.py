"""What a run has loaded is in the history once it is done, and is not loaded twice by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.run_record import LoadRecord, ObjectVersion
from ddbload.contracts.states import PreflightTask
from ddbload.ledger.history import History, newest_runs, put_start
from ddbload.steps.preflight import preflight
from ddbload.steps.read_run import read_run
from tests.unit.steps.machine import execute
from tests.unit.steps.world import BUCKET, KEY, TABLE, MemoryStore, World
from tests.unit.steps.worlds import ManyObjects

FILE = b"id,n\na,1\nb,2\n"
LOAD = LoadRecord(
    *("r1", "books", "id-1", "put", "asked", "SUCCEEDED", RowCounts(3, 3), 1000.0, "s3://b/in/", 3)
)


def given(world: World, run: str, **more: Any) -> dict[str, Any]:
    return {**world.payload, "run": {"id": run, **more}}


def loads(world: World) -> list[tuple[str, str, str, int]]:
    """Run, mode, status and number of object versions of each object of the history."""
    history = History(world.store)
    pages = history.read(world.store.names("history/"))
    found = [(e.load.run, e.load.mode, e.load.status, len(e.versions)) for e in pages]
    return sorted(found)


def version(number: int, **more: Any) -> ObjectVersion:
    pinned = {"bucket": "b", "key": f"in/{number}", "version_id": None, "etag": '"e"', "size": 3}
    return ObjectVersion({**pinned, **more})


def test_run_that_is_done_is_in_the_history():
    world = World(FILE)
    assert execute(world, given(world, "r1"), "r1")["status"] == "SUCCEEDED"
    (page,) = History(world.store).read_location(f"s3://{BUCKET}/{KEY}")
    assert (page.load.run, page.load.table, page.load.source) == (
        "r1",
        TABLE,
        f"s3://{BUCKET}/{KEY}",
    )
    (found,) = page.versions
    assert found.pinned == world.context().ledger("r1").record().pinned
    # Reporting again, and resuming what is done, adds nothing.
    before = world.store.names("history/")
    execute(world, {"run": {"resume_of": "r1"}}, "r1-again")
    assert world.store.names("history/") == before


def test_history_is_written_before_the_report():
    """A Report that dies between the two is tried again; the reverse would lose the load."""
    world = World(FILE)
    order: list[str] = []
    world.store.hook = lambda moment, name, _: order.append(name) if moment == "done" else None
    execute(world, given(world, "r1"), "r1")
    (history,) = [number for number, name in enumerate(order) if name.startswith("history/")]
    assert history < order.index("runs/r1/report.json")


@pytest.mark.parametrize(
    ("options", "data", "expected"),
    [
        ({"mode": "plan"}, FILE, []),
        ({"mode": "delete"}, FILE, [("r1", "delete", "SUCCEEDED", 1)]),
        ({}, b"id,n\na,1\n,2\n", [("r1", "put", "SUCCEEDED_WITH_REJECTS", 1)]),
        ({"max_rejects": 0}, b"id,n\na,1\n,2\n", []),
        ({}, b"id,n\n", [("r1", "put", "SUCCEEDED", 1)]),
    ],
)
def test_history_has_runs_that_are_done_and_wrote(options, data, expected):
    world = World(data, options=options)
    execute(world, given(world, "r1"), "r1")
    assert loads(world) == expected


def once(world: World, run: str, **more: Any) -> dict[str, Any]:
    """Execute a run that shall load its source once; the clock goes on."""
    world.clock.sleep(60.0)
    return execute(world, {**given(world, run, once=True), **more}, run)


def test_once_is_done_over_what_the_table_has_and_writes_nothing():
    world = World(FILE)
    execute(world, given(world, "r1"), "r1")
    reads = world.s3.calls[:]
    writes = len(world.dynamodb.calls)
    outcome = once(world, "r2")
    assert (outcome["status"], outcome["error"]) == ("ALREADY_LOADED", None)
    assert outcome["loaded_before"] == {
        "objects": 1,
        "runs": 1,
        "run": "r1",
        "mode": "put",
        "status": "SUCCEEDED",
        "at": 1000.0,
        "written": 2,
        "rejected": 0,
    }
    assert outcome["rows"] == RowCounts().to_json()
    assert not [e for e in world.dynamodb.calls[writes:] if e.operation != "describe_table"]
    # The source is pinned, and not read.
    assert [e.operation for e in world.s3.calls[len(reads) :]] == ["head_object"]
    ledger = world.context().ledger("r2")
    report, record = ledger.find_report(), ledger.record()
    assert report is not None
    assert (report.status, report.chunks, report.loaded_before) == (
        *("ALREADY_LOADED", 0, record.loaded_before),
    )
    assert record.loads_nothing
    assert loads(world) == [("r1", "put", "SUCCEEDED", 1)]
    # Nothing is claimed: this run is no hindrance to another.
    assert not world.store.names("once/")
    # Resumed, or reported again, it says the same.
    again = execute(world, {"run": {"resume_of": "r2"}}, "r2-again")
    assert (again["status"], again["loaded_before"]) == (
        *("ALREADY_LOADED", outcome["loaded_before"]),
    )
    assert read_run("r2", world.context()).state.done
    assert read_run("r2", world.context()).state.status == "ALREADY_LOADED"
    # Without it, and in another version, it is loaded.
    assert execute(world, given(world, "r3"), "r3")["status"] == "SUCCEEDED"
    world.overwrite(b"id,n\nc,3\n")
    assert once(world, "r4")["status"] == "SUCCEEDED"
    # A table that was made again has loaded nothing.
    world.dynamodb.delete_table(TableName=TABLE)
    world.create_table()
    assert once(world, "r5")["status"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ({"where": ["n=1"]}, {"where": ["n=2"]}, "SUCCEEDED"),
        ({"where": ["n=1"]}, {}, "SUCCEEDED"),
        # Nothing was written, as nothing would be now: it is the same load.
        ({"where": ["n=9"]}, {"where": ["n=9"]}, "ALREADY_LOADED"),
        ({"where": ["n=9"]}, {"where": ["n=1"]}, "SUCCEEDED"),
        ({"options": {"mode": "update", "only_existing": True}}, {}, "SUCCEEDED"),
        ({"options": {"mode": "insert"}}, {}, "SUCCEEDED"),
        ({"types": {"n": "N"}}, {}, "SUCCEEDED"),
        ({"mapping": {"drop": ["n"]}}, {}, "SUCCEEDED"),
        ({"infer_types": True}, {"infer_types": True}, "ALREADY_LOADED"),
        ({"options": {"mode": "put", "max_rejects": 5, "chunk_bytes": 4}}, {}, "ALREADY_LOADED"),
    ],
)
def test_once_asks_for_the_same_rows(first, second, status):
    world = World(FILE)
    execute(world, {**given(world, "r1"), **with_engine(first)}, "r1")
    assert once(world, "r2", **with_engine(second))["status"] == status
    # Detected or not, what is asked again is the same.
    assert once(world, "r3", **with_engine(second))["status"] == "ALREADY_LOADED"


def with_engine(more: dict[str, Any]) -> dict[str, Any]:
    options = {"engine": "sync", **more.get("options", {})}
    return {**more, "options": options}


def test_once_finds_a_load_whatever_was_detected_for_it():
    world = World(FILE.replace(b",", b";"), source={"format": "auto", "delimiter": "auto"})
    execute(world, given(world, "r1"), "r1")
    assert once(world, "r2")["status"] == "ALREADY_LOADED"


@pytest.mark.parametrize(
    ("modes", "status"),
    [
        (["put", "delete"], "SUCCEEDED"),
        (["put", "delete", "put"], "ALREADY_LOADED"),
        (["delete", "put"], "ALREADY_LOADED"),
        (["put", "delete", "delete", "insert"], "SUCCEEDED"),
    ],
)
def test_later_delete_voids_a_load(modes, status):
    world = World(FILE)
    for number, mode in enumerate(modes):
        world.clock.sleep(10.0)
        more = {"options": {"mode": mode, "engine": "sync"}}
        if mode == "delete":
            more["where"] = ["n=1"]
        execute(world, {**given(world, f"r{number}"), **more}, f"r{number}")
    assert once(world, "last")["status"] == status


def test_later_load_voids_a_delete():
    world = World(FILE, options={"mode": "delete"})
    execute(world, given(world, "r1"), "r1")
    assert once(world, "r2")["status"] == "ALREADY_LOADED"
    world.clock.sleep(10.0)
    put = {"options": {"engine": "sync"}}
    execute(world, {**given(world, "r3"), **put}, "r3")
    assert once(world, "r4")["status"] == "SUCCEEDED"


def test_once_names_an_earlier_run_with_rejects():
    world = World(b"id,n\na,1\n,2\n")
    for run in ("r1", "r2"):
        execute(world, given(world, run), run)
        world.clock.sleep(10.0)
    loaded = once(world, "r3")["loaded_before"]
    assert (loaded["runs"], loaded["run"], loaded["rejected"]) == (1, "r2", 1)
    assert loaded["status"] == "SUCCEEDED_WITH_REJECTS"


def test_once_with_a_key_of_hmac_is_not_salted_by_the_run(monkeypatch):
    mapping = {"rename": {}, "drop": [], "set": {"h": "{n|hmac}"}}
    world = World(FILE, more={"mapping": mapping})
    monkeypatch.setenv("DDBLOAD_HMAC_KEY", "one")
    execute(world, given(world, "r1"), "r1")
    assert once(world, "r2")["status"] == "ALREADY_LOADED"
    monkeypatch.setenv("DDBLOAD_HMAC_KEY", "two")
    assert once(world, "r3")["status"] == "SUCCEEDED"


def begin(world: World, run: str) -> None:
    preflight(PreflightTask(given(world, run, once=True), run), world.context())


@pytest.mark.parametrize("moment", ["names", "get", "put_new"])
def test_of_two_runs_that_begin_at_the_same_time_once_refuses_one(moment):
    """The other run begins at each of the first one's accesses to the claims."""
    world = World(FILE)
    refused: list[str] = []

    def hook(what: str, name: str, _: bytes) -> None:
        if what == moment and name.startswith("once/"):
            world.store.hook = lambda *_: None
            begin(world, "r2")

    if moment == "get":
        # A claim that is there, of a run that never began.
        begin_claim(world, "r0")
        world.clock.time += 3600
    world.store.hook = hook
    try:
        begin(world, "r1")
    except errors.AlreadyLoading as error:
        refused.append(error.message)
    assert len(refused) == 1
    assert "by run r2, which has not finished" in refused[0]
    assert not world.store.names("runs/r1/run.json")
    assert world.store.names("runs/r2/run.json")


def begin_claim(world: World, run: str) -> None:
    """Begin a run that dies between its claim and its record."""

    def die(what: str, name: str, _: bytes) -> None:
        if what == "put_new" and name.endswith("run.json"):
            raise ConnectionError

    world.store.hook = die
    with pytest.raises(ConnectionError):
        begin(world, run)
    world.store.hook = lambda *_: None


def test_claim_of_a_run_that_never_began_is_free_after_a_while():
    world = World(FILE)
    begin_claim(world, "r1")
    with pytest.raises(errors.AlreadyLoading, match="by run r1, which has not finished"):
        begin(world, "r2")
    begin(world, "r1")
    world.clock.time += 3600
    with pytest.raises(errors.AlreadyLoading, match="by run r1, which has not finished"):
        begin(world, "r2")


def test_once_may_load_what_a_failed_run_did_not():
    world = World(b"id,n\na,1\n,2\n", options={"max_rejects": 0})
    assert execute(world, given(world, "r1", once=True), "r1")["status"] == "FAILED"
    world.options["max_rejects"] = 1
    outcome = execute(world, given(world, "r2", once=True), "r2")
    assert outcome["status"] == "SUCCEEDED_WITH_REJECTS"


def test_once_lets_an_unfinished_run_go_on():
    world = World(FILE, options={"chunk_bytes": 4})
    execute(world, given(world, "r1", once=True), "r1", lost=frozenset({1}))
    assert loads(world) == []
    outcome = execute(world, {"run": {"resume_of": "r1"}}, "r1-again")
    assert outcome["status"] == "SUCCEEDED"
    assert loads(world) == [("r1", "put", "SUCCEEDED", 1)]


def several(count: int = 5) -> ManyObjects:
    return ManyObjects(files={f"{n}.csv": b"id,n\n%d,1\n" % n for n in range(count)})


def test_once_loads_the_new_objects_alone():
    world = several()
    one = {"source": {"bucket": BUCKET, "key": "many/3.csv"}}
    execute(world, {**given(world, "r1"), **one}, "r1")
    outcome = once(world, "r2")
    assert (outcome["status"], outcome["rows"]["written"]) == ("SUCCEEDED", 4)
    assert outcome["loaded_before"]["objects"] == 1
    assert outcome["loaded_before"]["run"] == "r1"
    assert len(world.items) == 5
    report = world.context().ledger("r2").find_report()
    assert report is not None
    assert report.loaded_before is not None
    # The history says of each run what it loaded.
    assert loads(world) == [("r1", "put", "SUCCEEDED", 1), ("r2", "put", "SUCCEEDED", 4)]
    outcome = once(world, "r3")
    assert (outcome["status"], outcome["loaded_before"]["objects"]) == ("ALREADY_LOADED", 5)
    assert (outcome["loaded_before"]["runs"], outcome["loaded_before"]["run"]) == (2, "r2")
    # One more object under the prefix: it alone is loaded.
    world.put("9.csv", b"id,n\n9,1\n")
    assert once(world, "r4")["rows"]["written"] == 1
    for key in ("many/3.csv", "many/9.csv"):
        single = once(world, f"of-{key[5]}", source={"bucket": BUCKET, "key": key})
        assert single["status"] == "ALREADY_LOADED"


def begin_over(world: World, run: str, *keys: str) -> None:
    sources = [f"s3://{BUCKET}/many/{key}.csv" for key in keys]
    source = {"key": f"many/{keys[0]}.csv", "bucket": BUCKET} if len(keys) == 1 else None
    payload = {**given(world, run, once=True), "source": source or {"sources": sources}}
    preflight(PreflightTask(payload, run), world.context())


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (("0", "1"), ("1", "2"), "1"),
        (("0",), ("0", "1"), "0"),
        (("0", "1"), ("1",), "1"),
        (("0", "1"), ("2", "3"), None),
        (("0",), ("1",), None),
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
def test_runs_that_share_some_objects_do_not_both_load_them(first, second, shared, at_once):
    world = several()
    if at_once:

        def hook(what: str, name: str, _: bytes) -> None:
            if what == "put_new" and name.startswith("once/"):
                world.store.hook = lambda *_: None
                begin_over(world, "r2", *second)

        world.store.hook = hook
        begun, refused = "r2", lambda: begin_over(world, "r1", *first)
    else:
        begin_over(world, "r1", *first)
        begun, refused = "r1", lambda: begin_over(world, "r2", *second)
    if shared is None:
        refused()
        return
    with pytest.raises(errors.AlreadyLoading, match=rf"many/{shared}.csv is .* by run {begun}"):
        refused()


def test_run_over_objects_of_which_some_are_loaded_does_not_claim_these():
    world = several()
    execute(world, {**given(world, "r1"), "source": {"bucket": BUCKET, "key": "many/0.csv"}}, "r1")
    begin_over(world, "r2", "0", "1")
    outcome = once(world, "r3", source={"bucket": BUCKET, "key": "many/0.csv"})
    assert outcome["status"] == "ALREADY_LOADED"
    with pytest.raises(errors.AlreadyLoading):
        begin_over(world, "r4", "1", "2")


def test_claims_of_other_loads_do_not_count():
    world = World(FILE)
    begin(world, "r1")
    world.more = {"where": ["n=1"]}
    begin(world, "r2")
    world.options = {"mode": "delete"}
    begin(world, "r3")


@pytest.mark.parametrize("moment", ["put_new", "done"])
def test_load_that_ends_while_another_begins_is_noticed(moment):
    """The other run begins and ends before this one's claim can be seen, or just after."""
    world = several(2)

    def hook(what: str, name: str, _: bytes) -> None:
        if what == moment and name.startswith("once/"):
            world.store.hook = lambda *_: None
            other = {"bucket": BUCKET, "key": "many/1.csv"}
            # Without --once it asks nobody, and is in the history when it ends.
            execute(world, {**given(world, "r2"), "source": other}, "r2")

    world.clock.sleep(10.0)
    world.store.hook = hook
    outcome = once(world, "r1")
    assert (outcome["rows"]["written"], outcome["loaded_before"]["run"]) == (1, "r2")


def test_failed_run_that_is_resumed_claims_its_objects_again():
    world = World(b"id,n\na,1\n,2\n", options={"max_rejects": 0})
    assert execute(world, given(world, "r1", once=True), "r1")["status"] == "FAILED"
    world.clock.sleep(10.0)
    resume = {"run": {"resume_of": "r1"}, "options": {"max_rejects": 1}}
    preflight(PreflightTask(resume, "again"), world.context())
    with pytest.raises(errors.AlreadyLoading, match="by run r1"):
        begin(world, "r2")
    world.clock.sleep(10.0)
    # Another run that began while it was down keeps the objects.
    assert execute(world, resume, "again-2")["status"] == "SUCCEEDED_WITH_REJECTS"
    assert once(world, "r3")["status"] == "ALREADY_LOADED"


def test_resumed_run_yields_to_the_one_that_took_its_source():
    world = World(b"id,n\na,1\n,2\n", options={"max_rejects": 0})
    execute(world, given(world, "r1", once=True), "r1")
    world.clock.sleep(10.0)
    begin(world, "r2")
    outcome = execute(world, {"run": {"resume_of": "r1"}}, "again")
    assert outcome["error"]["name"] == "AlreadyLoading"
    assert "by run r2" in outcome["error"]["message"]


def found_in(history: History, version: ObjectVersion, table_id: str = "id-1") -> list[LoadRecord]:
    names = history.version_names("books", table_id, version)
    return [load for _, load in history.find_each(names, [version])]


def test_forced_run_gets_the_executions_name_if_its_id_is_done():
    world = World(FILE)
    execute(world, given(world, "r1"), "r1")
    outcome = execute(world, given(world, "r1", force=True), "again")
    assert (outcome["run"], outcome["status"], outcome["rows"]["written"]) == (
        "again",
        "SUCCEEDED",
        2,
    )
    assert loads(world) == [("again", "put", "SUCCEEDED", 1), ("r1", "put", "SUCCEEDED", 1)]
    # Each invocation of this execution means the same run.
    task = PreflightTask(given(world, "r1", force=True), "again")
    with pytest.raises(errors.RunMismatch, match="r1 is done"):
        preflight(task, world.context())
    # A resumed run is not forced again.
    assert execute(world, {"run": {"resume_of": "again"}}, "again-r1")["run"] == "again"


@pytest.mark.parametrize(
    ("objects", "pages"), [(1, 1), (2, 1), (2000, 1), (2001, 16), (32_001, 256)]
)
def test_history_of_many_objects_takes_few_writes(objects, pages):
    store = MemoryStore()
    history = History(store)
    history.put(LOAD, (version(number) for number in range(objects)))
    assert len(store.objects) == pages
    for number in (0, objects - 1):
        assert found_in(history, version(number)) == [LOAD]
    assert found_in(history, version(objects)) == []
    assert found_in(history, version(0), "id-2") == []
    asked = [version(0), version(objects), version(objects - 1)]
    found = history.find_each(history.table_names("books", "id-1"), asked)
    assert {key for key, _ in found} == {version(0).hash, version(objects - 1).hash}


def test_history_is_written_in_groups(monkeypatch):
    monkeypatch.setattr("ddbload.ledger.history.GROUP_OBJECTS", 10)
    store = MemoryStore()

    def each() -> Iterator[ObjectVersion]:
        yield from (version(number) for number in range(21))

    History(store).put(LOAD, each())
    assert len(store.objects) == 3
    assert all(found_in(History(store), version(number)) for number in range(21))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {}, True),
        ({}, {"etag": '"f"'}, False),
        # A listing tells no version.
        ({}, {"version_id": "v1"}, True),
        ({"version_id": "null"}, {"version_id": "v1"}, True),
        ({"version_id": "v1"}, {"version_id": "v1"}, True),
        ({"version_id": "v1"}, {"version_id": "v2"}, False),
    ],
)
def test_version_ids_decide_where_both_are_known(one, other, same):
    store = MemoryStore()
    history = History(store)
    history.put(LOAD, [version(0, **one)])
    assert bool(found_in(history, version(0, **other))) == same
    names = history.table_names("books", "id-1")
    assert bool(list(history.find_each(names, [version(0, **other)]))) == same


def test_file_is_known_by_all_that_pins_it():
    pinned = {"path": "/a/b\udcff.csv", "size": 3, "mtime_ns": 1, "ctime_ns": 2, "inode": 4}
    store = MemoryStore()
    history = History(store)
    history.put(LOAD, [ObjectVersion(pinned)])
    assert found_in(history, ObjectVersion(pinned)) == [LOAD]
    for name in ("size", "mtime_ns", "ctime_ns", "inode"):
        assert not found_in(history, ObjectVersion({**pinned, name: 9}))


@pytest.mark.parametrize("data", [b"", b"{}", b"[]\n", b"\xff", b'{"run": 1}\n'])
def test_damaged_history_is_a_named_error(data):
    store = MemoryStore()
    history = History(store)
    history.put(LOAD, [version(0)])
    (name,) = store.names("")
    store.put(name, data)
    with pytest.raises(errors.LedgerDamaged, match="history/books/id-1"):
        found_in(history, version(0))


def test_newest_runs_come_first_whatever_their_ids():
    store = MemoryStore()
    ids = ["zebra", "20261121T073000Z-1f2e3d", "upload-aa", "a-b-c"]
    for number, run in enumerate(ids):
        put_start(store, run, 1000.0 + number)
        store.put(f"runs/{run}/run.json", b"")
    put_start(store, "zebra", 1009.0)
    assert newest_runs(store) == ["zebra", "a-b-c", "upload-aa", "20261121T073000Z-1f2e3d"]
    assert newest_runs(store, 2) == ["zebra", "a-b-c"]


def test_reports_of_a_load_are_the_same_each_time():
    """The time of a load is not that of the function that writes it."""
    world = World(FILE)
    execute(world, given(world, "r1"), "r1")
    history = History(world.store)
    (page,) = history.read(world.store.names("history/"))
    report = world.context().ledger("r1").find_report()
    assert report is not None
    assert page.load.at == world.context().ledger("r1").record().created + report.seconds
