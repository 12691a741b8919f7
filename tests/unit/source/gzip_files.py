"""The same rows as gzip data of all kinds, by Python's zlib or put together by hand."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator

_RAW = -15


def rows(count: int, seed: int = 7) -> bytes:
    """Make rows that compress to about a third, with repeats at any distance up to a window."""
    some = random.Random(seed)
    words = [b"%x" % some.getrandbits(40) for _ in range(3000)]
    return b"".join(
        b"%d,%s,%s,%d\r\n" % (n, some.choice(words), some.choice(words), some.randrange(1000))
        for n in range(count)
    )


def deflate(
    data: bytes,
    level: int = 6,
    strategy: int = 0,
    *,
    flush: int | None = None,
    block_bytes: int = 5001,
) -> bytes:
    """Compress raw; with `flush`, end a block so every `block_bytes`."""
    packer = zlib.compressobj(level, zlib.DEFLATED, _RAW, 8, strategy)
    if flush is None:
        return packer.compress(data) + packer.flush()
    parts = []
    for begin in range(0, len(data), block_bytes):
        parts += [packer.compress(data[begin : begin + block_bytes]), packer.flush(flush)]
    return b"".join(parts) + packer.flush()


def member(
    data: bytes,
    raw: bytes,
    *,
    name: bytes | None = None,
    comment: bytes | None = None,
    extra: bytes | None = None,
    with_checksum: bool = False,
) -> bytes:
    """Put header and trailer around raw data (RFC 1952)."""
    flags = 2 * with_checksum + 4 * (extra is not None) + 8 * (name is not None)
    flags += 16 * (comment is not None)
    header = struct.pack("<BBBBIBB", 0x1F, 0x8B, 8, flags, 0, 0, 255)
    if extra is not None:
        header += struct.pack("<H", len(extra)) + extra
    for text in (name, comment):
        header += b"" if text is None else text + b"\0"
    if with_checksum:
        header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    return header + raw + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)


def bgzip(data: bytes, block_bytes: int = 0xFF00) -> bytes:
    """Compress as bgzip does: members of up to 64 KiB with their size, and an empty one."""
    blocks = [data[begin : begin + block_bytes] for begin in range(0, len(data), block_bytes)]
    made = []
    for block in [*blocks, b""]:
        raw = deflate(block)
        # Header, its extra field of 6 bytes, data and trailer, less one.
        size = 12 + 6 + len(raw) + 8 - 1
        made.append(member(block, raw, extra=struct.pack("<BBHH", 66, 67, 2, size)))
    return b"".join(made)


def in_members(data: bytes, member_bytes: int) -> bytes:
    """Compress part by part, as joined gzip files are."""
    parts = (data[begin : begin + member_bytes] for begin in range(0, len(data), member_bytes))
    return b"".join(member(part, deflate(part)) for part in parts)


def kinds(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Compress data in every way that makes other blocks, headers or members."""
    for level in range(10):
        yield f"level {level}", member(data, deflate(data, level))
    for name in ("Z_FILTERED", "Z_HUFFMAN_ONLY", "Z_RLE", "Z_FIXED"):
        yield name, member(data, deflate(data, 6, getattr(zlib, name)))
    for name in ("Z_PARTIAL_FLUSH", "Z_SYNC_FLUSH", "Z_FULL_FLUSH", "Z_BLOCK"):
        flushed = deflate(data, flush=getattr(zlib, name))
        yield name, member(data, flushed)
    raw = deflate(data)
    yield "name", member(data, raw, name=b"some file.csv")
    fields = {"name": b"n", "comment": b"a comment", "extra": b"x" * 300, "with_checksum": True}
    yield "every header field", member(data, raw, **fields)
    yield "bgzip", bgzip(data)
    yield "small members", in_members(data, 3_000)
    yield "members of several blocks", in_members(data, 150_000)
    yield (
        "stored, then compressed",
        member(data[:70_000], deflate(data[:70_000], 0))
        + member(data[70_000:], deflate(data[70_000:], 9)),
    )
    yield "padded", in_members(data, 150_000) + bytes(1000)


ROWS = rows(9_000)
GZIP = dict(kinds(ROWS))
