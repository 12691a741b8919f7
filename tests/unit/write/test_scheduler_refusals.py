"""Refused requests: the invalid rows are found by halving, and all others are written."""

from __future__ import annotations

import random

import pytest

from ddbload.contracts.row_counts import RowCounts
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
from tests.unit.write.manual_driver import ManualDriver, object_keys

REFUSED = Refused("The provided key element does not match the schema")


def finish(driver: ManualDriver, *invalid: int) -> list[tuple[int, ...]]:
    """Send all remaining batches, refusing those with invalid rows; return the handles sent."""
    driver.scheduler.close()
    sent = []
    while driver.scheduler.outcomes.ahead:
        batch = driver.batch()
        sent.append(batch.handles)
        if set(invalid) & set(batch.handles):
            driver.answer(batch, REFUSED)
        else:
            driver.accept(batch)
    assert driver.step() == Finished()
    assert driver.counts.conserved
    assert sorted(driver.released) == list(range(driver.scheduler.outcomes.known))
    return sent


def test_single_refused_row_is_rejected():
    driver = ManualDriver()
    driver.offer("a")
    assert finish(driver, 0) == [(0,)]
    assert driver.counts == RowCounts(read=1, rejected=1)
    assert driver.scheduler.refused == {0: REFUSED}


@pytest.mark.parametrize("bad", range(MAX_BATCH_ROWS))
def test_invalid_row_is_found_by_halving(bad):
    driver = ManualDriver()
    driver.offer(*object_keys(MAX_BATCH_ROWS))
    sent = finish(driver, bad)
    assert driver.counts == RowCounts(read=25, written=24, rejected=1)
    assert list(driver.scheduler.refused) == [bad]
    # Halving takes at most two requests on each of five levels.
    assert len(sent) <= 11


def test_invalid_rows_are_found_when_all_are_invalid():
    driver = ManualDriver()
    driver.offer(*object_keys(MAX_BATCH_ROWS))
    finish(driver, *range(MAX_BATCH_ROWS))
    assert driver.counts == RowCounts(read=25, rejected=25)


@pytest.mark.parametrize("seed", range(5))
def test_invalid_rows_are_found_among_many(seed):
    driver = ManualDriver()
    driver.offer(*object_keys(200))
    bad = random.Random(seed).sample(range(200), 7)
    finish(driver, *bad)
    assert driver.counts == RowCounts(read=200, written=193, rejected=7)
    assert sorted(driver.scheduler.refused) == sorted(bad)


def test_halves_are_sent_at_once_after_a_refusal():
    driver = ManualDriver(concurrency=3)
    driver.offer(*object_keys(75))
    first, second, third = driver.batch(), driver.batch(), driver.batch()
    driver.answer(first, REFUSED)
    driver.accept(second)
    driver.accept(third)
    # Both halves are sent at once.
    assert [driver.batch().handles, driver.batch().handles] == [
        first.handles[:12],
        first.handles[12:],
    ]


def test_refusals_cause_no_back_off():
    driver = ManualDriver()
    driver.offer(*object_keys(100))
    finish(driver, 3, 50)
    assert driver.now == 0


@pytest.mark.parametrize("answer", [Throttled("ThrottlingException"), Unsure("no answer")])
def test_invalid_row_is_found_when_its_halves_are_returned(answer):
    driver = ManualDriver()
    driver.offer(*object_keys(MAX_BATCH_ROWS))
    driver.answer(driver.batch(), REFUSED)
    driver.answer(driver.batch(), answer)
    driver.answer(driver.batch(), answer)
    finish(driver, 7)
    assert driver.counts == RowCounts(read=25, written=24, rejected=1)


def test_superseded_row_is_sent_when_the_later_is_refused():
    driver = ManualDriver()
    driver.offer("a", "a")
    assert finish(driver, 1) == [(1,), (0,)]
    assert driver.counts == RowCounts(read=2, written=1, rejected=1)


def test_last_valid_row_of_a_key_is_written():
    driver = ManualDriver()
    driver.offer(*"aaaaa")
    assert finish(driver, 2, 3, 4) == [(4,), (3,), (2,), (1,)]
    assert driver.counts == RowCounts(read=5, written=1, rejected=3, superseded=1)


