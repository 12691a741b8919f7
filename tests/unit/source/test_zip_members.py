"""Members of ZIP archives: the bytes that Python's zipfile reads, from any place on."""

from __future__ import annotations

import functools
import gzip
import io
import random
import struct
import tracemalloc
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.errors import DamagedCompression, ExpansionTooLarge, SourceNotFound, UnsupportedFormat
from ddbload.source import zip_members
from ddbload.source.decoding.decoded_source import DecodedSource, SeekTrail
from ddbload.source.zip_members import ZipMember, list_members
from tests.unit.source.gzip_files import rows
from tests.unit.source.memory_source import MemorySource
from tests.unit.source.zip_files import (
    ATTRIBUTES,
    CHECKSUM,
    COMPRESSED,
    DISK,
    FLAGS,
    METHOD,
    OFFSET,
    SIZE,
    archive,
    changed,
)

TEXT = rows(4000)
FILES = {"b.csv": TEXT, "sub/a.csv": b"id\n1\n", "a.csv": TEXT[:100_000]}
KINDS: dict[str, dict[str, Any]] = {
    "deflated": {},
    "stored": {"method": zipfile.ZIP_STORED},
    "streamed": {"streamed": True},
    "stored, streamed": {"method": zipfile.ZIP_STORED, "streamed": True},
    "zip64": {"zip64": True},
    "comment": {"comment": b"c" * 65_535},
    "self-extracting": {"before": b"#!/bin/sh\n" * 500},
    "many": {"files": {**FILES, **{f"sub/{n}": b"" for n in range(10_000)}}},
}


@functools.cache
def archived(kind: str) -> bytes:
    return archive(**{"files": FILES, **KINDS[kind]})


def members(data: bytes, most: int = 10**9) -> dict[str, ZipMember]:
    source = MemorySource(data, most)
    return {each["member"][0]: ZipMember(source, each) for each in list_members(source)}


def decoded(member: ZipMember, limit: int | None = None) -> DecodedSource:
    return DecodedSource(member, compression="gzip", max_expansion=limit)


def read(file: DecodedSource, start: int = 0, end: int | None = None) -> bytes:
    return b"".join(file.stream(start, end, 64 * 1024))


@pytest.mark.parametrize("kind", KINDS)
def test_members_are_files_by_name(kind: str) -> None:
    found = members(archived(kind))
    assert list(found) == ["a.csv", "b.csv", "sub/a.csv"]
    for name, member in found.items():
        assert member.name == f"some file!{name}"
        whole = b"".join(member.stream(0, member.size, 10**6))
        assert len(whole) == member.size
        assert gzip.decompress(whole) == read(decoded(member)) == FILES[name]


@given(st.sampled_from(sorted(KINDS)), st.randoms(), st.integers(1, 70_000))
def test_any_range_and_any_seek_point_give_the_same_bytes(
    kind: str, some: random.Random, piece: int
) -> None:
    member = members(archived(kind), most=some.choice([777, 10**9]))["b.csv"]
    whole = b"".join(member.stream(0, member.size, 10**6))
    start, end = sorted(some.choices(range(member.size + 1), k=2))
    assert b"".join(member.stream(start, end, piece)) == whole[start:end]
    trail = SeekTrail(5000)
    trail.begin(0, 0)
    file = decoded(member)
    file.seek(None, trail)
    assert read(file) == TEXT
    start = some.randrange(len(TEXT))
    point = trail.last_before(start)
    again = decoded(members(archived(kind))["b.csv"])
    again.seek(point, None)
    end = some.choice([None, some.randrange(start, len(TEXT))])
    assert read(again, start, end) == TEXT[start:end]


def test_listing_reads_the_end_and_no_member() -> None:
    data = archive({f"{n}.csv": random.Random(n).randbytes(400_000) for n in range(5)})
    source = MemorySource(data)
    listed = list_members(source)
    assert source.read <= 128 * 1024
    source.read = 0
    member = ZipMember(source, listed[2])
    next(iter(member.stream(0, 1, 1)))
    # Even the header of gzip shows whether the archive has changed.
    assert source.read == 30


def test_what_is_no_data_is_left_out_and_named_if_nothing_is_left() -> None:
    some = {
        "sub/": b"",
        "__MACOSX/._a.csv": b"x",
        "sub/.DS_Store": b"x",
        ".git\\a": b"x",
        "e.csv": b"",
    }
    assert list(members(archive({**some, "../up.csv": b"x", "win\\b.csv": b"x"}))) == [
        "../up.csv",
        "win\\b.csv",
    ]
    with pytest.raises(SourceNotFound, match=r"only: 1 folders, 3 hidden, 1 empty"):
        members(archive(some))
    with pytest.raises(SourceNotFound, match="only: nothing"):
        members(archive({}))


def test_names_that_are_not_utf8_are_read_as_unzip_reads_them() -> None:
    data = archive({"caXX.csv": b"id\n"}).replace(b"caXX", b"ca\x82f")
    assert list(members(data)) == ["caéf.csv"]
    bad = changed(data, (*FLAGS, 0x800))
    with pytest.raises(DamagedCompression, match="not UTF-8 as declared"):
        members(bad)


