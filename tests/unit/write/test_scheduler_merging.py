"""Updates of one key: merged while none of them is in flight, else one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ddbload.contracts.row_counts import RowCounts
from ddbload.dynamodb.modes import RowOrder
from ddbload.write.scheduler.answers import (
    Accepted,
    Batch,
    Finished,
    Refused,
    Throttled,
    Unsure,
    Wait,
)
from tests.unit.write.manual_driver import ManualDriver

REFUSED = Refused("no")


class FakeMerger:
    """Merger of rows as tuples of their handles; those of `apart` are never merged."""

    def __init__(self, *apart: int) -> None:
        self.apart = apart
        self.rows: dict[int, tuple[int, ...]] = {}

    def of(self, handle: int) -> tuple[int, ...]:
        return self.rows.get(handle, (handle,))

    def merge(self, earlier: int, later: int) -> bool:
        if earlier in self.apart or later in self.apart:
            return False
        self.rows[later] = self.of(earlier) + self.of(later)
        return True

    def restore(self, handles: Sequence[int]) -> None:
        for handle in handles:
            self.rows.pop(handle, None)
        if len(handles) > 1:
            self.rows[handles[-1]] = tuple(handles)


@pytest.fixture
def merger():
    return FakeMerger()


@pytest.fixture
def driver(merger):
    return merging(merger)


def merging(merger: FakeMerger, **more) -> ManualDriver:
    return ManualDriver(batch_rows=1, order=RowOrder.ALL, merger=merger, **more)


def finish(driver: ManualDriver, merger: FakeMerger) -> list[tuple[int, ...]]:
    """Accept everything until the end; return the rows that each request held."""
    sent = []
    while not isinstance(step := driver.step(), Finished):
        if isinstance(step, Batch):
            sent.append(merger.of(*step.handles))
            driver.accept(step)
        else:
            assert isinstance(step, Wait)
            driver.wait()
    return sent


def test_rows_of_one_key_are_merged_while_they_wait(driver, merger):
    driver.offer_all(*"abaca")
    driver.scheduler.close()
    assert sorted(finish(driver, merger)) == [(0, 2, 4), (1,), (3,)]
    assert driver.counts == RowCounts(read=5, written=3, superseded=2)
    assert driver.scheduler.repeated == 2


def test_row_waits_for_the_answer_of_an_earlier_one_in_flight(driver, merger):
    driver.offer_all("a")
    first = driver.batch()
    driver.offer("a", "a")
    assert driver.idle()
    driver.accept(first)
    driver.scheduler.close()
    assert finish(driver, merger) == [(1, 2)]
    assert driver.counts == RowCounts(read=3, written=2, superseded=1)


def test_returned_row_is_settled_before_the_later_ones_are_sent(driver, merger):
    driver.offer_all("a")
    first = driver.batch()
    driver.offer("a")
    driver.answer(first, Throttled("x"))
    driver.scheduler.close()
    assert finish(driver, merger) == [(0,), (1,)]
    assert driver.counts == RowCounts(read=2, written=2)


def test_refused_rows_are_sent_one_after_the_other_and_one_is_rejected(driver, merger):
    driver.offer_all(*"aaa")
    driver.answer(driver.batch(), REFUSED)
    outcomes = {0: Accepted(), 1: REFUSED, 2: Accepted()}
    for handle, answer in outcomes.items():
        batch = driver.batch()
        assert merger.of(*batch.handles) == (handle,)
        driver.answer(batch, answer)
    assert driver.counts == RowCounts(read=3, written=2, rejected=1)
    assert driver.scheduler.refused == {1: REFUSED}


def test_stopped_scheduler_merges_no_row_beyond_the_last_that_was_sent():
    merger = FakeMerger()
    driver = merging(merger, concurrency=2)
    driver.offer("a", "b")
    first, second = driver.batch(), driver.batch()
    driver.answer(first, Throttled("x"))
    driver.offer("a", "a")
    driver.scheduler.stop()
    driver.accept(second)
    assert finish(driver, merger) == [(0,)]
    assert driver.counts == RowCounts(read=2, written=2)


def test_key_with_a_lost_answer_is_noted_for_later_rows():
    unanswered: set[object] = set()
    driver = merging(FakeMerger(), unanswered=unanswered)
    driver.offer("a")
    driver.answer(driver.batch(), Unsure("ReadTimeout"))
    driver.accept(driver.batch())
    assert unanswered == {"a"}
    # Its lost request may still arrive, after that of this row.
    driver.offer_all(*"ab")
    driver.finish()
    assert driver.scheduler.repeated == 1
    later = merging(FakeMerger(), unanswered=unanswered)
    later.offer_all(*"ca")
    later.finish()
    assert later.scheduler.repeated == 1
