"""Table exports as in the Developer Guide, in their bucket and copied elsewhere."""

from __future__ import annotations

import gzip
import json

import pytest

from ddbload.contracts.source import is_export_manifest
from ddbload.errors import DamagedExport, UnsupportedFormat
from ddbload.source.catalogs.manifests import ExportedFile, ListedFile, find_exports, read_export
from tests.unit.source.memory_source import MemorySource

ID = "01693685827463-2d8752fd"


def summary(**other) -> dict:
    return {
        "version": "2020-06-30",
        "exportArn": "arn:aws:dynamodb:us-east-1:123456789012:table/Products/export/" + ID,
        "startTime": "2020-11-04T07:28:34.028Z",
        "endTime": "2020-11-04T07:33:43.897Z",
        "tableArn": "arn:aws:dynamodb:us-east-1:123456789012:table/Products",
        "tableId": "12345a12-abcd-123a-ab12-1234abc12345",
        "exportTime": "2020-11-04T07:28:34.028Z",
        "s3Bucket": "exports",
        "s3Prefix": "2020-Nov",
        "s3SseAlgorithm": "AES256",
        "s3SseKmsKeyId": None,
        "manifestFilesS3Key": f"2020-Nov/AWSDynamoDB/{ID}/manifest-files.json",
        "billedSizeBytes": 0,
        "itemCount": 8,
        "outputFormat": "DYNAMODB_JSON",
        **other,
    }


INCREMENTAL = summary(
    version="2023-08-01",
    exportFromTime="2023-09-01T00:00:00.000Z",
    exportToTime="2023-09-02T00:00:00.000Z",
    exportType="INCREMENTAL_EXPORT",
    outputView="NEW_AND_OLD_IMAGES",
)


def line(key: str, items: int | None = 4, **other) -> dict:
    return {
        "itemCount": items,
        "md5Checksum": "sQMSpEILNgoQmarvDFonGQ==",
        "etag": "af83d6f217c19b8b0fff8023d8ca4716-1",
        "dataFileS3Key": key,
        **other,
    }


FULL_KEYS = [f"2020-Nov/AWSDynamoDB/{ID}/data/{name}.json.gz" for name in ("asdl", "zzz")]
NEW_KEYS = [f"2020-Nov/AWSDynamoDB/data/{name}.json.gz" for name in ("asdl", "zzz")]


def store(folder: str, summed: dict | bytes | None, lines: list | bytes | None) -> dict:
    found = {}
    if summed is not None:
        data = summed if isinstance(summed, bytes) else json.dumps(summed).encode()
        found[folder + "manifest-summary.json"] = data
    if lines is not None:
        data = lines if isinstance(lines, bytes) else "\n".join(map(json.dumps, lines)).encode()
        found[folder + "manifest-files.json"] = data
    return found


def read(folder: str, summed, lines, place: str | None = None):
    return read_export(place or folder, store(folder, summed, lines).get)


WHERE = f"s3://exports/2020-Nov/AWSDynamoDB/{ID}/"


@pytest.mark.parametrize("name", ["", "manifest-summary.json", "manifest-files.json"])
def test_full_export_is_read(name):
    assert read(WHERE, summary(), [line(key) for key in FULL_KEYS], WHERE + name) == (
        ListedFile(f"{WHERE}data/asdl.json.gz", items=4),
        ListedFile(f"{WHERE}data/zzz.json.gz", items=4),
    )


def test_incremental_export_is_read():
    export = read(WHERE, INCREMENTAL, [line(key) for key in NEW_KEYS])
    assert [file.location for file in export] == [
        "s3://exports/2020-Nov/AWSDynamoDB/data/asdl.json.gz",
        "s3://exports/2020-Nov/AWSDynamoDB/data/zzz.json.gz",
    ]


@pytest.mark.parametrize(
    ("folder", "full", "new"),
    [
        ("s3://copy/x/", "s3://copy/x/data/asdl.json.gz", "s3://copy/data/asdl.json.gz"),
        ("s3://copy/", "s3://copy/data/asdl.json.gz", "s3://copy/data/asdl.json.gz"),
        ("/disk/x/", "/disk/x/data/asdl.json.gz", "/disk/data/asdl.json.gz"),
        ("x/", "x/data/asdl.json.gz", "data/asdl.json.gz"),
        ("./", "./data/asdl.json.gz", "../data/asdl.json.gz"),
    ],
)
def test_copied_export_is_read_relative_to_its_manifest(folder, full, new):
    for keys, expected, summed in ((FULL_KEYS, full, summary()), (NEW_KEYS, new, INCREMENTAL)):
        export = read(folder, summed, [line(key) for key in keys])
        assert export[0].location == expected