def test_all_rows_of_a_key_are_rejected_when_all_are_refused():
    driver = ManualDriver()
    driver.offer(*"aaa")
    assert finish(driver, 0, 1, 2) == [(2,), (1,), (0,)]
    assert driver.counts == RowCounts(read=3, rejected=3)


def test_waiting_row_is_sent_when_the_earlier_is_refused():
    driver = ManualDriver()
    driver.offer("a")
    batch = driver.batch()
    driver.offer("a")
    driver.answer(batch, REFUSED)
    assert finish(driver) == [(1,)]
    assert driver.counts == RowCounts(read=2, written=1, rejected=1)


def test_waiting_row_inherits_the_superseded_rows_of_a_refused_one():
    driver = ManualDriver()
    driver.offer("a", "a")
    batch = driver.batch()
    driver.offer("a", "a")
    driver.answer(batch, REFUSED)
    assert driver.scheduler.refused.keys() == {1}
    # Row 2 is the last valid one of 0, 2 and 3.
    assert finish(driver, 3) == [(3,), (2,)]
    assert driver.counts == RowCounts(read=4, written=1, rejected=2, superseded=1)


def test_waiting_row_replaces_the_earlier_in_the_halves():
    driver = ManualDriver()
    driver.offer("a", "b")
    batch = driver.batch()
    driver.offer("a")
    driver.answer(batch, REFUSED)
    assert finish(driver, 1) == [(2,), (1,)]
    assert driver.counts == RowCounts(read=3, written=1, rejected=1, superseded=1)


def test_superseded_invalid_row_is_never_sent_again():
    driver = ManualDriver()
    driver.offer("a", "b")
    driver.answer(driver.batch(), REFUSED)
    driver.offer("a")
    assert (2,) in finish(driver, 0)
    assert driver.counts == RowCounts(read=3, written=2, superseded=1)


def test_row_queued_after_a_refusal_can_be_superseded_again():
    driver = ManualDriver()
    driver.offer("a", "a")
    driver.answer(driver.batch(), REFUSED)
    driver.offer("a")
    assert finish(driver) == [(2,)]
    assert driver.counts == RowCounts(read=3, written=1, rejected=1, superseded=1)


def test_half_with_larger_rows_keeps_to_the_byte_limit():
    driver = ManualDriver()
    keys = object_keys(MAX_BATCH_ROWS)
    driver.offer(*keys)
    batch = driver.batch()
    large = 2 * 1024 * 1024
    driver.offer(*keys, size=400_000, json_bytes=large)
    driver.answer(batch, REFUSED)
    sent = finish(driver)
    assert max(map(len, sent)) <= MAX_BATCH_BYTES // large
    assert driver.counts == RowCounts(read=50, written=25, superseded=25)


def test_refusal_message_is_that_of_the_single_row():
    driver = ManualDriver()
    driver.offer("a", "b")
    driver.answer(driver.batch(), Refused("one of them"))
    first, second = driver.batch(), driver.batch()
    driver.answer(first, Refused("this one"))
    driver.answer(second, Accepted())
    assert driver.scheduler.refused == {0: Refused("this one")}


def test_refusal_is_recorded_before_the_row_is_released():
    seen = []
    driver = ManualDriver()
    driver.scheduler._answers._on_release = lambda handles: seen.extend(
        (handle, driver.scheduler.refused.get(handle)) for handle in handles
    )
    driver.offer("a")
    driver.answer(driver.batch(), REFUSED)
    assert seen == [(0, REFUSED)]


def test_stop_between_halves_leaves_the_rest_unsettled():
    driver = ManualDriver()
    driver.offer("a", "b")
    driver.answer(driver.batch(), REFUSED)
    half = driver.batch()
    driver.scheduler.stop()
    assert isinstance(driver.step(), Wait)
    driver.accept(half)
    assert driver.step() == Finished()
    assert driver.counts == RowCounts(read=1, written=1)


def test_halves_respect_the_concurrency():
    driver = ManualDriver(concurrency=1)
    driver.offer("a", "b")
    driver.answer(driver.batch(), REFUSED)
    assert driver.batch() == Batch(1, (0,))
    assert driver.idle()
