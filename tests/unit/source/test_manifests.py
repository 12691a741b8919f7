from __future__ import annotations

import json
import tracemalloc

import pytest

from ddbload.errors import BadManifest
from ddbload.source.catalogs.manifests import ListedFile, read_manifest

HERE = "lists/today.manifest"
THERE = "s3://bucket/lists/today.manifest"


def places(data: bytes | str, place: str = HERE) -> list[str]:
    data = data.encode() if isinstance(data, str) else data
    return [entry.location for entry in read_manifest(data, place)]


def test_redshift_manifest_is_read():
    # As its UNLOAD writes them, and its COPY documents them.
    data = {
        "entries": [
            {"url": "s3://bucket/a/0000_part_00", "meta": {"content_length": 5956875}},
            {"url": "s3://bucket/a/0001_part_00", "mandatory": True},
            {"url": "s3://other/b c/é", "mandatory": False},
        ],
        "schema": {"elements": []},
        "meta": {"record_count": 3},
    }
    assert read_manifest(json.dumps(data).encode(), HERE) == (
        ListedFile("s3://bucket/a/0000_part_00", size=5956875),
        ListedFile("s3://bucket/a/0001_part_00"),
        ListedFile("s3://other/b c/é", optional=True),
    )


def test_names_are_relative_to_the_manifest():
    assert places("x.csv\nin/y.csv", "today") == ["x.csv", "in/y.csv"]
    assert places("x.csv", "/lists/today") == ["/lists/x.csv"]
    assert places("x.csv\nin//y.csv", THERE) == [
        "s3://bucket/lists/x.csv",
        "s3://bucket/lists/in//y.csv",
    ]
    assert places("x.csv", "s3://bucket/today") == ["s3://bucket/x.csv"]


@pytest.mark.parametrize("name", ["/etc/passwd", "./x", "../x"])
def test_manifest_in_s3_may_not_name_local_files(name):
    with pytest.raises(BadManifest, match="entry 2 is a file of some machine"):
        places(f"x\n{name}", THERE)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "names no file"),
        (b" \n\r\n", "names no file"),
        (b"[]", "names no file"),
        (b'{"entries": []}', "names no file"),
        (b"{}", "no list of names"),
        (b'{"entries": {"url": "s3://b/k"}}', "no list of names"),
        (b'{"entries": [{"url": "s3://b/k"}', "not valid JSON"),
        (b"[" * 100_000, "begins like JSON"),
        (b'{"url": "s3://b/k"}\n{"url": "s3://b/l"}', "not valid JSON"),
        (b'{"dataFileS3Key": "k"}\n{"dataFileS3Key": "l"}', "DynamoDB table export"),
        (b"[1]", 'entry 1 has no "url"'),
        (b'["x", {"uri": "s3://b/k"}]', 'entry 2 has no "url"'),
        (b'[{"url": "s3://b/k", "mandatory": "yes"}]', "neither true nor false"),
        (b'[{"url": "s3://b/k", "meta": {"content_length": -1}}]', "not a number of bytes"),
        (b'[{"url": "s3://b/k", "meta": {"content_length": true}}]', "not a number of bytes"),
        (b'[""]', "entry 1 names no file"),
        (b"s3://b/folder/", "entry 1 names no file"),
        (b"x\0y", "entry 1 names no file"),
        (b"s3://b", "not s3://bucket/key"),
        (b"s3:///k", "not s3://bucket/key"),
        (b"x\ny\nx", "lists/x twice, the second time as 3"),
        (b"x\n./x", "lists/x twice"),
        (b"\xff\xfex\0", "not text in UTF-8"),
        (b"\x1f\x8b\x08\0", "not text in UTF-8"),
    ],
)
def test_malformed_manifest_is_reported(data, words):
    with pytest.raises(BadManifest, match=words) as caught:
        read_manifest(data, HERE)
    assert caught.value.message.startswith(HERE)


@pytest.mark.parametrize(
    "text",
    [
        "a\n" * 2_000_001,
        "\n" * 5_000_000,
        "[" + '"a",' * 5_000_000 + '"b"]',
        '{"entries":[' + "{}," * 5_000_000 + "{}]}",
    ],
)
def test_manifest_of_too_many_entries_is_refused_before_it_takes_memory(text):
    """A manifest of 256 MiB, the limit of its size, took 15 GB."""
    data = text.encode()
    tracemalloc.start()
    try:
        with pytest.raises(BadManifest, match=r"lists more than 1,000,000 files; split it"):
            read_manifest(data, THERE)
        # Its text, and lines at most.
        assert tracemalloc.get_traced_memory()[1] < 250_000_000
    finally:
        tracemalloc.stop()
