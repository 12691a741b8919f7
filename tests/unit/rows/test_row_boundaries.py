"""Tests of the row ends of delimited text."""

from __future__ import annotations

import pytest

from ddbload.contracts.column_mapping import Dialect
from ddbload.rows.blocks import count_line_ends
from ddbload.rows.dialect_grammar import dialect_boundaries


@pytest.mark.parametrize(
    ("data", "lines"),
    [(b"", 0), (b"ab", 0), (b"\n", 1), (b"\r", 1), (b"\r\n", 1), (b"\r\r\n\n", 3), (b"\n\r", 2)],
)
def test_count_line_ends_counts_cr_lf_and_crlf_once(data: bytes, lines: int) -> None:
    assert count_line_ends(data) == lines
    assert count_line_ends(b"\n" + data + b"\n", 1, 1 + len(data)) == lines


@pytest.mark.parametrize("quote", ['"', "«", "😀"])
def test_row_end_is_found_after_a_field_of_three_megabytes(quote: str) -> None:
    inside = f"line, {quote}{quote}\r\n" * 300_000
    field = f"1,{quote}{inside}{quote}\n".encode()
    assert len(field) > 3_000_000
    ends = dialect_boundaries(Dialect(quote=quote))
    assert ends.all(field + b"2,b\n") == [len(field), len(field) + 4]
    assert ends.last(field + b"2,", final=False) == len(field)
    assert ends.first_from(field + b"2,b\n", 1, final=False) == len(field)
    assert ends.last(field[:-2], final=False) == 0
