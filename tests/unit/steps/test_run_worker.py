"""A worker tells that it is alive, obeys control.json, and sends nothing when it cannot know."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from ddbload import errors, run_worker
from ddbload.contracts.control import IDLE, WORKING, Control, WorkerProgress
from ddbload.contracts.results import Segment
from ddbload.contracts.row_counts import RowCounts, WriteStats
from ddbload.contracts.row_counts import WorkTotals as Totals
from ddbload.contracts.run_record import Cursor, WritePrice
from ddbload.ledger.ledger import Ledger, ManifestCache
from ddbload.run_worker import RunWorker
from ddbload.source.decoding.decoded_source import SeekTrail
from ddbload.steps.row_feeder import write_segment
from tests.unit.steps.world import TABLE, World

DATA = b"id,a\n" + b"".join(b"r%d,x\n" % n for n in range(100))


class Scene:
    """A run of two workers, one of which is driven by hand, without its thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: object) -> None:
        monkeypatch.setattr(run_worker, "TICK_SECONDS", 1e6)
        self.world = World(DATA, options={"chunk_bytes": 300, "workers": 2, **options})
        self.world.preflight()
        self.ledger: Ledger = self.world.ledger
        self.record = replace(
            self.ledger.record(), workers=2, write_price=WritePrice(1.0, "given", "us-east-1")
        )
        self.now = 0.0
        self.worker = RunWorker("ab", lingers=True, clock=lambda: self.now)
        self.session = self.worker.session(self.ledger, self.record)

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.session.tick()

    def told(self, worker: str = "ab") -> WorkerProgress:
        (found,) = (each for each in self.ledger.workers() if each.progress.worker == worker)
        return found.progress

    def other(self, number: int, state: str = WORKING, wcu: float | None = 100.0) -> None:
        self.ledger.put_worker(WorkerProgress("cd", number, state, wcu, None), None)


@pytest.fixture
def scene(monkeypatch):
    made = Scene(monkeypatch, max_wcu=300)
    yield made
    made.worker.close()


def test_worker_obeys_a_new_limit_at_the_next_look(scene):
    with scene.worker.importing(scene.ledger, scene.record):
        scene.ledger.change_control(lambda _: Control(max_wcu=100))
        scene.after(2)
        assert scene.session.budget.units_per_second == 100
        scene.ledger.change_control(lambda _: Control())
        scene.after(2)
        assert scene.session.budget.units_per_second is None


def test_silent_worker_sends_nothing_until_it_has_looked(scene):
    with scene.worker.importing(scene.ledger, scene.record):
        scene.now += 60
        assert scene.session.budget.ready_at(scene.now) == float("inf")
        assert not scene.session.stop_requested(scene.now)
        scene.session.tick()
        assert scene.session.budget.ready_at(scene.now) < float("inf")


def test_worker_with_a_limit_stops_when_the_ledger_is_lost(scene, monkeypatch):
    def lost(_: object) -> None:
        raise errors.ServiceUnavailable("no answer")

    with scene.worker.importing(scene.ledger, scene.record):
        monkeypatch.setattr(Ledger, "find_control", lost)
        for _ in range(40):
            scene.after(1)
            if scene.session.stop_requested(scene.now):
                break
        assert scene.now <= 25
        with pytest.raises(errors.ControlLost, match="no answer"):
            scene.session.raise_pending()


def test_worker_tells_what_it_has_settled(scene):
    rows = RowCounts(read=3, written=2, rejected=1)
    with scene.worker.importing(scene.ledger, scene.record) as session:
        current = Totals(rows, WriteStats(throttled=4, consumed_wcu=2.0), 18)
        session.progress(1, 5, current)
        scene.after(5)
        told = scene.told()
        assert (told.chunk, told.start, told.current, told.settled) == (1, 5, current, Totals())
        work = WriteStats(requests=1, consumed_wcu=3.0)
        session.settle(Totals(rows, work, 20))
        scene.after(5)
        told = scene.told()
        assert (told.chunk, told.current) == (None, Totals())
        assert (told.settled.rows, told.settled.bytes) == (rows, 20)
    assert len(list(scene.ledger.workers())) == 1


def test_worker_does_not_count_the_segment_of_another(scene):
    own, others = (
        Segment(1, Cursor(5, 2), Cursor(25, 5), True, RowCounts(n, n), WriteStats(requests=1), None)
        for n in (3, 4)
    )
    scene.ledger.put_segment(others)
    with scene.worker.importing(scene.ledger, scene.record):
        assert write_segment(own, ([], {}), SeekTrail(), scene.ledger) == (others, False)
        scene.after(5)
        assert scene.told().settled == Totals()


