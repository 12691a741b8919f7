"""Headers of Parquet pages, compared with the file's footer while pyarrow reads the pages.

The footer tells how many values and bytes a column has, and limits are decided by it. But pyarrow
allocates what the headers of pages tell: a footer that tells less hides a bomb. The headers are
found in the bytes that pyarrow reads, before it gets them, so nothing is read twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from ddbload.errors import DamagedParquet, UnsupportedFormat
from ddbload.source.parquet.compact_thrift import CutShort, NotThrift, read_struct

MAX_PAGE_BYTES = 256 * 1024 * 1024
"""Bytes that a page may decompress to; writers make pages of 1 MB."""
_MAX_HEADER_BYTES = 1024 * 1024
"""Bytes of a page's header; statistics of long texts are cut by writers."""
_TOLERATED_BYTES = 1024 * 1024
"""Bytes that a column may have beyond twice what the footer tells. Some writers do not count
headers, or dictionaries."""
# Fields of a page's header (parquet.thrift, PageHeader), and the number of values in each kind.
_UNCOMPRESSED, _COMPRESSED = 2, 3
_DATA, _DATA_V2 = 5, 8
_VALUES = 1


@dataclass(slots=True)
class ColumnPages:
    """Pages of one column in one row group, as the footer tells them and as they are read."""

    start: int
    """Offset of the first page in the file."""
    length: int
    """Bytes of all pages in the file."""
    values: int
    """Values of all data pages, at least one."""
    size: int
    """Decompressed bytes of all pages."""
    max_page_bytes: int = MAX_PAGE_BYTES
    seen_values: int = field(default=0, init=False)
    seen_size: int = field(default=0, init=False)
    next: int = field(init=False)
    """Offset of the next header."""
    cut: bytes = field(default=b"", init=False)
    """Beginning of the next header, if it was cut."""

    def __post_init__(self) -> None:
        self.next = self.start

    def read(self, position: int, data: bytes, name: str) -> None:
        """Look for headers in bytes of the file, and compare them with the footer.

        Raises `DamagedParquet` and `UnsupportedFormat`.
        """
        # pyarrow, too, reads no page after the last value.
        while self.seen_values < self.values:
            place = self.next + len(self.cut) - position
            if not 0 <= place < len(data):
                return
            known = self.cut + data[place : place + _MAX_HEADER_BYTES]
            try:
                header, length = read_struct(known)
            except CutShort:
                if len(known) >= _MAX_HEADER_BYTES:
                    raise _damaged(name, "the header of a page does not end") from None
                self.cut = known
                return
            except NotThrift:
                raise _damaged(name, "a page has no header") from None
            self.cut = b""
            self._count(header, name)
            compressed = header.get(_COMPRESSED)
            if not isinstance(compressed, int) or compressed < 0:
                raise _damaged(name, "a page has no size")
            self.next += length + compressed

    def _count(self, header: dict[int, object], name: str) -> None:
        size = header.get(_UNCOMPRESSED)
        if not isinstance(size, int) or size < 0:
            raise _damaged(name, "a page has no size")
        if size > self.max_page_bytes:
            raise UnsupportedFormat(
                f"{name} has a page of {size:,} bytes, and it may have {self.max_page_bytes:,};"
                " write the file again with smaller pages"
            )
        self.seen_size += size
        if self.seen_size > 2 * self.size + _TOLERATED_BYTES:
            raise _damaged(name, "its pages are larger than the file's metadata say")
        for kind in (_DATA, _DATA_V2):
            data_page = header.get(kind)
            if isinstance(data_page, dict):
                values = data_page.get(_VALUES)
                if not isinstance(values, int) or values < 0:
                    raise _damaged(name, "a page has no number of values")
                self.seen_values += values
        if self.seen_values > self.values:
            raise _damaged(name, "it has more values than the file's metadata say")


class GroupPages:
    """Pages of the columns of one row group."""

    def __init__(self, name: str, columns: Iterable[ColumnPages]) -> None:
        """`name`: of file and row group, for errors. Raises `DamagedParquet`."""
        self._name = name
        self._columns = sorted(columns, key=lambda each: each.start)
        self._starts = [each.start for each in self._columns]
        if any(one.start + one.length > two.start for one, two in pairwise(self._columns)):
            raise _damaged(name, "two columns have the same bytes")

    def read(self, position: int, data: bytes) -> None:
        """Compare the headers in bytes that are read. Raises as `ColumnPages.read`."""
        # One column; more where the footer is read, or a column's end is not certain.
        first = bisect_right(self._starts, position) - 1
        after = bisect_left(self._starts, position + len(data))
        for column in self._columns[max(0, first) : after]:
            column.read(position, data, self._name)


def _damaged(name: str, why: str) -> DamagedParquet:
    return DamagedParquet(f"{name}: {why}: it is damaged; write it again")
