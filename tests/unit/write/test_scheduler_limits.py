"""Limits of requests and of held rows, and the end of a run."""

from __future__ import annotations

import gc
import random

import pytest

from ddbload.contracts.row_counts import RowCounts
from ddbload.dynamodb.modes import RowOrder
from ddbload.errors import AccessDenied, RequestRefused, TableNotFound
from ddbload.write.pacing.pacing import Pacing, WcuBudget
from ddbload.write.scheduler.answers import (
    FOREIGN_SECONDS,
    Batch,
    Fatal,
    Finished,
    Throttled,
    Unsure,
    Wait,
)
from ddbload.write.scheduler.scheduler import Scheduler
from tests.unit.write.manual_driver import ManualDriver, object_keys

MEGABYTE = 1024 * 1024

# Batches


@pytest.mark.parametrize("rows", [1, 24, 25, 26, 50, 51])
def test_batch_has_up_to_25_rows(rows):
    driver = ManualDriver()
    driver.offer(*object_keys(rows))
    sent = driver.finish()
    assert [len(batch) for batch in sent] == [25] * (rows // 25) + [rows % 25] * (rows % 25 > 0)
    assert [handle for batch in sent for handle in batch] == list(range(rows))


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        pytest.param([5, 5, 5], [(0, 1, 2)], id="exactly the limit"),
        pytest.param([5, 5, 6], [(0, 1), (2,)], id="over it"),
        pytest.param([9, 9, 9], [(0,), (1,), (2,)], id="one each"),
        pytest.param([1, 15, 1], [(0,), (1,), (2,)], id="in order, not packed"),
        pytest.param([20, 1], [(0,), (1,)], id="too large singly, and sent all the same"),
    ],
)
def test_batch_has_up_to_15_megabytes(sizes, batches):
    driver = ManualDriver()
    for size in sizes:
        driver.offer(object(), json_bytes=size * MEGABYTE)
    assert driver.finish() == batches


# Room for rows


@pytest.mark.usefixtures("no_rate")
def test_room_ends_20_000_rows_beyond_the_frontier():
    driver = ManualDriver()
    driver.offer("stuck")
    stuck = driver.batch()
    ahead = driver.scheduler.outcomes
    while room := driver.scheduler.room():
        driver.offer(*object_keys(room))
        assert ahead.ahead <= Scheduler.MAX_AHEAD
        while isinstance(batch := driver.step(), Batch):
            driver.accept(batch)
    assert ahead.ahead == Scheduler.MAX_AHEAD == 20_000
    driver.accept(stuck)
    assert ahead.ahead == 0
    assert driver.scheduler.room() == Scheduler.READY_ROWS


def test_room_ends_when_many_bytes_are_held():
    driver = ManualDriver(concurrency=1)
    half = Scheduler.MAX_HELD_BYTES // 2
    driver.offer(object(), json_bytes=half)
    assert driver.scheduler.room() > 0
    driver.offer(object(), json_bytes=half)
    assert driver.scheduler.room() == 0
    batch = driver.batch()
    assert driver.scheduler.room() == 0
    driver.accept(batch, *batch.handles)
    assert driver.scheduler.room() == 0
    driver.accept(driver.batch())
    assert driver.scheduler.room() > 0


def test_room_counts_bytes_of_superseded_rows_until_settled():
    driver = ManualDriver()
    half = Scheduler.MAX_HELD_BYTES // 2
    driver.offer("a", "a", json_bytes=half)
    batch = driver.batch()
    assert driver.scheduler.room() == 0
    driver.accept(batch)
    assert driver.scheduler.room() > 0


# The end


def test_scheduler_sends_no_new_rows_after_a_stop():
    driver = ManualDriver(concurrency=1)
    driver.offer(*object_keys(50))
    batch = driver.batch()
    driver.scheduler.stop()
    assert driver.step() == Wait(Scheduler.SETTLE_SECONDS)
    driver.accept(batch)
    assert driver.step() == Finished()
    assert driver.counts == RowCounts(read=25, written=25)


def settled(driver: ManualDriver) -> list[tuple[int, ...]]:
    """Accept all that is sent until the scheduler is finished; return the handles."""
    sent = []
    while not isinstance(step := driver.step(), Finished):
        if isinstance(step, Batch):
            sent.append(tuple(step.handles))
            driver.accept(step)
        else:
            driver.wait()
    return sent


def test_stopped_scheduler_sends_the_returned_row_that_holds_up_written_ones():
    driver = ManualDriver()
    driver.offer("a", "b", "c", "d")
    batch = driver.batch()
    driver.scheduler.stop()
    driver.accept(batch, 1, 3)
    # Row 3 comes after the last written one: the next invocation sends it.
    assert settled(driver) == [(1,)]
    assert driver.now < 1.0
    assert driver.counts == RowCounts(read=3, written=3)


def test_stopped_scheduler_sends_rows_between_those_that_were_dealt_out():
    driver = ManualDriver()
    driver.offer_all(*object_keys(400))
    batch = driver.batch()
    driver.scheduler.stop()
    driver.accept(batch)
    last = max(batch.handles)
    assert sorted(handle for sent in settled(driver) for handle in sent) == sorted(
        set(range(last)) - set(batch.handles)
    )
    assert driver.counts == RowCounts(read=last + 1, written=last + 1)


def test_stopped_scheduler_sends_no_later_row_in_place_of_one_that_was_sent():
    driver = ManualDriver()
    driver.offer("a", "b")
    batch = driver.batch()
    driver.offer("a", "c", "a")
    driver.scheduler.stop()
    driver.accept(batch, 0)
    # Written in its place, the last row would count only after c.
    assert settled(driver) == [(0,)]
    assert driver.counts == RowCounts(read=2, written=2)


