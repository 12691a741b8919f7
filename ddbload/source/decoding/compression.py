"""gzip and Zstandard, decompressed piece by piece.

What comes out at once is bounded whatever goes in: a few bytes can stand for gigabytes.
Damage is found before the end is reached: a checksum, a length, a member that stops early.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from ddbload.errors import (
    DamagedCompression,
    ExpansionTooLarge,
    ExtraMissing,
    UnsupportedFormat,
)
from ddbload.source.decoding.zstd_frames import ByteTaker, FrameDamage, frames

UNJUDGED_BYTES = 1024 * 1024
"""How much may come out before its ratio to what went in is looked at."""

_AFTER = "after the end of the gzip data there is something else"
# What goes into zlib at once. It copies what it leaves over, once for each member.
_FEED_BYTES = 8 * 1024
# What comes out of it at once, at most.
_GIVEN_BYTES = 256 * 1024
# As much as the zstd command needs for its own files. The window is held as a whole.
_MAX_WINDOW_BYTES = 128 * 1024 * 1024


def decompress(
    pieces: Iterator[bytes], compression: str, name: str, max_expansion: int | None
) -> Iterator[bytes]:
    """What the pieces decompress to, in pieces of at most 256 KiB. No bytes: no bytes.

    `name` is the source's, for messages. `max_expansion`: bytes that may come out for each
    that went in, once 1 MiB came out; None: any number.

    Raises `DamagedCompression`, `ExpansionTooLarge`, and `ExtraMissing` without zstandard.
    """
    meter = _Meter(name, max_expansion)
    return _gunzip(pieces, meter) if compression == "gzip" else _unzstd(pieces, meter)


class _Meter:
    """Counts what goes in and what comes out."""

    def __init__(self, name: str, max_expansion: int | None) -> None:
        self.name = name
        self.taken = 0
        self._given = 0
        self._max = max_expansion

    def give(self, data: bytes) -> bytes:
        """Count what comes out. Raises `ExpansionTooLarge`."""
        self._given += len(data)
        most = self._max
        if most is not None and self._given > max(UNJUDGED_BYTES, most * self.taken):
            raise ExpansionTooLarge(
                f"{self.name}: the first {self.taken} bytes decompress to more than {most} times"
                " as many, which is what bombs do; if the data are sound, allow more"
                " (--max-expansion; in a payload, max_expansion)"
            )
        return data

    def damaged(self, what: str) -> DamagedCompression:
        return DamagedCompression(
            f"{self.name}, about byte {self.taken} of the compressed data: {what}; copy or"
            " compress the file again"
        )


def _gunzip(pieces: Iterator[bytes], meter: _Meter) -> Iterator[bytes]:
    member = None
    members = 0
    for data in _slices(pieces):
        fed = meter.taken + len(data)
        more = False
        while data or more:
            if member is None:
                if members:
                    # Tapes and block devices pad with zeros; gzip overlooks them, too.
                    data = data.lstrip(b"\0")
                    meter.taken = fed - len(data)
                    if not data:
                        break
                member = zlib.decompressobj(wbits=31)
            try:
                given = member.decompress(data, _GIVEN_BYTES)
            except zlib.error as error:
                raise meter.damaged(_words(error, members)) from None
            ended = member.eof
            data = member.unused_data if ended else member.unconsumed_tail
            meter.taken = fed - len(data)
            # As much as was asked for: there may be more of it, even without more to feed.
            more = not ended and len(given) == _GIVEN_BYTES
            if ended:
                member = None
                members += 1
            if given:
                yield meter.give(given)
    if member is not None and members:
        raise meter.damaged(f"{_AFTER}, or a further part that ends too early")
    if member is not None:
        raise meter.damaged("the gzip data end too early")


def _slices(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        for begin in range(0, len(piece), _FEED_BYTES):
            yield piece[begin : begin + _FEED_BYTES]


def _words(error: zlib.error, members: int) -> str:
    words = str(error).rpartition(": ")[2]
    if "header check" not in words:
        return f"the gzip data are damaged ({words})"
    if members:
        return _AFTER
    return "this is no gzip data"


def _unzstd(pieces: Iterator[bytes], meter: _Meter) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise ExtraMissing(
            f"{meter.name} is compressed with Zstandard, and the package that reads it is not"
            " installed: pip install 'ddbload[zstd]' (on the deployed stack: a layer that has"
            " zstandard)"
        ) from None
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    taker = ByteTaker(pieces)
    try:
        for parts in frames(taker):
            frame = decompressor.decompressobj()
            for part in parts:
                given = frame.decompress(part)
                meter.taken = taker.taken
                if given:
                    yield meter.give(given)
            if not frame.eof:
                raise FrameDamage("the Zstandard data are damaged (a frame's end)")
    except FrameDamage as error:
        meter.taken = taker.taken
        raise meter.damaged(str(error)) from None
    except zstandard.ZstdError as error:
        words = str(error).removeprefix("zstd decompressor error: ")
        if "too much memory" in words:
            raise UnsupportedFormat(
                f"{meter.name} was compressed with a window of more than"
                f" {_MAX_WINDOW_BYTES >> 20} MiB; compress it again without --long and --ultra"
            ) from None
        raise meter.damaged(f"the Zstandard data are damaged ({words})") from None
