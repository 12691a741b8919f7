"""Splits a stream of bytes into blocks of whole rows, and refuses rows that are too long."""

from __future__ import annotations

from dataclasses import dataclass, field

from ddbload.contracts.run_record import Cursor
from ddbload.errors import RowTooLong
from ddbload.rows.row_boundaries import RowBoundaries, count_line_ends

BLOCK_BYTES = 1024 * 1024
"""Most bytes to read at a time."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole rows of a source. Only the source's last row may lack its line end."""

    data: bytes
    start: Cursor
    terminated: bool = True
    """False for the source's last block if its last row has no line end."""
    line_ends: int | None = field(default=None, compare=False, repr=False)
    """Line ends in the data; None: counted when the block is made."""
    end: Cursor = field(init=False, compare=False, repr=False)
    """Position after the block, where the next row begins."""

    def __post_init__(self) -> None:
        """Find the end once: every step of an import asks for it."""
        lines = count_line_ends(self.data) if self.line_ends is None else self.line_ends
        object.__setattr__(self, "line_ends", lines)
        end = Cursor(self.start.byte + len(self.data), self.start.line + lines)
        object.__setattr__(self, "end", end)


class BlockSplitter:
    """Splitter that takes a stream piece by piece, in order, and returns blocks of whole rows.

    Pieces must not exceed `piece_bytes`: that guarantees that no row longer than `max_row_bytes`,
    line end included, passes.
    """

    def __init__(
        self, ends: RowBoundaries, start: Cursor, max_row_bytes: int, *, knows_line: bool = True
    ) -> None:
        """`knows_line`: the line of `start` is that of the source, so that errors may name it."""
        self.piece_bytes = min(BLOCK_BYTES, max_row_bytes)
        self.at = start
        """Position at which the next block begins."""
        self._ends = ends
        self._knows_line = knows_line
        self._max_row_bytes = max_row_bytes
        self._pieces: list[bytes] = []
        self._held = 0
        # While no row ends, search again only when the held bytes have doubled: linear in all.
        self._look_at = 0

    def feed(self, piece: bytes, *, final: bool) -> Block | None:
        """Return the rows that a piece completes, or None if it completes none.

        `final` says that nothing follows, so everything left is returned. Raises `RowTooLong`.
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
        rows = data[:taken]
        block = Block(rows, self.at, complete == taken, self._ends.count_lines(rows))
        self.at = block.end
        return block

    def _refuse_long_rows(self, data: bytes) -> None:
        if len(data) <= self._max_row_bytes:
            return
        start = 0
        for end in self._ends.all(data):
            if end - start > self._max_row_bytes:
                line = self.at.line + self._ends.count_lines(data, 0, start)
                at_line = f"line {line}, " if self._knows_line else ""
                raise RowTooLong(
                    f"the row at {at_line}byte {self.at.byte + start} is longer than"
                    f" {self._max_row_bytes} bytes (max_row_bytes); {self._ends.LONG_ROWS}"
                )
            start = end
