"""From fields to items."""

from __future__ import annotations

import base64
import json

import pytest

from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.limits import MAX_ITEM_BYTES
from ddbload.items.item_builder import Item, ItemBuilder
from ddbload.rows.reject_lines import Defect


def _table(*keys: tuple[str, str], index_keys: tuple[tuple[str, str, int], ...] = ()) -> Table:
    limits = (2048, 1024)
    return Table(
        "t",
        "id",
        tuple(KeyAttribute(*key, limit) for key, limit in zip(keys, limits, strict=False)),
        tuple(KeyAttribute(*key) for key in index_keys),
    )


def _builder(types: str, table: Table | None = None) -> ItemBuilder:
    """`types` as the command line takes them: "id=S,year=N"."""
    columns = [column.split("=") for column in types.split(",")]
    names = [name for name, _ in columns]
    return ItemBuilder(names, [kind for _, kind in columns], table or _table(("id", "S")))


def _item(built: Item | Defect) -> Item:
    assert isinstance(built, Item), built
    return built


def test_an_item_has_its_columns_types() -> None:
    item = _item(_builder("id=S,year=N,ok=BOOL").build(["a", "+1999", "Yes"]))
    assert item.attributes == {"id": {"S": "a"}, "year": {"N": "1999"}, "ok": {"BOOL": True}}
    assert item.key == ("a",)


def test_an_empty_cell_is_no_attribute() -> None:
    item = _item(_builder("id=S,a=S,n=N,b=BOOL").build(["x", "", "", ""]))
    assert item.attributes == {"id": {"S": "x"}}
    assert item.size == 3


def test_a_key_is_partition_and_sort_key_in_this_order() -> None:
    table = _table(("p", "S"), ("s", "N"))
    item = _item(_builder("s=N,x=S,p=S", table).build(["1.0", "y", "a"]))
    assert item.key == ("a", "1")


@pytest.mark.parametrize("text", ["1", "1.0", "+1", "01", "10e-1", "0.1E1"])
def test_numbers_of_one_value_are_one_key(text: str) -> None:
    builder = _builder("id=N", _table(("id", "N")))
    assert _item(builder.build([text])).key == _item(builder.build(["1"])).key


def test_texts_that_look_alike_are_two_keys() -> None:
    builder = _builder("id=S")
    assert _item(builder.build(["caf\u00e9"])).key != _item(builder.build(["cafe\u0301"])).key


def test_a_size_counts_names_and_values_in_utf_8() -> None:
    item = _item(_builder("id=S,né=S,n=N,b=BOOL").build(["漢", "€", "-15", "no"]))
    assert item.size == (2 + 3) + (3 + 3) + (1 + 3) + (1 + 1)


def test_an_item_of_400_kb_and_not_a_byte_more() -> None:
    assert MAX_ITEM_BYTES == 409_600
    builder = _builder("id=S,text=S")
    most = "x" * (409_600 - len("id") - len("k") - len("text"))
    assert _item(builder.build(["k", most])).size == 409_600
    assert builder.build(["k", most + "x"]) == Defect(
        "item_too_large", "409601 bytes; DynamoDB's limit is 409600"
    )
    assert isinstance(builder.build(["k", most[:-3] + "漢漢"]), Defect)


def test_a_row_has_as_many_fields_as_the_file_has_columns() -> None:
    builder = _builder("id=S,a=S")
    for fields in (["k"], ["k", "a", ""]):
        assert builder.build(fields) == Defect(
            "field_count", f"{len(fields)} fields; the file has 2 columns"
        )


def test_a_key_is_not_empty() -> None:
    builder = _builder("a=S,id=S,s=N", _table(("id", "S"), ("s", "N")))
    assert builder.build(["a", "", "1"]) == Defect("empty_key", "the key attribute is empty", 1)
    assert builder.build(["a", "k", ""]) == Defect("empty_key", "the key attribute is empty", 2)


@pytest.mark.parametrize("letter", ["x", "é", "漢", "😀"])
@pytest.mark.parametrize(("column", "limit"), [(0, 2048), (1, 1024)])
def test_a_key_has_its_limit_in_bytes(letter: str, column: int, limit: int) -> None:
    builder = _builder("id=S,s=S,x=S", _table(("id", "S"), ("s", "S")))
    fields = ["k", "k", "x" * 5000]
    whole, rest = divmod(limit, len(letter.encode()))
    fields[column] = letter * whole + "x" * rest
    assert len(_item(builder.build(fields)).key[column]) == limit
    fields[column] += "x"
    assert builder.build(fields) == Defect(
        "key_too_long", f"{limit + 1} bytes; a key here takes {limit}", column
    )


def test_an_indexs_keys_have_limits_too_and_may_be_empty() -> None:
    table = _table(("id", "S"), index_keys=(("g", "S", 2048), ("h", "S", 1024), ("absent", "S", 9)))
    builder = _builder("id=S,g=S,h=S", table)
    assert "g" not in _item(builder.build(["k", "", ""])).attributes
    assert isinstance(builder.build(["k", "g" * 2048, "h" * 1024]), Item)
    for fields, column in ((["k", "g" * 2049, "h"], 1), (["k", "g", "h" * 1025], 2)):
        built = builder.build(fields)
        assert isinstance(built, Defect)
        assert (built.cause, built.column) == ("key_too_long", column)


