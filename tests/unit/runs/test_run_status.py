"""Run states and heartbeats, as another process reads them from the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.control import WORKING, WorkerProgress
from ddbload.contracts.results import Heartbeat
from ddbload.contracts.row_counts import RowCounts, WorkTotals, WriteStats
from ddbload.ledger.run_state import is_alive
from ddbload.runs.local_runs import HeartbeatWriter, works
from ddbload.steps.report import SeenRun, is_another, is_gone, read_run
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


def test_run_state_has_the_units_that_workers_tell():
    world = World(DATA)
    world.preflight()
    beat(world, step="import", rows=RowCounts(7, 7), bytes=60, size=len(DATA))
    work = WriteStats(throttled=2, consumed_wcu=9.0)
    totals = WorkTotals(RowCounts(7, 7), work, 60)
    told = WorkerProgress("ab", 0, WORKING, None, None, chunk=0, start=5, current=totals)
    world.ledger.put_worker(told, None)
    assert seen(world).report.work == work


def test_heartbeat_of_another_machine_is_judged_by_its_age():
    world = World(DATA)
    left = beat(world, host="elsewhere", pid=GONE)
    assert is_alive(left, left.at + 3 * left.every)
    assert not is_alive(left, left.at + 3 * left.every + 0.1)
    assert is_another(left)
    assert is_another(beat(world, boot="another"))
    assert not is_another(beat(world))


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


def test_process_of_another_user_counts_as_alive(monkeypatch):
    def refused(_pid: int, _signal: int) -> None:
        raise PermissionError

    world = World(DATA)
    left = beat(world, pid=1)
    monkeypatch.setattr("os.kill", refused)
    assert not is_gone(left)
    assert works(left, left.at)
