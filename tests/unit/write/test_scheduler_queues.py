"""Rows of a queue: ten a request, in order, and settled after a stop if they were sent."""

from __future__ import annotations

import pytest

from ddbload.contracts.row_counts import RowCounts
from ddbload.write.queue_requests import QUEUE_REQUESTS
from ddbload.write.scheduler.key_ordering import RowOrder
from ddbload.write.scheduler.messages import Accepted, Batch, Finished, Refused, Throttled, Unsure
from tests.unit.write.manual_driver import ManualDriver, object_keys

REFUSED = Refused("InvalidMessageContents: words", "refused_by_sqs")


def queue_driver(**more) -> ManualDriver:
    return ManualDriver(
        request_limits=QUEUE_REQUESTS, order=RowOrder.ALL, keeps_duplicates=True, **more
    )


def test_requests_have_ten_rows_in_the_order_of_the_file():
    driver = queue_driver()
    driver.offer_all(*object_keys(95))
    sent = driver.finish()
    assert [tuple(handles) for handles in sent] == [
        tuple(range(start, min(start + 10, 95))) for start in range(0, 95, 10)
    ]


def test_request_has_no_more_bytes_than_the_service_takes():
    driver = queue_driver()
    for _ in range(6):
        driver.offer(*object_keys(1), json_bytes=400_000)
    assert [len(handles) for handles in driver.finish()] == [2, 2, 2]


def test_failed_row_is_sent_again_and_others_are_not():
    driver = queue_driver()
    driver.offer_all(*object_keys(10))
    batch = driver.batch()
    driver.answer(batch, Accepted(failed=[3, 7]))
    assert driver.counts == RowCounts(read=3, written=3)
    assert [tuple(handles) for handles in driver.finish()] == [(3, 7)]
    assert driver.counts == RowCounts(read=10, written=10)
    assert driver.scheduler.stats.throttled == 0


def test_refused_row_is_rejected_and_others_are_written():
    driver = queue_driver()
    driver.offer_all(*object_keys(10))
    driver.answer(driver.batch(), Accepted(failed=[9], refused={3: REFUSED}))
    assert driver.scheduler.refused == {3: REFUSED}
    driver.finish()
    assert driver.counts == RowCounts(read=10, written=9, rejected=1)


def test_requests_wait_while_every_row_fails():
    driver = queue_driver()
    driver.offer_all(*object_keys(1000))
    waits = 0
    for _ in range(8):
        waits += not isinstance(driver.step(), Batch)
        batch = driver.batch()
        driver.answer(batch, Accepted(failed=range(len(batch.handles))))
    assert waits > 4
    assert driver.now > 1


def test_rows_of_a_group_are_sent_one_after_the_other():
    driver = queue_driver()
    driver.offer_all(*"aababca")
    order: list[int] = []
    driver.scheduler.close()
    for turn in range(6):
        batch = driver.batch()
        if turn in (0, 3):
            # The first row fails and the others are taken.
            driver.answer(batch, Accepted(failed=[0]))
            order += batch.handles[1:]
        elif turn == 2:
            driver.answer(batch, Unsure("lost"))
        else:
            driver.accept(batch)
            order += batch.handles
    for handles in driver.finish():
        order += handles
    assert [handle for handle in order if handle in (0, 1, 3, 6)] == [0, 1, 3, 6]
    assert [handle for handle in order if handle in (2, 4)] == [2, 4]
    assert driver.counts == RowCounts(read=7, written=7)


@pytest.mark.parametrize("ends", ["stop", "deadline"])
@pytest.mark.parametrize(
    "lost", [Accepted(failed=[2, 4]), Unsure("lost"), Accepted(failed=[2], unsure=[2])]
)
def test_rows_that_were_sent_are_settled_at_the_end(lost, ends):
    driver = queue_driver(concurrency=3, deadline=1.0)
    driver.offer_all(*object_keys(100))
    first, second, third = driver.batch(), driver.batch(), driver.batch()
    driver.accept(second)
    if ends == "stop":
        driver.scheduler.stop()
    else:
        driver.now = 1.0
    driver.answer(first, lost)
    driver.accept(third)
    while not isinstance(step := driver.step(), Finished):
        if isinstance(step, Batch):
            assert set(step.handles) <= set(first.handles)
            driver.accept(step)
        else:
            driver.wait()
    # All that was sent is settled, and nothing else was sent.
    assert driver.counts == RowCounts(read=30, written=30)


@pytest.mark.parametrize("failed", [[], [0]])
def test_rows_before_the_last_that_was_sent_are_sent_after_a_stop(failed):
    # The next invocation begins at the first row that is not settled: b would be there twice.
    driver = queue_driver()
    driver.offer_all(*"aabab")
    batch = driver.batch()
    assert tuple(batch.handles) == (0, 2)
    driver.scheduler.stop()
    driver.answer(batch, Accepted(failed=failed))
    sent: list[int] = []
    while not isinstance(step := driver.step(), Finished):
        if isinstance(step, Batch):
            sent += step.handles
            driver.accept(step)
        else:
            driver.wait()
    assert sent == [*failed, 1]
    assert driver.counts == RowCounts(read=3, written=3)


@pytest.mark.parametrize("answer", [Unsure("lost"), Throttled("x"), Accepted(failed=range(10))])
def test_nothing_is_sent_after_a_stop_if_no_row_beyond_was_written(answer):
    driver = queue_driver()
    driver.offer_all(*object_keys(30))
    driver.accept(driver.batch())
    batch = driver.batch()
    driver.scheduler.stop()
    driver.answer(batch, answer)
    assert driver.step() == Finished()


@pytest.mark.parametrize(
    ("ends", "least", "most"),
    [("stop", 0, 10), ("deadline", 30, 60), ("deadline, then stop", 9, 12)],
)
def test_rows_that_keep_failing_are_given_up_some_time_after_the_end(ends, least, most):
    driver = queue_driver(deadline=1.0)
    driver.offer_all(*object_keys(20))
    batch = driver.batch()
    driver.accept(driver.batch())
    if ends == "stop":
        driver.scheduler.stop()
    else:
        driver.now = 1.0
    driver.answer(batch, Unsure("lost"))
    while not isinstance(step := driver.step(), Finished):
        if isinstance(step, Batch):
            driver.answer(step, Unsure("lost"))
        else:
            driver.wait()
        if "then" in ends and driver.now > 10:
            driver.scheduler.stop()
    assert least <= driver.now - 1.0 <= most
    assert driver.counts.read == 0


def test_rows_without_an_answer_are_sent_after_a_stop_where_a_target_keeps_no_duplicates():
    driver = ManualDriver()
    driver.offer_all(*object_keys(10))
    batch = driver.batch()
    driver.scheduler.stop()
    driver.answer(batch, Unsure("lost"))
    driver.accept(driver.batch())
    assert driver.step() == Finished()
    assert driver.counts == RowCounts(read=10, written=10)


def test_requests_stay_whole_while_the_queue_throttles():
    driver = queue_driver(concurrency=1)
    driver.offer_all(*object_keys(400))
    for _ in range(30):
        driver.answer(driver.batch(), Throttled("RequestThrottled"))
    first = driver.batch()
    assert len(first.handles) == 10
    driver.accept(first)
    assert {len(handles) for handles in driver.finish()} == {10}
