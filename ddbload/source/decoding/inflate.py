"""Inflate DEFLATE data from a point on, by zlib's own functions or by Python's `zlib`.

Python's `zlib` does not tell where a block of DEFLATE data ends, and only there decompression can
begin anew. So points are found by calling zlib itself (`ctypes`). Python's `zlib` can begin
there, too.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any, Protocol

from ddbload.contracts.chunks import WINDOW_BYTES

try:
    import ctypes
except ImportError:
    # A Python that was built without libffi.
    ctypes = None  # type: ignore[assignment]

OUTPUT_BYTES = 64 * 1024
"""Most bytes that come out at once: few enough to stay in a processor's cache."""

# Input that Python's zlib gets at once: it copies what it has not used after each member.
_PLAIN_INPUT_BYTES = 16 * 1024
_RAW = -15
_OK, _STREAM_END, _BUFFER_ERROR = 0, 1, -5
_NO_FLUSH, _TO_BLOCK = 0, 5
_LAST_BLOCK, _AT_BLOCK = 64, 128


class InflateError(Exception):
    """Damage to DEFLATE data; the text is zlib's."""


class Inflater(Protocol):
    """Decompressor of raw DEFLATE data, one member after the other."""

    ended: bool
    """True after the last block."""
    bits: int | None
    """Bits of the last byte taken that belong to the next block; None unless a block ended."""

    def reset(self, window: bytes = b"", bits: int = 0, byte: int = 0) -> None:
        """Begin a member, or a block: `window` comes before it, and `bits` of `byte` begin it."""

    def inflate(self, data: bytes, offset: int, *, to_block: bool) -> tuple[bytes, int]:
        """Decompress up to 64 KiB of data from an offset on; return them and the next offset.

        `to_block` stops where a block ends, if that can be told. An empty result with the offset
        at the end needs more data. Raises `InflateError`.
        """

    def window(self) -> bytes:
        """Return the last bytes that came out, as far as the next block may refer to them."""


def make_inflater(*, find_blocks: bool) -> Inflater:
    """Make an inflater; one that finds the ends of blocks if that is wanted and possible."""
    library = zlib_library() if find_blocks else None
    return PlainInflater() if library is None else BlockInflater(library)


class PlainInflater:
    """Inflater by Python's `zlib`, which can begin at any point but finds none."""

    def __init__(self) -> None:
        self.ended = False
        self.bits: int | None = None
        self.reset()

    def reset(self, window: bytes = b"", bits: int = 0, byte: int = 0) -> None:
        """Begin a member or a block, see `Inflater.reset`."""
        self.ended = False
        self._inflate = zlib.decompressobj(_RAW, zdict=window)
        if bits:
            self._inflate.decompress(empty_blocks(bits, byte))

    def inflate(self, data: bytes, offset: int, *, to_block: bool) -> tuple[bytes, int]:  # noqa: ARG002 - it cannot be told
        """Decompress some data, see `Inflater.inflate`."""
        inflate = self._inflate
        # The slice is the whole piece where members are large.
        part = data[offset : offset + _PLAIN_INPUT_BYTES]
        try:
            output = inflate.decompress(part, OUTPUT_BYTES)
        except zlib.error as error:
            raise InflateError(str(error).rpartition(": ")[2]) from None
        self.ended = inflate.eof
        rest = inflate.unused_data if self.ended else inflate.unconsumed_tail
        return output, offset + len(part) - len(rest)

    def window(self) -> bytes:
        """Raise an error: without blocks nobody asks for a window."""
        raise NotImplementedError


