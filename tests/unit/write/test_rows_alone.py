"""Rows that a batch did not settle go again alone, and many of them make all rows go alone."""

from __future__ import annotations

import pytest

from ddbload.contracts.row_counts import RowCounts
from ddbload.dynamodb.modes import RowOrder
from ddbload.write.scheduler.answers import (
    FEW_FOUND,
    MOST_FOUND,
    Accepted,
    Batch,
    BatchSize,
    Finished,
    RowOutcome,
    Unsure,
    Wait,
)
from tests.unit.write.manual_driver import ManualDriver

SKIPPED = Accepted((), 1.0, RowOutcome.SKIPPED)
IDENTICAL = Accepted((), 1.0, RowOutcome.IDENTICAL)


def inserting(**more: object) -> ManualDriver:
    return ManualDriver(order=RowOrder.FIRST_WINS, **more)


@pytest.mark.parametrize("together", [True, False])
def test_row_that_found_an_item_goes_alone_and_before_others(together):
    driver = inserting()
    if together:
        driver.offer_all(*range(50))
    else:
        driver.offer(*range(50))
    first = driver.batch()
    assert len(first.handles) == 25
    driver.answer(first, Accepted((), 25.0, alone=[3, 24]))
    assert driver.batch().handles == (first.handles[3],)
    assert driver.batch().handles == (first.handles[24],)
    assert len(driver.batch().handles) == 25
    # Neither was repeated: each asked for something else.
    assert driver.scheduler.stats.retries == 0


@pytest.mark.parametrize("unsure", [[], [0]])
def test_identical_item_is_the_own_one_after_an_unsure_statement_only(unsure):
    driver = inserting()
    driver.offer("a", "b")
    driver.answer(driver.batch(), Accepted((), 2.0, alone=[0], unsure=unsure))
    driver.answer(driver.batch(), IDENTICAL)
    own = len(unsure)
    assert driver.counts == RowCounts(read=2, written=1 + own, skipped=1 - own)
    assert driver.scheduler.identical == [0] * (1 - own)


def test_lost_answer_of_a_batch_makes_identical_items_the_own_ones():
    driver = inserting()
    driver.offer("a", "b")
    driver.answer(driver.batch(), Unsure("ReadTimeout"))
    driver.answer(driver.batch(), Accepted((), 2.0, alone=[0, 1]))
    for _ in range(2):
        driver.answer(driver.batch(), IDENTICAL)
    assert driver.counts == RowCounts(read=2, written=2)


def test_one_row_is_told_apart_after_the_deadline():
    driver = inserting(deadline=10.0)
    driver.offer_all(*range(5))
    first = driver.batch()
    driver.now = 11.0
    assert driver.step() == Wait(None)
    driver.answer(first, Accepted((), 5.0, alone=range(5)))
    again = driver.step()
    assert isinstance(again, Batch)
    assert again.handles == (0,)
    driver.answer(again, SKIPPED)
    assert driver.step() == Finished()
    assert driver.counts == RowCounts(read=1, skipped=1)


def test_nothing_is_told_apart_after_the_deadline_if_a_row_was_settled():
    driver = inserting(deadline=10.0)
    driver.offer_all(*range(5))
    first = driver.batch()
    driver.now = 11.0
    driver.answer(first, Accepted((), 5.0, alone=[3, 4]))
    assert driver.step() == Finished()
    assert driver.frontier == 3


def test_all_rows_go_alone_once_the_endpoint_has_no_statements():
    driver = inserting(concurrency=2)
    driver.offer_all(*range(60))
    first, second = driver.batch(), driver.batch()
    for batch in (first, second):
        driver.answer(batch, Accepted(alone=range(len(batch.handles)), single_rows=True))
    assert {len(handles) for handles in driver.accept_all()} == {1}
    assert driver.counts == RowCounts(read=60, written=60)


def test_batches_shrink_and_grow_with_the_share_of_found_items():
    size = BatchSize(25)
    full, none = Accepted(alone=range(25)), Accepted()
    for answer in (none, *[Accepted(alone=[1])] * 40):
        size.answered(25, answer)
        assert size.rows == 25
    assert 1 / 25 < FEW_FOUND < MOST_FOUND
    while size.rows == 25:
        size.answered(25, full)
    assert size.rows == 1
    for _ in range(500):
        size.answered(1, SKIPPED)
        assert size.rows == 1
    rows = 0
    while size.rows == 1:
        size.answered(1, none)
        rows += 1
    assert size.rows == 25
    assert 200 < rows < 1000


def test_single_rows_never_grow_where_a_mode_or_an_endpoint_has_no_batches():
    alone = BatchSize(1)
    for answer in (Accepted(), SKIPPED) * 500:
        alone.answered(1, answer)
        assert alone.rows == 1
    size = BatchSize(25)
    size.answered(25, Accepted(alone=range(25), single_rows=True))
    for _ in range(2000):
        assert size.rows == 1
        size.answered(1, Accepted())