TWO = archive({"a.csv": TEXT, "b.csv": TEXT})
LINK = changed(TWO, (*ATTRIBUTES, 0o120777 << 16))


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (changed(TWO, (*FLAGS, 1)), UnsupportedFormat, "some file!a.csv is encrypted"),
        (changed(TWO, (*METHOD, 12)), UnsupportedFormat, r"a.csv is compressed by bzip2 \(12\)"),
        (changed(TWO, (*METHOD, 77)), UnsupportedFormat, r"by another method \(77\)"),
        (LINK, UnsupportedFormat, "a.csv is a symbolic link"),
        (changed(TWO, (*DISK, 1)), UnsupportedFormat, "one of several parts"),
        (changed(TWO, (6, "<H", 99)), UnsupportedFormat, "zip file version 9.9 is not supported"),
        (changed(TWO, (*OFFSET, 0), entry=1), DamagedCompression, "overlaps another member"),
        (changed(TWO, (*COMPRESSED, 2**30)), DamagedCompression, "overlaps another member"),
        (TWO[:-30], DamagedCompression, "its end, which lists the members, is missing"),
        (TWO[: len(TWO) // 2], DamagedCompression, "its end, which lists the members, is missing"),
        (b"id,a\n1,2\n", DamagedCompression, "--compression none"),
        (b"", DamagedCompression, "its end, which lists the members, is missing"),
        (TWO.replace(b"b.csv", b"a.csv"), DamagedCompression, "two members named a.csv"),
        (changed(archive({"a": b"id\n1\n"}, method=0), (*SIZE, 0)), DamagedCompression, "size 0"),
        (changed(archive({"a": b"id\n1\n"}), (*SIZE, 0)), DamagedCompression, "size 0"),
        (TWO + TWO, DamagedCompression, "joined"),
        (TWO + archive({}), DamagedCompression, "joined"),
        (archive({"x/in.ZIP": b"PK"}), UnsupportedFormat, "in.ZIP is an archive or compressed"),
        (archive({"a.csv.gz": b"x"}), UnsupportedFormat, "a.csv.gz is an archive or compressed"),
        (archive({"a": b"", "[Content_Types].xml": b"x"}), UnsupportedFormat, "a spreadsheet"),
        (archive({"META-INF/MANIFEST.MF": b"x"}), UnsupportedFormat, "a program"),
    ],
)
def test_archives_that_cannot_be_read_are_named(data: bytes, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        members(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_damaged_members_are_named(method: int) -> None:
    whole = archive({"a.csv": TEXT, "b.csv": TEXT}, method=method)
    flipped = bytearray(whole)
    flipped[len(TEXT) // 8] ^= 1
    for bad in (
        bytes(flipped),
        changed(whole, (*CHECKSUM, 1)),
        changed(whole, (*SIZE, 5)),
        changed(whole, (*SIZE, 0)),
        changed(whole, (*COMPRESSED, 500), entry=1),
        # Extra bytes that only the local header has, which move the data into the next member.
        whole[:28] + struct.pack("<H", 60_000) + whole[30:],
        b"XX" + whole[2:],
    ):
        with pytest.raises(DamagedCompression):
            [read(decoded(member)) for member in members(bad).values()]


def test_bombs_are_bounded() -> None:
    (bomb,) = members(archive({"a.csv": bytes(8 << 20)})).values()
    with pytest.raises(ExpansionTooLarge, match="max-expansion"):
        read(decoded(bomb, 200))
    assert len(read(decoded(bomb, 2000))) == 8 << 20


def test_large_directories_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_members, "_MOST_DIRECTORY_BYTES", 400_000)
    with pytest.raises(UnsupportedFormat, match="several archives"):
        members(archived("many"))


def test_members_larger_than_4_gib_have_their_length_modulo_2_to_the_32() -> None:
    """As in gzip (RFC 1952); their sizes are in the fields of zip64."""
    made = io.BytesIO()
    size = (4 << 30) + 5
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as to:
        to.writestr("a.csv", b"x")
        to.filelist[0].file_size, to.filelist[0].CRC = size, 7
    (found,) = members(made.getvalue()).values()
    assert found.pinned["member"][5] == size
    assert b"".join(found.stream(found.size - 8, found.size, 8)) == struct.pack("<II", 7, 5)


def test_memory_is_that_of_a_piece() -> None:
    member = members(archive({"a.csv": bytes(40 << 20)}, method=zipfile.ZIP_STORED))["a.csv"]
    tracemalloc.start()
    try:
        for _ in decoded(member).stream(0, None, 64 * 1024):
            pass
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_hostile_directories_raise_named_errors() -> None:
    """Whatever bytes the end of an archive has."""
    some = random.Random(3)
    small = archive({"a.csv": b"id\n1\n", "b.csv": b"id\n2\n"}, zip64=True)
    at = small.index(b"PK\x01\x02")
    for _ in range(3000):
        data = bytearray(small)
        for _ in range(some.choice([1, 2, 6])):
            data[some.randrange(at, len(data))] = some.choice([0, 1, 255, some.randrange(256)])
        try:
            texts = [read(decoded(member, 200)) for member in members(bytes(data)).values()]
        except (DamagedCompression, UnsupportedFormat, SourceNotFound):
            continue
        assert set(texts) <= {b"id\n1\n", b"id\n2\n"}
