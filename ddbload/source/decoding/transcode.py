"""Text in any encoding, as UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from itertools import chain

from ddbload.errors import UnsupportedFormat
from ddbload.rows.file_signatures import LONGEST_BYTE_ORDER_MARK

_MARK = "\ufeff"
_BLOCK_BYTES = 64 * 1024
_KEPT = "ddbload.kept"


def is_utf8(encoding: str) -> bool:
    """Whether this is a name of UTF-8 itself, which is read as it is."""
    return codecs.lookup(encoding).name == "utf-8"


def transcode(pieces: Iterator[bytes], encoding: str, name: str) -> Iterator[bytes]:
    """Text in UTF-8, without its byte order mark.

    Bytes that are no text in this encoding become bytes that are none in UTF-8 either, one
    for one and in their place: whoever reads the row they are in rejects just that row.
    `name` is the source's, for messages. Raises `UnsupportedFormat` where an encoding has no
    way to go on after them.
    """
    start, pieces = _start(pieces, LONGEST_BYTE_ORDER_MARK)
    decoder = codecs.getincrementaldecoder(_in_order(encoding, start))(errors=_KEPT)
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
    """The first bytes, and all of them, these included."""
    held: list[bytes] = []
    while sum(map(len, held)) < count and (piece := next(pieces, None)) is not None:
        held.append(piece)
    start = b"".join(held)
    return start[:count], chain([start] if start else [], pieces)


def _blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes always cut in the same places.

    Where stateful decoders are fed in the middle of bytes that are no text, what they make
    of these depends on the place; and offsets must not.
    """
    held = b""
    for piece in pieces:
        held = held + piece if held else piece
        while len(held) >= _BLOCK_BYTES:
            yield held[:_BLOCK_BYTES]
            held = held[_BLOCK_BYTES:]
    if held:
        yield held


def _in_order(encoding: str, start: bytes) -> str:
    """UTF-16 and UTF-32 with the order of their bytes: their mark's, or the likely one.

    The codecs themselves refuse a file without a mark. No file begins with NUL, so where
    the first byte is zero it is the upper half of a character.
    """
    name = codecs.lookup(encoding).name
    if name not in ("utf-16", "utf-32"):
        return encoding
    largest_first = (codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
    return f"{name}-be" if start.startswith((*largest_first, b"\0")) else f"{name}-le"


def _keep(error: UnicodeError) -> tuple[str, int]:
    """Halves of surrogate pairs, which UTF-8 has no sound bytes for: one for each byte."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    kept = error.object[error.start : error.end]
    return "".join(chr(0xDC00 + byte) for byte in kept), error.end


codecs.register_error(_KEPT, _keep)
