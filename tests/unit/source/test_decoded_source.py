"""Decoded content: decompressed, in UTF-8, in bounded memory."""

from __future__ import annotations

import collections
import gzip
import random
import sys
import tracemalloc
import zlib

import pytest
import zstandard

from ddbload.errors import DamagedCompression, ExpansionTooLarge, ExtraMissing, UnsupportedFormat
from ddbload.rows.file_signatures import compression_of
from ddbload.source.decoding.decoded_source import DecodedSource
from tests.unit.source.memory_source import MemorySource

MIB = 1024 * 1024


def rows(count: int = 5000) -> bytes:
    some = random.Random(7)
    return b"".join(b"%d,%x\r\n" % (n, some.getrandbits(80)) for n in range(count))


def zst(data: bytes, **options) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(data)


def read(source: DecodedSource, start: int = 0, end: int | None = None, piece_bytes: int = 4096):
    pieces = list(source.stream(start, end, piece_bytes))
    assert all(1 <= len(piece) <= piece_bytes for piece in pieces)
    return b"".join(pieces)


ROWS = rows()
PACKED = {
    "none": ROWS,
    "gzip": gzip.compress(ROWS),
    "zstd": zst(ROWS),
}


# Any range, however it comes.


@pytest.mark.parametrize("most", [1, 3, 1000, 10**9])
@pytest.mark.parametrize("kind", PACKED)
def test_stream_returns_the_whole_content(kind, most):
    source = DecodedSource(MemorySource(PACKED[kind], most), compression=kind)
    assert read(source) == ROWS
    assert source.plain == (kind == "none")


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 1), (0, 10), (5, 5), (1, 70_000), (65_536, 65_537), (70_000, None), (len(ROWS), None)],
)
@pytest.mark.parametrize("piece_bytes", [1, 4096, 10**6])
@pytest.mark.parametrize("kind", PACKED)
def test_stream_returns_exactly_the_range(kind, start, end, piece_bytes):
    source = DecodedSource(MemorySource(PACKED[kind]), compression=kind)
    assert read(source, start, end, piece_bytes) == ROWS[start:end]


# Compressed by whom- and however.


@pytest.mark.parametrize("most", [1, 10**9])
def test_gzip_with_several_members_is_joined(most):
    packed = b"".join(gzip.compress(part) for part in (b"a,b\n", b"", b"1,", b"2\n" * 99_999))
    assert (
        read(DecodedSource(MemorySource(packed, most), compression="gzip"))
        == b"a,b\n1," + b"2\n" * 99_999
    )


@pytest.mark.parametrize("most", [1, 10**9])
@pytest.mark.parametrize("after", [b"\0" * 70_000, b"\0" * 9 + gzip.compress(b"more\n", mtime=0)])
def test_gzip_padding_with_zeros_is_ignored(after, most):
    packed = gzip.compress(b"1,2\n") + after
    assert read(DecodedSource(MemorySource(packed, most), compression="gzip")) in (
        b"1,2\n",
        b"1,2\nmore\n",
    )
    assert len(read(DecodedSource(MemorySource(packed), compression="gzip"))) == (
        9 if b"\x1f" in after else 4
    )


def _frames(data: bytes) -> bytes:
    frames = [zst(data[:100], write_checksum=True), b"\x5f\x2a\x4d\x18\x05\0\0\0notes", zst(b"")]
    frames.append(zst(data[100:], write_content_size=False))
    return b"\x50\x2a\x4d\x18\0\0\0\0" + b"".join(frames) + b"\x50\x2a\x4d\x18\x01\0\0\0."


@pytest.mark.parametrize("most", [1, 10**9])
@pytest.mark.parametrize(
    "packed",
    [
        zst(ROWS, level=19, write_checksum=True),
        zst(ROWS, level=-50),
        zst(ROWS, write_content_size=False),
        zst(random.Random(1).randbytes(300_000)),
        zst(b"x" * 3 * MIB),
        _frames(ROWS),
    ],
    ids=["checksum", "fast", "no size", "random", "repeated", "frames"],
)
def test_zstd_frames_of_all_kinds_are_decompressed(packed, most):
    reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
    source = DecodedSource(MemorySource(packed, most), compression="zstd", max_expansion=None)
    assert read(source) == reader.read()


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (gzip.compress(b"")[:4], "gzip"),
        (zst(b"a")[:4], "zstd"),
        (b"\x50\x2a\x4d\x18", "zstd"),
        (b"\x5f\x2a\x4d\x18", "zstd"),
        (b"a,b\n", "none"),
        (b"\x1f", "none"),
        (b"", "none"),
    ],
)
def test_compression_is_detected_by_the_first_bytes(start, kind):
    assert compression_of(start) == kind