def test_stopped_scheduler_gives_up_on_requests_after_some_time():
    driver = ManualDriver()
    driver.offer("a")
    driver.batch()
    driver.scheduler.stop()
    assert driver.step() == Wait(Scheduler.SETTLE_SECONDS)
    driver.now = Scheduler.SETTLE_SECONDS
    assert driver.step() == Finished()
    assert driver.counts == RowCounts()
    assert driver.scheduler.last_possible_write() == 0


@pytest.mark.parametrize("deadline", [0.0, 2.0])
def test_stopped_scheduler_settles_no_rows_after_the_deadline(deadline):
    driver = ManualDriver(deadline=deadline)
    driver.offer("a", "b")
    driver.accept(driver.batch(), 0)
    driver.scheduler.stop()
    while isinstance(step := driver.step(), Batch | Wait):
        if isinstance(step, Batch):
            assert driver.now < deadline
            driver.accept(step, 0)
        else:
            driver.wait()
    assert driver.now <= deadline


def test_scheduler_sends_nothing_from_the_deadline_on():
    driver = ManualDriver(deadline=10.0)
    driver.offer(*object_keys(100))
    early = driver.batch()
    driver.now = 9.999
    late = driver.batch()
    driver.now = 10.0
    assert driver.step() == Wait(None)
    assert driver.scheduler.room() == 0
    driver.accept(late)
    assert driver.step() == Wait(None)
    driver.accept(early)
    assert driver.step() == Finished()
    assert driver.counts == RowCounts(read=50, written=50)


def test_counts_end_at_the_first_unsettled_row_at_the_deadline():
    driver = ManualDriver(deadline=10.0)
    driver.offer(*object_keys(30))
    driver.reject()
    first, second = driver.batch(), driver.batch()
    driver.accept(second)
    driver.now = 10.0
    driver.accept(first, 20)
    assert driver.step() == Finished()
    assert driver.frontier == 20
    assert driver.counts == RowCounts(read=20, written=20)
    assert driver.scheduler.outcomes.ahead == 11


def test_fatal_answer_stops_the_scheduler():
    driver = ManualDriver()
    driver.offer(*object_keys(75))
    first, second = driver.batch(), driver.batch()
    error = TableNotFound("gone")
    driver.answer(first, Fatal(error))
    assert driver.step() == Wait(None)
    assert driver.scheduler.room() == 0
    driver.answer(second, Fatal(AccessDenied("no")))
    assert driver.step() == Finished()
    assert driver.scheduler.fatal is error
    assert driver.counts == RowCounts()


def test_written_rows_count_beside_a_fatal_answer():
    driver = ManualDriver()
    driver.offer(*object_keys(50))
    first, second = driver.batch(), driver.batch()
    driver.answer(second, Fatal(TableNotFound("gone")))
    driver.accept(first)
    assert driver.step() == Finished()
    assert driver.counts == RowCounts(read=25, written=25)


# Statistics


def product_garbage() -> list[object]:
    """Collect garbage; return objects of ddbload's classes in it. Libraries may leave some, too."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return [each for each in gc.garbage if type(each).__module__.startswith("ddbload.")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_settled_rows_leave_no_reference_cycles():
    """Leave no cycles: Python's garbage collector runs rarely during an import."""
    driver = ManualDriver()
    gc.collect()
    gc.disable()
    try:
        for _ in range(4):
            keys = object_keys(500)
            # Some keys are repeated, within one request and across several.
            driver.offer_all(*keys, *keys[:10], *keys[100:400:7])
            driver.accept_all()
        assert driver.counts.superseded > 0
        assert product_garbage() == []
    finally:
        gc.enable()


@pytest.mark.parametrize("mode", ["last wins", "first wins"])
def test_rows_of_a_stopped_run_leave_no_reference_cycles(mode):
    """Leave no cycles: an hour of such runs at a low rate grew by tens of megabytes."""
    gc.collect()
    gc.disable()
    try:
        driver = ManualDriver(order=RowOrder(mode))
        keys = object_keys(500)
        driver.offer_all(*keys)
        driver.answer(driver.batch(), Throttled("ThrottlingException"))
        driver.batch()
        # Some are found again in batches, some wait for answers, and some replace others.
        driver.offer_all(*keys[100:400:7], *object_keys(300), *keys[:40])
        driver.offer(*keys[30:50], *keys[30:50])
        driver.scheduler.stop()
        assert driver.counts.written == 0
        del driver
        assert product_garbage() == []
    finally:
        gc.enable()


@pytest.mark.parametrize("limit", ["units_per_second", "unit_limit"])
@pytest.mark.parametrize("singly", [True, False])
def test_nothing_is_sent_when_another_thread_takes_the_limit_away(singly, limit):
    class Lowered(WcuBudget):
        def ready_at(self, now: float) -> float:
            at = super().ready_at(now)
            setattr(self, limit, 0.0)
            return at

    driver = ManualDriver()
    driver.scheduler._pacing = Pacing(random.Random(1), budget=Lowered(100.0, 0.0))
    if singly:
        driver.offer(*object_keys(30))
    else:
        driver.offer_all(*object_keys(30))
    for _ in range(3):
        assert isinstance(driver.step(), Wait)


# Answers of other servers


def test_scheduler_ends_when_only_another_server_answers():
    driver = ManualDriver()
    driver.offer("a")
    error = RequestRefused("302: not an answer of AWS")
    while not isinstance(step := driver.step(), Finished):
        if isinstance(step, Batch):
            driver.answer(step, Unsure("302", error=error))
        else:
            driver.wait()
    assert driver.now >= FOREIGN_SECONDS
    assert driver.scheduler.fatal is error
