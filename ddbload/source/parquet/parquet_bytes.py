"""Check the bytes of Parquet files before pyarrow reads them: Thrift, page headers, footer.

The footer states how many values and bytes a column has, and ddbload's limits rely on it. But
pyarrow allocates memory by page headers, so a footer with too small numbers could hide a
decompression bomb. Therefore page headers are found in the bytes that pyarrow reads, before it gets
them. No byte is read twice.
"""

from __future__ import annotations

import io
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

# pyarrow ships no type hints, so its objects are Any here.
from pyarrow import parquet  # type: ignore[import-untyped]

from ddbload.errors import DamagedParquet, DdbloadError, SourceUnreadable, UnsupportedFormat
from ddbload.source.decoding.decoded_source import ByteSource

# Thrift's compact protocol, the format of Parquet's footer and page headers.

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_INTEGERS = (_I16, _I32, _I64)
_MAX_DEPTH = 16
_MAX_VARINT_BYTES = 10


def _read_struct(
    data: bytes, position: int = 0, depth: int = 0
) -> tuple[dict[int, tuple[int, int, int]], int]:
    """Find the fields of a struct: number to (type, start, end); also return the struct's end.

    Raises IndexError if the data is incomplete, and ValueError for data of another protocol.
    """
    if depth > _MAX_DEPTH:
        raise ValueError
    fields: dict[int, tuple[int, int, int]] = {}
    number = 0
    while head := data[position]:
        position += 1
        kind, step = head & 0x0F, head >> 4
        number += step
        if not step:
            number, position = _integer(data, position)
        # The type of a boolean field is also its value.
        end = position if kind in (_TRUE, _FALSE) else _skip(data, position, kind, depth)
        fields[number] = kind, position, end
        position = end
    return fields, position + 1


def _skip(data: bytes, position: int, kind: int, depth: int = 0) -> int:
    """Return the position after a value. Raises as `_read_struct`."""
    if depth > _MAX_DEPTH:
        raise ValueError
    if kind in _INTEGERS:
        return _varint(data, position)[1]
    if kind == _STRUCT:
        return _read_struct(data, position, depth + 1)[1]
    if kind in (_TRUE, _FALSE, _BYTE):
        return position + 1
    if kind == _DOUBLE:
        return position + 8
    if kind == _BINARY:
        length, position = _varint(data, position)
        return position + length
    if kind in (_LIST, _SET):
        element, count, position = _list_head(data, position)
        kinds: tuple[int, ...] = (element,)
    elif kind == _MAP:
        count, position = _varint(data, position)
        if not count:
            return position
        kinds = data[position] >> 4, data[position] & 0x0F
        position += 1
    else:
        raise ValueError
    for _ in range(count):
        for each in kinds:
            position = _skip(data, position, each, depth + 1)
            if position > len(data):
                raise IndexError
    return position


def _list_head(data: bytes, position: int) -> tuple[int, int, int]:
    """Read the type of a list's elements, their count, and the position of the first."""
    head, position = data[position], position + 1
    if head >> 4 < 15:
        return head & 0x0F, head >> 4, position
    return head & 0x0F, *_varint(data, position)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint. Raises as `_read_struct`."""
    value = 0
    for place in range(_MAX_VARINT_BYTES):
        part = data[position]
        position += 1
        value |= (part & 0x7F) << 7 * place
        if part < 0x80:
            return value, position
    raise ValueError


def _integer(data: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint."""
    value, position = _varint(data, position)
    return (value >> 1) ^ -(value & 1), position


# INT96 timestamps. pyarrow reads them as 64-bit timestamps, whose nanoseconds overflow before 1678
# and after 2262, and whose coarser units lose digits. So pyarrow gets a footer that declares such
# columns as binary of 12 bytes, which has the same page layout.

_MAGIC = b"PAR1"
# Fields of SchemaElement, and physical types (parquet.thrift).
_TYPE, _TYPE_LENGTH, _ANNOTATIONS = 1, 2, (6, 7, 8, 10)
_INT96, _FIXED_LENGTH, _INT96_BYTES = 3, 7, 12


