"""Requests of one row, rows that another item keeps out, and the first of equal keys."""

from __future__ import annotations

import pytest

from ddbload.contracts.results import RowCounts
from ddbload.errors import TableNotFound
from ddbload.write.scheduler.messages import (
    Accepted,
    Answer,
    Fatal,
    Finished,
    Refused,
    Throttled,
    Unsure,
)
from ddbload.write.scheduler.outcome_tracker import RowOutcome
from tests.unit.write.manual_driver import ByHand, object_keys

SKIPPED = Accepted((), 1.0, RowOutcome.SKIPPED)
SUPERSEDED = Accepted((), 1.0, RowOutcome.SUPERSEDED)
LOST: list[Answer] = [Unsure("no answer"), Throttled("ThrottlingException"), Accepted([0])]


def one_by_one(**more: object) -> ByHand:
    return ByHand(batch_rows=1, **more)


def first_wins() -> ByHand:
    return one_by_one(first_wins=True)


@pytest.mark.parametrize("together", [True, False])
def test_request_carries_one_row(together):
    by_hand = one_by_one()
    keys = object_keys(60)
    if together:
        by_hand.offer_all(*keys)
    else:
        by_hand.offer(*keys)
    assert sorted(map(list, by_hand.finish())) == [[row] for row in range(60)]
    assert by_hand.counts == RowCounts(read=60, written=60)
    assert by_hand.scheduler.stats.requests == 60


def test_requests_in_flight_are_limited_by_concurrency():
    by_hand = one_by_one(concurrency=3)
    by_hand.offer_all(*object_keys(10))
    batches = [by_hand.batch() for _ in range(3)]
    assert [len(batch.handles) for batch in batches] == [1, 1, 1]
    assert by_hand.idle()


def test_neighbouring_rows_are_not_sent_one_after_the_other():
    by_hand = one_by_one(concurrency=100)
    by_hand.offer_all(*object_keys(500))
    sent = [by_hand.batch().handles[0] for _ in range(25)]
    assert sent == list(range(0, 500, 20))


def test_rows_keep_their_order_when_fewer_than_a_batch():
    by_hand = one_by_one()
    by_hand.offer_all(*object_keys(5))
    assert [list(handles) for handles in by_hand.finish()] == [[row] for row in range(5)]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        (SKIPPED, RowCounts(read=2, written=1, skipped=1)),
        (SUPERSEDED, RowCounts(read=2, written=1, superseded=1)),
    ],
)
def test_row_is_settled_with_the_outcome_of_the_answer(together, answer, counts):
    by_hand = one_by_one()
    keys = object_keys(2)
    if together:
        by_hand.offer_all(*keys)
    else:
        by_hand.offer(*keys)
    by_hand.answer(by_hand.batch(), answer)
    by_hand.finish()
    assert by_hand.counts == counts
    assert by_hand.scheduler.stats.consumed_wcu == 2.0


@pytest.mark.parametrize("lost", LOST)
def test_row_is_settled_by_the_answer_to_its_retry(lost):
    by_hand = one_by_one()
    by_hand.offer_all("a")
    by_hand.answer(by_hand.batch(), lost)
    by_hand.answer(by_hand.batch(), SKIPPED)
    by_hand.finish()
    assert by_hand.counts == RowCounts(read=1, skipped=1)


# Last wins


def test_superseded_answer_settles_the_rows_it_replaced():
    by_hand = one_by_one()
    by_hand.offer("a", "a", "a")
    batch = by_hand.batch()
    assert batch.handles == (2,)
    by_hand.answer(batch, SUPERSEDED)
    by_hand.finish()
    assert by_hand.counts == RowCounts(read=3, superseded=3)


def test_row_is_sent_after_an_earlier_one_was_superseded():
    by_hand = one_by_one()
    by_hand.offer("a")
    batch = by_hand.batch()
    by_hand.offer("a")
    by_hand.answer(batch, SUPERSEDED)
    assert by_hand.finish() == [(1,)]
    assert by_hand.counts == RowCounts(read=2, written=1, superseded=1)


# First wins


