"""Laws of inference: the inferred type accepts every text of the column, and keeps it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.row_attributes import TEXT_READERS
from ddbload.items.type_inference import TypeGuess
from tests.fakes.dynamodb_values import number_text
from tests.property.numerals import numerals

_cells = st.one_of(
    numerals,
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    st.sampled_from(["", "true", "FALSE", "no", "1.0", "007", "NULL", "2024-01-31", "-0.0"]),
)
_columns = st.lists(_cells, max_size=6) | st.lists(
    st.integers(-(10**19), 10**19).map(str) | st.just(""), max_size=6
)


@given(_columns)
def test_inferred_type_accepts_every_cell_and_keeps_it(cells: list[str]) -> None:
    guess = TypeGuess()
    guess.add(cells)
    kind = guess.inferred().type
    for cell in filter(None, cells):
        try:
            value = TEXT_READERS[kind](cell)
        except BadValue:
            raise AssertionError(f"{cell} is no {kind}") from None
        if kind == "N":
            # As DynamoDB writes it, but for zeros that end a fraction.
            short = cell.rstrip("0").rstrip(".") if "." in cell else cell
            assert value == {"N": cell}
            assert number_text(cell) == short


@given(_columns, st.integers(0, 6))
def test_guess_does_not_depend_on_blocks(cells: list[str], cut: int) -> None:
    whole, parts = TypeGuess(), TypeGuess()
    whole.add(cells)
    parts.add(cells[:cut])
    parts.add(cells[cut:])
    assert whole.inferred() == parts.inferred()
    assert (whole.filled, whole.empty, whole.longest) == (parts.filled, parts.empty, parts.longest)