def with_raw_int96(metadata: Any) -> Any:
    """Return a file's metadata with INT96 columns declared as binary of 12 bytes."""
    sink = io.BytesIO()
    metadata.write_metadata_file(sink)
    footer = sink.getvalue()[len(_MAGIC) : -8]
    # pyarrow writes the version as field 1, then the schema: a list of structs.
    _, position = _integer(footer, 1)
    _, count, position = _list_head(footer, position + 1)
    made = [_MAGIC, footer[:position]]
    for _ in range(count):
        fields, end = _read_struct(footer, position)
        made.append(_raw_element(footer, fields) or footer[position:end])
        position = end
    whole = b"".join([*made, footer[position:]])
    length = len(whole) - len(_MAGIC)
    return parquet.read_metadata(io.BytesIO(whole + length.to_bytes(4, "little") + _MAGIC))


def _raw_element(footer: bytes, fields: dict[int, tuple[int, int, int]]) -> bytes | None:
    """Return the schema element of an INT96 column as 12 bytes of binary; None for others."""
    if _number(footer, fields.get(_TYPE)) != _INT96:
        return None
    kept = {number: (kind, footer[start:end]) for number, (kind, start, end) in fields.items()}
    kept[_TYPE] = _I32, bytes([_FIXED_LENGTH << 1])
    kept[_TYPE_LENGTH] = _I32, bytes([_INT96_BYTES << 1])
    made = bytearray()
    last = 0
    for number in sorted(kept.keys() - set(_ANNOTATIONS)):
        kind, value = kept[number]
        made.append((number - last) << 4 | kind)
        made += value
        last = number
    return bytes(made) + b"\0"


def _number(data: bytes, field: tuple[int, int, int] | None) -> int | None:
    """Return the number in a field of a struct; None if the field is missing."""
    return _integer(data, field[1])[0] if field is not None and field[0] in _INTEGERS else None


# Headers of pages.

MAX_PAGE_BYTES = 256 * 1024 * 1024
"""Maximum decompressed bytes of a page; writers make pages of 1 MB."""
_MAX_HEADER_BYTES = 1024 * 1024
"""Maximum bytes of a page header; writers truncate statistics of long texts."""
_TOLERATED_BYTES = 1024 * 1024
"""Bytes that a column may have beyond twice the footer's number.

Some writers do not count headers or dictionaries.
"""
# Fields of a page's header (parquet.thrift, PageHeader), and the number of values in each kind.
_UNCOMPRESSED, _COMPRESSED = 2, 3
_DATA, _DATA_V2 = 5, 8
_VALUES = 1


@dataclass(slots=True)
class ColumnPages:
    """Pages of one column in one row group: the footer's numbers, and what was read so far."""

    start: int
    """Offset of the first page in the file."""
    length: int
    """Compressed bytes of all pages."""
    values: int
    """Number of values in all data pages; at least one."""
    size: int
    """Decompressed bytes of all pages."""
    max_page_bytes: int = MAX_PAGE_BYTES
    seen_values: int = field(default=0, init=False)
    seen_size: int = field(default=0, init=False)
    next: int = field(init=False)
    """Offset of the next page header."""
    cut: bytes = field(default=b"", init=False)
    """First part of the next header, if it is split over two reads."""

    def __post_init__(self) -> None:
        self.next = self.start

    def read(self, position: int, data: bytes, name: str) -> None:
        """Find page headers in bytes of the file, and compare them with the footer.

        Raises `DamagedParquet` and `UnsupportedFormat`.
        """
        # Like pyarrow, ignore pages after the last value.
        while self.seen_values < self.values:
            place = self.next + len(self.cut) - position
            if not 0 <= place < len(data):
                return
            known = self.cut + data[place : place + _MAX_HEADER_BYTES]
            try:
                header, length = _read_struct(known)
            except IndexError:
                if len(known) >= _MAX_HEADER_BYTES:
                    raise _damaged(name, "the header of a page does not end") from None
                self.cut = known
                return
            except ValueError:
                raise _damaged(name, "a page has no header") from None
            self.cut = b""
            size, compressed = (
                _number(known, header.get(each)) for each in (_UNCOMPRESSED, _COMPRESSED)
            )
            if size is None or size < 0 or compressed is None or compressed < 0:
                raise _damaged(name, "a page has no size")
            self._count_size(size, name)
            for kind in (_DATA, _DATA_V2):
                if kind in header:
                    self._count_values(known, header[kind], name)
            self.next += length + compressed

    def _count_size(self, size: int, name: str) -> None:
        if size > self.max_page_bytes:
            raise UnsupportedFormat(
                f"{name} has a page of {size:,} bytes, and it may have {self.max_page_bytes:,};"
                " write the file again with smaller pages"
            )
        self.seen_size += size
        if self.seen_size > 2 * self.size + _TOLERATED_BYTES:
            raise _damaged(name, "its pages are larger than the file's metadata say")

    def _count_values(self, known: bytes, page: tuple[int, int, int], name: str) -> None:
        if page[0] != _STRUCT:
            return
        values = _number(known, _read_struct(known, page[1])[0].get(_VALUES))
        if values is None or values < 0:
            raise _damaged(name, "a page has no number of values")
        self.seen_values += values
        if self.seen_values > self.values:
            raise _damaged(name, "it has more values than the file's metadata say")


