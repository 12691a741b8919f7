"""Write units of rows, where they are told by looking at columns."""

from __future__ import annotations

import pytest

from ddbload.contracts import KeyAttribute, Table
from ddbload.rows.columns import Columns
from ddbload.rows.encode import Encoder
from ddbload.rows.items import Item, ItemBuilder
from ddbload.rows.parse import Defect

TABLE = Table("t", "id", (KeyAttribute("k", "S", 2048),), ())


def units(types: dict[str, str], row: list[str], *, known: bool) -> tuple[int, int]:
    """A row's write units, by its columns, and by the builder."""
    longest = sum(map(len, row)) + len(row) - 1
    columns = Columns(1, [[cell] for cell in row], longest=longest if known else None)
    window = Encoder(list(types), list(types.values()), TABLE).examine(columns)
    built = ItemBuilder(list(types), list(types.values()), TABLE).build(row)
    assert isinstance(built, Item)
    return 1 if window.units is None else window.units[0], -(-built.size // 1024)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("length", [*range(1010, 1030)])
def test_names_count_too(length: int, known: bool) -> None:
    found, true = units({"k": "S", "name": "S"}, ["k", "x" * length], known=known)
    # An index's end, or a delimiter, may be counted with the row: a little too much is no harm.
    assert true <= found <= (2 if length >= 1016 else 1)


@pytest.mark.parametrize("length", [*range(940, 1000)])
def test_a_number_of_one_digit_counts_two_bytes(length: int) -> None:
    types = {"k": "S"} | {f"n{place}": "N" for place in range(10)}
    found, true = units(types, ["x" * length, *"1234567891"], known=False)
    assert true <= found
    assert units(types, ["x" * 900, *"1234567891"], known=False) == (1, 1)


def test_a_row_of_many_units_has_them_all() -> None:
    assert units({"k": "S", "a": "S"}, ["k", "x" * 5000], known=True) == (5, 5)


def test_names_alone_can_make_an_item_too_large() -> None:
    types = {"k": "S"} | {f"{place}{'x' * 60_000}": "S" for place in range(8)}
    row = ["k", *"abcdefgh"]
    built = ItemBuilder(list(types), list(types.values()), TABLE).build(row)
    assert isinstance(built, Defect)
    encoder = Encoder(list(types), list(types.values()), TABLE)
    assert encoder.examine(Columns(1, [[cell] for cell in row])).odd == {0}