def empty_blocks(bits: int, byte: int) -> bytes:
    """Make blocks without content that are followed by the high bits of a byte.

    DEFLATE data begin anywhere in a byte, and Python's `zlib` takes whole bytes only. An empty
    block with fixed codes has 10 bits, and one with dynamic codes can have 91: by a few of
    these any number of bits ends with a byte.
    """
    value = count = 0
    if bits % 2:
        value, count = _odd_block()
    while (count + bits) % 8:
        # Not the last block, fixed codes, end of block (RFC 1951, 3.2.3 and 3.2.6).
        value |= 0b010 << count
        count += 10
    value |= (byte >> (8 - bits)) << count
    return value.to_bytes((count + bits) // 8, "little")


def _odd_block() -> tuple[int, int]:
    """Make an empty block with dynamic codes (RFC 1951, 3.2.7): its bits, and their number."""
    fields = [
        # Not the last block; dynamic codes; 257 literals and lengths, 2 distances.
        *((0, 1), (2, 2), (0, 5), (1, 5)),
        # Lengths of the codes for code lengths, of which 18 are given: 1 for "18" (many zeros)
        # and for "1", in the order of the RFC.
        (18 - 4, 4),
        *((1 if number in (2, 17) else 0, 3) for number in range(18)),
        # 256 zeros (138 and 118), then 1 for the end of the block, and for both distances.
        *((1, 1), (138 - 11, 7), (1, 1), (118 - 11, 7), (0, 1), (0, 1), (0, 1)),
        # The end of the block.
        (0, 1),
    ]
    value = count = 0
    for field, bits in fields:
        value |= field << count
        count += bits
    return value, count


class BlockInflater:
    """Inflater by zlib's own functions, which tells where blocks end."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.ended = False
        self.bits: int | None = None
        self._library = library
        self._inflate = library.inflate
        self._address = ctypes.addressof
        self._bytes_at = ctypes.string_at
        self._stream = stream = _stream_type()()
        self._reference = ctypes.byref(stream)
        self._output = ctypes.create_string_buffer(OUTPUT_BYTES)
        self._output_address = ctypes.addressof(self._output)
        self._data = b""
        self._data_address = 0
        code = library.inflateInit2_(
            self._reference, _RAW, library.zlibVersion(), ctypes.sizeof(stream)
        )
        if code != _OK:
            raise MemoryError

    def __del__(self) -> None:
        # Does nothing if it was not begun.
        self._library.inflateEnd(self._reference)

    def reset(self, window: bytes = b"", bits: int = 0, byte: int = 0) -> None:
        """Begin a member or a block, see `Inflater.reset`."""
        self.ended = False
        self.bits = None
        self._library.inflateReset(self._reference)
        if bits:
            self._library.inflatePrime(self._reference, bits, byte >> (8 - bits))
        if window:
            self._library.inflateSetDictionary(self._reference, window, len(window))

    def inflate(self, data: bytes, offset: int, *, to_block: bool) -> tuple[bytes, int]:
        """Decompress some data, see `Inflater.inflate`."""
        stream = self._stream
        if data is not self._data:
            # Kept, because zlib reads where the bytes lie.
            self._data, self._data_address = data, _address_of(data)
        stream.next_in = self._data_address + offset
        stream.avail_in = left = len(data) - offset
        stream.next_out = self._output_address
        stream.avail_out = OUTPUT_BYTES
        code = self._inflate(self._reference, _TO_BLOCK if to_block else _NO_FLUSH)
        if code not in (_OK, _STREAM_END, _BUFFER_ERROR):
            raise InflateError((stream.msg or b"incomplete or corrupt").decode("ascii", "replace"))
        self.ended = code == _STREAM_END
        state = stream.data_type
        at_block = state & _AT_BLOCK and not state & _LAST_BLOCK and not self.ended
        self.bits = state & 7 if at_block else None
        output = self._bytes_at(self._output_address, OUTPUT_BYTES - stream.avail_out)
        return output, offset + left - stream.avail_in

    def window(self) -> bytes:
        """Return the window, see `Inflater.window`."""
        found = ctypes.create_string_buffer(WINDOW_BYTES)
        length = ctypes.c_uint()
        self._library.inflateGetDictionary(self._reference, found, ctypes.byref(length))
        return found.raw[: length.value]


def _address_of(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


@cache
def _stream_type() -> type[Any]:
    """Make the type of zlib's `z_stream`."""

    class ZStream(ctypes.Structure):
        _fields_ = (
            ("next_in", ctypes.c_void_p),
            ("avail_in", ctypes.c_uint),
            ("total_in", ctypes.c_ulong),
            ("next_out", ctypes.c_void_p),
            ("avail_out", ctypes.c_uint),
            ("total_out", ctypes.c_ulong),
            ("msg", ctypes.c_char_p),
            ("state", ctypes.c_void_p),
            ("zalloc", ctypes.c_void_p),
            ("zfree", ctypes.c_void_p),
            ("opaque", ctypes.c_void_p),
            ("data_type", ctypes.c_int),
            ("adler", ctypes.c_ulong),
            ("reserved", ctypes.c_ulong),
        )

    return ZStream


_FUNCTIONS = (
    *("inflate", "inflateEnd", "inflateGetDictionary", "inflateInit2_", "inflatePrime"),
    *("inflateReset", "inflateSetDictionary", "zlibVersion"),
)


@cache
def zlib_library() -> ctypes.CDLL | None:
    """Load zlib, of which Python's module is a part or to which it is linked; None without one.

    It is tried on sample data before it is used: a library that behaves otherwise is left out.
    """
    # The module's file leads to the library that it is linked to. None is the program itself,
    # for a Python that has zlib built in.
    for name in (getattr(zlib, "__file__", None), None, "libz.so.1", "libz.1.dylib", "libz.dylib"):
        try:
            library = ctypes.CDLL(name)
            for function in _FUNCTIONS:
                getattr(library, function)
        except (OSError, AttributeError):  # without ctypes, too
            continue
        library.zlibVersion.restype = ctypes.c_char_p
        if _works(library):
            return library
    return None


def _works(library: ctypes.CDLL) -> bool:
    """Tell whether a block's end is found in sample data, and they go on from there."""
    text = b"".join(b"%d," % (number * number) for number in range(300))
    half = len(text) // 2
    packer = zlib.compressobj(wbits=_RAW)
    data = packer.compress(text[:half]) + packer.flush(zlib.Z_BLOCK)
    data += packer.compress(text[half:]) + packer.flush()
    try:
        first = BlockInflater(library)
        before, offset = first.inflate(data, 0, to_block=True)
        if before != text[:half] or first.bits is None:
            return False
        again = BlockInflater(library)
        again.reset(first.window(), first.bits, data[offset - 1])
        after, end = again.inflate(data, offset, to_block=False)
    except (InflateError, MemoryError):
        return False
    return before + after == text and again.ended and end == len(data)