def test_the_smaller_limit_holds_where_a_column_is_two_keys() -> None:
    for order in (1, -1):
        index = (("id", "S", 1024), ("g", "S", 2048), ("g", "S", 1024))[::order]
        builder = _builder("id=S,g=S", _table(("id", "S"), index_keys=index))
        assert isinstance(builder.build(["k" * 1024, "g" * 1024]), Item)
        assert isinstance(builder.build(["k" * 1025, "g"]), Defect)
        assert isinstance(builder.build(["k", "g" * 1025]), Defect)


@pytest.mark.parametrize(
    ("text", "column", "cause"),
    [
        ("k,1999x,yes", 1, "not_a_number"),
        ("k," + "1" * 39 + ",yes", 1, "number_too_long"),
        ("k,1e126,yes", 1, "number_out_of_range"),
        ("k,1,maybe", 2, "not_a_boolean"),
    ],
)
def test_a_bad_value_is_named_by_its_column(text: str, column: int, cause: str) -> None:
    built = _builder("id=S,n=N,b=BOOL").build(text.split(","))
    assert isinstance(built, Defect)
    assert (built.cause, built.column) == (cause, column)
    assert built.detail


def test_a_reject_does_not_carry_the_rows_data() -> None:
    secret = "s3cret" * 1000
    for fields in (["", secret], [secret, "1"], ["k", secret]):
        built = _builder("id=S,n=N").build(fields)
        assert isinstance(built, Defect)
        assert "s3cret" not in built.detail


@pytest.mark.parametrize(
    "fields",
    [
        ["k", "x", "1"],
        ["\x01" * 2000, "\x01" * 60_000, "0" * 60_000 + "1"],
        ["k", "漢" * 100_000, "1"],
        ["k", "😀" * 100_000, "1"],
        ["k", '"\\' * 100_000, "1"],
        ["k", "", "0" * 300_000],
    ],
)
def test_an_item_says_how_much_of_a_request_it_takes(fields: list[str]) -> None:
    item = _item(_builder("id=S,text=S,n=N").build(fields))
    assert len(json.dumps(item.attributes)) <= item.wire_bytes < 7 * 409_600


@pytest.mark.parametrize("member", ['""', "0", "null", "true", "[]", "{}", '"\\u0001"'])
def test_a_document_says_how_much_of_a_request_it_takes(member: str) -> None:
    item = _item(_builder("id=S,list=L").build(["k", f"[{','.join([member] * 3000)}]"]))
    assert len(json.dumps(item.attributes)) <= item.wire_bytes


def test_names_that_need_escapes_take_their_share() -> None:
    name = "\x01" * 60
    table = _table((name, "N"))
    item = _item(ItemBuilder([name], ["N"], table).build(["0" * 60 + "1"]))
    assert len(json.dumps(item.attributes)) <= item.wire_bytes


def test_a_hundred_thousand_columns() -> None:
    names = [f"c{number}" for number in range(100_000)]
    builder = ItemBuilder(names, ["S"] * 100_000, _table(("c99999", "S")))
    sparse = [""] * 99_990 + ["x"] * 10
    assert len(_item(builder.build(sparse)).attributes) == 10
    built = builder.build(["x"] * 100_000)
    assert isinstance(built, Defect)
    assert built.cause == "item_too_large"


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
def test_what_a_null_becomes(policy: str, there: dict[str, object]) -> None:
    item = _item(_with_nulls(policy, ALL_TYPES).build(["k", *[""] * 11]))
    assert item.attributes == {"id": {"S": "k"}, **there}


def test_a_null_can_be_a_reason_to_reject() -> None:
    built = _with_nulls("reject", "id=S,a=S,b=N").build(["k", "a", ""])
    assert built == Defect("null_value", "no value, and nulls are to be rejected", 2)


@pytest.mark.parametrize("policy", ["omit", "null", "empty", "reject"])
def test_a_key_is_never_null(policy: str) -> None:
    built = _with_nulls(policy, "id=S,a=S").build(["", "a"])
    assert isinstance(built, Defect)
    assert (built.cause, built.column) == ("empty_key", 0)


@pytest.mark.parametrize("policy", ["null", "empty"])
def test_an_indexs_key_is_left_out_since_dynamodb_takes_neither_there(policy: str) -> None:
    table = _table(("id", "S"), index_keys=(("g", "S", 2048), ("h", "B", 1024)))
    item = _item(_with_nulls(policy, "id=S,g=S,h=B,i=S", table).build(["k", "", "", ""]))
    assert item.attributes.keys() == {"id", "i"}


def test_a_binary_key_has_its_limit_in_bytes_of_its_own() -> None:
    builder = _builder("id=B,s=B,x=B", _table(("id", "B"), ("s", "B")))
    fields = [base64.b64encode(b"\0" * size).decode() for size in (2048, 1024, 5000)]
    assert isinstance(builder.build(fields), Item)
    for column, limit in ((0, 2048), (1, 1024)):
        longer = [*fields]
        longer[column] = base64.b64encode(b"\0" * (limit + 1)).decode()
        assert builder.build(longer) == Defect(
            "key_too_long", f"{limit + 1} bytes; a key here takes {limit}", column
        )


def test_a_time_is_a_key_of_numbers() -> None:
    builder = _builder("id=epoch", _table(("id", "N")))
    for text in ("2024-02-29", "1709164800", "1709164800000"):
        assert _item(builder.build([text])).key == ("1709164800",)
