"""Conversion of text from any encoding to UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from itertools import chain

from ddbload.errors import UnsupportedFormat
from ddbload.rows.file_signatures import LONGEST_BYTE_ORDER_MARK

_MARK = "\ufeff"
_BLOCK_BYTES = 64 * 1024
_KEEP_ERRORS = "ddbload.kept"


def is_utf8(encoding: str) -> bool:
    """Tell whether an encoding's name means UTF-8, which needs no conversion."""
    return codecs.lookup(encoding).name == "utf-8"


def transcode(pieces: Iterator[bytes], encoding: str, name: str) -> Iterator[bytes]:
    """Convert text to UTF-8 without its byte order mark.

    Bytes that are invalid in `encoding` become as many invalid bytes in UTF-8 in the same place,
    so that only their row is rejected. `name` is the source's name, for error messages. Raises
    `UnsupportedFormat` if the encoding cannot continue after invalid bytes.
    """
    start, pieces = _start(pieces, LONGEST_BYTE_ORDER_MARK)
    decoder = codecs.getincrementaldecoder(_codec_name(encoding, start))(errors=_KEEP_ERRORS)
    begun = False
    ended = False
    blocks = _blocks(pieces)
    while not ended:
        block = next(blocks, None)
        ended = block is None
        try:
            text = decoder.decode(block or b"", final=ended)
        except UnicodeError:
            raise UnsupportedFormat(
                f"{name} is not wholly text in {encoding}, and this encoding does not tell where"
                " sound text begins again; check --encoding"
            ) from None
        if text and not begun:
            begun = True
            text = text.removeprefix(_MARK)
        if text:
            yield text.encode("utf-8", "surrogatepass")


def _start(pieces: Iterator[bytes], count: int) -> tuple[bytes, Iterator[bytes]]:
    """Read the first `count` bytes; returns them, and all pieces with them included."""
    held: list[bytes] = []
    while sum(map(len, held)) < count and (piece := next(pieces, None)) is not None:
        held.append(piece)
    start = b"".join(held)
    return start[:count], chain([start] if start else [], pieces)


def _blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Regroup pieces into blocks of a fixed size.

    A stateful decoder's output for invalid bytes depends on where its input is cut. Offsets must
    not depend on that, so the cuts are always the same.
    """
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= _BLOCK_BYTES:
            yield bytes(held[:_BLOCK_BYTES])
            del held[:_BLOCK_BYTES]
    if held:
        yield bytes(held)


def _codec_name(encoding: str, start: bytes) -> str:
    """Choose the byte order of UTF-16 and UTF-32: that of the mark, or the likely one.

    Python's codecs for them need a mark. Text does not begin with a NUL character, so a first
    byte of zero is the upper part of a character, and the largest byte comes first.
    """
    name = codecs.lookup(encoding).name
    if name not in ("utf-16", "utf-32"):
        return encoding
    largest_first = (codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
    return f"{name}-be" if start.startswith((*largest_first, b"\0")) else f"{name}-le"


def _keep_invalid_bytes(error: UnicodeError) -> tuple[str, int]:
    """Decode each invalid byte to a lone surrogate, which UTF-8 encodes as invalid bytes."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    kept = error.object[error.start : error.end]
    return "".join(chr(0xDC00 + byte) for byte in kept), error.end


codecs.register_error(_KEEP_ERRORS, _keep_invalid_bytes)
