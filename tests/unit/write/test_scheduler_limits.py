"""How much goes at once, how much is known at once, and when it ends."""

from __future__ import annotations

import gc

import pytest

from ddbload.contracts.results import RowCounts, WriteStats
from ddbload.dynamodb.limits import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from ddbload.errors import AccessDenied, TableNotFound
from ddbload.write.scheduler.messages import (
    Accepted,
    Batch,
    Fatal,
    Finished,
    Refused,
    Throttled,
    Unsure,
    Wait,
)
from ddbload.write.scheduler.scheduler import Scheduler
from tests.unit.write.manual_driver import SMALL, ByHand, object_keys

MEGABYTE = 1024 * 1024

# Batches


def test_limits_match_dynamodb():
    assert MAX_BATCH_ROWS == 25
    assert 8 * MEGABYTE < MAX_BATCH_BYTES < 16 * MEGABYTE


@pytest.mark.parametrize("rows", [1, 24, 25, 26, 50, 51])
def test_batch_has_up_to_25_rows(rows):
    by_hand = ByHand()
    by_hand.offer(*object_keys(rows))
    sent = by_hand.finish()
    assert [len(batch) for batch in sent] == [25] * (rows // 25) + [rows % 25] * (rows % 25 > 0)
    assert [handle for batch in sent for handle in batch] == list(range(rows))


def test_batch_excludes_superseded_rows():
    by_hand = ByHand()
    keys = object_keys(25)
    by_hand.offer(*keys, *keys)
    assert by_hand.finish() == [tuple(range(25, 50))]


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        pytest.param([5, 5, 5], [(0, 1, 2)], id="exactly the limit"),
        pytest.param([5, 5, 6], [(0, 1), (2,)], id="over it"),
        pytest.param([9, 9, 9], [(0,), (1,), (2,)], id="one each"),
        pytest.param([1, 15, 1], [(0,), (1,), (2,)], id="in order, not packed"),
        pytest.param([20, 1], [(0,), (1,)], id="too large alone, and sent all the same"),
    ],
)
def test_batch_has_up_to_15_megabytes(sizes, batches):
    by_hand = ByHand()
    for size in sizes:
        by_hand.offer(object(), wire_bytes=size * MEGABYTE)
    assert by_hand.finish() == batches


def test_batches_are_numbered():
    by_hand = ByHand()
    by_hand.offer(*object_keys(60))
    assert [by_hand.batch().number for _ in range(3)] == [0, 1, 2]


def test_requests_in_flight_are_limited_by_concurrency():
    by_hand = ByHand(concurrency=3)
    by_hand.offer(*object_keys(100))
    batches = [by_hand.batch() for _ in range(3)]
    assert by_hand.idle()
    by_hand.accept(batches[1])
    assert by_hand.batch().number == 3
    assert by_hand.idle()


# Rows that are known


def test_room_is_available_at_first():
    assert ByHand().scheduler.room() == Scheduler.READY_ROWS


def test_room_is_available_while_few_rows_are_ready():
    by_hand = ByHand()
    by_hand.offer(*object_keys(Scheduler.READY_ROWS - 1))
    assert by_hand.scheduler.room() > 0
    by_hand.offer(object())
    assert by_hand.scheduler.room() == 0
    by_hand.accept(by_hand.batch())
    assert by_hand.scheduler.room() > 0


def test_room_ends_20_000_rows_beyond_the_frontier():
    by_hand = ByHand()
    by_hand.offer("stuck")
    stuck = by_hand.batch()
    ahead = by_hand.scheduler.outcomes
    while room := by_hand.scheduler.room():
        by_hand.offer(*object_keys(room))
        assert ahead.ahead <= Scheduler.MAX_AHEAD
        while isinstance(batch := by_hand.step(), Batch):
            by_hand.accept(batch)
    assert ahead.ahead == Scheduler.MAX_AHEAD == 20_000
    by_hand.accept(stuck)
    assert ahead.ahead == 0
    assert by_hand.scheduler.room() == Scheduler.READY_ROWS


def test_room_counts_rejects_beyond_the_frontier():
    by_hand = ByHand()
    by_hand.offer("stuck")
    by_hand.batch()
    while by_hand.scheduler.room():
        by_hand.reject()
    assert by_hand.scheduler.outcomes.ahead == Scheduler.MAX_AHEAD