@pytest.mark.parametrize("together", [True, False])
def test_first_wins_sends_rows_of_a_key_in_order(together):
    by_hand = first_wins()
    if together:
        by_hand.offer_all("a", "a", "b", "a")
    else:
        by_hand.offer("a", "a", "b", "a")
    first, other = by_hand.batch(), by_hand.batch()
    assert {tuple(first.handles), tuple(other.handles)} == {(0,), (2,)}
    assert by_hand.idle()
    by_hand.accept(first)
    by_hand.accept(other)
    for row in (1, 3):
        batch = by_hand.batch()
        assert batch.handles == (row,)
        assert by_hand.idle()
        by_hand.answer(batch, SKIPPED)
    by_hand.finish()
    assert by_hand.counts == RowCounts(read=4, written=2, skipped=2)


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("together", [True, False])
def test_first_wins_keeps_a_returned_row_first(lost, together):
    by_hand = first_wins()
    if together:
        by_hand.offer_all("a")
    else:
        by_hand.offer("a")
    batch = by_hand.batch()
    by_hand.offer("a")
    by_hand.offer_all("a")
    by_hand.answer(batch, lost)
    assert [list(handles) for handles in by_hand.finish()] == [[0], [1], [2]]


def test_first_wins_keeps_a_queued_row_first():
    by_hand = first_wins()
    by_hand.offer_all("a", "b")
    by_hand.offer("a")
    by_hand.offer_all("a", "b")
    sent = [handle for handles in by_hand.finish() for handle in handles]
    assert sorted(sent) == [0, 1, 2, 3, 4]
    assert [row for row in sent if row in (0, 2, 3)] == [0, 2, 3]
    assert [row for row in sent if row in (1, 4)] == [1, 4]


def test_first_wins_sends_the_next_row_after_a_refusal():
    by_hand = first_wins()
    by_hand.offer("a", "a", "a")
    refusal = Refused("not this one", "its_cause")
    by_hand.answer(by_hand.batch(), refusal)
    batch = by_hand.batch()
    assert batch.handles == (1,)
    by_hand.accept(batch)
    by_hand.answer(by_hand.batch(), SKIPPED)
    by_hand.finish()
    assert by_hand.counts == RowCounts(read=3, written=1, rejected=1, skipped=1)
    assert by_hand.scheduler.refused == {0: refusal}


def test_first_wins_leaves_waiting_rows_unsettled_at_the_deadline():
    by_hand = one_by_one(first_wins=True, deadline=1.0)
    by_hand.offer("a", "a")
    batch = by_hand.batch()
    by_hand.now = 1.0
    by_hand.accept(batch)
    by_hand.step()
    assert by_hand.counts == RowCounts(read=1, written=1)
    assert by_hand.frontier == 1


def test_first_wins_handles_thousands_of_rows_of_one_key():
    by_hand = first_wins()
    by_hand.offer(*["a"] * 3000)
    by_hand.accept(by_hand.batch())
    for _ in range(2999):
        by_hand.answer(by_hand.batch(), SKIPPED)
    by_hand.finish()
    assert by_hand.counts == RowCounts(read=3000, written=1, skipped=2999)


# Identical items


IDENTICAL = Accepted((), 1.0, RowOutcome.IDENTICAL)
UNSURE = Unsure("no answer")


@pytest.mark.parametrize("together", [True, False])
def test_identical_item_counts_as_skipped_after_one_request(together):
    by_hand = first_wins()
    if together:
        by_hand.offer_all("a")
    else:
        by_hand.offer("a")
    by_hand.answer(by_hand.batch(), IDENTICAL)
    by_hand.finish()
    assert by_hand.counts == RowCounts(read=1, skipped=1)
    assert by_hand.scheduler.outcomes.count(RowOutcome.IDENTICAL) == 1
    assert by_hand.scheduler.identical == [0]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("between", [[], [Throttled("x")], [UNSURE]])
def test_identical_item_counts_as_written_after_a_lost_answer(together, between):
    by_hand = first_wins()
    if together:
        by_hand.offer_all("a")
    else:
        by_hand.offer("a")
    for answer in [UNSURE, *between, IDENTICAL]:
        by_hand.answer(by_hand.batch(), answer)
    by_hand.finish()
    assert by_hand.counts == RowCounts(read=1, written=1)
    assert by_hand.scheduler.identical == []


