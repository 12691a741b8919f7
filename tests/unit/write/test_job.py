from __future__ import annotations

import threading
from typing import Any

import pytest

from ddbload.contracts.row_counts import RowCounts
from ddbload.write.drivers import Job
from ddbload.write.scheduler.messages import Accepted, Batch, Finished, Wait
from ddbload.write.scheduler.scheduler import Scheduler
from tests.unit.write.fake_transports import Clock, FakeRows, FakeTable


def test_step_feeds_rows_and_returns_a_batch():
    rows = FakeRows("a", "b")
    assert rows.job(FakeTable()).step() == Batch(0, (0, 1))
    assert rows.offered == 2


def test_step_feeds_no_more_rows_than_there_is_room_for():
    rows = FakeRows(*range(3 * Scheduler.READY_ROWS))
    job = rows.job(FakeTable())
    job.step()
    assert rows.offered == Scheduler.READY_ROWS
    job.step()
    assert rows.offered == 2 * Scheduler.READY_ROWS
    job.step()
    assert rows.offered == 2 * Scheduler.READY_ROWS


def test_step_closes_the_scheduler_at_the_end_of_the_rows():
    job = FakeRows("a").job(FakeTable())
    batch = job.step()
    assert isinstance(batch, Batch)
    assert job.step() == Wait(None)
    job.scheduler.answered(batch, Accepted(), 0.0)
    assert job.step() == Finished()


def test_step_finishes_at_once_without_rows():
    assert FakeRows().job(FakeTable()).step() == Finished()


def test_step_feeds_nothing_when_stopped():
    rows = FakeRows("a")
    assert rows.job(FakeTable(), should_stop=lambda: True).step() == Finished()
    assert rows.offered == 0
    assert rows.counts == RowCounts()


def test_step_checks_for_a_stop_each_time():
    stop = threading.Event()
    job = FakeRows(*range(100)).job(FakeTable(), should_stop=stop.is_set)
    assert isinstance(job.step(), Batch)
    assert isinstance(job.step(), Batch)
    stop.set()
    assert isinstance(job.step(), Wait)


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


def test_step_sends_one_request_when_reading_took_all_the_time():
    rows = FakeRows(*range(100), deadline=10.0)
    job = job_with_slow_feed(rows, 11.0, 3)
    batch = job.step()
    assert batch == Batch(0, (0, 1, 2))
    assert rows.offered == 3
    job.scheduler.answered(batch, Accepted(), job.clock())
    assert job.step() == Finished()
    assert rows.counts == RowCounts(read=3, written=3)


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


def test_step_sends_nothing_late_beyond_the_budget():
    rows = FakeRows(*range(100), deadline=10.0, max_wcu=0.001)
    job = job_with_slow_feed(rows, 11.0, 3)
    rows.scheduler._pacing.send(1000.0, 0.0)
    assert job.step() == Finished()
    assert rows.scheduler.waited_for_capacity


def test_step_sends_a_full_request_before_feeding_more():
    rows = FakeRows(*range(200))
    job = job_with_slow_feed(rows, 1.0, 30)
    assert job.step() == Batch(0, tuple(range(25)))
    assert rows.offered == 30


def test_step_feeds_until_a_request_is_full():
    rows = FakeRows(*range(200))
    job = job_with_slow_feed(rows, 1.0, 10)
    assert job.step() == Batch(0, tuple(range(25)))
    assert rows.offered == 30


def test_step_raises_an_error_of_the_source():
    def feed(_room: int) -> bool:
        raise OSError("gone")

    rows = FakeRows("a")
    job = Job(rows.scheduler, feed, rows.items, rows.body, FakeTable())
    with pytest.raises(OSError, match="gone"):
        job.step()


def test_job_uses_real_time_by_default():
    rows = FakeRows()
    job = Job(rows.scheduler, rows.feed, rows.items, rows.body, FakeTable())
    first = job.clock()
    job.sleep(0)
    assert job.clock() >= first
    assert not job.should_stop()