def test_room_counts_rows_of_one_key_beyond_the_frontier():
    by_hand = ByHand()
    by_hand.offer("a")
    first = by_hand.batch()
    while room := by_hand.scheduler.room():
        by_hand.offer(*["a"] * room)
    assert by_hand.scheduler.outcomes.ahead == Scheduler.MAX_AHEAD
    by_hand.accept(first)
    assert by_hand.finish() == [(Scheduler.MAX_AHEAD - 1,)]


def test_room_ends_when_many_bytes_are_held():
    by_hand = ByHand(concurrency=1)
    half = Scheduler.MAX_HELD_BYTES // 2
    by_hand.offer(object(), wire_bytes=half)
    assert by_hand.scheduler.room() > 0
    by_hand.offer(object(), wire_bytes=half)
    assert by_hand.scheduler.room() == 0
    batch = by_hand.batch()
    assert by_hand.scheduler.room() == 0
    by_hand.accept(batch, *batch.handles)
    assert by_hand.scheduler.room() == 0
    by_hand.accept(by_hand.batch())
    assert by_hand.scheduler.room() > 0


def test_room_counts_bytes_of_superseded_rows_until_settled():
    by_hand = ByHand()
    half = Scheduler.MAX_HELD_BYTES // 2
    by_hand.offer("a", "a", wire_bytes=half)
    batch = by_hand.batch()
    assert by_hand.scheduler.room() == 0
    by_hand.accept(batch)
    assert by_hand.scheduler.room() > 0


def test_room_is_zero_after_close():
    by_hand = ByHand()
    by_hand.scheduler.close()
    assert by_hand.scheduler.room() == 0


def test_room_is_zero_after_a_stop():
    by_hand = ByHand()
    by_hand.scheduler.stop()
    assert by_hand.scheduler.room() == 0


# The end


def test_scheduler_without_rows_finishes_when_closed():
    by_hand = ByHand()
    assert by_hand.step() == Wait(None)
    by_hand.scheduler.close()
    assert by_hand.step() == Finished()
    assert by_hand.counts == RowCounts()


def test_scheduler_sends_nothing_for_rejects():
    by_hand = ByHand()
    assert [by_hand.reject() for _ in range(3)] == [0, 1, 2]
    by_hand.scheduler.close()
    assert by_hand.step() == Finished()
    assert by_hand.counts == RowCounts(read=3, rejected=3)
    assert by_hand.released == []


def test_scheduler_waits_for_the_last_answer():
    by_hand = ByHand()
    by_hand.offer("a")
    by_hand.scheduler.close()
    batch = by_hand.batch()
    assert by_hand.step() == Wait(None)
    by_hand.accept(batch)
    assert by_hand.step() == Finished()


def test_scheduler_sends_nothing_after_a_stop():
    by_hand = ByHand(concurrency=1)
    by_hand.offer(*object_keys(50))
    batch = by_hand.batch()
    by_hand.scheduler.stop()
    assert by_hand.step() == Wait(None)
    by_hand.accept(batch)
    assert by_hand.step() == Finished()
    assert by_hand.counts == RowCounts(read=25, written=25)


def test_scheduler_leaves_rows_returned_after_a_stop_unsettled():
    by_hand = ByHand()
    by_hand.offer("a", "b", "c")
    batch = by_hand.batch()
    by_hand.scheduler.stop()
    by_hand.accept(batch, 1)
    assert by_hand.step() == Finished()
    assert by_hand.counts == RowCounts(read=1, written=1)
    assert sorted(by_hand.released) == [0, 2]


def test_scheduler_sends_nothing_from_the_deadline_on():
    by_hand = ByHand(deadline=10.0)
    by_hand.offer(*object_keys(100))
    early = by_hand.batch()
    by_hand.now = 9.999
    late = by_hand.batch()
    by_hand.now = 10.0
    assert by_hand.step() == Wait(None)
    assert by_hand.scheduler.room() == 0
    by_hand.accept(late)
    assert by_hand.step() == Wait(None)
    by_hand.accept(early)
    assert by_hand.step() == Finished()
    assert by_hand.counts == RowCounts(read=50, written=50)


def test_counts_end_at_the_first_unsettled_row_at_the_deadline():
    by_hand = ByHand(deadline=10.0)
    by_hand.offer(*object_keys(30))
    by_hand.reject()
    first, second = by_hand.batch(), by_hand.batch()
    by_hand.accept(second)
    by_hand.now = 10.0
    by_hand.accept(first, 20)
    assert by_hand.step() == Finished()
    assert by_hand.frontier == 20
    assert by_hand.counts == RowCounts(read=20, written=20)
    assert by_hand.scheduler.outcomes.ahead == 11


