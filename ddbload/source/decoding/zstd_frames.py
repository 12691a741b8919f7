"""The outside of Zstandard data (RFC 8878): frames and their blocks, not what is in them.

A block gives at most 128 KiB, whatever it looks like, so that to decompress block by block
is to decompress in bounded memory. And whether the data end where a frame does is seen here.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddbload.rows.file_signatures import ZSTD_SIGNATURE, ZSTD_SKIPPABLE_SIGNATURES

MOST_BLOCK_BYTES = 128 * 1024
"""What a block holds at most, compressed or not."""

_RAW, _REPEATED, _COMPRESSED = range(3)


class FrameDamage(Exception):
    """What is wrong with the data."""


class ByteTaker:
    """Takes as many bytes from pieces as are asked for."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.taken = 0
        self._pieces = pieces
        self._held = b""
        self._place = 0

    def at_end(self) -> bool:
        """Whether there is nothing more."""
        while self._place == len(self._held):
            piece = next(self._pieces, None)
            if piece is None:
                return True
            self._held, self._place = piece, 0
        return False

    def take(self, count: int) -> bytes:
        """The next `count` bytes. Raises `Damage` where there are fewer."""
        found = b""
        while len(found) < count:
            if self.at_end():
                raise FrameDamage("the Zstandard data end too early")
            some = self._held[self._place : self._place + count - len(found)]
            self._place += len(some)
            self.taken += len(some)
            found = found + some if found else some
        return found

    def skip(self, count: int) -> None:
        """Leave out as many bytes."""
        while count:
            count -= len(self.take(min(count, MOST_BLOCK_BYTES)))


def frames(taker: ByteTaker) -> Iterator[Iterator[bytes]]:
    """For each frame its header, its blocks and its checksum, each by itself; raises `Damage`.

    A frame's parts are to be taken before the next frame is. Skippable frames are skipped.
    """
    several = False
    while not taker.at_end():
        start = taker.take(4) if not several else _next_magic(taker)
        if start in ZSTD_SKIPPABLE_SIGNATURES:
            taker.skip(int.from_bytes(taker.take(4), "little"))
        elif start == ZSTD_SIGNATURE:
            yield _parts(start, taker)
        elif several:
            raise FrameDamage("after the end of the Zstandard data there is something else")
        else:
            raise FrameDamage("this is no Zstandard data")
        several = True


def _next_magic(taker: ByteTaker) -> bytes:
    try:
        return taker.take(4)
    except FrameDamage:
        raise FrameDamage("after the end of the Zstandard data there is something else") from None


def _parts(magic: bytes, taker: ByteTaker) -> Iterator[bytes]:
    described = taker.take(1)
    description = described[0]
    one_segment = bool(description & 0x20)
    size_bytes = (1 if one_segment else 0, 2, 4, 8)[description >> 6]
    dictionary_bytes = (0, 1, 2, 4)[description & 0x03]
    yield magic + described + taker.take((not one_segment) + dictionary_bytes + size_bytes)
    last = False
    while not last:
        header = taker.take(3)
        block = int.from_bytes(header, "little")
        last = bool(block & 1)
        kind, size = block >> 1 & 3, block >> 3
        if size > MOST_BLOCK_BYTES or kind > _COMPRESSED:
            raise FrameDamage("the Zstandard data are damaged (a block's header)")
        yield header + taker.take(1 if kind == _REPEATED else size)
    if description & 0x04:
        yield taker.take(4)
