from __future__ import annotations

import pytest

from ddbload.write.pacing.adaptive_rate import PERIOD
from ddbload.write.pacing.wcu_budget import TokenBucket
from ddbload.write.scheduler.hot_keys import (
    FORGET_SECONDS,
    MAX_HOT_KEYS,
    MIN_KEY_RATE,
    PARTITION_RATE,
    SUSPECT_UNITS,
    HotKeys,
)
from ddbload.write.scheduler.key_ordering import QueuedRow
from ddbload.write.scheduler.messages import Accepted, Batch
from tests.unit.write.manual_driver import ByHand


def rows(*keys: str) -> list[QueuedRow]:
    return [QueuedRow(place, (key, place), 1, 100) for place, key in enumerate(keys)]


def told(hot: HotKeys, keys: str, back: str, now: float, **given) -> int:
    """Tell of a request with rows of these keys, of which those of `back` came back."""
    made = rows(*keys)
    places = {place for place, row in enumerate(made) if row.key[0] in back}
    return hot.answered(made, places, now - 0.001, now, **given)


def heated(keys: str = "h", beside: str = "abcd", **given) -> tuple[HotKeys, float]:
    hot, now = HotKeys(), 10.0
    for _ in range(SUSPECT_UNITS + 1):
        told(hot, keys + beside, keys, now, **given)
        now += 2 * PERIOD / SUSPECT_UNITS
    return hot, now


def test_a_key_that_comes_back_while_others_pass_is_hot():
    hot, _ = heated()
    assert list(hot.by_key) == ["h"]
    assert hot.by_key["h"].rate.units_per_second <= PARTITION_RATE


def test_where_the_others_come_back_too_it_is_not_for_the_key():
    hot = HotKeys()
    for tenth in range(1000):
        told(hot, "hhabcd", "habc", tenth / 100)
    assert not hot.by_key


def test_a_key_alone_is_hot_only_where_the_service_says_so():
    assert not heated(beside="")[0].by_key
    assert list(heated(beside="", key_range=True)[0].by_key) == ["h"]


def test_a_moment_is_not_enough():
    hot = HotKeys()
    for tenth in range(SUSPECT_UNITS * 2):
        told(hot, "habcd", "h", 10 + tenth * PERIOD / SUSPECT_UNITS / 4)
    assert not hot.by_key


def test_what_a_hot_key_explains_is_not_the_tables_fault():
    hot, now = heated()
    assert told(hot, "hhab", "ha", now) == 2


def test_a_key_at_its_slowest_explains_nothing():
    hot, now = heated()
    for _ in range(100):
        now += PERIOD
        told(hot, "hab", "h", now)
    assert hot.by_key["h"].rate.units_per_second == pytest.approx(MIN_KEY_RATE, rel=0.05)
    hot.by_key["h"].rate.units_per_second = MIN_KEY_RATE
    assert told(hot, "hab", "h", now) == 0


def test_no_more_than_some_are_hot():
    hot, _ = heated("hijklmno", "abcdefgpqrstuvw")
    assert len(hot.by_key) == MAX_HOT_KEYS


def test_its_rows_go_at_its_own_rate():
    hot, now = heated()
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
    assert now - 10.0 - 2 * PERIOD >= 0.3
    assert hot.ready_at(now) == float("inf")


def test_its_rate_rises_soon():
    hot, now = heated()
    before = hot.by_key["h"].rate.units_per_second
    for _ in range(int(20 * before / 25)):
        now += 25 / before
        told(hot, "h" * 25, "", now)
    assert hot.by_key["h"].rate.units_per_second > 1.3 * before


def test_it_is_forgotten_when_it_is_quiet():
    hot, now = heated()
    told(hot, "ab", "a", now + FORGET_SECONDS + 1)
    assert not hot.by_key


def test_it_is_not_forgotten_while_rows_of_it_wait():
    hot, now = heated()
    (row,) = rows("h")
    hot.queue_of(row).push(row)
    told(hot, "ab", "a", now + FORGET_SECONDS + 1)
    assert hot.take(now + FORGET_SECONDS + 1, 25) == [row]


def test_the_scheduler_lets_other_keys_pass():
    by_hand = ByHand()
    scheduler = by_hand.scheduler
    scheduler._rows.hot_keys.by_key |= heated()[0].by_key
    by_hand.offer_all(*[("h", place) for place in range(25)], *[("c", at) for at in range(25)])
    # All of the first are paid for at once, and those of the second then wait for nobody.
    scheduler._rows.hot_keys.by_key["h"].rate.charge(10**6)
    batch = by_hand.batch()
    assert list(batch.handles) == list(range(25, 50))
    by_hand.answer(batch, Accepted((), 25.0))
    assert scheduler.outcomes.frontier == 0
    scheduler._rows.hot_keys.by_key["h"].rate.charge(-(10**6))
    by_hand.accept(by_hand.batch())
    assert by_hand.counts.written == 50


def test_rows_that_were_told_of_before_their_key_became_hot_wait_too():
    by_hand = ByHand()
    scheduler = by_hand.scheduler
    by_hand.offer_all(*[("h", place) for place in range(25)], *[("c", at) for at in range(25)])
    scheduler._rows.hot_keys.by_key |= heated()[0].by_key
    scheduler._rows.hot_keys.by_key["h"].rate.charge(10**6)
    sent: list[int] = []
    while isinstance(step := scheduler.next(by_hand.now), Batch):
        sent += step.handles
    assert sorted(sent) == list(range(25, 50))
