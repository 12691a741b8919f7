"""Cutting a stream of bytes into blocks of whole rows, within a bound on a row's length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ddbload.contracts.run_record import Cursor
from ddbload.errors import RowTooLong
from ddbload.rows.boundaries.row_boundaries import RowBoundaries, count_line_ends

BLOCK_BYTES = 1024 * 1024
"""How much is read at a time, at most."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole rows: only the last one of the source may lack its line end."""

    data: bytes
    start: Cursor
    terminated: bool = True
    """Whether the block ends with a row's end; false only for what a stream ends with."""
    count_lines: Callable[[bytes], int] = field(default=count_line_ends, compare=False, repr=False)

    @property
    def end(self) -> Cursor:
        """Where the next row begins."""
        line = self.start.line + self.count_lines(self.data)
        return Cursor(self.start.byte + len(self.data), line)


class BlockSplitter:
    """Takes pieces of a stream, in order, and gives them back as blocks of whole rows.

    Feed pieces of at most `piece_bytes`: then no row longer than `max_row_bytes`, line end
    included, passes.
    """

    def __init__(self, ends: RowBoundaries, start: Cursor, max_row_bytes: int) -> None:
        self.piece_bytes = min(BLOCK_BYTES, max_row_bytes)
        self.at = start
        """Where the next block begins."""
        self._ends = ends
        self._max_row_bytes = max_row_bytes
        self._pieces: list[bytes] = []
        self._held = 0
        # While no row ends, what is held is looked at again only when it has doubled.
        self._look_at = 0

    def feed(self, piece: bytes, *, final: bool) -> Block | None:
        """The rows that `piece` completes, if any. `final`: nothing follows, give everything.

        Raises `RowTooLong`.
        """
        self._pieces.append(piece)
        self._held += len(piece)
        if not final and self._held < self._look_at and self._held <= self._max_row_bytes:
            return None
        data = b"".join(self._pieces)
        self._refuse_long_rows(data)
        complete = self._ends.last(data, final=final)
        taken = len(data) if final else complete
        self._pieces, self._held = [data[taken:]], len(data) - taken
        self._look_at = 0 if taken else 2 * len(data)
        if not taken:
            return None
        block = Block(data[:taken], self.at, complete == taken, self._ends.count_lines)
        self.at = block.end
        return block

    def _refuse_long_rows(self, data: bytes) -> None:
        if len(data) <= self._max_row_bytes:
            return
        start = 0
        for end in self._ends.all(data):
            if end - start > self._max_row_bytes:
                line = self.at.line + self._ends.count_lines(data, 0, start)
                raise RowTooLong(
                    f"the row at line {line}, byte {self.at.byte + start} is longer than"
                    f" {self._max_row_bytes} bytes (max_row_bytes); {self._ends.LONG_ROWS}"
                )
            start = end