class GroupPages:
    """Pages of the columns of one row group."""

    def __init__(self, name: str, columns: Iterable[ColumnPages]) -> None:
        """`name`: file and row group, for errors. Raises `DamagedParquet`."""
        self._name = name
        self._columns = sorted(columns, key=lambda each: each.start)
        self._starts = [each.start for each in self._columns]
        if any(one.start + one.length > two.start for one, two in pairwise(self._columns)):
            raise _damaged(name, "two columns have the same bytes")

    def read(self, position: int, data: bytes) -> None:
        """Check the page headers in bytes that are read. Raises as `ColumnPages.read`."""
        # Usually one column; several for the footer, or if a column's end is uncertain.
        first = bisect_right(self._starts, position) - 1
        after = bisect_left(self._starts, position + len(data))
        for column in self._columns[max(0, first) : after]:
            column.read(position, data, self._name)


def _damaged(name: str, why: str) -> DamagedParquet:
    return DamagedParquet(f"{name}: {why}: it is damaged; write it again")


# Cache of the file's blocks.
_CACHE_BYTES = 16 * 1024 * 1024
_MAX_BLOCK_BYTES = 1024 * 1024
_MIN_BLOCK_BYTES = 64 * 1024


class SeekableSource(io.RawIOBase):
    """`ByteSource` as a seekable file, with a cache of recent blocks of at most 16 MiB."""

    def __init__(self, inner: ByteSource) -> None:
        super().__init__()
        self.failure: DdbloadError | None = None
        """Error of the last failed read, which pyarrow may have wrapped."""
        self.pages: GroupPages | None = None
        """Pages of the current row group, whose headers are checked."""
        self.is_blocked = False
        """True while reads must fail, to test whether pyarrow accepts the metadata."""
        self._inner = inner
        self._position = 0
        self._block_bytes = _MIN_BLOCK_BYTES
        self._cache: OrderedDict[int, bytes] = OrderedDict()

    def set_reader_count(self, count: int) -> None:
        """Choose the block size for `count` columns that are read in turn."""
        share = _CACHE_BYTES // (count + 1)
        self._block_bytes = max(_MIN_BLOCK_BYTES, min(_MAX_BLOCK_BYTES, share))
        self._cache.clear()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        """Return the current offset."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the current offset, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._inner.size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, or fewer at the end of the file."""
        left = max(0, self._inner.size - self._position)
        count = left if size < 0 else min(size, left)
        start = self._position
        self._position += count
        try:
            if self.is_blocked:
                raise SourceUnreadable("reading is blocked")
            data = self._read(start, count)
            if self.pages is not None:
                self.pages.read(start, data)
            return data
        except DdbloadError as error:
            self.failure = error
            raise

    def _read(self, start: int, count: int) -> bytes:
        if count > self._block_bytes:
            return b"".join(self._inner.stream(start, start + count, _MAX_BLOCK_BYTES))
        data = b""
        while len(data) < count:
            at = start + len(data)
            number, begin = divmod(at, self._block_bytes)
            some = self._get(number)[begin : begin + count - len(data)]
            data = data + some if data else some
        return data

    def _get(self, number: int) -> bytes:
        cache = self._cache
        block = cache.pop(number, None)
        if block is None:
            begin = number * self._block_bytes
            end = min(begin + self._block_bytes, self._inner.size)
            while cache and (len(cache) + 1) * self._block_bytes > _CACHE_BYTES:
                cache.popitem(last=False)
            block = b"".join(self._inner.stream(begin, end, _MAX_BLOCK_BYTES))
        cache[number] = block
        return block
