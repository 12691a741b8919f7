"""Where the rows of a block stand in the source, and how they are written there.

Worked out for the rows that are asked for: most never are.
"""

from __future__ import annotations

import re

from ddbload.contracts.run_record import Cursor
from ddbload.errors import SplitMismatch
from ddbload.rows.block_splitter import Block
from ddbload.rows.boundaries.row_boundaries import RowBoundaries

_FINAL_LINE_END = re.compile(r"(?:\r\n?|\n)\Z")


class RowPositions:
    """The places of a block's rows, by number; empty lines and comments are none."""

    def __init__(self, block: Block, ends: RowBoundaries, count: int) -> None:
        """`count`: how many rows the parser found."""
        self.block = block
        self.count = count
        self.ends = ends
        self._spans: list[tuple[int, int]] | None = None
        self._known = (0, block.start.line)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Start and end of each row in the block, line end included."""
        if self._spans is None:
            self._spans = self.ends.spans(self.block.data)
        return self._spans

    def span(self, row: int) -> tuple[int, int]:
        """Start and end of a row in the block. Raises `SplitMismatch`."""
        if len(self.spans) != self.count:
            raise SplitMismatch(
                f"between byte {self.block.start.byte} and {self.block.end.byte} the splitter"
                f" sees {len(self.spans)} rows and the parser {self.count}: please report it"
            )
        return self.spans[row]

    def byte(self, row: int) -> int:
        """The offset of a row in the source. Raises `SplitMismatch`."""
        return self.block.start.byte + self.span(row)[0]

    def position(self, row: int) -> Cursor:
        """Where a row begins in the source."""
        start = self.span(row)[0]
        offset, line = self._known
        if start < offset:
            offset, line = 0, self.block.start.line
        line += self.ends.count_lines(self.block.data, offset, start)
        self._known = (start, line)
        return Cursor(self.block.start.byte + start, line)

    def after(self, row: int) -> Cursor:
        """Where the row after this one begins, or an empty line, or nothing."""
        start, end = self.span(row)
        at = self.position(row)
        return Cursor(
            self.block.start.byte + end,
            at.line + self.ends.count_lines(self.block.data, start, end),
        )

    def data(self, row: int) -> bytes:
        """A row's bytes, line end included."""
        start, end = self.span(row)
        return self.block.data[start:end]

    def raw(self, row: int) -> str:
        """A row as it stands, without its line end; bytes that are no text as surrogates."""
        text = self.data(row).decode(self.ends.encoding, "surrogateescape")
        # A line end inside a field that is never closed is the field's.
        open_end = self.span(row)[1] == len(self.block.data) and not self.block.terminated
        return text if open_end else _FINAL_LINE_END.sub("", text)
