"""Seek points of compressed data: from each of them the same bytes follow."""

from __future__ import annotations

import base64
import functools
import json
import random
import tracemalloc
import zlib

import pytest
import zstandard

from ddbload.contracts.chunks import SeekPoint
from ddbload.errors import DamagedCompression, ExpansionTooLarge, InvalidPayload
from ddbload.source.decoding import inflate
from ddbload.source.decoding.decoded_source import DecodedSource, SeekTrail
from ddbload.source.decoding.inflate import zlib_library
from tests.unit.source.gzip_files import GZIP, ROWS, deflate, member
from tests.unit.source.memory_source import MemorySource

MIB = 1024 * 1024
FRAMES = b"".join(
    zstandard.ZstdCompressor().compress(ROWS[begin : begin + 60_000])
    for begin in range(0, len(ROWS), 60_000)
)


def source(packed: bytes, compression: str = "gzip", most: int = 10**9) -> DecodedSource:
    return DecodedSource(MemorySource(packed, most), compression=compression, max_expansion=None)


def read(file: DecodedSource, start: int = 0, end: int | None = None) -> bytes:
    return b"".join(file.stream(start, end, 64 * 1024))


@functools.cache
def points_of(packed: bytes, compression: str = "gzip", every: int = 1) -> list[SeekPoint]:
    """Pass through the data, and return the points as the ledger keeps them."""
    file, trail = source(packed, compression), SeekTrail(every)
    trail.begin(0, 0)
    file.seek(None, trail)
    assert read(file) == ROWS
    found, at = [], 0
    while (byte := trail.first_from(at)) is not None:
        point = trail.last_before(byte)
        if point is not None:
            assert point.text == byte
            found.append(SeekPoint.from_json(json.loads(json.dumps(point.to_json()))))
            assert found[-1] == point
        at = byte + 1
    return found


@pytest.mark.parametrize("by_zlib_alone", [True, False])
@pytest.mark.parametrize("kind", GZIP)
def test_from_each_point_the_same_bytes_follow(kind, by_zlib_alone):
    packed, points = GZIP[kind], points_of(GZIP[kind])
    # Each kind but that of long fixed blocks has several.
    assert len(points) >= (1 if kind == "Z_FIXED" else 3), kind
    some = random.Random(kind)
    for point in some.sample(points, min(len(points), 6)):
        # Some are read to the end, where the checksum is checked.
        end = some.choice([None, min(len(ROWS), point.text + some.randrange(1, 150_000))])
        start = min(point.text + some.choice([0, 0, 1, 40_000]), end or len(ROWS))
        file = source(packed, most=some.choice([1000, 10**9]))
        file.seek(point, None if by_zlib_alone else SeekTrail())
        assert read(file, start, end) == ROWS[start:end]
        # The object is read from the point on.
        left = len(packed) - point.offset
        assert file.inner.read <= left
        if end is None:
            assert file.inner.read == left


