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


def test_a_row_that_is_refused_alone_is_rejected():
    by_hand = ByHand()
    by_hand.offer("a")
    assert finish(by_hand, 0) == [(0,)]
    assert by_hand.counts == RowCounts(read=1, rejected=1)
    assert by_hand.scheduler.refused == {0: REFUSED}


@pytest.mark.parametrize("bad", range(MAX_BATCH_ROWS))
def test_one_bad_row_is_found(bad):
    by_hand = ByHand()
    by_hand.offer(*object_keys(MAX_BATCH_ROWS))
    sent = finish(by_hand, bad)
    assert by_hand.counts == RowCounts(read=25, written=24, rejected=1)
    assert list(by_hand.scheduler.refused) == [bad]
    # Halving: no more requests than two for each of five levels.
    assert len(sent) <= 11


def test_every_row_of_a_batch_may_be_bad():
    by_hand = ByHand()
    by_hand.offer(*object_keys(MAX_BATCH_ROWS))
    finish(by_hand, *range(MAX_BATCH_ROWS))
    assert by_hand.counts == RowCounts(read=25, rejected=25)


@pytest.mark.parametrize("seed", range(5))
def test_several_bad_rows_among_many_are_found(seed):
    by_hand = ByHand()
    by_hand.offer(*object_keys(200))
    bad = random.Random(seed).sample(range(200), 7)
    finish(by_hand, *bad)
    assert by_hand.counts == RowCounts(read=200, written=193, rejected=7)
    assert sorted(by_hand.scheduler.refused) == sorted(bad)


def test_a_bad_row_does_not_hold_others_up():
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


def test_refusals_call_for_no_back_off():
    by_hand = ByHand()
    by_hand.offer(*object_keys(100))
    finish(by_hand, 3, 50)
    assert by_hand.now == 0


@pytest.mark.parametrize("answer", [Throttled("ThrottlingException"), Unsure("no answer")])
def test_a_bad_row_is_found_although_its_halves_come_back(answer):
    by_hand = ByHand()
    by_hand.offer(*object_keys(MAX_BATCH_ROWS))
    by_hand.answer(by_hand.batch(), REFUSED)
    by_hand.answer(by_hand.batch(), answer)
    by_hand.answer(by_hand.batch(), answer)
    finish(by_hand, 7)
    assert by_hand.counts == RowCounts(read=25, written=24, rejected=1)


def test_the_row_that_was_superseded_by_a_bad_one_is_sent_after_all():
    by_hand = ByHand()
    by_hand.offer("a", "a")
    assert finish(by_hand, 1) == [(1,), (0,)]
    assert by_hand.counts == RowCounts(read=2, written=1, rejected=1)


def test_the_last_good_row_of_a_key_is_the_one_that_stays():
    by_hand = ByHand()
    by_hand.offer(*"aaaaa")
    assert finish(by_hand, 2, 3, 4) == [(4,), (3,), (2,), (1,)]
    assert by_hand.counts == RowCounts(read=5, written=1, rejected=3, superseded=1)


def test_where_all_rows_of_a_key_are_bad_all_are_rejected():
    by_hand = ByHand()
    by_hand.offer(*"aaa")
    assert finish(by_hand, 0, 1, 2) == [(2,), (1,), (0,)]
    assert by_hand.counts == RowCounts(read=3, rejected=3)


def test_a_row_that_waits_for_a_bad_one_is_sent():
    by_hand = ByHand()
    by_hand.offer("a")
    batch = by_hand.batch()
    by_hand.offer("a")
    by_hand.answer(batch, REFUSED)
    assert finish(by_hand) == [(1,)]
    assert by_hand.counts == RowCounts(read=2, written=1, rejected=1)


def test_a_row_that_waits_for_a_bad_one_supersedes_what_that_one_did():
    by_hand = ByHand()
    by_hand.offer("a", "a")
    batch = by_hand.batch()
    by_hand.offer("a", "a")
    by_hand.answer(batch, REFUSED)
    assert by_hand.scheduler.refused.keys() == {1}
    # Of the rows 0, 2 and 3 the last good one: 2.
    assert finish(by_hand, 3) == [(3,), (2,)]
    assert by_hand.counts == RowCounts(read=4, written=1, rejected=2, superseded=1)


def test_a_row_that_waits_takes_its_place_in_the_halves():
    by_hand = ByHand()
    by_hand.offer("a", "b")
    batch = by_hand.batch()
    by_hand.offer("a")
    by_hand.answer(batch, REFUSED)
    assert finish(by_hand, 1) == [(2,), (1,)]
    assert by_hand.counts == RowCounts(read=3, written=1, rejected=1, superseded=1)


def test_a_superseded_bad_row_is_never_looked_for():
    by_hand = ByHand()
    by_hand.offer("a", "b")
    by_hand.answer(by_hand.batch(), REFUSED)
    by_hand.offer("a")
    assert (2,) in finish(by_hand, 0)
    assert by_hand.counts == RowCounts(read=3, written=2, superseded=1)


def test_a_row_queued_again_after_a_refusal_can_be_superseded_again():
    by_hand = ByHand()
    by_hand.offer("a", "a")
    by_hand.answer(by_hand.batch(), REFUSED)
    by_hand.offer("a")
    assert finish(by_hand) == [(2,)]
    assert by_hand.counts == RowCounts(read=3, written=1, rejected=1, superseded=1)


def test_a_part_with_larger_rows_in_it_keeps_to_the_limit():
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


def test_the_message_is_that_of_the_row_alone():
    by_hand = ByHand()
    by_hand.offer("a", "b")
    by_hand.answer(by_hand.batch(), Refused("one of them"))
    first, second = by_hand.batch(), by_hand.batch()
    by_hand.answer(first, Refused("this one"))
    by_hand.answer(second, Accepted())
    assert by_hand.scheduler.refused == {0: Refused("this one")}


def test_a_refused_row_is_known_as_refused_when_it_is_released():
    seen = []
    by_hand = ByHand()
    by_hand.scheduler._on_release = lambda handles: seen.extend(
        (handle, by_hand.scheduler.refused.get(handle)) for handle in handles
    )
    by_hand.offer("a")
    by_hand.answer(by_hand.batch(), REFUSED)
    assert seen == [(0, REFUSED)]


def test_a_stop_between_two_halves_leaves_the_rest_unsettled():
    by_hand = ByHand()
    by_hand.offer("a", "b")
    by_hand.answer(by_hand.batch(), REFUSED)
    half = by_hand.batch()
    by_hand.scheduler.stop()
    assert by_hand.step() == Wait(None)
    by_hand.accept(half)
    assert by_hand.step() == Finished()
    assert by_hand.counts == RowCounts(read=1, written=1)


def test_parts_are_batches_like_others():
    by_hand = ByHand(concurrency=1)
    by_hand.offer("a", "b")
    by_hand.answer(by_hand.batch(), REFUSED)
    assert by_hand.batch() == Batch(1, (0,))
    assert by_hand.idle()
