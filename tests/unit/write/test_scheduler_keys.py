"""Rows with equal keys: at most one is under way, and the last one stays."""

from __future__ import annotations

import math

import pytest

from ddbload.contracts.results import RowCounts
from ddbload.errors import TableNotFound
from ddbload.write.scheduler.messages import Accepted, Fatal, Refused, Throttled, Unsure, Wait
from tests.unit.write.manual_driver import ByHand, object_keys

NOT_WRITTEN = [
    pytest.param(Accepted([0]), id="unprocessed"),
    pytest.param(Throttled("ThrottlingException"), id="throttled"),
    pytest.param(Unsure("no answer"), id="unsure"),
]


def test_batch_holds_different_keys_in_order():
    by_hand = ByHand()
    by_hand.offer("a", "b", "c")
    assert by_hand.finish() == [(0, 1, 2)]
    assert by_hand.counts == RowCounts(read=3, written=3)


def test_later_row_replaces_a_queued_row():
    by_hand = ByHand()
    by_hand.offer("a", "b", "a")
    assert by_hand.finish() == [(2, 1)]
    assert by_hand.counts == RowCounts(read=3, written=2, superseded=1)


def test_later_row_takes_the_queue_position_of_the_earlier():
    by_hand = ByHand()
    by_hand.offer("a", *range(100), "a")
    assert by_hand.batch().handles[0] == 101


def test_waiting_row_is_sent_in_its_turn_after_the_answer():
    by_hand = ByHand()
    by_hand.offer("a", *range(24), "a", *range(100, 200))
    by_hand.offer("a")
    first = by_hand.batch()
    by_hand.offer("a")
    by_hand.accept(first)
    last = by_hand.scheduler.outcomes.known - 1
    assert [handles[0] for handles in by_hand.accept_all()] == [26, 51, 76, 101, last]
    assert by_hand.scheduler.outcomes.frontier == last + 1


def test_replacing_row_is_sent_before_unique_keys_offered_later():
    """It stands in for the first of them, so the frontier waits for it."""
    by_hand = ByHand()
    by_hand.offer("a", *range(100, 150))
    by_hand.offer_all(*range(200, 250), "a", *range(300, 350))
    assert by_hand.batch().handles == (101, *range(1, 25))


def test_unique_keys_are_dealt_out_to_batches_in_turn():
    by_hand = ByHand(concurrency=4)
    by_hand.offer_all(*object_keys(100))
    batches = [by_hand.batch(), by_hand.batch()]
    assert [list(each.handles) for each in batches] == [
        list(range(0, 100, 4)),
        list(range(1, 100, 4)),
    ]
    by_hand.accept(batches[1])
    assert by_hand.scheduler.outcomes.frontier == 0
    by_hand.accept(batches[0])
    assert by_hand.scheduler.outcomes.frontier == 2


def test_unique_keys_are_dealt_out_in_small_groups_at_first():
    by_hand = ByHand(concurrency=2)
    by_hand.offer_all(*object_keys(300))
    batches = [by_hand.batch(), by_hand.batch()]
    assert [list(each.handles) for each in batches] == [
        list(range(0, 50, 2)),
        list(range(1, 50, 2)),
    ]
    for batch in batches:
        by_hand.accept(batch)
    by_hand.accept_all()
    by_hand.offer_all(*object_keys(300))
    assert list(by_hand.batch().handles) == list(range(300, 600, 12))


def test_later_row_waits_for_a_unique_key_in_flight():
    by_hand = ByHand()
    by_hand.offer_all("a", "b", "c")
    batch = by_hand.batch()
    by_hand.offer_all("b", "d")
    assert list(by_hand.batch().handles) == [4]
    assert by_hand.step() == Wait(None)
    by_hand.accept(batch)
    assert list(by_hand.batch().handles) == [3]


def test_unique_keys_stay_batched_beside_repeated_keys():
    by_hand = ByHand()
    by_hand.offer_all("a", "b", "c")
    by_hand.offer_all("b", "d", "e", "d")
    # What had come back or come twice is sorted by what waits longest: 6 stands in for 4.
    assert [sorted(handles) for handles in by_hand.finish()] == [[0, 2, 3, 6], [5]]
    assert by_hand.counts.superseded == 2


def test_batches_are_cut_to_the_budget():
    by_hand = ByHand(max_wcu=50.0)
    by_hand.offer_all(*object_keys(30), units=[3] * 30)
    sent = by_hand.finish()
    assert sorted(handle for handles in sent for handle in handles) == list(range(30))
    # A fifth of a second's, and a little more rather than a row or two in a request of its own.
    assert sorted(map(len, sent)) == [3, 3] + [4] * 6


def test_batches_are_cut_into_equal_shares():
    by_hand = ByHand(max_wcu=60.0)
    by_hand.offer_all(*object_keys(25))
    assert [len(handles) for handles in by_hand.finish()] == [13, 12]


def test_single_row_waits_behind_older_unique_keys():
    by_hand = ByHand()
    by_hand.offer_all(*object_keys(25))
    by_hand.offer(object())
    assert [handles[0] for handles in by_hand.finish()] == [0, 25]


def test_queued_rows_of_one_key_are_written_once():
    by_hand = ByHand()
    by_hand.offer(*["a"] * 1000)
    assert by_hand.finish() == [(999,)]
    assert by_hand.counts == RowCounts(read=1000, written=1, superseded=999)


def test_row_waits_for_the_answer_to_an_earlier_one():
    by_hand = ByHand()
    by_hand.offer("a")
    first = by_hand.batch()
    by_hand.offer("a")
    assert by_hand.idle()
    by_hand.accept(first)
    assert by_hand.finish() == [(1,)]
    assert by_hand.counts == RowCounts(read=2, written=2)