# What is damaged says so.


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_truncated_compressed_data_are_damaged(kind):
    data = ROWS[:300]
    whole = gzip.compress(data) if kind == "gzip" else zst(data, write_checksum=True)
    twice = whole * 2
    for length in range(1, len(twice)):
        source = DecodedSource(MemorySource(twice[:length]), compression=kind)
        if length == len(whole):
            assert read(source) == data
            continue
        with pytest.raises(DamagedCompression, match="some file, about byte"):
            read(source)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_changed_bit_in_compressed_data_is_damage(kind):
    data = ROWS[:2000]
    whole = gzip.compress(data, mtime=0) if kind == "gzip" else zst(data, write_checksum=True)
    # What of gzip's header means nothing to the data: time, flags of the compressor, system.
    free = set(range(4, 10)) if kind == "gzip" else set()
    some = random.Random(3)
    for place in sorted({*range(20), *some.sample(range(len(whole)), 200)} - free):
        changed = bytearray(whole)
        changed[place] ^= 1 << some.randrange(8)
        try:
            found = read(DecodedSource(MemorySource(bytes(changed)), compression=kind))
        except (DamagedCompression, UnsupportedFormat):
            continue
        # A name, or a text flag, more or less in the header changes no data.
        assert found == data


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
@pytest.mark.parametrize("data", [b"a,b\n1,2\n", b"PK\3\4......", bytes(100)])
def test_uncompressed_data_are_reported(data, kind):
    with pytest.raises(DamagedCompression, match=r"not (gzip|Zstandard) data"):
        read(DecodedSource(MemorySource(data), compression=kind))


def test_missing_zstd_dictionary_is_reported():
    samples = [f"sample {n} hello world {n * 7}".encode() for n in range(3000)]
    known = zstandard.train_dictionary(4096, samples)
    packed = zst(samples[0] * 10, dict_data=known)
    with pytest.raises(DamagedCompression, match="Dictionary mismatch"):
        read(DecodedSource(MemorySource(packed), compression="zstd"))


def test_large_zstd_window_is_refused():
    large = zstandard.ZstdCompressionParameters(window_log=28, write_content_size=False)
    made = zstandard.ZstdCompressor(compression_params=large).compressobj()
    packed = made.compress(b"x" * 10) + made.flush()
    with pytest.raises(UnsupportedFormat, match="--long"):
        read(DecodedSource(MemorySource(packed), compression="zstd"))


def test_missing_zstandard_package_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ExtraMissing, match="pip install zstandard"):
        read(DecodedSource(MemorySource(PACKED["zstd"]), compression="zstd"))


# Bombs.


def _bomb(kind: str, mib: int) -> bytes:
    if kind == "gzip":
        made = zlib.compressobj(9, zlib.DEFLATED, 31)
        return b"".join(made.compress(bytes(MIB)) for _ in range(mib)) + made.flush()
    made = zstandard.ZstdCompressor().compressobj()
    return b"".join(made.compress(bytes(MIB)) for _ in range(mib)) + made.flush()


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_bomb_is_refused_in_bounded_memory(kind):
    packed = _bomb(kind, 200)
    tracemalloc.start()
    try:
        inner = MemorySource(packed, 4096)
        pieces = DecodedSource(inner, compression=kind).stream(0, None, 4096)
        with pytest.raises(ExpansionTooLarge, match="more than 200 times"):
            collections.deque(pieces, maxlen=0)
        assert inner.read <= 8192
        assert tracemalloc.get_traced_memory()[1] < 2 * MIB
    finally:
        tracemalloc.stop()


def test_expansion_limit_is_exact():
    packed = gzip.compress(rows(100_000))
    ratio = len(rows(100_000)) / len(packed)
    assert 1 < ratio < 3
    read(DecodedSource(MemorySource(packed), compression="gzip", max_expansion=3))
    with pytest.raises(ExpansionTooLarge):
        read(DecodedSource(MemorySource(packed), compression="gzip", max_expansion=1))


# Encodings.

