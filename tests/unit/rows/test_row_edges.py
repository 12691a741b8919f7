"""Row ends that windows prove: what decides, and what does not."""

from __future__ import annotations

import pytest

from ddbload.contracts.source import Source
from ddbload.rows.dialect_grammar import row_boundaries_for


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
