"""Requests that DynamoDB refuses: the rows it means are found, and all others are written."""

from __future__ import annotations

import random

import pytest

from ddbload.contracts.results import RowCounts
from ddbload.dynamodb.limits import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from ddbload.write.scheduler.messages import (
    Accepted,
    Batch,
    Finished,
    Refused,
    Throttled,
    Unsure,
    Wait,
)
from tests.unit.write.manual_driver import ByHand, object_keys

REFUSED = Refused("The provided key element does not match the schema")


def finish(by_hand: ByHand, *invalid: int) -> list[tuple[int, ...]]:
    """Write everything that is left, but refuse batches with these handles; what was sent."""
    by_hand.scheduler.close()
    sent = []
    while by_hand.scheduler.outcomes.ahead:
        batch = by_hand.batch()
        sent.append(batch.handles)
        if set(invalid) & set(batch.handles):
            by_hand.answer(batch, REFUSED)
        else:
            by_hand.accept(batch)
    assert by_hand.step() == Finished()
    assert by_hand.counts.conserved
    assert sorted(by_hand.released) == list(range(by_hand.scheduler.outcomes.known))
    return sent


def test_single_refused_row_is_rejected():
    by_hand = ByHand()
    by_hand.offer("a")
    assert finish(by_hand, 0) == [(0,)]
    assert by_hand.counts == RowCounts(read=1, rejected=1)
    assert by_hand.scheduler.refused == {0: REFUSED}


@pytest.mark.parametrize("bad", range(MAX_BATCH_ROWS))
def test_invalid_row_is_found_by_halving(bad):
    by_hand = ByHand()
    by_hand.offer(*object_keys(MAX_BATCH_ROWS))
    sent = finish(by_hand, bad)
    assert by_hand.counts == RowCounts(read=25, written=24, rejected=1)
    assert list(by_hand.scheduler.refused) == [bad]
    # Halving: no more requests than two for each of five levels.
    assert len(sent) <= 11


def test_invalid_rows_are_found_when_all_are_invalid():
    by_hand = ByHand()
    by_hand.offer(*object_keys(MAX_BATCH_ROWS))
    finish(by_hand, *range(MAX_BATCH_ROWS))
    assert by_hand.counts == RowCounts(read=25, rejected=25)


@pytest.mark.parametrize("seed", range(5))
def test_invalid_rows_are_found_among_many(seed):
    by_hand = ByHand()
    by_hand.offer(*object_keys(200))
    bad = random.Random(seed).sample(range(200), 7)
    finish(by_hand, *bad)
    assert by_hand.counts == RowCounts(read=200, written=193, rejected=7)
    assert sorted(by_hand.scheduler.refused) == sorted(bad)


def test_halves_are_sent_at_once_after_a_refusal():
    by_hand = ByHand(concurrency=3)
    by_hand.offer(*object_keys(75))
    first, second, third = by_hand.batch(), by_hand.batch(), by_hand.batch()
    by_hand.answer(first, REFUSED)
    by_hand.accept(second)
    by_hand.accept(third)
    # Both halves at once.
    assert [by_hand.batch().handles, by_hand.batch().handles] == [
        first.handles[:12],
        first.handles[12:],
    ]


def test_refusals_cause_no_back_off():
    by_hand = ByHand()
    by_hand.offer(*object_keys(100))
    finish(by_hand, 3, 50)
    assert by_hand.now == 0


@pytest.mark.parametrize("answer", [Throttled("ThrottlingException"), Unsure("no answer")])
def test_invalid_row_is_found_when_its_halves_are_returned(answer):
    by_hand = ByHand()
    by_hand.offer(*object_keys(MAX_BATCH_ROWS))
    by_hand.answer(by_hand.batch(), REFUSED)
    by_hand.answer(by_hand.batch(), answer)
    by_hand.answer(by_hand.batch(), answer)
    finish(by_hand, 7)
    assert by_hand.counts == RowCounts(read=25, written=24, rejected=1)


def test_superseded_row_is_sent_when_the_later_is_refused():
    by_hand = ByHand()
    by_hand.offer("a", "a")
    assert finish(by_hand, 1) == [(1,), (0,)]
    assert by_hand.counts == RowCounts(read=2, written=1, rejected=1)


def test_last_valid_row_of_a_key_is_written():
    by_hand = ByHand()
    by_hand.offer(*"aaaaa")
    assert finish(by_hand, 2, 3, 4) == [(4,), (3,), (2,), (1,)]
    assert by_hand.counts == RowCounts(read=5, written=1, rejected=3, superseded=1)


