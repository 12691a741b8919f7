"""Tests of the boundaries of JSON Lines."""

from __future__ import annotations

import itertools

import pytest

from ddbload.contracts.run_record import Cursor
from ddbload.errors import RowTooLong
from ddbload.rows.blocks import BlockSplitter, JsonLineBoundaries, RowPositions

ENDS = JsonLineBoundaries()


def _lines(data: bytes) -> list[tuple[int, int]]:
    """Return the start and end of every line, found byte by byte."""
    found, start = [], 0
    for place, byte in enumerate(data, 1):
        if byte == 0x0A:
            found.append((start, place))
            start = place
    return found + [(start, len(data))] * (start < len(data))


def test_boundaries_match_the_oracle_for_every_short_text() -> None:
    for length in range(6):
        for text in itertools.product(b'a \r\n"\x0c', repeat=length):
            data = bytes(text)
            lines = _lines(data)
            ends = [end for _, end in lines]
            complete = [end for end in ends if data[:end].endswith(b"\n")]
            assert ENDS.all(data) == ends
            assert ENDS.spans(data) == [
                (start, end) for start, end in lines if set(data[start:end]) - set(b" \t\r\n")
            ]
            assert ENDS.closes(data)
            assert ENDS.count_lines(data) == len(complete)
            for final in (False, True):
                assert ENDS.last(data, final=final) == max(complete, default=0)
                for offset in range(len(data) + 1):
                    first = min((end for end in complete if end >= offset), default=0)
                    assert ENDS.first_from(data, offset, final=final) == first, (data, offset)
                    for start in (end for end in (0, *complete) if end <= offset):
                        found = ENDS.first_from(data, offset, start=start, final=final)
                        later = [end for end in complete if end >= max(offset, start + 1)]
                        assert found == min(later, default=0), (data, offset, start)


def test_rows_do_not_depend_on_pieces() -> None:
    data = b'{"a":1}\r\n\n \r\n{"b":\r2}\n{"c"\n:3}\n\r\n{"d":4}'
    expected = None
    for piece_bytes in range(1, len(data) + 1):
        cutter = BlockSplitter(ENDS, Cursor(100, 10), 1000)
        found = []
        for start in range(0, len(data), piece_bytes):
            piece = data[start : start + piece_bytes]
            block = cutter.feed(piece, final=start + piece_bytes >= len(data))
            if block is None:
                continue
            places = RowPositions(block, ENDS, len(ENDS.spans(block.data)))
            for row in range(places.count):
                at = places.position(row)
                found.append((at.byte, at.line, places.raw(row)))
        expected = expected or found
        assert found == expected
    assert expected == [
        (100, 10, '{"a":1}'),
        (113, 13, '{"b":\r2}'),
        (122, 14, '{"c"'),
        (127, 15, ":3}"),
        (133, 17, '{"d":4}'),
    ]


def test_row_too_long_says_what_may_be_missing_from_json():
    cutter = BlockSplitter(JsonLineBoundaries(), Cursor(0, 1), 4)
    with pytest.raises(RowTooLong, match=r"line 1, byte 0 .* a bracket may be missing"):
        cutter.feed(b"[1,2]\n", final=True)
