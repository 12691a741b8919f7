"""Corrected rejects as the source of a new run."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from ddbload.contracts.payload import NullHandling, Payload
from ddbload.contracts.run_record import KeyAttribute, RunRecord, Table
from ddbload.contracts.source import Source
from ddbload.errors import BadRetryFile
from ddbload.runs.retry_rejects import payload_for, write_rows
from tests.unit.contracts.message_samples import RECORD

TABLE = Table("books", "id", (KeyAttribute("id", "N", 2048),))


def record(source: Source | None = None) -> RunRecord:
    read = source or Source(bucket="b", key="k", version_id="v", etag="e")
    payload = Payload(read, "books", {"year": "N"}, run="r", infer_types=True)
    columns, types = ("id", "year"), ("N", "N")
    return replace(RECORD, run="r", payload=payload, columns=columns, types=types, table=TABLE)


def rows(*raws: object, source: Source | None = None) -> bytes:
    out = io.BytesIO()
    lines = [json.dumps({"line": 7, "raw": raw}).encode() + b"\n" for raw in raws]
    assert len(write_rows(record(source), lines, out, "file")) == len(raws)
    return out.getvalue()


def test_write_rows_writes_each_raw_as_row() -> None:
    assert rows("1,2", "3,4\n", "5,6\r\n", "7,8\r") == b"1,2\n3,4\n5,6\n7,8\n"
    assert rows('1,"a\r\nb"', "é, ") == '1,"a\r\nb"\né, \n'.encode()
    assert rows('5" disk,2', '1,"a""b"', '1,"bad "quote"') == (
        b'5" disk,2\n1,"a""b"\n1,"bad "quote"\n'
    )


def test_write_rows_restores_bytes_that_are_not_utf8() -> None:
    assert rows("1,\udcff") == b"1,\xff\n"


@pytest.mark.parametrize("raw", ["", "\n", '1,"2', '"', "1,2\n3,4", "1,2\r3,4", "1,2\n\n", "1\n\r"])
def test_write_rows_refuses_raw_that_is_not_one_row(raw: str) -> None:
    with pytest.raises(BadRetryFile, match=r"^file, line 2: its 'raw' is not exactly one row: "):
        rows("1,2", raw)


@pytest.mark.parametrize(
    "line",
    [b"1,2", b"{}", b'{"raw": 1}', b'["raw"]', b'{"raw": "1"', b"\xff", b"[" * 100_000, b"null"],
)
def test_write_rows_refuses_line_that_is_not_a_reject(line: bytes) -> None:
    with pytest.raises(BadRetryFile, match=r"^file, line 2: not a reject") as caught:
        write_rows(record(), [b'{"raw": "1"}\n', line], io.BytesIO(), "file")
    assert "\xff" not in caught.value.message


def test_payload_for_keeps_everything_but_source() -> None:
    payload = payload_for(record(), "rows")
    source = payload.source
    assert (source.path, source.header, source.columns) == ("rows", False, ("id", "year"))
    assert (source.bucket, source.key, source.version_id, source.etag) == (None,) * 4
    assert (payload.table, payload.types) == ("books", {"id": "N", "year": "N"})
    assert not payload.infer_types
    assert payload.run is None
    # As a worker process, or a later attempt, gets it.
    assert Payload.from_json(payload.to_json()) == payload


def test_payload_for_reads_utf8_file_whatever_the_source_was() -> None:
    read = Source(
        bucket="b",
        prefix="in/",
        encoding="latin-1",
        compression="gzip",
        skip_lines=3,
        escape="\\",
        comment="#",
    )
    assert rows("é,2", source=read) == "é,2\n".encode()
    source = payload_for(record(read), "rows").source
    assert source == Source(
        path="rows",
        header=False,
        columns=("id", "year"),
        compression="none",
        escape="\\",
        comment="#",
    )
    for raw in ("#1,2", "1,2\\"):
        with pytest.raises(BadRetryFile):
            rows(raw, source=read)
    assert rows("1,a\\\nb", source=read) == b"1,a\\\nb\n"


@pytest.mark.parametrize("kind", ["json", "dynamodb-json", "dynamodb-export"])
def test_payload_for_keeps_json_format(kind: str) -> None:
    read = Source(kind, path="a", columns=None)
    begun = replace(record(read), columns=(), types=())
    out = io.BytesIO()
    line = json.dumps({"raw": '{"id": 1.50}'}).encode()
    assert len(write_rows(begun, [line], out, "file")) == 1
    assert out.getvalue() == b'{"id": 1.50}\n'
    payload = payload_for(begun, "rows")
    assert payload.source == Source(kind, path="rows", compression="none")
    assert payload.types == {"year": "N"}
    for raw in ("{}\n{}", "", " "):
        with pytest.raises(BadRetryFile):
            write_rows(begun, [json.dumps({"raw": raw}).encode()], out, "file")


@pytest.mark.parametrize(
    ("policy", "item"),
    [
        ("omit", {"id": {"N": "1.50"}}),
        ("null", {"id": {"N": "1.50"}, "x": {"NULL": True}}),
        ("empty", {"id": {"N": "1.50"}, "x": {"S": ""}}),
        ("reject", {"id": {"N": "1.50"}, "x": {}}),
    ],
)
def test_rejects_of_parquet_are_dynamodb_json(policy: str, item: object) -> None:
    begun = record(Source("parquet", path="a"))
    begun = replace(
        begun, payload=replace(begun.payload, nulls=NullHandling(policy)), columns=(), types=()
    )
    out = io.BytesIO()
    raw = '{"Item": {"id": {"N": "1.50"}, "x": {"NULL": true}}}'
    write_rows(begun, [json.dumps({"raw": raw}).encode()], out, "file")
    assert json.loads(out.getvalue()) == {"Item": item}
    payload = payload_for(begun, "rows")
    assert payload.source.format == "dynamodb-json"
    assert payload.types == {"id": "N", "year": "N"}
    for bad in ("{", "[]", "1", '{"Item": 1}', '{"Item": [1]}', "{}"):
        write_rows(begun, [json.dumps({"raw": bad}).encode()], out, "file")
        assert out.getvalue().endswith(f"{bad}\n".encode())