def test_points_go_on_from_a_point():
    """A pass that stops leaves a point, and the next pass finds the same ones behind it."""
    for kind in ("level 6", "bgzip", "small members", "Z_BLOCK"):
        points = points_of(GZIP[kind])
        middle = points[len(points) // 2]
        file, trail = source(GZIP[kind]), SeekTrail(1)
        trail.begin(0, 0, middle)
        file.seek(middle, trail)
        assert read(file, middle.text) == ROWS[middle.text :]
        behind = [each for each in points if each.text > middle.text]
        assert [trail.last_before(each.text) for each in behind] == behind


@pytest.mark.parametrize("every", [1, 100_000, 10**9])
def test_zstd_frames_are_points(every):
    points = points_of(FRAMES, "zstd", every)
    expected = list(range(60_000, len(ROWS), 60_000))
    if every == 100_000:
        expected = expected[1::2]
    assert [point.text for point in points] == (expected if every < 10**9 else [])
    for point in points:
        file = source(FRAMES, "zstd")
        file.seek(point, None)
        assert read(file, point.text + 5) == ROWS[point.text + 5 :]
        assert file.inner.read == len(FRAMES) - point.offset


def test_no_more_is_read_than_a_chunk_needs():
    first, second, third = points_of(GZIP["level 6"])[:3]
    file = source(GZIP["level 6"])
    # Where the second ends is known only by reading a little on.
    until = third.offset + 10
    file.seek(SeekPoint.from_json({**first.to_json(), "until": until}), SeekTrail())
    assert read(file, first.text, second.text + 9) == ROWS[first.text : second.text + 9]
    assert file.inner.read == until - first.offset
    # It is no more than a hint.
    assert read(file, first.text) == ROWS[first.text :]


@pytest.mark.parametrize("what", ["no module", "no library", "wrong library"])
def test_zlib_library_may_be_missing(monkeypatch, what):
    ctypes = pytest.importorskip("ctypes")
    if what == "no module":
        monkeypatch.setattr(inflate, "ctypes", None)
    elif what == "no library":

        def refuse(_name):
            raise OSError("no such library")

        monkeypatch.setattr(ctypes, "CDLL", refuse)
    else:
        monkeypatch.setattr(inflate, "_works", lambda _library: False)
    assert zlib_library.__wrapped__() is None


@pytest.mark.parametrize("kind", ["level 0", "level 6", "Z_FIXED", "bgzip", "small members"])
def test_damage_is_found_while_points_are_made(kind):
    """As without them: the same errors, whether data are cut short, changed or followed by more."""
    packed, some = GZIP[kind], random.Random(kind)
    cut = [packed[:length] for length in some.sample(range(1, len(packed)), 4)]
    changed = []
    for place in some.sample(range(200, len(packed)), 4):
        other = bytearray(packed)
        other[place] ^= 1 << some.randrange(8)
        changed.append(bytes(other))
    for damaged in (*cut, *changed, packed + b"x", packed + ROWS):
        words = []
        for trail in (None, SeekTrail(1)):
            file = source(damaged)
            file.seek(None, trail)
            try:
                whole = read(file)
            except DamagedCompression as error:
                words.append(error.message)
            else:
                # Cut between two members, or changed in the header.
                assert ROWS.startswith(whole)
                words.append(str(len(whole)))
        assert words[0] == words[1]
        assert words[0].startswith("some file, about byte") or damaged in (*cut, *changed)


def test_checksum_counts_from_the_member_s_beginning():
    packed = bytearray(GZIP["level 6"])
    point = points_of(GZIP["level 6"])[-1]
    packed[-8] ^= 1
    file = source(bytes(packed))
    file.seek(point, None)
    with pytest.raises(DamagedCompression, match="incorrect data check"):
        read(file, point.text)


def test_expansion_is_limited_from_a_point_on():
    bomb = ROWS[:1000] + bytes(20 * MIB)
    packed = member(bomb, deflate(bomb))
    file, trail = source(packed), SeekTrail(2 * MIB)
    trail.begin(0, 0)
    file.seek(None, trail)
    assert sum(map(len, file.stream(0, None, MIB))) == len(bomb)
    point = trail.last_before(5 * MIB)
    limited = DecodedSource(MemorySource(packed), compression="gzip", max_expansion=200)
    limited.seek(point, None)
    with pytest.raises(ExpansionTooLarge):
        read(limited, point.text)


def test_points_need_bounded_memory():
    text = bytes(60 * MIB)
    packed = member(text, deflate(text, 1))
    file, trail = source(packed), SeekTrail()
    trail.begin(0, 0)
    file.seek(None, trail)
    tracemalloc.start()
    try:
        at = 0
        for piece in file.stream(0, None, 64 * 1024):
            at += len(piece)
            trail.discard_before(at)
        assert at == len(text)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bits", 8),
        ("byte", 256),
        ("checksum", 2**32),
        ("window", "not base64"),
        ("window", "AAAA"),
        ("window", 7),
        ("window", base64.b64encode(zlib.compress(bytes(32769))).decode()),
        ("other", 1),
    ],
)
def test_damaged_point_is_refused(field, value):
    with pytest.raises(InvalidPayload):
        SeekPoint.from_json({**points_of(GZIP["level 6"])[0].to_json(), field: value})
