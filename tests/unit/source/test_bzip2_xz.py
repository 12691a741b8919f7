"""Tests of reading bzip2 and xz as Python's own modules read them."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.source import BZIP2, XZ
from ddbload.errors import DamagedCompression, ExpansionTooLarge, UnsupportedFormat
from ddbload.rows.file_signatures import compression_of
from ddbload.source.decoding.compression import decompress
from ddbload.source.decoding.decoded_source import SeekTrail

PACK: dict[str, Callable[[bytes], bytes]] = {BZIP2: bz2.compress, XZ: lzma.compress}
UNPACK: dict[str, Callable[[bytes], bytes]] = {BZIP2: bz2.decompress, XZ: lzma.decompress}


def read(data: bytes, size: int = 1000) -> Callable[[int], Iterator[bytes]]:
    return lambda begin: (data[at : at + size] for at in range(begin, len(data), size))


def unpacked(kind: str, data: bytes, most: int | None = None, size: int = 1000) -> bytes:
    return b"".join(decompress(read(data, size), kind, "name", most))


@given(
    st.sampled_from([BZIP2, XZ]), st.lists(st.binary(max_size=900), max_size=5), st.integers(1, 99)
)
def test_streams_are_what_python_reads(kind: str, parts: list[bytes], size: int) -> None:
    data = b"".join(map(PACK[kind], parts))
    assert unpacked(kind, data, size=size) == (UNPACK[kind](data) if data else b"")
    trail = SeekTrail(1)
    trail.begin(0, 0)
    whole = b"".join(decompress(read(data, size), kind, "name", None, trail=trail))
    for byte in range(len(whole)):
        point = trail.last_before(byte)
        if point is not None:
            rest = b"".join(decompress(read(data, size), kind, "name", None, start=point))
            assert rest == whole[point.text :]


@pytest.mark.parametrize("kind", [BZIP2, XZ])
def test_damaged_data_are_named(kind: str) -> None:
    data = PACK[kind](bytes(range(256)) * 40)
    assert compression_of(data) == kind
    assert compression_of(PACK[kind](b"")) == kind
    broken = bytearray(data)
    broken[len(data) // 2] ^= 1
    for bad in (bytes(broken), data[:-1], data[:20], data + b"more", data + data[:9]):
        with pytest.raises(DamagedCompression):
            unpacked(kind, bad)
    with pytest.raises(ExpansionTooLarge):
        unpacked(kind, PACK[kind](bytes(4 << 20)), 200)


def test_xz_that_needs_much_memory_is_named() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 4096}]
    data = bytearray(lzma.compress(b"a" * 100, filters=filters))
    assert data[12:18] == b"\x02\x00\x21\x01\x00\x00"
    # A dictionary of 256 MiB.
    data[16] = 32
    data[20:24] = zlib.crc32(data[12:20]).to_bytes(4, "little")
    with pytest.raises(UnsupportedFormat, match="more than 128 MiB"):
        unpacked(XZ, bytes(data))
