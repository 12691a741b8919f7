"""The identity of a load: every field of a payload either determines rows or does not."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.comparisons import Comparison
from ddbload.contracts.options import Options
from ddbload.contracts.payload import (
    DECISIVE,
    ColumnMapping,
    NullHandling,
    Payload,
    asked_hash,
    differing,
)
from ddbload.contracts.source import LOCATION_FIELDS, Source

WORDS = st.text("abcXYZ #{}", min_size=1, max_size=5)
NAMES = st.lists(WORDS, max_size=3, unique=True).map(tuple)
TEXT_MAPS = st.dictionaries(WORDS, WORDS, max_size=3)
COMPARISONS = st.lists(
    st.builds(Comparison, WORDS, st.sampled_from(["=", "<", "!="]), WORDS), max_size=3, unique=True
).map(tuple)
BY_FIELD: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (Payload, "types"): st.dictionaries(WORDS, st.sampled_from(["S", "N", "B"]), max_size=3),
    (Payload, "where"): COMPARISONS,
    (Payload, "mapping"): st.builds(ColumnMapping, TEXT_MAPS, NAMES, TEXT_MAPS),
    (Payload, "nulls"): st.builds(
        NullHandling, st.sampled_from(["omit", "null", "empty", "reject"]), NAMES
    ),
    (Source, "columns"): st.one_of(st.none(), NAMES.filter(bool)),
    (Source, "sources"): st.one_of(st.none(), NAMES.filter(bool)),
    (Source, "encoding"): st.sampled_from(["auto", "utf-8", "utf-16", "latin-1", "cp1252"]),
    # A quote that is also the escape character means no escape character.
    (Source, "escape"): st.one_of(st.none(), st.just("\\")),
    (Source, "quote"): st.one_of(st.none(), st.sampled_from("\"'|")),
    (Options, "on_empty"): st.one_of(st.none(), st.just("remove")),
    (Options, "add"): NAMES,
}
PLAIN = {
    "str": WORDS,
    "str | None": st.one_of(st.none(), WORDS),
    "int": st.integers(0, 9),
    "int | None": st.one_of(st.none(), st.integers(0, 9)),
    "float | None": st.one_of(st.none(), st.integers(1, 9).map(float)),
    "bool": st.booleans(),
}
PARTS = (Payload, Source, Options)
BASE = Payload(Source(bucket="b", key="k"), "books")


def values(kind: type, name: str, hint: str) -> st.SearchStrategy[Any]:
    """Return values that differ in what they ask for."""
    if (kind, name) in BY_FIELD:
        return BY_FIELD[kind, name]
    plain = hint.removeprefix("Annotated[").partition(",")[0].strip("]")
    return PLAIN[plain]


def every_field() -> list[Any]:
    return [
        pytest.param(kind, each.name, str(each.type), id=f"{kind.__name__}.{each.name}")
        for kind in PARTS
        for each in fields(kind)
        if (kind, each.name) not in ((Payload, "source"), (Payload, "options"))
    ]


def changed(kind: type, name: str, value: Any) -> Payload:
    if kind is Source:
        return replace(BASE, source=replace(BASE.source, **{name: value}))
    if kind is Options:
        return replace(BASE, options=replace(BASE.options, **{name: value}))
    return replace(BASE, **{name: value})


NOT_DECISIVE = {
    Payload: "table run once force retry_of",
    Source: " ".join((*LOCATION_FIELDS, "max_expansion")),
    Options: "engine workers concurrency chunk_bytes max_wcu max_wcu_percent max_rejects"
    " max_rejects_percent max_row_bytes max_cost unit_price require_backup scan",
}


@pytest.mark.parametrize("kind", DECISIVE)
def test_each_field_is_classified(kind):
    """A new option must be declared as decisive, or listed here."""
    declared = [each.name for each in fields(kind)]
    others = NOT_DECISIVE.get(kind, "").split()
    assert sorted((*DECISIVE[kind], *others)) == sorted(declared)


def test_each_part_of_a_payload_is_classified():
    members = {type(getattr(BASE, each.name)) for each in fields(Payload)}
    messages = {kind for kind in members if hasattr(kind, "from_json")}
    assert messages <= DECISIVE.keys()


@pytest.mark.parametrize(("kind", "name", "hint"), every_field())
@given(data=st.data())
def test_hash_changes_with_decisive_fields_alone(kind, name, hint, data):
    one, other = (data.draw(values(kind, name, hint)) for _ in range(2))
    hashes = {asked_hash(changed(kind, name, value), None) for value in (one, other)}
    is_same = one == other or name not in DECISIVE[kind] or _unordered(name, one, other)
    assert (len(hashes) == 1) == is_same
    named = differing(changed(kind, name, one), changed(kind, name, other))
    assert named == ([] if is_same else [name.replace("position_attribute", "position attribute")])


def _unordered(name: str, one: Any, other: Any) -> bool:
    """Tell whether two values differ in the order of names alone, which means nothing."""
    if name == "mapping":
        return (one.rename, set(one.drop), one.set) == (other.rename, set(other.drop), other.set)
    if name == "nulls":
        return (one.policy, set(one.markers)) == (other.policy, set(other.markers))
    return name in ("where", "add") and set(one) == set(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"options": {"mode": "put", "on_empty": None, "add": [], "workers": 3}}),
        ({}, {"source": {"format": "csv", "delimiter": ",", "header": True, "match": "name"}}),
        ({"source": {"format": "auto"}}, {"source": {"format": "auto", "delimiter": "auto"}}),
        ({"source": {"encoding": "latin-1"}}, {"source": {"encoding": "ISO_8859-1"}}),
        ({"source": {"encoding": "utf8"}}, {"source": {"encoding": "UTF-8-sig"}}),
        ({}, {"source": {"escape": '"'}}),
        ({}, {"where": [], "nulls": {"policy": "omit", "markers": []}, "infer_types": False}),
        ({"types": {"n": "number"}}, {"types": {"n": "N"}}),
        ({"where": ["a=1", "b>2"]}, {"where": [{"column": "b", "op": ">", "value": "2"}, "a = 1"]}),
        ({"mapping": {"drop": ["a", "b"]}}, {"mapping": {"drop": ["b", "a"]}}),
        ({"source": {"version_id": "v", "etag": "e"}}, {"source": {"version_id": "w"}}),
        ({}, {"run": {"id": "x", "once": True}}),
    ],
)
def test_equal_meanings_have_one_hash(one, other):
    def hashed(given: dict[str, Any]) -> str:
        source = {"bucket": "b", "key": "k", **given.get("source", {})}
        payload = {"target": {"table": "books"}, **given, "source": source}
        return asked_hash(Payload.from_json(payload), None)

    assert hashed(one) == hashed(other)


def test_key_of_hmac_is_a_part_of_the_identity_and_not_in_it():
    """The hash does not depend on the run, and differs from key to key."""
    hashes = {asked_hash(replace(BASE, run=run), key) for run in "ab" for key in (b"1", b"2", None)}
    assert len(hashes) == 3