def test_all_rows_of_a_key_are_rejected_when_all_are_refused():
    by_hand = ByHand()
    by_hand.offer(*"aaa")
    assert finish(by_hand, 0, 1, 2) == [(2,), (1,), (0,)]
    assert by_hand.counts == RowCounts(read=3, rejected=3)


def test_waiting_row_is_sent_when_the_earlier_is_refused():
    by_hand = ByHand()
    by_hand.offer("a")
    batch = by_hand.batch()
    by_hand.offer("a")
    by_hand.answer(batch, REFUSED)
    assert finish(by_hand) == [(1,)]
    assert by_hand.counts == RowCounts(read=2, written=1, rejected=1)


def test_waiting_row_inherits_the_superseded_rows_of_a_refused_one():
    by_hand = ByHand()
    by_hand.offer("a", "a")
    batch = by_hand.batch()
    by_hand.offer("a", "a")
    by_hand.answer(batch, REFUSED)
    assert by_hand.scheduler.refused.keys() == {1}
    # Of the rows 0, 2 and 3 the last good one: 2.
    assert finish(by_hand, 3) == [(3,), (2,)]
    assert by_hand.counts == RowCounts(read=4, written=1, rejected=2, superseded=1)


def test_waiting_row_replaces_the_earlier_in_the_halves():
    by_hand = ByHand()
    by_hand.offer("a", "b")
    batch = by_hand.batch()
    by_hand.offer("a")
    by_hand.answer(batch, REFUSED)
    assert finish(by_hand, 1) == [(2,), (1,)]
    assert by_hand.counts == RowCounts(read=3, written=1, rejected=1, superseded=1)


def test_superseded_invalid_row_is_never_sent_again():
    by_hand = ByHand()
    by_hand.offer("a", "b")
    by_hand.answer(by_hand.batch(), REFUSED)
    by_hand.offer("a")
    assert (2,) in finish(by_hand, 0)
    assert by_hand.counts == RowCounts(read=3, written=2, superseded=1)


def test_row_queued_after_a_refusal_can_be_superseded_again():
    by_hand = ByHand()
    by_hand.offer("a", "a")
    by_hand.answer(by_hand.batch(), REFUSED)
    by_hand.offer("a")
    assert finish(by_hand) == [(2,)]
    assert by_hand.counts == RowCounts(read=3, written=1, rejected=1, superseded=1)


def test_half_with_larger_rows_keeps_to_the_byte_limit():
    by_hand = ByHand()
    keys = object_keys(MAX_BATCH_ROWS)
    by_hand.offer(*keys)
    batch = by_hand.batch()
    large = 2 * 1024 * 1024
    by_hand.offer(*keys, size=400_000, wire_bytes=large)
    by_hand.answer(batch, REFUSED)
    sent = finish(by_hand)
    assert max(map(len, sent)) <= MAX_BATCH_BYTES // large
    assert by_hand.counts == RowCounts(read=50, written=25, superseded=25)


def test_refusal_message_is_that_of_the_single_row():
    by_hand = ByHand()
    by_hand.offer("a", "b")
    by_hand.answer(by_hand.batch(), Refused("one of them"))
    first, second = by_hand.batch(), by_hand.batch()
    by_hand.answer(first, Refused("this one"))
    by_hand.answer(second, Accepted())
    assert by_hand.scheduler.refused == {0: Refused("this one")}


def test_refusal_is_recorded_before_the_row_is_released():
    seen = []
    by_hand = ByHand()
    by_hand.scheduler._on_release = lambda handles: seen.extend(
        (handle, by_hand.scheduler.refused.get(handle)) for handle in handles
    )
    by_hand.offer("a")
    by_hand.answer(by_hand.batch(), REFUSED)
    assert seen == [(0, REFUSED)]


def test_stop_between_halves_leaves_the_rest_unsettled():
    by_hand = ByHand()
    by_hand.offer("a", "b")
    by_hand.answer(by_hand.batch(), REFUSED)
    half = by_hand.batch()
    by_hand.scheduler.stop()
    assert by_hand.step() == Wait(None)
    by_hand.accept(half)
    assert by_hand.step() == Finished()
    assert by_hand.counts == RowCounts(read=1, written=1)


def test_halves_respect_the_concurrency():
    by_hand = ByHand(concurrency=1)
    by_hand.offer("a", "b")
    by_hand.answer(by_hand.batch(), REFUSED)
    assert by_hand.batch() == Batch(1, (0,))
    assert by_hand.idle()
