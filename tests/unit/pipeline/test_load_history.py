"""What a run has loaded is in the history once it is done, and is not loaded twice by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.load_record import LoadRecord, ObjectVersion
from ddbload.contracts.states import PreflightTask
from ddbload.ledger.history import History, newest_runs, put_start
from ddbload.pipeline.preflight.preflight import preflight
from tests.unit.pipeline.machine import execute
from tests.unit.pipeline.world import BUCKET, KEY, TABLE, MemoryStore, World
from tests.unit.pipeline.worlds import ManyObjects

FILE = b"id,n\na,1\nb,2\n"
LOAD = LoadRecord("r1", "books", "id-1", "put", "SUCCEEDED", 1000.0, "s3://b/in/", 3)


def given(world: World, run: str, **more: Any) -> dict[str, Any]:
    return {**world.payload, "run": {"id": run, **more}}


def loads(world: World) -> list[tuple[str, str, str, int]]:
    """Run, mode, status and number of object versions of each object of the history."""
    history = History(world.store)
    pages = history.read(history.names())
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


def test_once_refuses_what_the_table_has_and_writes_nothing():
    world = World(FILE)
    execute(world, given(world, "r1"), "r1")
    outcome = execute(world, given(world, "r2", once=True), "r2")
    assert outcome["status"] == "FAILED"
    assert outcome["error"]["name"] == "AlreadyLoaded"
    assert "by run r1 at 1970-01-01T" in outcome["error"]["message"]
    assert not [name for name in world.store.names("runs/r2/") if name.endswith("run.json")]
    # Without it, and in another version, it is loaded.
    assert execute(world, given(world, "r3"), "r3")["status"] == "SUCCEEDED"
    world.overwrite(b"id,n\nc,3\n")
    assert execute(world, given(world, "r4", once=True), "r4")["status"] == "SUCCEEDED"
    # A table that was made again has loaded nothing.
    world.dynamodb.delete_table(TableName=TABLE)
    world.create_table()
    assert execute(world, given(world, "r5", once=True), "r5")["status"] == "SUCCEEDED"


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
    except errors.AlreadyLoaded as error:
        refused.append(error.message)
    assert len(refused) == 1
    assert "by run r2, which has not ended" in refused[0]
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
    with pytest.raises(errors.AlreadyLoaded, match="by run r1, which has not ended"):
        begin(world, "r2")
    begin(world, "r1")
    world.clock.time += 3600
    with pytest.raises(errors.AlreadyLoaded, match="by run r1, which has not ended"):
        begin(world, "r2")


def test_once_may_load_what_a_failed_run_did_not():
    world = World(b"id,n\na,1\n,2\n", options={"max_rejects": 0})
    assert execute(world, given(world, "r1", once=True), "r1")["status"] == "FAILED"
    world.options["max_rejects"] = 1
    outcome = execute(world, given(world, "r2", once=True), "r2")
    assert outcome["status"] == "SUCCEEDED_WITH_REJECTS"


@pytest.mark.parametrize(("first", "refused"), [("delete", False), ("insert", True)])
def test_once_tells_deletes_from_writes(first, refused):
    world = World(FILE)
    execute(world, {**given(world, "r1"), "options": {"mode": first, "engine": "sync"}}, "r1")
    outcome = execute(world, given(world, "r2", once=True), "r2")
    assert (outcome["error"] is not None) == refused


def test_once_lets_an_unfinished_run_go_on():
    world = World(FILE, options={"chunk_bytes": 4})
    execute(world, given(world, "r1", once=True), "r1", lost=frozenset({1}))
    assert loads(world) == []
    outcome = execute(world, {"run": {"resume_of": "r1"}}, "r1-again")
    assert outcome["status"] == "SUCCEEDED"
    assert loads(world) == [("r1", "put", "SUCCEEDED", 1)]


def test_once_refuses_several_objects_of_which_one_is_loaded():
    files = {f"{number}.csv": b"id,n\n%d,1\n" % number for number in range(5)}
    world = ManyObjects(files=files)
    one = {**given(world, "r1"), "source": {"bucket": BUCKET, "key": "many/3.csv"}}
    execute(world, one, "r1")
    many = execute(world, given(world, "r2", once=True), "r2")
    assert many["error"]["name"] == "AlreadyLoaded"
    assert f"1 of 5 objects, such as s3://{BUCKET}/many/3.csv, were" in many["error"]["message"]
    execute(world, given(world, "r3"), "r3")
    assert ("r3", "put", "SUCCEEDED", 5) in loads(world)
    again = {**one, "source": {"bucket": BUCKET, "key": "many/4.csv"}}
    refused = execute(world, {**again, "run": {"id": "r4", "once": True}}, "r4")
    assert "by run r3" in refused["error"]["message"]


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
        assert history.find("books", "id-1", version(number)) == [LOAD]
    assert history.find("books", "id-1", version(objects)) == []
    assert history.find("books", "id-2", version(0)) == []
    asked = [version(0), version(objects), version(objects - 1)]
    found = history.find_each("books", "id-1", asked)
    assert {each.location for each, _ in found} == {
        version(0).location,
        version(objects - 1).location,
    }


def test_history_is_written_in_groups(monkeypatch):
    monkeypatch.setattr("ddbload.ledger.history.GROUP_OBJECTS", 10)
    store = MemoryStore()

    def each() -> Iterator[ObjectVersion]:
        yield from (version(number) for number in range(21))

    History(store).put(LOAD, each())
    assert len(store.objects) == 3
    assert all(History(store).find("books", "id-1", version(number)) for number in range(21))


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
    assert bool(history.find("books", "id-1", version(0, **other))) == same
    assert bool(list(history.find_each("books", "id-1", [version(0, **other)]))) == same


def test_file_is_known_by_all_that_pins_it():
    pinned = {"path": "/a/b\udcff.csv", "size": 3, "mtime_ns": 1, "ctime_ns": 2, "inode": 4}
    store = MemoryStore()
    history = History(store)
    history.put(LOAD, [ObjectVersion(pinned)])
    assert history.find("books", "id-1", ObjectVersion(pinned)) == [LOAD]
    for name in ("size", "mtime_ns", "ctime_ns", "inode"):
        assert not history.find("books", "id-1", ObjectVersion({**pinned, name: 9}))


@pytest.mark.parametrize("data", [b"", b"{}", b"[]\n", b"\xff", b'{"run": 1}\n'])
def test_damaged_history_is_a_named_error(data):
    store = MemoryStore()
    history = History(store)
    history.put(LOAD, [version(0)])
    (name,) = store.names("")
    store.put(name, data)
    with pytest.raises(errors.LedgerDamaged, match="history/books/id-1"):
        history.find("books", "id-1", version(0))


def test_newest_runs_come_first_whatever_their_ids():
    store = MemoryStore()
    ids = ["zebra", "20261121T073000Z-1f2e3d", "upload-aa", "a-b-c"]
    for number, run in enumerate(ids):
        put_start(store, run, 1000.0 + number)
        store.put(f"runs/{run}/run.json", b"")
    put_start(store, "zebra", 1009.0)
    assert newest_runs(store) == ["zebra", "a-b-c", "upload-aa", "20261121T073000Z-1f2e3d"]
    assert newest_runs(store, 2) == ["zebra", "a-b-c"]


def test_runs_of_earlier_versions_come_last_by_the_time_in_their_id():
    store = MemoryStore()
    for run in ("mine", "20251121T073000Z-1f2e3d", "20261121T073000Z-1f2e3d"):
        store.put(f"runs/{run}/run.json", b"")
    put_start(store, "new", 1000.0)
    assert newest_runs(store, 5) == [
        *("new", "20261121T073000Z-1f2e3d", "20251121T073000Z-1f2e3d", "mine")
    ]


def test_reports_of_a_load_are_the_same_each_time():
    """The time of a load is not that of the function that writes it."""
    world = World(FILE)
    execute(world, given(world, "r1"), "r1")
    history = History(world.store)
    (page,) = history.read(history.names())
    report = world.context().ledger("r1").find_report()
    assert report is not None
    assert page.load.at == world.context().ledger("r1").record().created + report.seconds