def test_superseded_row_stays_unsettled_at_the_deadline():
    by_hand = ByHand(deadline=10.0)
    by_hand.offer("a", "a")
    by_hand.accept(by_hand.batch(), 1)
    by_hand.now = 10.0
    assert by_hand.step() == Finished()
    assert by_hand.counts == RowCounts()


@pytest.mark.parametrize("answer", [Accepted([0]), Throttled("x"), Unsure("x")])
def test_wait_ends_at_the_deadline(answer):
    by_hand = ByHand(deadline=1e-6)
    by_hand.offer("a")
    by_hand.answer(by_hand.batch(), answer)
    assert by_hand.step() == Wait(1e-6)
    by_hand.now = 1e-6
    assert by_hand.step() == Finished()


def test_fatal_answer_stops_the_scheduler():
    by_hand = ByHand()
    by_hand.offer(*object_keys(75))
    first, second = by_hand.batch(), by_hand.batch()
    error = TableNotFound("gone")
    by_hand.answer(first, Fatal(error))
    assert by_hand.step() == Wait(None)
    assert by_hand.scheduler.room() == 0
    by_hand.answer(second, Fatal(AccessDenied("no")))
    assert by_hand.step() == Finished()
    assert by_hand.scheduler.fatal is error
    assert by_hand.counts == RowCounts()


def test_written_rows_count_beside_a_fatal_answer():
    by_hand = ByHand()
    by_hand.offer(*object_keys(50))
    first, second = by_hand.batch(), by_hand.batch()
    by_hand.answer(second, Fatal(TableNotFound("gone")))
    by_hand.accept(first)
    assert by_hand.step() == Finished()
    assert by_hand.counts == RowCounts(read=25, written=25)


# What it took


def test_stats_count_requests_throttles_retries_and_units():
    by_hand = ByHand()
    by_hand.offer(*object_keys(2))
    by_hand.answer(by_hand.batch(), Throttled("ThrottlingException"))
    assert by_hand.scheduler.stats == WriteStats(requests=1, throttled=1)
    batch = by_hand.batch()
    by_hand.answer(batch, Unsure("no answer"))
    assert by_hand.scheduler.stats == WriteStats(requests=2, throttled=1, retries=1)
    batch = by_hand.batch()
    by_hand.answer(batch, Accepted([0], 1.5))
    batch = by_hand.batch()
    by_hand.answer(batch, Accepted([], 2.0))
    expected = WriteStats(requests=4, throttled=2, retries=3, consumed_wcu=3.5)
    assert by_hand.scheduler.stats == expected


def test_stats_count_no_retry_for_a_replacing_row():
    by_hand = ByHand()
    by_hand.offer("a")
    batch = by_hand.batch()
    by_hand.offer("a")
    by_hand.accept(batch, 0)
    by_hand.accept(by_hand.batch())
    assert by_hand.scheduler.stats.retries == 0


def test_stats_count_a_retry_for_a_row_sent_before():
    by_hand = ByHand()
    by_hand.offer("a")
    batch = by_hand.batch()
    by_hand.offer("a")
    by_hand.accept(batch, 0)
    by_hand.answer(by_hand.batch(), Refused("no"))
    assert by_hand.batch().handles == (0,)
    assert by_hand.scheduler.stats.retries == 1


def test_settled_rows_leave_no_reference_cycles():
    """Python's collector looks for them rarely while rows pass."""
    by_hand = ByHand()
    gc.collect()
    gc.disable()
    try:
        for _ in range(4):
            keys = object_keys(500)
            # Some of them twice, in one request's rows and among those of many.
            by_hand.offer_all(*keys, *keys[:10], *keys[100:400:7])
            by_hand.accept_all()
        assert by_hand.counts.superseded > 0
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("alone", [True, False])
def test_written_rows_free_their_bytes(monkeypatch, alone):
    monkeypatch.setattr("ddbload.write.scheduler.scheduler.Scheduler.MAX_HELD_BYTES", 25 * SMALL)
    by_hand = ByHand()
    for _ in range(3):
        assert by_hand.scheduler.room() > 0
        keys = object_keys(30)
        if alone:
            by_hand.offer(*keys)
        else:
            by_hand.offer_all(*keys)
        assert by_hand.scheduler.room() == 0
        by_hand.accept_all()
    assert by_hand.counts.written == 90
