"""A listing in parts is the listing: the same keys, in the same order, none twice."""

from __future__ import annotations

import hashlib
import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.errors import SourceUnreadable
from ddbload.source.s3_listing.parallel_listing import ParallelListing
from tests.unit.source.listing_helpers import Lister

SHAPES: dict[str, Callable[[int, random.Random], str]] = {
    "numbered": lambda number, _: f"in/part-{number:06d}.csv",
    "plain": lambda number, _: f"in/{number}",
    "hashed": lambda _, rng: f"in/{uuid.UUID(int=rng.getrandbits(128))}",
    "dated": lambda number, _: f"in/2026/{number // 80 + 1:02d}/{number % 80:02d}.json",
    "skewed": lambda number, rng: f"in/{'a' * rng.randint(0, 4)}/{number}",
    "wide": lambda number, rng: f"in/{chr(rng.choice((0x41, 0xE9, 0xD7FF, 0x1F600)))}{number}",
}


def listed(lister: Lister, prefix: str = "in/", **how: Any) -> list[str]:
    walk = ParallelListing(lister, "b", prefix, after=how.pop("after", None), **how)
    return [each.key for page in walk.pages() for each in page.objects]


def keys_of(shape: str, count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return sorted({SHAPES[shape](number, rng) for number in range(count)}, key=str.encode)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [0, 1, 3, 4, 7, 100, 400])
def test_all_keys_come_once_and_in_order(shape, count):
    keys = keys_of(shape, count)
    lister = Lister(keys, seed=count)
    assert listed(lister) == keys


@pytest.mark.parametrize("shape", ["numbered", "plain", "hashed", "dated"])
def test_what_is_large_is_listed_side_by_side(shape):
    lister = Lister(keys_of(shape, 5000), size=50, connections=16, is_prompt=True)
    listed(lister)
    assert lister.at_once == lister.connections
    # A hundred pages, in a third of the time, and without many more requests than that.
    assert lister.rounds <= 33
    assert len(lister.asked) <= 150


def test_what_is_small_is_not_divided():
    lister = Lister(keys_of("numbered", 6))
    assert len(listed(lister)) == 6
    assert len(lister.asked) == 2


def test_whoever_does_not_divide_asks_page_by_page():
    keys = keys_of("hashed", 100)
    lister = Lister(keys)
    assert listed(lister, divides=False) == keys
    assert len(lister.asked) == 34
    assert not any("start-after" in query for query in lister.asked)


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
    connections=st.integers(2, 9),
    ahead=st.integers(1, 20),
)
def test_any_keys_are_listed_exactly(keys, seed, size, connections, ahead):
    lister = Lister([*keys, "im", "io"], seed=seed, size=size, connections=connections)
    assert listed(lister, pages_ahead=ahead) == sorted(keys, key=str.encode)


@given(
    numbers=st.sets(st.integers(0, 300), max_size=200),
    after=st.integers(-1, 301),
    seed=st.integers(0, 2**32),
    ignores=st.booleans(),
)
def test_a_listing_after_a_key(numbers, after, seed, ignores):
    keys = [f"in/{number:03d}" for number in numbers]
    lister = Lister(keys, seed=seed, ignores_after=ignores)
    start = f"in/{after:03d}" if after >= 0 else "in/"
    assert listed(lister, after=start) == sorted(key for key in keys if key > start)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_a_store_that_knows_no_start_after_is_listed_page_by_page(shape, seed):
    keys = keys_of(shape, 200)
    lister = Lister(keys, seed=seed, ignores_after=True)
    assert listed(lister) == keys
    assert len(lister.asked) < 100


def test_a_store_with_an_order_of_its_own_is_listed_in_it():
    def order(key: str) -> bytes:
        return hashlib.sha256(key.encode()).digest()

    keys = keys_of("numbered", 100)
    lister = Lister(keys, order=order, size=10)
    assert listed(lister) == sorted(keys, key=order)
    assert not any("start-after" in query for query in lister.asked)


def test_an_order_that_is_another_later_on_is_an_error():
    class Late(Lister):
        def page(self, query: Any) -> tuple[bytes, str | None]:
            body, token = super().page(query)
            if "start-after" in query and "in/part-0003" in query["start-after"]:
                body = body.replace(b"part-0003", b"part-0009", 1)
            return body, token

    with pytest.raises(SourceUnreadable, match="s3://b/in/: the store does not list"):
        listed(Late(keys_of("numbered", 400), connections=9))


def test_memory_is_bounded():
    keys = keys_of("numbered", 900)
    lister = Lister(keys, size=1, connections=6)
    walk = ParallelListing(lister, "b", "in/", after=None, pages_ahead=20)
    given_pages = 0
    for page in walk.pages():
        given_pages += len(page.objects)
        assert sum(len(part.pages) + len(part.arrived) for part in walk._parts) <= 2 * 20 + 6
    assert given_pages == 900