def test_last_waiting_row_is_sent_after_the_answer():
    by_hand = ByHand()
    by_hand.offer("a")
    first = by_hand.batch()
    by_hand.offer("a", "a", "a")
    by_hand.accept(first)
    assert by_hand.finish() == [(3,)]
    assert by_hand.counts == RowCounts(read=4, written=2, superseded=2)


def test_other_keys_are_sent_while_one_waits():
    by_hand = ByHand()
    by_hand.offer("a")
    first = by_hand.batch()
    by_hand.offer("a", "b", "a", "c")
    second = by_hand.batch()
    assert second.handles == (2, 4)
    by_hand.accept(second)
    assert by_hand.idle()
    by_hand.accept(first)
    assert by_hand.finish() == [(3,)]


@pytest.mark.parametrize("answer", NOT_WRITTEN)
def test_row_is_sent_again_when_not_written(answer):
    by_hand = ByHand()
    by_hand.offer("a")
    by_hand.answer(by_hand.batch(), answer)
    assert by_hand.counts == RowCounts()
    assert by_hand.finish() == [(0,)]
    assert by_hand.counts == RowCounts(read=1, written=1)


@pytest.mark.parametrize("answer", NOT_WRITTEN)
def test_waiting_row_replaces_a_returned_row(answer):
    by_hand = ByHand()
    by_hand.offer("a")
    first = by_hand.batch()
    by_hand.offer("a", "a")
    by_hand.answer(first, answer)
    assert by_hand.finish() == [(2,)]
    assert by_hand.counts == RowCounts(read=3, written=1, superseded=2)


@pytest.mark.parametrize("answer", NOT_WRITTEN)
def test_new_row_replaces_a_returned_row(answer):
    by_hand = ByHand()
    by_hand.offer("a")
    by_hand.answer(by_hand.batch(), answer)
    by_hand.offer("a", "a")
    assert by_hand.finish() == [(2,)]
    assert by_hand.counts == RowCounts(read=3, written=1, superseded=2)


def test_superseded_row_is_settled_when_the_later_is_written():
    by_hand = ByHand()
    by_hand.offer("a", "a")
    batch = by_hand.batch()
    assert batch.handles == (1,)
    assert by_hand.counts == RowCounts()
    assert by_hand.released == []
    by_hand.accept(batch, 1)
    assert by_hand.counts == RowCounts()
    by_hand.accept(by_hand.batch())
    assert by_hand.counts == RowCounts(read=2, written=1, superseded=1)
    assert sorted(by_hand.released) == [0, 1]


def test_superseded_row_does_not_wait_for_rows_in_between():
    by_hand = ByHand()
    by_hand.offer("a", *range(25), "a")
    first, rest = by_hand.batch(), by_hand.batch()
    assert first.handles == (26, *range(1, 25))
    by_hand.accept(first)
    assert by_hand.counts == RowCounts(read=25, written=24, superseded=1)
    by_hand.accept(rest)
    assert by_hand.counts == RowCounts(read=27, written=26, superseded=1)


def test_fatal_answer_settles_nothing():
    by_hand = ByHand()
    by_hand.offer("a", "a", "b")
    by_hand.answer(by_hand.batch(), Fatal(TableNotFound("gone")))
    assert by_hand.counts == RowCounts()
    assert by_hand.released == []


def test_row_returned_twice_counts_once():
    by_hand = ByHand()
    by_hand.offer("a", "b")
    by_hand.answer(by_hand.batch(), Accepted([1, 1, 1]))
    assert by_hand.frontier == 1
    assert by_hand.finish() == [(1,)]


@pytest.fixture
def unhurried(monkeypatch) -> None:
    """So few rows in so long a time are no reason to lower the rate."""
    monkeypatch.setattr("ddbload.write.pacing.adaptive_rate.PERIOD", math.inf)


def returned_often(by_hand: ByHand) -> float:
    """Offer one row of the key "hot", have it come back ten times; when it is due."""
    by_hand.offer("hot")
    for _ in range(10):
        by_hand.offer(*object_keys(9))
        by_hand.accept(by_hand.batch(), 0)
        answered = by_hand.now
        due = by_hand.wait()
    by_hand.now = answered
    return due


def test_returned_key_waits_without_delaying_others(unhurried):
    by_hand = ByHand()
    due = returned_often(by_hand)
    by_hand.offer("cold")
    assert by_hand.batch().handles == (91,)
    assert by_hand.batch().handles == (0,)
    assert by_hand.now == due


def test_new_row_inherits_the_back_off_of_its_key(unhurried):
    by_hand = ByHand()
    due = returned_often(by_hand)
    by_hand.offer("hot", "hot", "cold")
    assert by_hand.batch().handles == (93,)
    assert by_hand.batch().handles == (92,)
    assert by_hand.now == due


def test_back_off_continues_with_the_next_row_of_the_key(unhurried):
    waits = []
    for has_next in (False, True):
        by_hand = ByHand()
        returned_often(by_hand)
        if has_next:
            by_hand.offer("hot")
        batch = by_hand.batch()
        by_hand.accept(batch, *batch.handles)
        start = by_hand.now
        waits.append(by_hand.wait() - start)
    assert waits[0] == waits[1] > 0.1


def test_order_of_a_key_is_kept_through_returns_and_refusals():
    # 0 gives way to 1, which is sent; 2 gives way to 3, which waits; 1 comes back; 3 is bad.
    by_hand = ByHand()
    by_hand.offer("a", "a")
    batch = by_hand.batch()
    by_hand.offer("a", "a")
    by_hand.accept(batch, 1)
    for refused in (3, 2, 1):
        batch = by_hand.batch()
        assert batch.handles == (refused,)
        by_hand.answer(batch, Refused("bad"))
    assert by_hand.finish() == [(0,)]
