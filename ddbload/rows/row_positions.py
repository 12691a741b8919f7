"""Positions of a block's rows in the source: byte offset, line number, and raw text.

They are computed on demand, because most rows are never asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddbload.contracts.run_record import Cursor
from ddbload.errors import SplitMismatch
from ddbload.rows.block_splitter import Block
from ddbload.rows.row_boundaries import RowBoundaries

_FINAL_LINE_END = re.compile(r"(?:\r\n?|\n)\Z")


class RowPositions:
    """Positions of a block's rows, by row number; empty lines and comments are not rows.

    Rows that `where` leaves out are counted, and have no number.
    """

    def __init__(self, block: Block, ends: RowBoundaries, count: int) -> None:
        """Take a block in which the parser found `count` rows."""
        self.block = block
        self.count = count
        """Number of rows, without those that are left out."""
        self.ends = ends
        self._parsed = count
        self._kept: Sequence[int] | None = None
        self._spans: list[tuple[int, int]] | None = None
        self._known = (0, block.start.line)

    def keep(self, rows: Sequence[int] | None) -> None:
        """Leave out all rows but these, which get new numbers from 0 on. None keeps all."""
        if rows is not None:
            self._kept = rows
            self.count = len(rows)

    @property
    def filtered(self) -> int:
        """Number of rows that are left out."""
        return self._parsed - self.count

    def filtered_before(self, row: int) -> int:
        """Return how many rows before a row are left out."""
        return 0 if self._kept is None else self._kept[row] - row

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Start and end of each row within the block, line end included."""
        if self._spans is None:
            self._spans = self.ends.spans(self.block.data)
        return self._spans

    def span(self, row: int) -> tuple[int, int]:
        """Return the start and end of a row within the block. Raises `SplitMismatch`."""
        if len(self.spans) != self._parsed:
            raise SplitMismatch(
                f"between byte {self.block.start.byte} and {self.block.end.byte} the splitter"
                f" sees {len(self.spans)} rows and the parser {self._parsed}: please report it"
            )
        return self.spans[row if self._kept is None else self._kept[row]]

    def byte(self, row: int) -> int:
        """Return the byte offset of a row in the source. Raises `SplitMismatch`."""
        return self.block.start.byte + self.span(row)[0]

    def position(self, row: int) -> Cursor:
        """Return the byte and line at which a row begins in the source. Raises `SplitMismatch`."""
        start = self.span(row)[0]
        offset, line = self._known
        if start < offset:
            offset, line = 0, self.block.start.line
        line += self.ends.count_lines(self.block.data, offset, start)
        self._known = (start, line)
        return Cursor(self.block.start.byte + start, line)

    def after(self, row: int) -> Cursor:
        """Return the byte and line just after a row. Raises `SplitMismatch`."""
        start, end = self.span(row)
        at = self.position(row)
        return Cursor(
            self.block.start.byte + end,
            at.line + self.ends.count_lines(self.block.data, start, end),
        )

    def data(self, row: int) -> bytes:
        """Return a row's bytes, line end included. Raises `SplitMismatch`."""
        start, end = self.span(row)
        return self.block.data[start:end]

    def raw(self, row: int) -> str:
        """Return a row's text without its line end; undecodable bytes become surrogates."""
        text = self.data(row).decode(self.ends.encoding, "surrogateescape")
        # The line end belongs to the field if its quote is never closed.
        open_end = self.span(row)[1] == len(self.block.data) and not self.block.terminated
        return text if open_end else _FINAL_LINE_END.sub("", text)
