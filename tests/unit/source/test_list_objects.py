"""A listing returns every key once, in order, however its responses arrive."""

from __future__ import annotations

import hashlib
import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.source.s3_listing.list_objects import request_pages
from tests.unit.source.listing_helpers import Lister

SHAPES: dict[str, Callable[[int, random.Random], str]] = {
    "numbered": lambda number, _: f"in/part-{number:06d}.csv",
    "plain": lambda number, _: f"in/{number}",
    "hashed": lambda _, rng: f"in/{uuid.UUID(int=rng.getrandbits(128))}",
    "dated": lambda number, _: f"in/2026/{number // 80 + 1:02d}/{number % 80:02d}.json",
    "skewed": lambda number, rng: f"in/{'a' * rng.randint(0, 4)}/{number}",
    "wide": lambda number, rng: f"in/{chr(rng.choice((0x41, 0xE9, 0xD7FF, 0x1F600)))}{number}",
}


def listed(lister: Lister, prefix: str = "in/", after: str | None = None) -> list[str]:
    loop: Any = lister
    query = {"encoding-type": "url", "list-type": "2", "prefix": prefix}
    pages = request_pages(loop, query, after, f"s3://b/{prefix}")
    return [each.key for page in pages for each in page.objects]


def keys_of(shape: str, count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return sorted({SHAPES[shape](number, rng) for number in range(count)}, key=str.encode)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [0, 1, 3, 4, 7, 100, 400])
def test_listing_returns_each_key_once_in_order(shape, count):
    keys = keys_of(shape, count)
    lister = Lister(keys, seed=count)
    assert listed(lister) == keys


@given(
    keys=st.sets(
        st.one_of(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
            st.text("0123456789", min_size=1, max_size=5),
            st.text("ab/", max_size=8),
        ).map("in/".__add__),
        max_size=120,
    ),
    seed=st.integers(0, 2**32),
    size=st.integers(1, 5),
    connections=st.integers(1, 3),
)
def test_listing_returns_any_keys_exactly(keys, seed, size, connections):
    lister = Lister([*keys, "im", "io"], seed=seed, size=size, connections=connections)
    assert listed(lister) == sorted(keys, key=str.encode)


@given(
    numbers=st.sets(st.integers(0, 300), max_size=200),
    after=st.integers(-1, 301),
    seed=st.integers(0, 2**32),
)
def test_listing_starts_after_a_key(numbers, after, seed):
    keys = [f"in/{number:03d}" for number in numbers]
    lister = Lister(keys, seed=seed)
    start = f"in/{after:03d}" if after >= 0 else "in/"
    assert listed(lister, after=start) == sorted(key for key in keys if key > start)


def test_listing_keeps_the_order_of_the_store():
    def order(key: str) -> bytes:
        return hashlib.sha256(key.encode()).digest()

    keys = keys_of("numbered", 100)
    lister = Lister(keys, order=order, size=10)
    assert listed(lister) == sorted(keys, key=order)
    assert not any("start-after" in query for query in lister.queries)


def test_listing_requests_each_page_once_with_two_in_flight():
    lister = Lister(keys_of("hashed", 100))
    assert len(listed(lister)) == 100
    assert len(lister.queries) == 34
    assert lister.max_in_flight == 2
    assert not any("start-after" in query for query in lister.queries)
