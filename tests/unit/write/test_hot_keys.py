from __future__ import annotations

from ddbload.dynamodb.limits import PARTITION_WRITE_UNITS
from ddbload.write.scheduler.scheduler import Scheduler
from ddbload.write.scheduler.single_rows import (
    LEAST_FULL,
    MAX_HOT_KEYS,
    SUSPECT_SECONDS,
    SUSPECT_UNITS,
    HotKeys,
    QueuedRow,
)
from tests.unit.write.manual_driver import ManualDriver


def rows(*keys: str) -> list[QueuedRow]:
    return [QueuedRow(place, (key, place), 1, 100, attempts=1) for place, key in enumerate(keys)]


def report(hot: HotKeys, keys: str, returned: str, now: float, **given) -> tuple[int, float]:
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


def test_hot_keys_are_limited_in_number():
    hot, _ = with_hot_keys("hijklmno", "abcdefgpqrstuvw")
    assert len(hot.by_key) == MAX_HOT_KEYS


def test_keys_that_come_back_again_show_the_share_for_what_is_full():
    hot = HotKeys()
    assert report(hot, "aabcdefg", "a", 1.0) == (2, 1.0)
    assert report(hot, "aabcdefg", "ab", 1.1) == (3, 3 / 8)
    assert report(hot, "aabbcdefg", "b", 1.2) == (2, 4 / 9)
    assert report(hot, "acdefghi", "a", 1.3) == (1, LEAST_FULL)


def test_rows_that_are_sent_again_do_not_show_the_share():
    hot = HotKeys()
    report(hot, "aabcdefg", "a", 1.0)
    again = [QueuedRow(place, key, 1, 100, attempts=2) for place, key in enumerate("aabcdefg")]
    assert hot.answered(again, {0, 1}, 1.0, 1.1) == (2, 1.0)


def overdraw(scheduler: Scheduler, units: int) -> None:
    """Overdraw the rate of a hot key, so that its rows wait for long."""
    if not scheduler._rows.hot_keys.by_key:
        scheduler._rows.hot_keys.by_key |= with_hot_keys()[0].by_key
    scheduler._rows.hot_keys.by_key["h"].rate.charge(units)


def test_scheduler_sends_other_keys_while_a_hot_key_waits():
    driver = ManualDriver()
    overdraw(driver.scheduler, 10**6)
    driver.offer_all(*[("h", place) for place in range(25)], *[("c", at) for at in range(25)])
    batch = driver.batch()
    assert list(batch.handles) == list(range(25, 50))
    driver.accept(batch)
    assert driver.frontier == 0
    overdraw(driver.scheduler, -(10**6))
    driver.accept_all()
    assert driver.counts.written == 50


def test_returned_rows_wait_for_the_rate_of_their_key_once_it_is_hot():
    driver = ManualDriver()
    driver.offer_all(*[("h", place) for place in range(25)])
    batch = driver.batch()
    overdraw(driver.scheduler, 10**6)
    driver.accept(batch, *range(10))
    driver.now += 1.0
    driver.offer_all(*[("c", at) for at in range(25)])
    batch = driver.batch()
    assert list(batch.handles) == list(range(25, 50))
    driver.accept(batch)
    overdraw(driver.scheduler, -(10**6))
    driver.accept_all()
    assert driver.counts.written == 50
