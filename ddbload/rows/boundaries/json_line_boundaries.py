"""Where lines of JSON end: at a line feed, which JSON has in no other place."""

from __future__ import annotations

from itertools import accumulate, pairwise

from ddbload.rows.boundaries.row_boundaries import RowBoundaries

WHITE_SPACE = " \t\r\n"
"""JSON's own. A CR before a line feed is some, and so ends no line by itself."""
_WHITE_SPACE = WHITE_SPACE.encode()


class JsonLineBoundaries(RowBoundaries):
    """Finds the ends of lines, of which those with nothing but white space are no rows."""

    LONG_ROWS = (
        "each row is one line: if the file is an array of JSON, make lines of it (jq -c '.[]')"
    )

    def all(self, data: bytes) -> list[int]:
        """The end of every line."""
        lengths = [len(line) + 1 for line in data.split(b"\n")]
        # After the last line feed nothing begins, or a line without one.
        lengths[-1] -= 1
        ends = list(accumulate(lengths))
        return ends if lengths[-1] else ends[:-1]

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Start and end of every line that is a row."""
        return [
            (start, end)
            for start, end in pairwise([0, *self.all(data)])
            if data[start] not in _WHITE_SPACE or data[start:end].strip(_WHITE_SPACE)
        ]

    def last(self, data: bytes, *, final: bool) -> int:  # noqa: ARG002 - a line feed is one
        """The end of the last line that is complete; 0 when there is none."""
        return data.rfind(b"\n") + 1

    def first_from(self, data: bytes, offset: int, *, start: int = 0, final: bool) -> int:  # noqa: ARG002
        """The end of the first line that ends at `offset` or later; 0 when none does."""
        return data.find(b"\n", max(start, offset - 1)) + 1

    def closes(self, data: bytes) -> bool:  # noqa: ARG002 - as others
        """Nothing goes on over a line's end."""
        return True

    def count_lines(self, data: bytes, start: int = 0, end: int | None = None) -> int:
        """How many lines end in a range of `data`."""
        return data.count(b"\n", start, len(data) if end is None else end)
