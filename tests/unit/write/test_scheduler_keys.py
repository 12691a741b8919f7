"""Rows with equal keys: at most one is in flight, and the last one stays."""

from __future__ import annotations

import pytest

from ddbload.contracts.row_counts import RowCounts
from ddbload.errors import TableNotFound
from ddbload.write.scheduler.answers import Accepted, Fatal, Throttled, Unsure
from tests.unit.write.manual_driver import ManualDriver, object_keys

NOT_WRITTEN = [
    pytest.param(Accepted([0]), id="unprocessed"),
    pytest.param(Throttled("ThrottlingException"), id="throttled"),
    pytest.param(Unsure("no answer"), id="unsure"),
]


def test_waiting_row_is_sent_in_its_turn_after_the_answer():
    driver = ManualDriver()
    driver.offer("a", *range(24), "a", *range(100, 200))
    driver.offer("a")
    first = driver.batch()
    driver.offer("a")
    driver.accept(first)
    last = driver.scheduler.outcomes.known - 1
    assert [handles[0] for handles in driver.accept_all()] == [26, 51, 76, 101, last]
    assert driver.scheduler.outcomes.frontier == last + 1


def test_replacing_row_is_sent_before_unique_keys_offered_later():
    """Send a row that replaces the oldest one first, because the frontier waits for it."""
    driver = ManualDriver()
    driver.offer("a", *range(100, 150))
    driver.offer_all(*range(200, 250), "a", *range(300, 350))
    assert driver.batch().handles == (101, *range(1, 25))


def test_unique_keys_are_dealt_out_to_batches_in_turn():
    driver = ManualDriver(concurrency=4)
    driver.offer_all(*object_keys(100))
    batches = [driver.batch(), driver.batch()]
    assert [list(each.handles) for each in batches] == [
        list(range(0, 100, 4)),
        list(range(1, 100, 4)),
    ]
    driver.accept(batches[1])
    assert driver.scheduler.outcomes.frontier == 0
    driver.accept(batches[0])
    assert driver.scheduler.outcomes.frontier == 2


def test_batches_are_cut_to_the_budget():
    driver = ManualDriver(max_wcu=50.0)
    driver.offer_all(*object_keys(30), units=[3] * 30)
    sent = driver.finish()
    assert sorted(handle for handles in sent for handle in handles) == list(range(30))
    # The units of a fifth of a second, or slightly more to avoid a request of one or two rows.
    assert sorted(map(len, sent)) == [3, 3] + [4] * 6


def test_queued_rows_of_one_key_are_written_once():
    driver = ManualDriver()
    driver.offer(*["a"] * 1000)
    assert driver.finish() == [(999,)]
    assert driver.counts == RowCounts(read=1000, written=1, superseded=999)


@pytest.mark.parametrize("answer", NOT_WRITTEN)
def test_new_row_replaces_a_returned_row(answer):
    driver = ManualDriver()
    driver.offer("a")
    driver.answer(driver.batch(), answer)
    driver.offer("a", "a")
    assert driver.finish() == [(2,)]
    assert driver.counts == RowCounts(read=3, written=1, superseded=2)


def test_fatal_answer_settles_nothing():
    driver = ManualDriver()
    driver.offer("a", "a", "b")
    driver.answer(driver.batch(), Fatal(TableNotFound("gone")))
    assert driver.counts == RowCounts()
    assert driver.released == []
