"""Counters of keys, hot keys and sizes, compared with exact counts."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddbload.planning.key_counts import HeavyHitters, KeyCounter
from ddbload.planning.survey import ItemSizes

KEYS = st.lists(st.binary(max_size=2), max_size=200)


def census_of(keys, exact_rows=10**6, block=50):
    census = KeyCounter(exact_rows)
    for start in range(0, len(keys), block):
        census.add(keys[start : start + block])
    return SimpleNamespace(**census.to_json())


@settings(max_examples=30)
@given(KEYS)
def test_key_counter_is_exact_up_to_its_limit(keys):
    found = census_of(keys)
    counts = Counter(keys)
    assert found.rows == len(keys)
    assert found.distinct == len(counts)
    assert found.repeated == sum(count > 1 for count in counts.values())
    assert found.extra_rows == len(keys) - len(counts)
    assert (found.exact, found.error) == (True, 0.0)


@pytest.mark.parametrize("doubled", [0.0, 0.01, 0.3, 1.0])
def test_key_counter_estimates_when_there_are_many_keys(doubled):
    rng = random.Random(4)
    keys = [str(n).encode() for n in range(60_000)]
    keys += rng.sample(keys, int(doubled * len(keys)))
    rng.shuffle(keys)
    found = census_of(keys, exact_rows=8000, block=1000)
    assert not found.exact
    assert found.rows == len(keys)
    assert found.distinct == pytest.approx(60_000, rel=max(5 * found.error, 1e-9))
    assert found.extra_rows == found.rows - found.distinct
    assert found.repeated == pytest.approx(int(doubled * 60_000), rel=0.1, abs=200)
    assert found.error < 0.03


@given(st.lists(st.integers(0, 30), max_size=300), st.integers(1, 8))
def test_heavy_hitters_count_is_within_error(keys, capacity):
    hot = HeavyHitters(capacity)
    for start in range(0, len(keys), 20):
        hot.add(keys[start : start + 20])
    counts = Counter(keys)
    most = max(counts.values(), default=0)
    assert hot.most <= most <= hot.most + hot.error * len(keys) + 1e-9
    assert hot.error <= 1 / capacity
    if hot.distinct is not None:
        assert (hot.distinct, hot.most) == (len(counts), most)


# Size 0 stands for no item.
@given(st.lists(st.integers(0, 9000), min_size=1))
def test_item_sizes_are_summed(given_sizes):
    sizes = ItemSizes()
    for start in range(0, len(given_sizes), 7):
        part = ItemSizes()
        part.add(given_sizes[start : start + 7])
        sizes.merge(part)
    assert (sizes.count, sizes.bytes) == (len(given_sizes), sum(given_sizes))
    assert (sizes.smallest, sizes.largest) == (min(given_sizes), max(given_sizes))
    assert sizes.units == sum(-(-size // 1024) for size in given_sizes)
