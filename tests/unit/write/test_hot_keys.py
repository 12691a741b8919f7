from __future__ import annotations

import pytest

from ddbload.dynamodb.limits import PARTITION_WRITE_UNITS
from ddbload.write.pacing.wcu_budget import TokenBucket
from ddbload.write.scheduler.hot_keys import (
    FORGET_SECONDS,
    MAX_HOT_KEYS,
    MIN_KEY_RATE,
    SUSPECT_SECONDS,
    SUSPECT_UNITS,
    HotKeys,
)
from ddbload.write.scheduler.key_ordering import QueuedRow
from ddbload.write.scheduler.messages import Accepted, Batch
from tests.unit.write.manual_driver import ManualDriver


def rows(*keys: str) -> list[QueuedRow]:
    return [QueuedRow(place, (key, place), 1, 100) for place, key in enumerate(keys)]


def report(hot: HotKeys, keys: str, returned: str, now: float, **given) -> int:
    """Report a request with rows of these keys, of which those in `returned` came back."""
    made = rows(*keys)
    indexes = {index for index, row in enumerate(made) if row.key[0] in returned}
    return hot.answered(made, indexes, now - 0.001, now, **given)


def with_hot_keys(keys: str = "h", beside: str = "abcd", **given) -> tuple[HotKeys, float]:
    hot, now = HotKeys(), 10.0
    for _ in range(SUSPECT_UNITS + 1):
        report(hot, keys + beside, keys, now, **given)
        now += 2 * SUSPECT_SECONDS / SUSPECT_UNITS
    return hot, now


def test_key_is_hot_when_it_alone_is_returned_for_long():
    hot, _ = with_hot_keys()
    assert list(hot.by_key) == ["h"]
    assert hot.by_key["h"].rate.units_per_second <= PARTITION_WRITE_UNITS


def test_key_is_not_hot_when_other_keys_are_returned_too():
    hot = HotKeys()
    for tenth in range(1000):
        report(hot, "hhabcd", "habc", tenth / 100)
    assert not hot.by_key


def test_key_without_others_is_hot_only_with_a_key_range_reason():
    assert not with_hot_keys(beside="")[0].by_key
    assert list(with_hot_keys(beside="", key_range=True)[0].by_key) == ["h"]


def test_key_is_not_hot_when_returned_for_a_moment():
    hot = HotKeys()
    for tenth in range(SUSPECT_UNITS * 2):
        report(hot, "habcd", "h", 10 + tenth * SUSPECT_SECONDS / SUSPECT_UNITS / 4)
    assert not hot.by_key


def test_hot_key_explains_its_returned_units():
    hot, now = with_hot_keys()
    assert report(hot, "hhab", "ha", now) == 2


def test_hot_key_at_its_minimum_rate_explains_nothing():
    hot, now = with_hot_keys()
    for _ in range(100):
        now += SUSPECT_SECONDS
        report(hot, "hab", "h", now)
    assert hot.by_key["h"].rate.units_per_second == pytest.approx(MIN_KEY_RATE, rel=0.05)
    hot.by_key["h"].rate.units_per_second = MIN_KEY_RATE
    assert report(hot, "hab", "h", now) == 0


def test_hot_keys_are_limited_in_number():
    hot, _ = with_hot_keys("hijklmno", "abcdefgpqrstuvw")
    assert len(hot.by_key) == MAX_HOT_KEYS


def test_hot_key_rows_are_sent_at_the_rate_of_the_key():
    hot, now = with_hot_keys()
    made = rows(*"h" * 60)
    for row in made:
        hot.queue_of(row).push(row)
    assert hot.queue_of(rows("a")[0]) is None
    hot.by_key["h"].rate.units_per_second = 100.0
    hot.by_key["h"].rate._bucket = TokenBucket(now)
    sent = 0
    for _ in range(1000):
        sent += len(hot.take(now, 25))
        due = hot.ready_at(now)
        if sent == 60:
            break
        assert due > now
        now = due
    assert now - 10.0 - 2 * SUSPECT_SECONDS >= 0.3
    assert hot.ready_at(now) == float("inf")


def test_hot_key_rate_rises_when_nothing_is_returned():
    hot, now = with_hot_keys()
    before = hot.by_key["h"].rate.units_per_second
    for _ in range(int(20 * before / 25)):
        now += 25 / before
        report(hot, "h" * 25, "", now)
    assert hot.by_key["h"].rate.units_per_second > 1.3 * before


def test_hot_key_is_forgotten_when_no_row_has_it():
    hot, now = with_hot_keys()
    report(hot, "ab", "a", now + FORGET_SECONDS + 1)
    assert not hot.by_key


def test_hot_key_is_kept_while_its_rows_wait():
    hot, now = with_hot_keys()
    (row,) = rows("h")
    hot.queue_of(row).push(row)
    report(hot, "ab", "a", now + FORGET_SECONDS + 1)
    assert hot.take(now + FORGET_SECONDS + 1, 25) == [row]


def test_scheduler_sends_other_keys_while_a_hot_key_waits():
    driver = ManualDriver()
    scheduler = driver.scheduler
    scheduler._rows.hot_keys.by_key |= with_hot_keys()[0].by_key
    driver.offer_all(*[("h", place) for place in range(25)], *[("c", at) for at in range(25)])
    # The hot key's rate is overdrawn, and rows of the other key do not wait for it.
    scheduler._rows.hot_keys.by_key["h"].rate.charge(10**6)
    batch = driver.batch()
    assert list(batch.handles) == list(range(25, 50))
    driver.answer(batch, Accepted((), 25.0))
    assert scheduler.outcomes.frontier == 0
    scheduler._rows.hot_keys.by_key["h"].rate.charge(-(10**6))
    driver.accept(driver.batch())
    assert driver.counts.written == 50


def test_scheduler_delays_rows_offered_before_their_key_was_hot():
    driver = ManualDriver()
    scheduler = driver.scheduler
    driver.offer_all(*[("h", place) for place in range(25)], *[("c", at) for at in range(25)])
    scheduler._rows.hot_keys.by_key |= with_hot_keys()[0].by_key
    scheduler._rows.hot_keys.by_key["h"].rate.charge(10**6)
    sent: list[int] = []
    while isinstance(step := scheduler.next(driver.now), Batch):
        sent += step.handles
    assert sorted(sent) == list(range(25, 50))
