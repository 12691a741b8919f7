"""Messages about chunks: a chunk, the objects that it reads, and the scan that cuts a source."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from ddbload.contracts.messages import (
    SPARSE,
    CountedLine,
    JsonObjectReader,
    JsonRule,
    LineNumber,
    Message,
)

_LISTING_NAME = JsonRule(pattern=re.compile("[0-9a-f]{1,64}"), wanted="the name of a listing")
"""Names that cannot lead elsewhere."""
WINDOW_BYTES = 32 * 1024
"""Most bytes back that DEFLATE data refer to (RFC 1951)."""


class Chunk(Message):
    """A byte range of whole rows: `start` inclusive, `end` exclusive."""

    chunk: int
    start: int
    end: int
    first_line: CountedLine
    """Line of the first row; 0 if unknown, because the rows before it were not read. The
    lines in the chunk's cursors are then the line ends between its start and them."""


MOST_PLACES = 16
"""Most chunks that one worker imports side by side."""


def group_sizes(chunks: int, workers: int) -> list[int]:
    """Return the number of chunks of each group.

    The last groups are small, so that all workers end at about the same time.
    """
    sizes = list[int]()
    while chunks:
        groups = -(-chunks // MOST_PLACES) if workers == 1 else 2 * workers
        share = -(-chunks // groups)
        sizes.append(min(MOST_PLACES, share))
        chunks -= sizes[-1]
    return sizes


def groups_of_chunks(chunks: Sequence[Chunk], workers: int) -> list[tuple[Chunk, ...]]:
    """Group chunks for workers that import them side by side, for one worker after the other.

    The chunks of a group lie far apart.
    """
    sizes = group_sizes(len(chunks), workers)
    # Each group has its chunks at equal distances.
    slots = sorted(
        ((place + 0.5) / size, group) for group, size in enumerate(sizes) for place in range(size)
    )
    groups: list[list[Chunk]] = [[] for _ in sizes]
    for (_, group), chunk in zip(slots, chunks, strict=True):
        groups[group].append(chunk)
    return [*map(tuple, groups)]


def _read_places(f: JsonObjectReader) -> tuple[int, ...] | None:
    places = f.raw("places")
    if places is None:
        return None
    is_list = isinstance(places, list) and all(type(each) is int and each >= 0 for each in places)
    if not is_list or not places or len(set(places)) < len(places):
        raise f.wrong("places", "this", "a list of different whole numbers")
    return tuple(places)


class ObjectSlice(Message):
    """The rows of one object, as a slice of the rows of the run."""

    pinned: Mapping[str, Any]
    """Version of the object: its ETag, for example."""
    base: int
    """Offset of the object's first row among the rows of all objects."""
    skip: int
    """Bytes before the first row: byte order mark, skipped lines, header."""
    line: LineNumber
    """Line of the first row."""
    size: int
    """Bytes of the rows; with `padded`, the most that they may be."""
    padded: Annotated[bool, SPARSE] = False
    """True if the end of the rows is unknown: preflight has not read the object."""
    places: Annotated[tuple[int, ...] | None, JsonRule(read=_read_places, sparse=True)] = None
    """Place among the run's columns of each of the object's columns, in the object's order; None if
    it has the same columns in the same order. A column that it lacks is empty in each row."""

    @property
    def end(self) -> int:
        """Offset of the end of the object's rows among the rows of all objects."""
        return self.base + self.size


class PreflightCursor(Message):
    """Position at which a scan continues: the first row of the next chunk, and its number."""

    byte: int
    line: CountedLine
    """Line of the row; 0 if it is not known."""
    chunk: int
    object: int = 0
    """Index of the object that holds the row."""
    base: int = 0
    """Offset of that object's rows among the rows of all objects."""
    undecided: Annotated[int, SPARSE] = 0
    """Windows in a row, the last ones, in which no row end could be proved."""


class ListingCursor(Message):
    """Part of the listing of a source's objects that an invocation has written."""

    listing: Annotated[str, _LISTING_NAME]
    """Name of the listing in the ledger."""
    part: int
    """Number of the part."""


def _read_open(f: JsonObjectReader) -> tuple[Mapping[str, Any], ...]:
    return tuple(map(dict, f.items("open")))


class ListingPart(Message):
    """Listing of a source's objects as far as invocations have come."""

    format: str | None = None
    """The format, if the manifest or export that names the objects implies it."""
    after: Annotated[str | None, JsonRule(read=lambda f: f.raw("after"))] = None
    """Position in the source behind which the next invocation continues; None for its beginning."""
    ended: bool = False
    """True if there are no more objects."""
    pages: int = 0
    """Pages that are written. All but the last one are full."""
    objects: int = 0
    """Objects on these pages."""
    bytes: int = 0
    """Bytes of these objects, as stored."""
    archives: Annotated[int, SPARSE] = 0
    """Objects of these with the name of a ZIP archive, see `is_archive`."""
    sha256: Annotated[str, JsonRule(read=lambda f: str(f.raw("sha256")))] = ""
    """Hash of the pages, each hashed together with the hash of those before."""
    open: Annotated[tuple[Mapping[str, Any], ...], JsonRule(read=_read_open)] = ()
    """Objects of the page that is not full yet."""


class ManifestPart(Message):
    """The chunks that one preflight invocation cut; the last part has no cursor."""

    chunks: tuple[Chunk, ...]
    cursor: PreflightCursor | None
    padded: Annotated[bool, SPARSE] = False
    """True if a chunk has an object whose size is unknown because it was not read."""


def _read_window(f: JsonObjectReader) -> bytes | None:
    text = f.raw("window")
    if text is None:
        return None
    try:
        inflate = zlib.decompressobj()
        window = inflate.decompress(base64.b64decode(text, validate=True), WINDOW_BYTES)
    except (ValueError, TypeError, zlib.error):
        raise f.wrong("window", "this", "compressed bytes in base64") from None
    if not inflate.eof:
        raise f.wrong("window", "this", f"at most {WINDOW_BYTES} bytes")
    return window


class SeekPoint(Message):
    """Place in a compressed object at which decompression can begin.

    It is where a gzip member or a Zstandard frame begins, or, with a `window`, a block of DEFLATE
    data within a member.
    """

    offset: int
    """Bytes of the object before it."""
    text: int
    """Decompressed bytes before it."""
    bits: Annotated[int, JsonRule(most=7)] = 0
    """Bits of the byte before `offset`, its high ones, that are still to be read."""
    byte: Annotated[int, JsonRule(most=255)] = 0
    """The byte before `offset`."""
    checksum: Annotated[int, JsonRule(most=2**32 - 1)] = 0
    """CRC-32 of the member's decompressed bytes so far."""
    length: int = 0
    """Number of the member's decompressed bytes so far."""
    window: Annotated[bytes | None, JsonRule(read=_read_window)] = None
    """The last decompressed bytes, up to 32 KiB, to which the next ones may refer."""
    until: int | None = None
    """Offset up to which the object must be read for the chunk that begins here; None if that is
    not known."""

    def to_json(self) -> dict[str, Any]:
        value = Message.to_json(self)
        if self.window is not None:
            value["window"] = base64.b64encode(zlib.compress(self.window)).decode()
        return value
