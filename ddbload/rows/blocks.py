"""Cutting a stream of bytes into blocks of whole rows, within a bound on a row's length."""

from __future__ import annotations

from dataclasses import dataclass

from ddbload.contracts import Cursor
from ddbload.errors import RowTooLong
from ddbload.rows.split import RowEnds, count_line_ends

BLOCK_BYTES = 1024 * 1024
"""How much is read at a time, at most."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole rows: only the last one of the source may lack its line end."""

    data: bytes
    start: Cursor
    terminated: bool = True
    """Whether the block ends with a row's end; false only for what a stream ends with."""

    @property
    def end(self) -> Cursor:
        """Where the next row begins."""
        line = self.start.line + count_line_ends(self.data)
        return Cursor(self.start.byte + len(self.data), line)


class BlockCutter:
    """Takes pieces of a stream, in order, and gives them back as blocks of whole rows.

    Feed pieces of at most `piece_bytes`: then no row longer than `max_row_bytes`, line end
    included, passes.
    """

    def __init__(self, ends: RowEnds, start: Cursor, max_row_bytes: int) -> None:
        self.piece_bytes = min(BLOCK_BYTES, max_row_bytes)
        self.at = start
        """Where the next block begins."""
        self._ends = ends
        self._max_row_bytes = max_row_bytes
        self._rest = b""

    def feed(self, piece: bytes, *, final: bool) -> Block | None:
        """The rows that `piece` completes, if any. `final`: nothing follows, give everything.

        Raises `RowTooLong`.
        """
        data = self._rest + piece if self._rest else piece
        self._refuse_long_row(data, final)
        complete = self._ends.last(data, final=final)
        taken = len(data) if final else complete
        self._rest = data[taken:]
        if not taken:
            return None
        block = Block(data[:taken], self.at, terminated=complete == taken)
        self.at = block.end
        return block

    def _refuse_long_row(self, data: bytes, final: bool) -> None:
        # What follows the first row came with the last piece, which is no longer than a row.
        if len(data) <= self._max_row_bytes:
            return
        first = self._ends.first_from(data, 1, final=final) or len(data)
        if first > self._max_row_bytes:
            raise RowTooLong(
                f"the row at line {self.at.line}, byte {self.at.byte} is longer than"
                f" {self._max_row_bytes} bytes (max_row_bytes); most often a quote is not closed:"
                " if the file does not quote its fields, say so (--quote none)"
            )
