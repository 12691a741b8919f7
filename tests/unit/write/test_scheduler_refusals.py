"""Refused requests: the invalid rows are found by halving, and all others are written."""

from __future__ import annotations

import pytest

from ddbload.contracts.row_counts import RowCounts
from ddbload.dynamodb.limits import MAX_BATCH_BYTES, MAX_BATCH_ROWS
from ddbload.write.scheduler.answers import Accepted, Finished, Refused, Wait
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
    # The refusal's words may quote the row.
    assert driver.scheduler.last_error is None


@pytest.mark.parametrize("bad", range(MAX_BATCH_ROWS))
def test_invalid_row_is_found_by_halving(bad):
    driver = ManualDriver()
    driver.offer(*object_keys(MAX_BATCH_ROWS))
    sent = finish(driver, bad)
    assert driver.counts == RowCounts(read=25, written=24, rejected=1)
    assert list(driver.scheduler.refused) == [bad]
    # Halving takes at most two requests on each of five levels.
    assert len(sent) <= 11


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
