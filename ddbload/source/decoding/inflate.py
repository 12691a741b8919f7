"""Inflate DEFLATE data, with zlib called by ctypes from any block, or with Python's zlib.

Python's `zlib` does not report the ends of DEFLATE blocks, where decompression can restart. So zlib
itself is called by ctypes if it is found, at the same speed.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

from ddbload.contracts.chunks import WINDOW_BYTES

try:
    import ctypes
except ImportError:
    # This Python was built without libffi.
    ctypes = None  # type: ignore[assignment]

OUTPUT_BYTES = 64 * 1024
"""Maximum bytes of output per call; few enough to stay in the processor's cache."""

# Input passed to Python's zlib at a time: after each member it copies the unused rest.
_PLAIN_INPUT_BYTES = 16 * 1024
_RAW = -15
_OK, _STREAM_END, _BUFFER_ERROR = 0, 1, -5
_NO_FLUSH, _TO_BLOCK = 0, 5
_LAST_BLOCK, _AT_BLOCK = 64, 128


class Inflater:
    """Decompressor of raw DEFLATE data with Python's `zlib`, one member after the other.

    It does not find the ends of blocks, so it can only start at the beginning of a member.
    """

    def __init__(self) -> None:
        self.ended = False
        """True after the last block of a member."""
        self.bits: int | None = None
        """Number of bits of the last byte that belong to the next block; None within a block."""
        self.reset()

    def reset(self, window: bytes = b"", bits: int = 0, byte: int = 0) -> None:
        """Start at a member, or at a block after `window` whose first bits are `bits` of `byte`."""
        del window, bits, byte
        self.ended = False
        self._python = zlib.decompressobj(_RAW)

    def inflate(self, data: bytes, offset: int, *, to_block: bool) -> tuple[bytes, int]:
        """Decompress up to 64 KiB of data from an offset; return output and next offset.

        `to_block` stops at the end of a block, if the inflater can find it. Empty output with the
        next offset at the end of the data means that more data is needed. Raises `zlib.error`.
        """
        del to_block
        # With large members the slice is the whole piece.
        part = data[offset : offset + _PLAIN_INPUT_BYTES]
        output = self._python.decompress(part, OUTPUT_BYTES)
        self.ended = self._python.eof
        rest = self._python.unused_data if self.ended else self._python.unconsumed_tail
        return output, offset + len(part) - len(rest)

    def window(self) -> bytes:
        """Return the latest output, as far as the next block may refer to it."""
        return b""


class BlockInflater(Inflater):
    """Inflater that calls zlib directly, finds the ends of blocks, and can start at any block."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._inflate = library.inflate
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
        super().__init__()

    def __del__(self) -> None:
        # Does nothing if it was not started.
        self._library.inflateEnd(self._reference)

    def reset(self, window: bytes = b"", bits: int = 0, byte: int = 0) -> None:
        """Start at a member or a block; see `Inflater.reset`."""
        self.ended = False
        self.bits = None
        self._library.inflateReset(self._reference)
        if bits:
            self._library.inflatePrime(self._reference, bits, byte >> (8 - bits))
        if window:
            self._library.inflateSetDictionary(self._reference, window, len(window))

    def inflate(self, data: bytes, offset: int, *, to_block: bool) -> tuple[bytes, int]:
        """Decompress data; see `Inflater.inflate`."""
        stream = self._stream
        # Keep a reference, because zlib reads from this memory.
        self._data = data
        self._data_address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
        stream.next_in = self._data_address + offset
        stream.avail_in = left = len(data) - offset
        stream.next_out = self._output_address
        stream.avail_out = OUTPUT_BYTES
        code = self._inflate(self._reference, _TO_BLOCK if to_block else _NO_FLUSH)
        if code not in (_OK, _STREAM_END, _BUFFER_ERROR):
            raise zlib.error((stream.msg or b"incomplete or corrupt").decode("ascii", "replace"))
        self.ended = code == _STREAM_END
        state = stream.data_type
        at_block = state & _AT_BLOCK and not state & _LAST_BLOCK and not self.ended
        self.bits = state & 7 if at_block else None
        output = self._bytes_at(self._output_address, OUTPUT_BYTES - stream.avail_out)
        return output, offset + left - stream.avail_in

    def window(self) -> bytes:
        """Return the window; see `Inflater.window`."""
        found = ctypes.create_string_buffer(WINDOW_BYTES)
        length = ctypes.c_uint()
        self._library.inflateGetDictionary(self._reference, found, ctypes.byref(length))
        return found.raw[: length.value]


@cache
def _stream_type() -> type[Any]:
    """Return the ctypes structure of zlib's `z_stream`."""

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
    """Load the zlib that Python's module contains or is linked to; None if it is not found.

    A library that fails a test on sample data is not used.
    """
    # The module's file gives the library that it is linked to. None stands for the program itself,
    # in a Python with zlib built in.
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
    """Return whether the library finds a block's end in sample data and can continue there."""
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
    except (zlib.error, MemoryError):
        return False
    return before + after == text and again.ended and end == len(data)


def make_inflater() -> Inflater:
    """Return an inflater that finds the ends of blocks, if zlib can be called directly."""
    library = zlib_library()
    return Inflater() if library is None else BlockInflater(library)
