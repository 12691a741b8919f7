"""Back-off of all requests after failures, and of returned rows alone."""

from __future__ import annotations

import pytest

from ddbload.dynamodb.limits import NEW_TABLE_RATE
from ddbload.write.pacing.pacing import FIRST_SHARE
from ddbload.write.scheduler.answers import Accepted, Answer, Batch, Throttled, Unsure, Wait
from tests.unit.write.manual_driver import ManualDriver, object_keys


def after(answer: Answer, rows: int = 10) -> ManualDriver:
    """Make a driver that has sent `rows` rows, got this answer, and has 25 more rows to send."""
    driver = ManualDriver()
    driver.offer(*object_keys(rows))
    batch = driver.batch()
    driver.offer(*object_keys(25))
    driver.answer(batch, answer)
    return driver


@pytest.mark.parametrize(
    "answer",
    [
        Throttled("ThrottlingException"),
        Unsure("no answer"),
        Accepted(range(10)),
    ],
)
def test_all_requests_wait_after_a_failed_request(answer):
    driver = after(answer)
    step = driver.step()
    assert isinstance(step, Wait)
    assert step.until is not None
    assert driver.wait() <= 0.1
    assert isinstance(driver.step(), Batch)


@pytest.mark.parametrize("answer", [Accepted(), Accepted(range(9)), Accepted([9])])
def test_other_rows_do_not_wait_when_some_are_returned(answer):
    driver = after(answer)
    batch = driver.batch()
    # The ten rows that were sent take this long at the first rate.
    assert driver.now <= 1.1 * 10 / (FIRST_SHARE * NEW_TABLE_RATE)
    assert batch.handles[:5] == tuple(range(10, 15))


def longest_wait(answers: list[Answer]) -> float:
    """Compute the longest wait of 200 seeds after these answers to consecutive requests."""
    longest = 0.0
    for seed in range(200):
        driver = ManualDriver(seed=seed)
        for answer in answers:
            driver.offer(*object_keys(4))
            driver.answer(driver.batch(), answer)
        start = driver.now
        driver.offer(object())
        while not isinstance(driver.step(), Batch):
            driver.wait()
        longest = max(longest, driver.now - start)
    return longest


THROTTLED = Throttled("ThrottlingException")


def test_waits_double_with_each_throttled_request():
    waits = [longest_wait([THROTTLED] * times) for times in (1, 2, 3, 4)]
    assert [round(wait, 2) for wait in waits] == [0.02, 0.05, 0.1, 0.2]
