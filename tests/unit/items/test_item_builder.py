"""Tests of building items from fields."""

from __future__ import annotations

import json

import pytest

from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.limits import MAX_ITEM_BYTES
from ddbload.items.item_requests import Item, ItemBuilder
from ddbload.rows.blocks import Defect


def _table(*keys: tuple[str, str], index_keys: tuple[tuple[str, str, int], ...] = ()) -> Table:
    limits = (2048, 1024)
    return Table(
        "t",
        "id",
        tuple(KeyAttribute(*key, limit) for key, limit in zip(keys, limits, strict=False)),
        tuple(KeyAttribute(*key) for key in index_keys),
    )


def _builder(types: str, table: Table | None = None) -> ItemBuilder:
    """Return a builder for types as the command line takes them: "id=S,year=N"."""
    columns = [column.split("=") for column in types.split(",")]
    names = [name for name, _ in columns]
    return ItemBuilder(names, [kind for _, kind in columns], table or _table(("id", "S")))


def _item(built: Item | Defect) -> Item:
    assert isinstance(built, Item), built
    return built


def test_item_can_have_400_kb_and_no_more() -> None:
    assert MAX_ITEM_BYTES == 409_600
    builder = _builder("id=S,text=S")
    most = "x" * (409_600 - len("id") - len("k") - len("text"))
    assert _item(builder.build(["k", most])).size == 409_600
    assert builder.build(["k", most + "x"]) == Defect(
        "item_too_large", "409601 bytes; DynamoDB's limit is 409600"
    )
    assert isinstance(builder.build(["k", most[:-3] + "漢漢"]), Defect)


@pytest.mark.parametrize("letter", ["x", "é", "漢", "😀"])
@pytest.mark.parametrize(("column", "limit"), [(0, 2048), (1, 1024)])
def test_key_is_limited_in_bytes(letter: str, column: int, limit: int) -> None:
    builder = _builder("id=S,s=S,x=S", _table(("id", "S"), ("s", "S")))
    fields = ["k", "k", "x" * 5000]
    whole, rest = divmod(limit, len(letter.encode()))
    fields[column] = letter * whole + "x" * rest
    assert len(_item(builder.build(fields)).key[column]) == limit
    fields[column] += "x"
    assert builder.build(fields) == Defect(
        "key_too_long", f"{limit + 1} bytes; a key here takes {limit}", column
    )


def test_index_key_is_limited_and_can_be_empty() -> None:
    table = _table(("id", "S"), index_keys=(("g", "S", 2048), ("h", "S", 1024), ("absent", "S", 9)))
    builder = _builder("id=S,g=S,h=S", table)
    assert "g" not in _item(builder.build(["k", "", ""])).attributes
    assert isinstance(builder.build(["k", "g" * 2048, "h" * 1024]), Item)
    for fields, column in ((["k", "g" * 2049, "h"], 1), (["k", "g", "h" * 1025], 2)):
        built = builder.build(fields)
        assert isinstance(built, Defect)
        assert (built.cause, built.column) == ("key_too_long", column)


@pytest.mark.parametrize(
    ("text", "column", "cause"),
    [
        ("k,1999x,yes", 1, "not_a_number"),
        ("k," + "1" * 39 + ",yes", 1, "number_too_long"),
        ("k,1e126,yes", 1, "number_out_of_range"),
        ("k,1,maybe", 2, "not_a_boolean"),
    ],
)
def test_defect_names_the_column(text: str, column: int, cause: str) -> None:
    built = _builder("id=S,n=N,b=BOOL").build(text.split(","))
    assert isinstance(built, Defect)
    assert (built.cause, built.column) == (cause, column)
    assert built.detail


def test_defect_contains_no_row_data() -> None:
    secret = "s3cret" * 1000
    for fields in (["", secret], [secret, "1"], ["k", secret]):
        built = _builder("id=S,n=N").build(fields)
        assert isinstance(built, Defect)
        assert "s3cret" not in built.detail


def test_wire_bytes_cover_escapes_in_names() -> None:
    name = "\x01" * 60
    table = _table((name, "N"))
    item = _item(ItemBuilder([name], ["N"], table).build(["0" * 60 + "1"]))
    assert len(json.dumps(item.attributes)) <= item.wire_bytes


def _with_nulls(policy: str, types: str, table: Table | None = None) -> ItemBuilder:
    columns = [column.split("=") for column in types.split(",")]
    names, kinds = [name for name, _ in columns], [kind for _, kind in columns]
    return ItemBuilder(names, kinds, table or _table(("id", "S")), policy)


ALL_TYPES = "id=S,S=S,N=N,BOOL=BOOL,B=B,SS=SS,NS=NS,BS=BS,M=M,L=L,NULL=NULL,epoch=epoch"


@pytest.mark.parametrize(
    ("policy", "there"),
    [
        ("omit", {}),
        ("null", {kind.partition("=")[0]: {"NULL": True} for kind in ALL_TYPES.split(",")[1:]}),
        ("empty", {"S": {"S": ""}, "B": {"B": ""}, "M": {"M": {}}, "L": {"L": []}}),
    ],
)
def test_null_becomes_what_the_policy_says(policy: str, there: dict[str, object]) -> None:
    item = _item(_with_nulls(policy, ALL_TYPES).build(["k", *[""] * 11]))
    assert item.attributes == {"id": {"S": "k"}, **there}


@pytest.mark.parametrize("policy", ["null", "empty"])
def test_empty_index_key_is_left_out_under_any_policy(policy: str) -> None:
    table = _table(("id", "S"), index_keys=(("g", "S", 2048), ("h", "B", 1024)))
    item = _item(_with_nulls(policy, "id=S,g=S,h=B,i=S", table).build(["k", "", "", ""]))
    assert item.attributes.keys() == {"id", "i"}
