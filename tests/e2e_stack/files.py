"""Files to load. Each of their rows has a mark in it, by which row data is told from all else."""

from __future__ import annotations

from tests.e2e.awkward import awkward

MARKER = "qzrowdataqz"
HEADER = "id,name,text\n"


def plain(count: int, first: int = 0) -> bytes:
    """Make a header and a number of valid rows."""
    return (HEADER + rows(count, first)).encode()


def rows(count: int, first: int = 0) -> str:
    """Such rows."""
    numbers = range(first, first + count)
    return "".join(f"{MARKER}-{number},name of {number},{MARKER}\n" for number in numbers)


def bad_rows(count: int) -> str:
    """Rows with a field too many."""
    return "".join(f"{MARKER}-bad-{number},a,b,{MARKER}\n" for number in range(count))


def odd(seed: int, count: int) -> bytes:
    """Rows in which everything happens that may happen to a row."""
    return awkward(seed, count).replace(b"word", MARKER.encode())
