"""Requests of one row, failed conditions, and the mode in which the first row of a key wins."""

from __future__ import annotations

import pytest

from ddbload.contracts.row_counts import RowCounts
from ddbload.dynamodb.modes import RowOrder
from ddbload.errors import TableNotFound
from ddbload.write.scheduler.answers import Accepted, Fatal, Refused, RowOutcome, Throttled, Unsure
from tests.unit.write.manual_driver import ManualDriver, object_keys

SKIPPED = Accepted((), 1.0, RowOutcome.SKIPPED)
SUPERSEDED = Accepted((), 1.0, RowOutcome.SUPERSEDED)


def one_by_one(**more: object) -> ManualDriver:
    return ManualDriver(batch_rows=1, **more)


def first_wins() -> ManualDriver:
    return one_by_one(order=RowOrder.FIRST_WINS)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        (SKIPPED, RowCounts(read=2, written=1, skipped=1)),
        (SUPERSEDED, RowCounts(read=2, written=1, superseded=1)),
    ],
)
def test_row_is_settled_with_the_outcome_of_the_answer(together, answer, counts):
    driver = one_by_one()
    keys = object_keys(2)
    if together:
        driver.offer_all(*keys)
    else:
        driver.offer(*keys)
    driver.answer(driver.batch(), answer)
    driver.finish()
    assert driver.counts == counts
    assert driver.scheduler.stats.consumed_wcu == 2.0


# Last wins


def test_superseded_answer_settles_the_rows_it_replaced():
    driver = one_by_one()
    driver.offer("a", "a", "a")
    batch = driver.batch()
    assert batch.handles == (2,)
    driver.answer(batch, SUPERSEDED)
    driver.finish()
    assert driver.counts == RowCounts(read=3, superseded=3)


# First wins


@pytest.mark.parametrize("together", [True, False])
def test_first_wins_sends_rows_of_a_key_in_order(together):
    driver = first_wins()
    if together:
        driver.offer_all("a", "a", "b", "a")
    else:
        driver.offer("a", "a", "b", "a")
    first, other = driver.batch(), driver.batch()
    assert {tuple(first.handles), tuple(other.handles)} == {(0,), (2,)}
    assert driver.idle()
    driver.accept(first)
    driver.accept(other)
    for row in (1, 3):
        batch = driver.batch()
        assert batch.handles == (row,)
        assert driver.idle()
        driver.answer(batch, SKIPPED)
    driver.finish()
    assert driver.counts == RowCounts(read=4, written=2, skipped=2)


def test_first_wins_sends_the_next_row_after_a_refusal():
    driver = first_wins()
    driver.offer("a", "a", "a")
    refusal = Refused("not this one", "its_cause")
    driver.answer(driver.batch(), refusal)
    batch = driver.batch()
    assert batch.handles == (1,)
    driver.accept(batch)
    driver.answer(driver.batch(), SKIPPED)
    driver.finish()
    assert driver.counts == RowCounts(read=3, written=1, rejected=1, skipped=1)
    assert driver.scheduler.refused == {0: refusal}


def test_first_wins_handles_thousands_of_rows_of_one_key():
    driver = first_wins()
    driver.offer(*["a"] * 3000)
    driver.accept(driver.batch())
    for _ in range(2999):
        driver.answer(driver.batch(), SKIPPED)
    driver.finish()
    assert driver.counts == RowCounts(read=3000, written=1, skipped=2999)


# Identical items


IDENTICAL = Accepted((), 1.0, RowOutcome.IDENTICAL)
UNSURE = Unsure("no answer")


@pytest.mark.parametrize("together", [True, False])
def test_identical_item_counts_as_skipped_after_one_request(together):
    driver = first_wins()
    if together:
        driver.offer_all("a")
    else:
        driver.offer("a")
    driver.answer(driver.batch(), IDENTICAL)
    driver.finish()
    assert driver.counts == RowCounts(read=1, skipped=1)
    assert driver.scheduler.outcomes.count(RowOutcome.IDENTICAL) == 1
    assert driver.scheduler.identical == [0]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("between", [[], [Throttled("x")], [UNSURE]])
def test_identical_item_counts_as_written_after_a_lost_answer(together, between):
    driver = first_wins()
    if together:
        driver.offer_all("a")
    else:
        driver.offer("a")
    for answer in [UNSURE, *between, IDENTICAL]:
        driver.answer(driver.batch(), answer)
    driver.finish()
    assert driver.counts == RowCounts(read=1, written=1)
    assert driver.scheduler.identical == []


@pytest.mark.parametrize("first", [Accepted((), 1.0), SKIPPED, IDENTICAL])
@pytest.mark.parametrize("lost", [[], [UNSURE]])
def test_identical_item_counts_as_skipped_after_an_earlier_row_of_the_key(first, lost):
    driver = first_wins()
    driver.offer_all("a", "a")
    for answer in [first, *lost, IDENTICAL]:
        driver.answer(driver.batch(), answer)
    driver.finish()
    assert driver.counts.skipped == 1 + (first.outcome is not RowOutcome.WRITTEN)
    assert driver.scheduler.outcomes.count(RowOutcome.IDENTICAL) == 1 + (first is IDENTICAL)
    # The item that the first row found may have been put by this run.
    assert driver.scheduler.identical == ([0] if first is IDENTICAL else [])


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
    driver = first_wins()
    driver.offer_all(*"abcd")
    batches = [driver.batch() for _ in range(4)]
    driver.scheduler.stop()
    for batch, answer in zip(batches, answers, strict=True):
        driver.answer(batch, Throttled("x") if answer is None else answer)
    assert driver.scheduler.last_possible_write() == last


# Until the condition is proven.


def test_one_request_goes_at_a_time_until_the_condition_is_proven():
    proven = [False]
    driver = one_by_one(order=RowOrder.ALL, is_proven=lambda: proven[0])
    driver.offer_all(*object_keys(9))
    first = driver.batch()
    assert driver.idle()
    # What was throttled, or is unknown, proves nothing.
    driver.answer(first, Throttled("ThrottlingException"))
    driver.now += 10
    second = driver.batch()
    assert driver.idle()
    proven[0] = True
    driver.answer(second, Accepted(consumed=1))
    assert len({driver.batch().number for _ in range(5)}) == 5
