"""Lines before the header: any number of them, of any length, in any pieces."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.run_record import Cursor
from ddbload.contracts.source import Source
from ddbload.reading.header import read_header
from ddbload.source.decoding.decoded_source import DecodedSource
from ddbload.steps.prepare import detect_format
from tests.unit.source.memory_source import MemorySource


class Dripping(DecodedSource):
    """A source that comes in pieces of a few bytes."""

    def __init__(self, data: bytes, piece_bytes: int) -> None:
        super().__init__(MemorySource(data))
        self._piece_bytes = piece_bytes

    def stream(self, start, end, piece_bytes):
        return super().stream(start, end, min(piece_bytes, self._piece_bytes))


@given(
    lines=st.lists(st.sampled_from(["\n", "\r\n", "\r", "a\n", "b\r\n", "cc\r"]), max_size=6),
    rest=st.sampled_from(["", "x", "h,i\n1,2\n"]),
    skip=st.integers(0, 8),
    piece_bytes=st.integers(1, 4),
)
def test_first_line_is_the_same_in_any_pieces(lines, rest, skip, piece_bytes):
    data = ("".join(lines) + rest).encode()
    source = Source(bucket="b", key="k", format="json", skip_lines=skip)
    file = Dripping(data, piece_bytes)
    ends = [found.end() for found in re.finditer(rb"\r\n?|\n", data)]
    found = read_header(file, source, 1000)
    if len(ends) >= skip:
        byte = ends[skip - 1] if skip else 0
        assert (found.data_start, found.empty) == (Cursor(byte, skip + 1), byte == len(data))
    else:
        unfinished = bool(data) and data[-1:] not in b"\r\n"
        expected = Cursor(len(data), 1 + len(ends) + unfinished)
        assert (found.data_start, found.empty) == (expected, True)


@pytest.mark.timeout(20)
def test_a_million_skipped_lines_take_a_second():
    """They took a minute: each line copied what came after it."""
    count = 1_500_000
    raw = MemorySource(b"\n" * count + b"id,a\n1,2\n")
    source = Source(bucket="b", key="k", format="auto", delimiter="auto", skip_lines=count)
    detected = detect_format(raw, source, ())
    header = read_header(DecodedSource(raw), Source(bucket="b", key="k", skip_lines=count), 100)
    assert header.columns == ("id", "a")
    assert header.data_start == Cursor(count + 5, count + 2)
    assert detected.source.format == "csv"