@pytest.mark.parametrize("refusal", [Throttled("x"), Unsure("ExpiredToken", refused=True)])
def test_identical_item_counts_as_skipped_after_a_refused_request(refusal):
    by_hand = first_wins()
    by_hand.offer_all("a")
    by_hand.answer(by_hand.batch(), refusal)
    by_hand.answer(by_hand.batch(), IDENTICAL)
    by_hand.finish()
    assert by_hand.counts == RowCounts(read=1, skipped=1)


def test_different_item_counts_as_skipped_after_a_lost_answer():
    by_hand = first_wins()
    by_hand.offer_all("a")
    by_hand.answer(by_hand.batch(), UNSURE)
    by_hand.answer(by_hand.batch(), SKIPPED)
    by_hand.finish()
    assert by_hand.counts == RowCounts(read=1, skipped=1)
    assert by_hand.scheduler.last_possible_write() is None


@pytest.mark.parametrize("answers", [[IDENTICAL], [Throttled("x"), IDENTICAL]])
def test_identical_item_counts_as_written_after_a_resent_request(answers):
    by_hand = first_wins()
    by_hand.offer_all("a")
    for number, answer in enumerate(answers):
        batch = by_hand.batch()
        if number == 0:
            by_hand.scheduler.note_resent(batch)
        by_hand.answer(batch, answer)
    by_hand.finish()
    assert by_hand.counts == RowCounts(read=1, written=1)


@pytest.mark.parametrize("first", [Accepted((), 1.0), SKIPPED, IDENTICAL])
@pytest.mark.parametrize("lost", [[], [UNSURE]])
def test_identical_item_counts_as_skipped_after_an_earlier_row_of_the_key(first, lost):
    by_hand = first_wins()
    by_hand.offer_all("a", "a")
    for answer in [first, *lost, IDENTICAL]:
        by_hand.answer(by_hand.batch(), answer)
    by_hand.finish()
    assert by_hand.counts.skipped == 1 + (first.outcome is not RowOutcome.WRITTEN)
    assert by_hand.scheduler.outcomes.count(RowOutcome.IDENTICAL) == 1 + (first is IDENTICAL)
    # That of the first row may be this run's own.
    assert by_hand.scheduler.identical == ([0] if first is IDENTICAL else [])


def test_identical_item_counts_as_written_after_a_refused_row_of_the_key():
    by_hand = first_wins()
    by_hand.offer_all("a", "a")
    for answer in [Refused("not this one"), UNSURE, IDENTICAL]:
        by_hand.answer(by_hand.batch(), answer)
    by_hand.finish()
    assert by_hand.counts == RowCounts(read=2, rejected=1, written=1)


@pytest.mark.parametrize(
    ("answers", "last"),
    [
        ([None, Accepted((), 1.0), IDENTICAL, SKIPPED], 1),
        ([None, Accepted((), 1.0), UNSURE, SKIPPED], 2),
        ([None, Throttled("x"), IDENTICAL, SKIPPED], None),
        ([Accepted((), 1.0), Accepted((), 1.0), IDENTICAL, IDENTICAL], None),
        ([UNSURE, IDENTICAL, IDENTICAL, IDENTICAL], 0),
        ([Fatal(TableNotFound("gone")), IDENTICAL, IDENTICAL, IDENTICAL], None),
        ([Fatal(TableNotFound("gone"), unsure=True), IDENTICAL, IDENTICAL, IDENTICAL], 0),
    ],
)
def test_last_possible_write_is_the_last_row_that_may_be_written(answers, last):
    by_hand = first_wins()
    by_hand.offer_all(*"abcd")
    batches = [by_hand.batch() for _ in range(4)]
    by_hand.scheduler.stop()
    for batch, answer in zip(batches, answers, strict=True):
        by_hand.answer(batch, Throttled("x") if answer is None else answer)
    assert by_hand.step() == Finished()
    assert by_hand.scheduler.last_possible_write() == last
