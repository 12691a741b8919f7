"""Run states and heartbeats, as another process reads them from the ledger."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.control import CANCELLED_CONTROL, WORKING, Control, WorkerProgress
from ddbload.contracts.results import Heartbeat
from ddbload.contracts.row_counts import RowCounts, WorkTotals, WriteStats
from ddbload.ledger.run_state import is_alive
from ddbload.runs import run_status as module
from ddbload.runs.list_runs import list_runs
from ddbload.runs.run_control import take_up
from ddbload.runs.run_status import HeartbeatWriter, live_heartbeat, works
from ddbload.steps import report as reader
from ddbload.steps.report import (
    SeenRun,
    finished_report,
    is_another,
    is_gone,
    machine,
    read_run,
)
from tests.unit.steps.world import RUN, World

DATA = b"id,n\n" + b"".join(b"r%d,%d\n" % (n, n) for n in range(100))
GONE = 2**22 + 1
"""Process id that is never in use."""


def beat(world: World, **changes: Any) -> Heartbeat:
    """Write a heartbeat, by default that of this process, as if there had been none."""
    world.store.delete(f"runs/{RUN}/progress.json")
    with HeartbeatWriter(world.ledger, world.context()) as heart:
        heart.beat()
        found = world.ledger.find_heartbeat()
    assert found is not None
    left = replace(found, **changes)
    world.ledger.put_heartbeat(left)
    return left


def seen(world: World) -> SeenRun:
    return read_run(RUN, world.context())


def test_run_state_is_running_when_heartbeat_is_fresh():
    world = World(DATA)
    world.preflight()
    beat(world, step="import", rows=RowCounts(7, 7), bytes=60, size=len(DATA))
    found = seen(world)
    assert (found.state.status, found.state.running, found.state.done) == ("RUNNING", True, False)
    assert (found.report.rows, found.report.bytes) == (RowCounts(7, 7), 60)
    assert found.report.error is None
    assert live_heartbeat(RUN, world.context()) == found.heartbeat


def test_run_state_has_the_units_that_workers_tell():
    world = World(DATA)
    world.preflight()
    beat(world, step="import", rows=RowCounts(7, 7), bytes=60, size=len(DATA))
    work = WriteStats(throttled=2, consumed_wcu=9.0)
    totals = WorkTotals(RowCounts(7, 7), work, 60)
    told = WorkerProgress("ab", 0, WORKING, None, None, chunk=0, start=5, current=totals)
    world.ledger.put_worker(told, None)
    assert seen(world).report.work == work


def test_run_state_keeps_ledger_progress_when_resumed_run_is_in_preflight():
    world = World(DATA)
    rows = world.run().rows
    last = world.ledger.last_report()
    world.ledger.put_report(replace(last.report, status="FAILED"), last)
    beat(world, rows=RowCounts(), bytes=0, size=0)
    found = seen(world)
    assert (found.state.status, found.report.rows) == ("RUNNING", rows)
    assert (found.report.bytes, found.report.size) == (len(DATA), len(DATA))


@pytest.mark.parametrize("changes", [{"pid": GONE}, {"at": 1000.0 - 6.1}, {"at": 1000.0 + 6.1}])
def test_run_state_is_interrupted_when_process_was_killed(changes):
    world = World(DATA)
    world.preflight()
    left = beat(world, **changes)
    found = seen(world)
    assert (found.state.status, found.state.running, found.state.done) == (
        "INTERRUPTED",
        False,
        False,
    )
    assert found.heartbeat == left
    assert found.report.error is None
    assert live_heartbeat(RUN, world.context()) is None


def test_run_state_is_interrupted_when_killed_after_earlier_report():
    world = World(DATA)
    world.preflight()
    assert world.report().status == "FAILED"
    assert seen(world).state.status == "FAILED"
    beat(world, pid=GONE)
    assert seen(world).state.status == "INTERRUPTED"
    beat(world, state="ended")
    assert seen(world).state.status == "FAILED"


def test_list_of_runs_and_status_judge_alike():
    """A cancelled run was resumed, and its process killed."""
    world = World(DATA)
    world.preflight()
    world.ledger.change_control(lambda _: Control(state=CANCELLED_CONTROL))
    assert world.report().status == "CANCELLED"
    for left, status in (("ended", "CANCELLED"), ("running", "INTERRUPTED")):
        if left == "running":
            take_up(RUN, world.context())
        beat(world, pid=GONE, state=left)
        (listed,) = list_runs(world.context(), None, 1)
        assert (listed.status, seen(world).state.status) == (status, status)


def test_time_of_a_killed_attempt_ends_with_its_last_sign_of_life():
    world = World(DATA)
    world.preflight()
    assert world.report().status == "FAILED"
    world.clock.sleep(7.0)
    beat(world, pid=GONE)
    world.clock.sleep(1200.0)
    found = seen(world).report
    assert (found.status, found.error, found.seconds) == ("INTERRUPTED", None, 7.0)
    assert seen(world).report.seconds == 7.0
    beat(world, state="ended")
    assert seen(world).state.reported


def test_run_state_is_interrupted_when_there_is_no_heartbeat():
    world = World(DATA)
    world.preflight()
    found = seen(world)
    assert (found.state.status, found.heartbeat) == ("INTERRUPTED", None)
    world.report(interrupted=True)
    assert seen(world).state.status == "INTERRUPTED"


def test_run_state_is_done_when_killed_after_report():
    world = World(DATA)
    world.run()
    beat(world, pid=GONE)
    found = seen(world)
    assert (found.state.status, found.state.done, found.report.error) == ("SUCCEEDED", True, None)


def test_run_state_is_not_done_when_ledger_contradicts_report():
    world = World(DATA)
    world.run()
    assert finished_report(RUN, world.context()) == world.ledger.find_report()
    del world.store.objects[next(name for name in world.store.objects if "/chunks/" in name)]
    found = seen(world)
    assert (found.state.status, found.state.done) == ("FAILED", False)
    assert finished_report(RUN, world.context()) is None


def test_heartbeat_of_another_machine_is_judged_by_its_age():
    world = World(DATA)
    left = beat(world, host="elsewhere", pid=GONE)
    assert is_alive(left, left.at + 3 * left.every)
    assert not is_alive(left, left.at + 3 * left.every + 0.1)
    assert is_another(left)
    assert is_another(beat(world, boot="another"))
    assert not is_another(beat(world))


@pytest.mark.parametrize(("uri", "seconds"), [("memory:", 2.0), ("s3://bucket/", 5.0)])
def test_heartbeats_are_rarer_in_a_bucket(uri, seconds, monkeypatch):
    world = World(DATA)
    monkeypatch.setattr(world.store, "uri", lambda _name: uri)
    assert beat(world).every == seconds


def test_heartbeats_repeat_and_last_one_says_ended(monkeypatch):
    monkeypatch.setattr(module, "FOLDER_SECONDS", 0.001)
    world, enough = World(DATA), threading.Event()
    found: list[str] = []

    def hook(moment: str, name: str, _data: bytes) -> None:
        if moment == "done":
            found.append(name)
            if len(found) == 3:
                enough.set()

    world.store.hook = hook
    with HeartbeatWriter(world.ledger, world.context()) as heart:
        assert enough.wait(60)
        heart.set_progress(RowCounts(3, 3), 30, 300)
    left = world.ledger.find_heartbeat()
    assert (left.state, left.step, left.rows, left.bytes) == (
        "ended",
        "import",
        RowCounts(3, 3),
        30,
    )
    assert set(found) == {f"runs/{RUN}/progress.json"}


def test_no_heartbeat_is_written_when_run_ends_at_once():
    world = World(DATA)
    with HeartbeatWriter(world.ledger, world.context()):
        pass
    assert world.store.objects == {}


@pytest.mark.parametrize("state", ["running", "ended"])
def test_process_that_was_overtaken_stops_and_leaves_the_heartbeat_alone(state):
    """It was suspended for so long that another process took up its run."""
    world = World(DATA)
    with HeartbeatWriter(world.ledger, world.context()) as heart:
        heart.beat()
        heart.look()
        own = world.ledger.find_heartbeat()
        others = replace(own, pid=1, state=state)
        world.ledger.put_heartbeat(others)
        heart.beat()
        assert heart.stopped
        with pytest.raises(errors.RunUnderWay, match=r"process 1 on .* has taken up run run-1"):
            heart.look()
    assert world.ledger.find_heartbeat() == others


def test_earlier_attempt_has_not_overtaken_one_that_cannot_write():
    """The ledger is full: the heartbeat of the earlier attempt could not be ended, either."""
    world = World(DATA)
    earlier = beat(world, pid=GONE, state="running")

    def refuse(*_: Any) -> None:
        raise errors.LedgerUnwritable("no space left")

    with HeartbeatWriter(world.ledger, world.context()) as heart:
        world.store.put = refuse  # type: ignore[method-assign]
        heart.beat()
        heart.look()
        assert not heart.stopped
        heart.beat()
        heart.look()
        assert not heart.stopped
    assert world.ledger.find_heartbeat() == earlier


def test_heartbeat_of_an_earlier_attempt_does_not_count():
    world = World(DATA)
    beat(world, pid=GONE)
    with HeartbeatWriter(world.ledger, world.context()) as heart:
        heart.look()
        heart.beat()
        assert not heart.stopped
    assert world.ledger.find_heartbeat().pid != GONE


def test_failed_heartbeats_are_ignored():
    world = World(DATA)

    def hook(moment: str, _name: str, _data: bytes) -> None:
        if moment == "put":
            raise errors.LedgerDamaged("the disk is full")

    world.store.hook = hook
    with HeartbeatWriter(world.ledger, world.context()) as heart:
        heart.beat()
    assert world.store.objects == {}


@pytest.mark.parametrize("kept", [b"", b"[]", b"{", b'{"state": "running"}', b"\xff"])
def test_damaged_heartbeat_is_ignored(kept):
    world = World(DATA)
    world.store.objects[f"runs/{RUN}/progress.json"] = kept
    assert world.ledger.find_heartbeat() is None


def test_machine_is_its_host_name_when_boot_id_is_unreadable(monkeypatch):
    def unreadable(*_: object) -> str:
        raise OSError

    monkeypatch.setattr(module.os, "readlink", unreadable)
    machine.cache_clear()
    try:
        assert machine()[1] == ""
        assert machine()[0]
    finally:
        machine.cache_clear()


def test_process_of_another_user_counts_as_alive(monkeypatch):
    def refused(_pid: int, _signal: int) -> None:
        raise PermissionError

    world = World(DATA)
    left = beat(world, pid=1)
    monkeypatch.setattr(reader.os, "kill", refused)
    assert not is_gone(left)
    assert works(left, left.at)
