"""Ask windows of a source for row ends, concurrently and no more than needed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from itertools import islice

from ddbload.rows.blocks import RowBoundaries

FIRST_WINDOW_BYTES = 16 * 1024
"""Bytes of the window that is asked first. In quoted text it usually suffices."""
MOST_UNDECIDED = 16
"""Windows in a row that prove no row end, after which no more are asked: others would not either.

Example: quoted text in which every cell ends with a delimiter."""
ASKED_AT_FIRST = 4
MOST_ASKED = 256
"""Places that are asked at once, at first and after all of those before had a row end."""
USELESS_WINDOWS = 8
"""First windows in a row that prove nothing, where the longer ones do. Then these are read at
once."""

Windows = Iterable[tuple[int, int]]


class EdgeProbe:
    """Finder of row ends near given offsets of one source, in windows of it."""

    def __init__(
        self,
        boundaries: RowBoundaries,
        read_windows: Callable[[Windows], Generator[bytes]],
        size: int,
        max_row_bytes: int,
        undecided: int,
    ) -> None:
        """Make a finder.

        Args:
            boundaries: Row boundaries of the source's format.
            read_windows: Reads ranges of the source, in order.
            size: Bytes of the source.
            max_row_bytes: Bytes of the longest allowed row.
            undecided: Offsets in a row, the last ones, for which no row end was found.
        """
        self.undecided = undecided
        """Offsets in a row, the last ones of those that were returned, without a row end."""
        self._boundaries = boundaries
        self._read_windows = read_windows
        self._size = size
        self._longest = max_row_bytes + 1
        self._first = min(FIRST_WINDOW_BYTES, self._longest)
        self._useless = 0

    @property
    def gave_up(self) -> bool:
        """True if so many windows proved nothing that others are not asked."""
        return self.undecided >= MOST_UNDECIDED

    def find(self, offsets: Iterable[int]) -> Generator[tuple[int, int | None]]:
        """Yield each offset with a row end after it, or None if its windows prove none.

        Ends early if `gave_up`. `offsets` rise, and lie after the first row's start.
        """
        left = iter(offsets)
        asked = ASKED_AT_FIRST
        batch = [] if self.gave_up else list(islice(left, asked))
        while batch:
            decided = 0
            for offset, edge in self._ask(batch):
                self.undecided = 0 if edge is not None else self.undecided + 1
                decided += edge is not None
                yield offset, edge
                if self.gave_up:
                    return
            # Where windows prove nothing, more of them would be read in vain.
            asked = min(2 * asked, MOST_ASKED) if decided == len(batch) else ASKED_AT_FIRST
            batch = list(islice(left, asked))

    def _ask(self, offsets: list[int]) -> Generator[tuple[int, int | None]]:
        """Look for row ends in the first windows, and where these prove none in longer ones."""
        windows = dict.fromkeys(offsets, b"")
        if self._useless < USELESS_WINDOWS:
            ranges = [(offset, min(self._size, offset + self._first)) for offset in offsets]
            windows = dict(zip(offsets, self._read_windows(ranges), strict=True))
        found = {offset: self._prove(offset, window) for offset, window in windows.items()}
        longer = {
            offset: (offset + len(window), min(self._size, offset + self._longest))
            for offset, window in windows.items()
            if found[offset] is None
        }
        longer = {offset: (start, end) for offset, (start, end) in longer.items() if start < end}
        # Read in order, and only as far as they are asked for.
        with closing(self._read_windows(longer.values())) as rest:
            for offset in offsets:
                if offset in longer:
                    window = windows.pop(offset) + next(rest)
                    found[offset] = self._prove(offset, window)
                    first_suffices = self._prove(offset, window[: self._first]) is not None
                    self._useless = 0 if first_suffices else self._useless + 1
                else:
                    self._useless = 0
                yield offset, found[offset]

    def _prove(self, offset: int, window: bytes) -> int | None:
        end = self._boundaries.edge(
            window,
            final=offset + len(window) >= self._size,
            longest=len(window) >= self._longest,
        )
        return offset + end if end else None
