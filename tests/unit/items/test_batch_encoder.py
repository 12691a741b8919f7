"""Tests of encoding columns as requests, and of the write units counted for them."""

from __future__ import annotations

import pytest

from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.items.encode.batch_encoder import BatchEncoder, EncodedRows
from ddbload.items.encode.request_json import item_of_request, put_request
from ddbload.items.item_builder import Item, ItemBuilder
from ddbload.rows.blocks import Defect
from ddbload.rows.columns import Columns, to_octets

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


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("length", [*range(1010, 1030)])
def test_units_count_names(length: int, known: bool) -> None:
    found, true = units({"k": "S", "name": "S"}, ["k", "x" * length], known=known)
    # An index's end, or a delimiter, may be counted with the row: a little too much is no harm.
    assert true <= found <= (2 if length >= 1016 else 1)


@pytest.mark.parametrize("length", [*range(940, 1000)])
def test_units_count_two_bytes_for_a_number_of_one_digit(length: int) -> None:
    types = {"k": "S"} | {f"n{place}": "N" for place in range(10)}
    found, true = units(types, ["x" * length, *"1234567891"], known=False)
    assert true <= found
    assert units(types, ["x" * 900, *"1234567891"], known=False) == (1, 1)


@pytest.mark.parametrize("length", [*range(980, 1010)])
def test_units_count_a_byte_for_a_null(length: int) -> None:
    types = {"k": "S"} | {f"n{place}": "S" for place in range(9)}
    found, true = units(types, ["x" * length, *[""] * 9], known=False, nulls="null")
    assert true <= found
    assert units(types, ["x" * 900, *[""] * 9], known=False, nulls="null") == (1, 1)


def test_units_of_a_large_row_are_all_counted() -> None:
    assert units({"k": "S", "a": "S"}, ["k", "x" * 5000], known=True) == (5, 5)


def test_row_is_odd_when_names_alone_make_it_too_large() -> None:
    types = {"k": "S"} | {f"{place}{'x' * 60_000}": "S" for place in range(8)}
    row = ["k", *"abcdefgh"]
    built = ItemBuilder(list(types), list(types.values()), TABLE).build(row)
    assert isinstance(built, Defect)
    encoder = BatchEncoder(list(types), list(types.values()), TABLE)
    assert encoder.encode(Columns(1, [[cell] for cell in row])).odd == {0}


def examined(types: dict[str, str], rows: list[list[str]], nulls: str = "omit") -> EncodedRows:
    cells = [*zip(*[[to_octets(cell) for cell in row] for row in rows], strict=True)]
    return BatchEncoder(list(types), list(types.values()), TABLE, nulls).encode(
        Columns(len(rows), cells)
    )


def test_no_row_is_odd_with_good_cells_of_every_type() -> None:
    said = "k=S n=N ok=BOOL b=B ss=SS ns=NS bs=BS m=M l=L none=NULL at=epoch"
    types = dict(each.split("=") for each in said.split())
    row = ["é", "1.5", "no", "AP8=", '["é"]', "[1]", '["AA=="]', '{"é": "é"}', "[]", "null", "0"]
    encoded = examined(types, [row, ["k", *[""] * 10], row])
    assert encoded.odd == set()
    built = ItemBuilder(list(types), list(types.values()), TABLE).build(row)
    assert isinstance(built, Item)
    assert item_of_request(encoded.puts[2]) == built.attributes
    assert item_of_request(encoded.puts[1]) == {"k": {"S": "k"}}


@pytest.mark.parametrize("nulls", ["omit", "null", "empty", "reject"])
def test_row_with_a_null_is_odd_only_when_nulls_are_rejected(nulls: str) -> None:
    encoded = examined({"a": "S", "k": "S", "b": "N"}, [["", "k", ""], ["a", "k", "1"]], nulls)
    assert encoded.odd == ({0} if nulls == "reject" else set())


def test_units_of_a_document_exceed_those_of_its_text() -> None:
    # Of `1,` DynamoDB counts three bytes.
    many = "[" + ",".join("1" * 400) + "]"
    assert units({"k": "S", "l": "L"}, ["k", many], known=False) == (2, 2)
    assert units({"k": "S", "l": "L"}, ["k", many], known=True) == (2, 2)


@pytest.mark.parametrize("rows", [[["", ""], ["a", ""], ["", "1"], ["a", "1"]], [["", ""]]])
def test_any_attribute_can_be_missing_without_a_key(rows: list[list[str]]) -> None:
    encoder = BatchEncoder(["a", "b"], ["S", "N"], Table("t", "id", ()))
    encoded = encoder.encode(Columns(len(rows), [*zip(*rows, strict=True)]))
    builder = ItemBuilder(["a", "b"], ["S", "N"], Table("t", "id", ()))
    built = [builder.build(row) for row in rows]
    assert encoded.puts == [
        put_request(item.attributes) for item in built if isinstance(item, Item)
    ]
    assert encoded.keys == [()] * len(rows)


def test_item_can_have_no_attributes() -> None:
    encoded = BatchEncoder([], [], Table("t", "id", ())).encode(Columns(2, []))
    assert encoded.puts == [put_request({})] * 2


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
