"""Tests of encoding columns as requests, and of the write units counted for them."""

from __future__ import annotations

from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.items.batch_encoder import BatchEncoder
from ddbload.items.item_requests import Item, ItemBuilder, item_of_request
from ddbload.rows.blocks import Defect
from ddbload.rows.columns import Columns

TABLE = Table("t", "id", (KeyAttribute("k", "S", 2048),), ())


def units(
    types: dict[str, str], row: list[str], *, known: bool, nulls: str = "omit"
) -> tuple[int, int]:
    """Return a row's write units, by the encoder and by the builder."""
    longest = sum(map(len, row)) + len(row) - 1
    columns = Columns(1, [[cell] for cell in row], longest=longest if known else None)
    encoded = BatchEncoder(list(types), list(types.values()), TABLE, nulls).encode(columns)
    built = ItemBuilder(list(types), list(types.values()), TABLE, nulls).build(row)
    assert isinstance(built, Item)
    return 1 if encoded.units is None else encoded.units[0], -(-built.size // 1024)


def test_units_of_a_large_row_are_all_counted() -> None:
    assert units({"k": "S", "a": "S"}, ["k", "x" * 5000], known=True) == (5, 5)


def test_row_is_odd_when_names_alone_make_it_too_large() -> None:
    types = {"k": "S"} | {f"{place}{'x' * 60_000}": "S" for place in range(8)}
    row = ["k", *"abcdefgh"]
    built = ItemBuilder(list(types), list(types.values()), TABLE).build(row)
    assert isinstance(built, Defect)
    encoder = BatchEncoder(list(types), list(types.values()), TABLE)
    assert encoder.encode(Columns(1, [[cell] for cell in row])).odd == {0}


def test_units_of_a_document_exceed_those_of_its_text() -> None:
    # Of `1,` DynamoDB counts three bytes.
    many = "[" + ",".join("1" * 400) + "]"
    assert units({"k": "S", "l": "L"}, ["k", many], known=False) == (2, 2)
    assert units({"k": "S", "l": "L"}, ["k", many], known=True) == (2, 2)


def test_malformed_rows_are_odd_and_others_keep_their_numbers() -> None:
    columns = Columns(4, [["a", "b"], ["1", "x"]], {0, 2})
    encoded = BatchEncoder(["k", "n"], ["S", "N"], TABLE).encode(columns)
    assert encoded.odd == {0, 2, 3}
    assert item_of_request(encoded.puts[1]) == {"k": {"S": "a"}, "n": {"N": "1"}}
    assert encoded.keys == [(), ("a",), (), ("b",)]
    assert (len(encoded), encoded.units) == (4, None)


def test_requests_of_short_rows_take_no_memory_under_a_wide_header() -> None:
    names = ["k", *(f"c{place}" for place in range(100_000))]
    encoder = BatchEncoder(names, ["S"] * len(names), TABLE)
    encoded = encoder.encode(Columns(5_000, [()] * len(names), set(range(5_000))))
    assert encoded.odd == set(range(5_000))
    assert sum(map(len, encoded.puts)) == 0
