"""Byte sources as seekable files, which pyarrow reads."""

from __future__ import annotations

import io
from collections import OrderedDict

from ddbload.errors import DdbloadError
from ddbload.source.byte_source import ByteSource
from ddbload.source.parquet.page_headers import GroupPages

# Cache of the file's blocks.
_CACHE_BYTES = 16 * 1024 * 1024
_MAX_BLOCK_BYTES = 1024 * 1024
_MIN_BLOCK_BYTES = 64 * 1024


class SeekableSource(io.RawIOBase):
    """A `ByteSource` as a seekable file, with a cache of recent blocks of at most 16 MiB."""

    def __init__(self, inner: ByteSource) -> None:
        super().__init__()
        self.failure: DdbloadError | None = None
        """Error of the last failed read, which pyarrow may have wrapped."""
        self.pages: GroupPages | None = None
        """Pages of the row group that is read, whose headers are compared with the footer."""
        self._inner = inner
        self._position = 0
        self._block_bytes = _MIN_BLOCK_BYTES
        self._cache: OrderedDict[int, bytes] = OrderedDict()

    def set_reader_count(self, count: int) -> None:
        """Choose a block size for `count` columns that are read in turn."""
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


class FileWithoutBytes(io.RawIOBase):
    """A file of some size that cannot be read, and remembers that somebody tried."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.was_read = False
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def read(self, _size: int = -1) -> bytes:
        self.was_read = True
        raise OSError
