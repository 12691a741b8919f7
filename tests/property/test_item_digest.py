"""The law of digests: two items have the same one exactly if they are equal, however written.

Equality is told by an oracle of Decimal and frozenset, which shares no code with the product.
"""

from __future__ import annotations

import base64
import random
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ddbload.dynamodb.item_equality import ItemDigests

DIGESTS = ItemDigests(("id",), b"salt of a test..")
# Few texts and numbers, so that equal items are common.
TEXTS = st.sampled_from(["", "a", "b", "é", '"', "\\", "1", "a\n", "\u2028", "😀"])
NUMBERS = st.sampled_from(
    [
        *("0", "-0", "0e5", "1", "1.0", "+1", "01", "10", "1e1", "1E+1", "0.1", ".1", "0.10", "-1"),
        *("1.00E-1", "100", "12345678901234567890123456789012345678", "1E125", "9.99e-130"),
    ]
)
BYTES = st.sampled_from([b"", b"\0", b"a", b"ab"]).map(lambda data: base64.b64encode(data).decode())


def sets_of(members: st.SearchStrategy[str], identity: Any) -> st.SearchStrategy[list[str]]:
    return st.lists(members, min_size=1, max_size=3, unique_by=identity)


def values_within(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.fixed_dictionaries({"L": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"M": st.dictionaries(TEXTS, inner, max_size=3)}),
    )


VALUES = st.recursive(
    st.one_of(
        st.fixed_dictionaries({"S": TEXTS}),
        st.fixed_dictionaries({"N": NUMBERS}),
        st.fixed_dictionaries({"B": BYTES}),
        st.fixed_dictionaries({"BOOL": st.booleans()}),
        st.just({"NULL": True}),
        st.fixed_dictionaries({"SS": sets_of(TEXTS, str)}),
        st.fixed_dictionaries({"NS": sets_of(NUMBERS, Decimal)}),
        st.fixed_dictionaries({"BS": sets_of(BYTES, str)}),
    ),
    values_within,
    max_leaves=4,
)
ITEMS = st.builds(
    lambda key, rest: {**rest, "id": {"N": key}},
    NUMBERS,
    st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, max_size=3),
)


def meaning(value: dict[str, Any]) -> Any:
    """Return what a value means: equal for equal values alone."""
    ((kind, content),) = value.items()
    match kind:
        case "N":
            return kind, Decimal(content)
        case "NS":
            return kind, frozenset(map(Decimal, content))
        case "SS" | "BS":
            return kind, frozenset(content)
        case "L":
            return kind, tuple(map(meaning, content))
        case "M":
            return kind, frozenset((name, meaning(each)) for name, each in content.items())
        case _:
            return kind, content


def rewritten(value: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Write an equal value in another way."""
    ((kind, content),) = value.items()
    match kind:
        case "N":
            return {kind: f"{Decimal(content):E}"}
        case "NS" | "SS" | "BS":
            members = rng.sample(content, len(content))
            return {kind: [f"{Decimal(each):f}" for each in members] if kind == "NS" else members}
        case "L":
            return {kind: [rewritten(each, rng) for each in content]}
        case "M":
            names = rng.sample(list(content), len(content))
            return {kind: {name: rewritten(content[name], rng) for name in names}}
        case _:
            return dict(value)


@given(ITEMS, ITEMS)
def test_digests_are_equal_exactly_if_items_are(one, other):
    first, second = DIGESTS.digest_all([one, other])
    assert (first == second) is (meaning({"M": one}) == meaning({"M": other}))
    assert (first[:16] == second[:16]) is (Decimal(one["id"]["N"]) == Decimal(other["id"]["N"]))


@settings(max_examples=max(20, settings.default.max_examples // 2))
@given(ITEMS, st.randoms(use_true_random=False))
def test_digest_of_item_is_the_same_however_it_is_written(item, rng):
    names = rng.sample(list(item), len(item))
    again = {name: rewritten(item[name], rng) for name in names}
    assert DIGESTS.digest_all([item]) == DIGESTS.digest_all([again])


def test_only_attributes_that_count_are_digested():
    item, more = {"id": {"S": "1"}, "a": {"S": "x"}}, {"b": {"S": "y"}, "c": {"N": "1"}}
    for digests in (
        ItemDigests(("id",), b"", ignored={"b", "c"}),
        ItemDigests(("id",), b"", only={"id", "a"}),
        ItemDigests(("id",), b"", ignored={"b"}, only={"id", "a", "b"}),
    ):
        assert len(set(digests.digest_all([item, {**item, **more}]))) == 1
        assert len(set(digests.digest_all([item, {**item, "a": {"S": "z"}}]))) == 2