def test_manifest_keys_may_lack_the_prefix():
    # The guide's own example leaves it out.
    short = summary(manifestFilesS3Key=f"AWSDynamoDB/{ID}/manifest-files.json")
    for keys in (FULL_KEYS, [key.removeprefix("2020-Nov/") for key in FULL_KEYS]):
        export = read(WHERE, short, [line(key) for key in keys])
        assert export[0].location == f"{WHERE}data/asdl.json.gz"


def _lines(*keys, **other):
    return [line(key, **other) for key in keys]


@pytest.mark.parametrize(
    ("summed", "lines", "words"),
    [
        (None, _lines(*FULL_KEYS), "has not ended"),
        (summary(), None, "has no manifest-files.json"),
        (b"", [], "manifest-summary.json is not JSON"),
        (b"[]", [], "not a JSON object"),
        (b"\xff", [], "is not JSON"),
        ({}, [], "does not say the export's format"),
        (summary(manifestFilesS3Key=None), [], "does not name its manifest-files.json"),
        (summary(manifestFilesS3Key="x/y"), [], "does not name its manifest-files.json"),
        (summary(itemCount="8"), _lines(*FULL_KEYS), "itemCount is not a number"),
        (summary(itemCount=9), _lines(*FULL_KEYS), "have 8 items, and .* says 9"),
        (summary(), _lines(FULL_KEYS[0]), "have 4 items, and .* says 8"),
        (summary(itemCount=None), [], "names no data file"),
        (summary(), b'{"itemCount": 8', "line 1 is not JSON"),
        (summary(), b"\n8", "line 2 is not a JSON object"),
        (summary(), [{"itemCount": 8}], "line 1 names no data file"),
        (summary(), _lines(FULL_KEYS[0], items=-1), "line 1: itemCount"),
        (summary(), _lines(FULL_KEYS[0], items=True), "line 1: itemCount"),
        (summary(), _lines(FULL_KEYS[0], FULL_KEYS[0]), "line 2 names the data file of an earlier"),
        (summary(), _lines("etc/passwd"), "outside of the export"),
        (summary(), _lines(f"AWSDynamoDB/{ID}/../../../etc/passwd"), "outside of the export"),
        (summary(), _lines(7), "dataFileS3Key is not text"),
    ],
)
def test_damaged_export_is_reported(summed, lines, words):
    with pytest.raises(DamagedExport, match=words) as caught:
        read(WHERE, summed, lines)
    assert WHERE in caught.value.message


@pytest.mark.parametrize("kind", [{"outputFormat": "ION"}, {"outputFormat": 7}])
def test_ion_export_is_refused(kind):
    with pytest.raises(UnsupportedFormat, match="DYNAMODB_JSON"):
        read(WHERE, summary(**kind), _lines(*FULL_KEYS))


def test_exports_are_found_among_names():
    names = [
        "b/manifest-summary.json",
        "a/data/x",
        "a/manifest-summary.json",
        "files/manifest-files.json",
        "begun/_started",
        "begun/data/x",
        "elsewhere/_started",
        "elsewhere/x",
        "data/x",
    ]
    assert find_exports(names) == ["a/", "b/", "begun/", "files/"]
    assert find_exports(["manifest-summary.json", "xmanifest-summary.json"]) == [""]
    assert is_export_manifest("s3://b/x/manifest-files.json")
    assert not is_export_manifest("s3://b/x/manifest-files.checksum")


# The data.


def exported(data: bytes, items: int | None) -> bytes:
    file = ExportedFile(MemorySource(gzip.compress(data)), items)
    return b"".join(file.stream(0, None, 5))


@pytest.mark.parametrize("data", [b'{"Item":{}}\n{"Item":{}}\n', b'{"Item":{}}\n{"Item":{}}', b""])
def test_data_file_with_fewer_items_is_damaged(data):
    with pytest.raises(DamagedExport, match="3 were exported"):
        exported(data, 3)


def test_read_that_ends_early_is_not_counted():
    file = ExportedFile(MemorySource(gzip.compress(b"{}\n" * 9)), 100)
    assert b"".join(file.stream(3, 9, 100)) == b"{}\n{}\n"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("manifest-files.json", b"\n" * 1_000_001, "lists more than 1,000,000 files"),
        ("manifest-files.json", b"\r" * 1_000_001, "lists more than 1,000,000 files"),
        ("manifest-files.json", b'{"a":"' + b"x" * 2_000_000 + b'"}', "no export writes as many"),
        ("manifest-files.json", b'{"a":' * 100_000, "is not JSON"),
        ("manifest-summary.json", b'{"a":[' + b"0," * 1_000_000, "no export writes as many"),
    ],
)
def test_manifest_of_an_export_is_bounded(name, content, words):
    folder = f"s3://exports/AWSDynamoDB/{ID}/"
    files = {
        folder + "manifest-summary.json": json.dumps(summary()).encode(),
        folder + name: content,
    }
    with pytest.raises(DamagedExport, match=words):
        read_export(folder, files.get)
