"""A parallel listing returns every key once, in order, wherever it is divided."""

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
from ddbload.source.s3_listing.list_objects import ParallelListing, cut_keys
from tests.unit.source.listing_helpers import Lister

SHAPES: dict[str, Callable[[int, random.Random], str]] = {
    "numbered": lambda number, _: f"in/part-{number:06d}.csv",
    "plain": lambda number, _: f"in/{number}",
    "hashed": lambda _, rng: f"in/{uuid.UUID(int=rng.getrandbits(128))}",
    "dated": lambda number, _: f"in/2026/{number // 80 + 1:02d}/{number % 80:02d}.json",
    "skewed": lambda number, rng: f"in/{'a' * rng.randint(0, 4)}/{number}",
    "wide": lambda number, rng: f"in/{chr(rng.choice((0x41, 0xE9, 0xD7FF, 0x1F600)))}{number}",
}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
NAMES = st.one_of(
    TEXT,
    st.text("0123456789", min_size=1, max_size=5),
    st.text("0189af", min_size=1, max_size=6),
    st.text("abz/", max_size=8),
)


def listing_of(lister: Lister, prefix: str = "in/", **options: Any) -> ParallelListing:
    loop: Any = lister
    return ParallelListing(loop, "b", prefix, **options)


def listed(lister: Lister, **options: Any) -> list[str]:
    return [each.key for page in listing_of(lister, **options).pages() for each in page.objects]


def keys_of(shape: str, count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return sorted({SHAPES[shape](number, rng) for number in range(count)}, key=str.encode)


@given(
    keys=st.sets(NAMES.map("in/".__add__), max_size=120),
    seed=st.integers(0, 2**32),
    size=st.integers(1, 5),
    connections=st.integers(2, 9),
    pages_ahead=st.integers(1, 20),
    ignores_after=st.booleans(),
)
def test_listing_returns_any_keys_exactly(
    keys, seed, size, connections, pages_ahead, ignores_after
):
    lister = Lister(
        [*keys, "im", "io"],
        seed=seed,
        size=size,
        connections=connections,
        ignores_after=ignores_after,
    )
    assert listed(lister, pages_ahead=pages_ahead) == sorted(keys, key=str.encode)


@pytest.mark.parametrize("shape", ["numbered", "plain", "hashed", "dated"])
def test_listing_requests_ranges_of_a_large_prefix_in_parallel(shape):
    lister = Lister(keys_of(shape, 5000), size=50, connections=16, is_prompt=True)
    assert len(listed(lister)) == 5000
    assert lister.max_in_flight >= 9
    # A listing page by page takes 100 rounds and 100 requests.
    assert lister.rounds <= 40
    assert len(lister.queries) <= 160


def test_listing_that_may_not_divide_requests_each_page_once():
    keys = keys_of("hashed", 100)
    lister = Lister(keys, connections=2)
    assert listed(lister, divides=False) == keys
    assert len(lister.queries) == 34
    assert lister.max_in_flight == 1
    assert not any("start-after" in query for query in lister.queries)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_listing_restarts_page_by_page_if_a_store_ignores_start_after(shape, seed):
    keys = keys_of(shape, 200)
    lister = Lister(keys, seed=seed, ignores_after=True)
    assert listed(lister) == keys
    # At most one listing in vain before the one of 67 pages.
    assert len(lister.queries) <= 2 * 67


def test_listing_keeps_the_order_of_the_store():
    def order(key: str) -> bytes:
        return hashlib.sha256(key.encode()).digest()

    keys = keys_of("numbered", 100)
    lister = Lister(keys, order=order, size=10)
    assert listed(lister) == sorted(keys, key=order)
    assert not any("start-after" in query for query in lister.queries)


def test_listing_fails_if_the_order_changes_after_the_division():
    class Late(Lister):
        def page(self, query: Any) -> tuple[bytes, str | None]:
            body, token = super().page(query)
            if "start-after" in query and "in/part-0003" in query["start-after"]:
                body = body.replace(b"part-0003", b"part-0009", 1)
            return body, token

    with pytest.raises(SourceUnreadable, match="s3://b/in/: the store does not list"):
        listed(Late(keys_of("numbered", 400), connections=9))


def test_listing_waits_for_a_late_page_with_a_bounded_number_of_pages():
    class LatestFirst(random.Random):
        def sample(self, population: Any, k: int, **_: Any) -> Any:
            del k
            return population[-1:]

        def randint(self, a: int, b: int) -> int:
            del a, b
            return 1

    lister = Lister(keys_of("numbered", 100), size=1)
    lister.rng = LatestFirst()
    pages = listing_of(lister, pages_ahead=20).pages()
    # The third page, the first one after the division, is answered last.
    assert [next(pages).objects[0].key[-7:-4] for _ in range(3)] == ["000", "001", "002"]
    assert len(lister.queries) < 40
    assert sum(len(page.objects) for page in pages) == 97


# Cuts


@given(st.lists(NAMES, min_size=1, max_size=9, unique=True), st.sampled_from(["", "in/"]))
def test_cuts_are_sorted_and_above_the_last_key(names, prefix):
    keys = sorted(prefix + (name or "0") for name in names)
    cuts = cut_keys(prefix, keys[0], keys)
    assert cuts == sorted(set(cuts))
    assert len(cuts) <= 64
    assert all(keys[-1] < cut and cut.startswith(prefix) for cut in cuts)
    # Cuts are sent as UTF-8.
    assert all(cut.encode() for cut in cuts)


def test_cuts_follow_the_digits_that_count_up():
    cuts = cut_keys("in/", "in/part-0017", ["in/part-0026", "in/part-0027"])
    assert cuts == [
        *(f"in/part-00{digit}" for digit in range(3, 10)),
        *(f"in/part-0{digit}" for digit in range(1, 10)),
        *(f"in/part-{digit}" for digit in range(1, 10)),
        *(f"in/{letter}" for letter in "qrstuvwxyz"),
    ]
