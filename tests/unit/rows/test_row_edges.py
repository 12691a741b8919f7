"""Row ends that windows prove: what decides, what does not, and the golden files."""

from __future__ import annotations

import pytest

from ddbload.contracts.source import Source
from ddbload.rows.dialect_grammar import row_boundaries_for
from tests.golden.cases import Golden, load_all


def find(window: bytes, *, final: bool = False, longest: bool = False, **marks: str | None) -> int:
    """Find a row end; `marks` are those of the source."""
    source = Source(path="a.csv", **marks)  # type: ignore[arg-type]
    return row_boundaries_for(source).edge(window, final=final, longest=longest)


@pytest.mark.parametrize(
    ("window", "end"),
    [
        (b"a,b\nc", 4),
        (b"\nc", 1),
        (b'a,"",b\r\n', 8),
        (b'a""\nb', 4),
        # Odd runs between the ends of the window.
        (b'\n"\nb', 0),
        (b'a,"\n"",\nb', 0),
        # Runs at its ends count for nothing.
        (b'"a\n,""\n"', 3),
        (b"a\r", 0),
    ],
)
def test_window_longer_than_any_row(window, end):
    assert find(window, longest=True) == end


def test_end_of_the_file_is_certain():
    assert find(b'a"\r', final=True) == 3
    assert find(b'a",b', final=True) == 0


def test_longest_window_with_escapes_and_quotes_proves_nothing():
    assert find(b'a\\"b\nc\n', longest=True, escape="\\") == 0
    assert find(b"a\\b\nc\n", longest=True, escape="\\") == 4


GOLDEN = [each for each in load_all() if len(each.data) < 3000]


@pytest.mark.parametrize("golden", GOLDEN, ids=[each.name for each in GOLDEN])
def test_no_row_of_a_golden_file_is_cut(golden: Golden) -> None:
    data = golden.data
    ends = row_boundaries_for(Source(path="a", delimiter=golden.delimiter, quote=golden.quote))
    longest = max((row.end_byte - row.byte for row in golden.rows), default=0)
    inside = {byte for row in golden.rows for byte in range(row.byte + 1, row.end_byte)}
    step = 1 + len(data) // 100
    for start in range(4, len(data), step):
        for size in (2, 7, 30, longest + 1, longest + 8):
            window = data[start : start + size]
            found = ends.edge(
                window, final=start + size >= len(data), longest=len(window) > longest
            )
            assert found == 0 or start + found not in inside
            assert data[start + found - 1 : start + found + 1] != b"\r\n" or not found
