"""What a run has loaded is in the history once it is done, and is not loaded twice by mistake."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.states import PreflightTask
from ddbload.ledger.history import History, ObjectVersion
from ddbload.steps.preflight import preflight
from ddbload.steps.report import read_run
from tests.unit.steps.machine import execute
from tests.unit.steps.world import BUCKET, KEY, TABLE, World
from tests.unit.steps.worlds import ManyObjects

FILE = b"id,n\na,1\nb,2\n"


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


def begin(world: World, run: str) -> None:
    preflight(PreflightTask(given(world, run, once=True), run), world.context())


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


@pytest.mark.parametrize("moment", ["put_over", "done"])
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
