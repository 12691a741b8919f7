from __future__ import annotations

from typing import Any

import pytest

from ddbload.contracts.row_counts import RowCounts
from ddbload.write.drivers import Job
from ddbload.write.scheduler.answers import Accepted, Batch, Finished
from ddbload.write.scheduler.scheduler import Scheduler
from tests.unit.write.fake_transports import Clock, FakeRows, FakeTable


def test_step_feeds_no_more_rows_than_there_is_room_for():
    rows = FakeRows(*range(3 * Scheduler.READY_ROWS))
    job = rows.job(FakeTable())
    job.step()
    assert rows.offered == Scheduler.READY_ROWS
    job.step()
    assert rows.offered == 2 * Scheduler.READY_ROWS
    job.step()
    assert rows.offered == 2 * Scheduler.READY_ROWS


@pytest.mark.parametrize("how", ["asked", "deadline"])
def test_step_stops_within_a_stretch_of_rejects(how):
    """Stop between feeds: a chunk of rejects alone never returns from a step otherwise."""
    clock = Clock()
    rows = FakeRows(deadline=10.0)
    fed = []

    def feed(room: int) -> bool:
        fed.append(room)
        clock.sleep(1.0)
        for _ in range(room):
            rows.scheduler.reject(rows.scheduler.reserve_handles())
        return len(fed) < 100

    job = Job(
        rows.scheduler,
        feed,
        rows.items,
        rows.body,
        FakeTable(),
        should_stop=lambda: how == "asked" and len(fed) == 10,
        clock=clock,
        sleep=clock.sleep,
    )
    assert job.step() == Finished()
    assert len(fed) == 10


def job_with_slow_feed(rows: FakeRows, seconds: float, most: int, **more: Any) -> Job:
    """Make a job whose feeds take `seconds` each and add at most `most` rows."""
    clock = Clock()

    def feed(room: int) -> bool:
        clock.sleep(seconds)
        return rows.feed(min(room, most))

    return Job(
        rows.scheduler,
        feed,
        rows.items,
        rows.body,
        FakeTable(),
        clock=clock,
        sleep=clock.sleep,
        **more,
    )


def test_step_checks_the_deadline_after_feeding():
    # Reading takes time too: the deadline may pass meanwhile.
    rows = FakeRows(*range(100), deadline=10.0)
    job = job_with_slow_feed(rows, 6.0, 25)
    batch = job.step()
    assert batch == Batch(0, tuple(range(25)))
    job.scheduler.answered(batch, Accepted(), job.clock())
    assert job.step() == Finished()
    assert (rows.offered, rows.counts) == (50, RowCounts(read=25, written=25))


def test_step_sends_nothing_late_when_stopped():
    rows = FakeRows(*range(100), deadline=10.0)
    job = job_with_slow_feed(rows, 11.0, 3, should_stop=lambda: bool(rows.offered))
    assert job.step() == Finished()
    assert (rows.offered, rows.counts) == (3, RowCounts())


def test_step_raises_an_error_of_the_source():
    def feed(_room: int) -> bool:
        raise OSError("gone")

    rows = FakeRows("a")
    job = Job(rows.scheduler, feed, rows.items, rows.body, FakeTable())
    with pytest.raises(OSError, match="gone"):
        job.step()