TEXTS = {
    "utf-16": "a,b\r\nü,€\n\U0001f600,\ufeff\n",
    "utf-16-le": "a,b\r\nü,€\n\U0001f600,x\n",
    "utf-16-be": "a,b\r\nü,€\n\U0001f600,x\n",
    "utf-32": "a,b\r\nü,€\n\U0001f600,x\n",
    "utf-8-sig": "a,b\r\nü,€\n\U0001f600,x\n",
    "utf-7": "a,b\r\nü,€\n\U0001f600,x\n",
    "gb18030": "a,b\r\nü,€\n\U0001f600,漢\n",
    "shift_jis": "a,b\r\nソ,表\n",
    "big5": "a,b\r\n功,許\n",
    "euc_kr": "a,b\r\n한,글\n",
    "iso2022_jp": "a,b\r\n日本,x\n",
    "hz": "a,b\r\n汉~,x\n",
    "latin-1": "a,b\r\nü,ÿ\n",
    "cp1252": "a,b\r\nü,€\n",
    "cp037": "a,b\r\nü,x\n",
}


@pytest.mark.parametrize("most", [1, 5, 10**9])
@pytest.mark.parametrize("encoding", TEXTS)
def test_text_is_converted_to_utf8(encoding, most):
    text = TEXTS[encoding] * 50
    source = DecodedSource(MemorySource(text.encode(encoding), most), encoding=encoding)
    assert read(source, piece_bytes=7) == text.encode()
    assert read(source, 11, 200) == text.encode()[11:200]
    assert not source.plain


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-8-sig"])
def test_byte_order_mark_is_removed_once(encoding):
    data = "\ufeff\ufeffa".encode(encoding.removesuffix("-sig"))
    expected = "a" if encoding == "utf-8-sig" else "\ufeffa"
    assert read(DecodedSource(MemorySource(data, 1), encoding=encoding)).decode() == expected


def test_byte_order_mark_inside_the_text_is_kept():
    # Right where what is decoded together begins anew, too.
    text = "a" * 32 * 1024 + "\ufeffb"
    assert (
        read(DecodedSource(MemorySource(text.encode("utf-16-le")), encoding="utf-16-le"))
        == text.encode()
    )


@pytest.mark.parametrize("most", [1, 2, 10**9])
@pytest.mark.parametrize(
    ("encoding", "data", "sound"),
    [
        ("utf-16-le", b"a\0\n\0\x3d\xd8\n\0b\0\n\0", (b"a\n", b"\nb\n")),
        ("utf-16-le", b"a\0\n\0\x00\xdeb\0\n\0", (b"a\n", b"b\n")),
        ("utf-16-le", b"a\0\n\0b\0\n\0x", (b"a\nb\n", b"")),
        ("utf-32-le", b"a\0\0\0\xff\xff\xff\xff\n\0\0\0", (b"a", b"\n")),
        ("shift_jis", b"a\n\x81\nb\n", (b"a\n", b"\nb\n")),
        ("shift_jis", b"a\n\xa0b\n", (b"a\n", b"b\n")),
        ("gb18030", b"a\n\x81\x30\nb\n", (b"a\n", b"\nb\n")),
        ("euc_jp", b"a\n\xa4\nb\n", (b"a\n", b"\nb\n")),
        ("ascii", b"a\n\xe9\nb\n", (b"a\n", b"\nb\n")),
    ],
)
def test_invalid_text_stays_invalid_in_its_row(encoding, data, sound, most):
    found = read(DecodedSource(MemorySource(data, most), encoding=encoding))
    before, after = sound
    assert found.startswith(before)
    assert found.endswith(after)
    between = found[len(before) : len(found) - len(after)]
    assert between
    with pytest.raises(UnicodeDecodeError):
        between.decode()


@pytest.mark.parametrize("encoding", sorted({*TEXTS, "big5hkscs", "iso2022_kr", "johab"}))
def test_converted_bytes_do_not_depend_on_the_pieces(encoding):
    some = random.Random(encoding)
    kinds = (range(256), range(128, 256), b"\n,a\x1b$(B~{+-")
    for _ in range(20):
        data = bytes(some.choice(some.choice(kinds)) for _ in range(some.randrange(200)))
        found = {
            read(DecodedSource(MemorySource(data, most), encoding=encoding))
            for most in (1, 2, 7, 10**9)
        }
        assert len(found) == 1


def test_encoding_that_cannot_continue_is_reported():
    with pytest.raises(UnsupportedFormat, match="--encoding"):
        read(DecodedSource(MemorySource(b"xn--\xff.\n" * 9), encoding="idna"))