@pytest.mark.parametrize("forfeited", [0, 400])
def test_run_that_has_cost_enough_stops_by_name(scene, forfeited):
    # Of a worker that died.
    scene.ledger.put_worker(WorkerProgress("cd", 0, WORKING, None, forfeited), None)
    scene.world.clock.sleep(1e4)
    scene.ledger.change_control(lambda _: Control(max_cost=0.001))
    with scene.worker.importing(scene.ledger, scene.record) as session:
        for _ in range(60):
            limit = session.budget.unit_limit
            assert limit is not None
            assert limit <= 1000.1 - forfeited
            session.budget.used = max(session.budget.used, limit)
            scene.after(2)
        assert session.stopped
        assert 990 <= session.budget.used + forfeited <= 1000.1
        with pytest.raises(errors.MaxCostReached, match="--max-cost"):
            session.raise_pending()


def test_function_makes_few_requests_for_a_short_chunk():
    """Of an import without limits: what it reads and writes in the ledger, by kind."""
    world = World(DATA, options={"chunk_bytes": 200})
    world.preflight()
    worker = RunWorker("ab", lingers=False, clock=world.clock)
    manifests, made = ManifestCache(), Counter[tuple[str, str]]()

    def count(moment: str, name: str, _data: bytes) -> None:
        if moment != "done":
            made[moment, name.split("/")[2]] += 1

    world.store.hook = count
    for chunk in world.manifest[:3]:
        made.clear()
        context = replace(world.context(), control=worker, manifests=manifests)
        world.import_step(chunk, context=context)
    assert made == {
        ("get", "run.json"): 1,
        ("names", "chunks"): 1,
        ("get", "control.json"): 1,
        ("put_new", "chunks"): 1,
        ("put", "progress"): 1,
        ("delete", "progress"): 1,
    }
    (told,) = world.ledger.workers()
    assert told.progress.state == IDLE
    assert told.progress.settled.rows == sum(
        (s.rows for s in world.ledger.iter_segments()), RowCounts()
    )


def function_of(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Make a scene whose worker is a function without limits, in a ledger that is in S3."""
    monkeypatch.setattr(Ledger, "progress_seconds", 5.0)
    scene = Scene(monkeypatch)
    scene.worker = RunWorker("ab", lingers=False, clock=lambda: scene.now)
    scene.session = scene.worker.session(scene.ledger, scene.record)
    return scene


def test_environment_of_many_runs_forgets_the_earliest(monkeypatch):
    """Its totals are in the ledger under the name of then, and must not be counted from zero."""
    scene = function_of(monkeypatch)
    for number in range(run_worker.MAX_SESSIONS + 1):
        record = replace(scene.record, run=f"other-{number}")
        scene.worker.session(Ledger(scene.world.store, record.run, record), record)
    segment = Segment(1, Cursor(5, 2), Cursor(25, 5), True, RowCounts(1, 1), WriteStats(), None)
    for _ in range(2):
        with scene.worker.importing(scene.ledger, scene.record) as session:
            session.settle(segment)
        names = {each.progress.worker for each in scene.ledger.workers()}
    assert len(names) == 1
    assert names != {"ab"}


@pytest.mark.parametrize("environments", [1, 3])
@pytest.mark.parametrize("killed", [False, True])
def test_run_of_short_functions_counts_the_units_that_dynamodb_reported(
    monkeypatch, environments, killed
):
    """Each row is of one unit, and an invocation ends before its chunk does."""
    monkeypatch.setattr(run_worker, "TICK_SECONDS", 1e6)
    rows = 1500
    data = b"id,a\n" + b"".join(b"r%05d,x\n" % number for number in range(rows))
    world = World(data, options={"max_wcu": 200, "workers": 1}, request_seconds=0.02)
    world.preflight()
    (chunk,) = world.manifest
    workers = [
        RunWorker(f"{number:02x}", lingers=False, clock=world.clock)
        for number in range(environments)
    ]
    invocations = 0
    while True:
        worker = workers[invocations % environments]
        context = replace(world.context(2.0), control=worker, worker=worker.worker)
        if killed and invocations == 1:
            # Its segment is lost, and its progress is not.
            world.store.hook = lambda moment, name, _data: refuse_segment(moment, name)
        invocations += 1
        try:
            result = world.import_step(chunk, context=context)
        except errors.ServiceUnavailable:
            world.store.hook = lambda *_: None
            continue
        if not result.chunks:
            break
    assert invocations > 3
    sent = sum(
        len(call.params["RequestItems"][TABLE])
        for call in world.dynamodb.calls
        if call.operation == "batch_write_item"
    )
    assert sent >= rows
    assert world.report().work.consumed_wcu == sent


def refuse_segment(moment: str, name: str) -> None:
    if moment == "put_new" and "/chunks/" in name:
        raise errors.ServiceUnavailable("the ledger cannot be reached")
