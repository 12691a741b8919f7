"""Exports, manifests and Parquet from beginning to end: every file that is meant, and no other."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from ddbload import errors
from ddbload.contracts.upload_rule import SourceBucket
from ddbload.source.parquet.parquet_lines import ParquetLines
from tests.unit.steps.exports import EXPORT, exported_files
from tests.unit.steps.world import BUCKET, TABLE, World


@dataclass
class Files(World):
    """Objects by their keys, and a source that names them."""

    data: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    keys: Any = (("id", "N"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.source = {"key": None, "format": "auto", **self.source}
        for key, content in self.files.items():
            self.s3.put_object(Bucket=BUCKET, Key=key, Body=content)

    @property
    def ids(self) -> list[int]:
        """Keys of the items in the table."""
        return sorted(int(item["id"]["N"]) for item in self.items)

    @property
    def payload(self) -> dict[str, Any]:
        payload = super().payload
        if "manifest" in self.source:
            payload["source"].pop("bucket")
        return payload


def item(number: int) -> dict[str, Any]:
    return {"id": {"N": str(number)}, "of": {"M": {"a": {"L": [{"NULL": True}]}}}}


FULL = exported_files([{"Item": item(1)}, {"Item": item(2)}], [], [{"Item": item(3)}])
# In the same folder, and not of the export.
FULL |= {f"2020-Nov/AWSDynamoDB/{EXPORT}/data/other.json.gz": gzip.compress(b'{"Item":{}}\n')}


@pytest.mark.parametrize(
    "source",
    [
        {"prefix": "2020-Nov/"},
        {"prefix": f"2020-Nov/AWSDynamoDB/{EXPORT}/"},
        {"key": f"2020-Nov/AWSDynamoDB/{EXPORT}/manifest-summary.json"},
        {
            "key": f"2020-Nov/AWSDynamoDB/{EXPORT}/manifest-files.json",
            "format": "dynamodb-export",
        },
        {"prefix": f"2020-Nov/AWSDynamoDB/{EXPORT}/", "format": "dynamodb-export"},
    ],
)
def test_full_export_has_files_of_its_manifest(source):
    world = Files(files=FULL, source=source)
    report = world.run()
    assert report.status == "SUCCEEDED"
    assert world.ids == [1, 2, 3]
    assert item(2) in world.items


def test_incremental_export_puts_and_deletes_items():
    changes = [
        {"Keys": {"id": {"N": "1"}}, "NewImage": item(1), "Metadata": {}},
        {"Keys": {"id": {"N": "2"}}, "OldImage": item(2)},
        {"Keys": {"id": {"N": "3"}}},
    ]
    for change in changes:
        change["Metadata"] = {"WriteTimestampMicros": {"N": "1680000000000000"}}
    world = Files(files=exported_files(changes, incremental=True), source={"prefix": "2020-Nov/"})
    for number in (2, 3, 4):
        world.dynamodb.put_item(TableName=TABLE, Item=item(number))
    report = world.run()
    assert report.status == "SUCCEEDED"
    assert report.rows.read == 3
    assert world.ids == [1, 4]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"data/f0.json.gz": None}, errors.DamagedExport, "f0.json.gz.*does not exist"),
        (
            {"data/f0.json.gz": gzip.compress(b'{"Item":{"id":{"N":"1"}}}\n')},
            errors.DamagedExport,
            "has 1 items, and 2 were exported",
        ),
        ({"data/f2.json.gz": b"\x1f\x8b\x08"}, errors.DamagedCompression, "end too early"),
        ({"manifest-summary.json": None}, errors.DamagedExport, "has no manifest-summary.json"),
        (
            {"manifest-summary.json": None, "manifest-files.json": None},
            errors.DamagedExport,
            "has not ended",
        ),
    ],
)
def test_damaged_export_is_refused_before_any_write(change, error, words):
    files: dict[str, bytes] = dict(FULL)
    for name, content in change.items():
        key = f"2020-Nov/AWSDynamoDB/{EXPORT}/{name}"
        files.pop(key)
        if content is not None:
            files[key] = content
    world = Files(files=files, source={"prefix": "2020-Nov/"})
    with pytest.raises(error, match=words):
        world.preflight()
    assert world.items == []


# Manifests.

ROWS = {"in/1.csv": b"id,a\n1,x\n", "in/2.csv": b"id,a\n2,x\n", "in/3.csv": b"id,a\n3,x\n"}


def manifested(manifest: bytes) -> Files:
    source = {"manifest": f"s3://{BUCKET}/in/list"}
    return Files(files={**ROWS, "in/list": manifest}, source=source)


@pytest.mark.parametrize(
    "manifest",
    [
        b"1.csv\n3.csv\n",
        f"s3://{BUCKET}/in/3.csv\ns3://{BUCKET}/in/1.csv".encode(),
        json.dumps({"entries": [{"url": f"s3://{BUCKET}/in/{n}.csv"} for n in (1, 3)]}).encode(),
        b'["1.csv", {"url": "gone.csv", "mandatory": false}, "3.csv"]',
        b'[{"url": "1.csv", "meta": {"content_length": 9}}, "3.csv"]',
    ],
)
def test_manifest_names_objects_of_run(manifest):
    world = manifested(manifest)
    assert world.run().status == "SUCCEEDED"
    assert world.ids == [1, 3]


@pytest.mark.parametrize(
    ("manifest", "error", "words"),
    [
        (b"1.csv\ngone.csv", errors.SourceNotFound, "gone.csv"),
        (b'[{"url": "1.csv", "meta": {"content_length": 8}}]', errors.SourceChanged, "9 bytes"),
        (b"", errors.BadManifest, "names no file"),
        (b"s3://other/x.csv", errors.BucketNotAllowed, "other"),
    ],
)
def test_manifest_with_bad_entries_is_refused(manifest, error, words):
    world = manifested(manifest)
    world.access = type(world.access)(sources=(SourceBucket(BUCKET),))
    with pytest.raises(error, match=words):
        world.preflight()


def test_folder_is_imported_without_hidden_and_empty_files(tmp_path):
    for name, content in {**ROWS, "in/.hidden": b"?", "in/empty.csv": b""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    world = Files()
    world.access = type(world.access)(paths=True)
    world.source = {"bucket": None, "key": None, "path": str(tmp_path / "in")}
    assert world.run().status == "SUCCEEDED"
    assert world.ids == [1, 2, 3]


# Parquet.


def packed(rows: int, **options: Any) -> bytes:
    numbers = list(range(rows))
    floats = [float("nan") if n % 10 == 9 else n / 2 for n in numbers]
    table = pa.table({"id": numbers, "f": floats, "tags": [["é"] * (n % 3) for n in numbers]})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, **options)
    return buffer.getvalue()


@pytest.fixture
def _each_group(monkeypatch) -> None:
    original = ParquetLines.row_group_ranges
    monkeypatch.setattr(ParquetLines, "row_group_ranges", lambda self: original(self, 1))


@pytest.mark.usefixtures("_each_group")
@pytest.mark.parametrize("group", [1, 7, 100])
@pytest.mark.parametrize("source", [{"key": "in/x.parquet"}, {"prefix": "in/"}])
def test_parquet_row_groups_are_objects(group, source):
    files = {"in/x.parquet": packed(40, row_group_size=group)}
    world = Files(files=files, source=source, options={"chunk_bytes": 100})
    report = world.run()
    assert (report.status, report.rows.rejected) == ("SUCCEEDED_WITH_REJECTS", 4)
    assert world.ids == [n for n in range(40) if n % 10 != 9]
    assert {"id": {"N": "5"}, "f": {"N": "2.5"}, "tags": {"L": [{"S": "é"}] * 2}} in world.items
    found = [(each["line"], each["cause"]) for each in world.rejects()]
    assert found == [(n, "not_a_number") for n in (10, 20, 30, 40)]
    assert (len(world.manifest) > 1) == (group < 40)


# What is no text.


@pytest.mark.usefixtures("_each_group")
@pytest.mark.parametrize("most", [200, 10_000])
def test_parquet_bomb_is_refused_unless_allowed(most):
    table = pa.table({"id": pa.nulls(300_000, pa.int64()).fill_null(0)})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="zstd", use_dictionary=False)
    world = Files(
        files={"x.parquet": buffer.getvalue()},
        source={"key": "x.parquet", "max_expansion": most},
    )
    if most == 200:
        with pytest.raises(errors.ExpansionTooLarge, match="max_expansion"):
            world.preflight()
    else:
        assert world.preflight().chunks == 1
