"""A source as a file that can be read here and there."""

from __future__ import annotations

import io
from collections import OrderedDict

from ddbload.errors import DdbloadError
from ddbload.source.byte_source import ByteSource

_HELD_BYTES = 16 * 1024 * 1024
_LARGEST_BLOCK = 1024 * 1024
_SMALLEST_BLOCK = 64 * 1024


class RandomAccess(io.RawIOBase):
    """Reads blocks, and keeps those that were used last: at most 16 MiB, however many readers."""

    def __init__(self, inner: ByteSource) -> None:
        super().__init__()
        self.failure: DdbloadError | None = None
        """What a read failed of: a library in between may have lost it."""
        self._inner = inner
        self._place = 0
        self._block = _SMALLEST_BLOCK
        self._held: OrderedDict[int, bytes] = OrderedDict()

    def expect_readers(self, count: int) -> None:
        """Say how many places are read by turns, each from its own on."""
        share = _HELD_BYTES // (count + 1)
        self._block = max(_SMALLEST_BLOCK, min(_LARGEST_BLOCK, share))
        self._held.clear()

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where it stands."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Stand elsewhere."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._inner.size}[whence]
        self._place = base + offset
        return self._place

    def read(self, size: int = -1) -> bytes:
        """The next bytes, as many as were asked for unless the file ends before."""
        most = max(0, self._inner.size - self._place)
        count = most if size < 0 else min(size, most)
        start = self._place
        self._place += count
        try:
            if count > self._block:
                return b"".join(self._inner.stream(start, start + count, _LARGEST_BLOCK))
            found = b""
            while len(found) < count:
                at = start + len(found)
                number, begin = divmod(at, self._block)
                some = self._get(number)[begin : begin + count - len(found)]
                found = found + some if found else some
            return found
        except DdbloadError as error:
            self.failure = error
            raise

    def _get(self, number: int) -> bytes:
        held = self._held
        block = held.pop(number, None)
        if block is None:
            begin = number * self._block
            end = min(begin + self._block, self._inner.size)
            while held and (len(held) + 1) * self._block > _HELD_BYTES:
                held.popitem(last=False)
            block = b"".join(self._inner.stream(begin, end, _LARGEST_BLOCK))
        held[number] = block
        return block
