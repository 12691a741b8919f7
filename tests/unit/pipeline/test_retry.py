"""Mended rejects as the rows of a file."""

from __future__ import annotations

import io
import json

import pytest

from ddbload.contracts import Cursor, KeyAttribute, Payload, RunRecord, Source, Table
from ddbload.errors import BadRetryFile
from ddbload.pipeline.retry import payload_for, write_rows

TABLE = Table("books", "id", (KeyAttribute("id", "N", 2048),))


def record(source: Source | None = None) -> RunRecord:
    read = source or Source(bucket="b", key="k", version_id="v", etag="e")
    return RunRecord(
        run="r",
        payload=Payload(read, "books", {"year": "N"}, run="r"),
        pinned={},
        size=1,
        data_start=Cursor(0, 1),
        columns=("id", "year"),
        types=("N", "N"),
        table=TABLE,
        chunk_bytes=1,
        workers=1,
        created=0.0,
    )


def rows(*raws: object, source: Source | None = None) -> bytes:
    out = io.BytesIO()
    lines = [json.dumps({"line": 7, "raw": raw}).encode() + b"\n" for raw in raws]
    assert write_rows(record(source), lines, out, "file") == len(raws)
    return out.getvalue()


def test_each_raw_is_a_row() -> None:
    assert rows("1,2", "3,4\n", "5,6\r\n", "7,8\r") == b"1,2\n3,4\n5,6\n7,8\n"
    assert rows('1,"a\r\nb"', "é, ") == '1,"a\r\nb"\né, \n'.encode()
    assert rows('5" disk,2', '1,"a""b"', '1,"bad "quote"') == (
        b'5" disk,2\n1,"a""b"\n1,"bad "quote"\n'
    )


def test_bytes_that_were_no_text_are_those_bytes_again() -> None:
    assert rows("1,\udcff") == b"1,\xff\n"


def test_lines_without_anything_are_none() -> None:
    out = io.BytesIO()
    assert write_rows(record(), [b"\n", b'{"raw": "1"}\n', b"  \n", b'{"raw": "2"}'], out, "f") == 2
    assert out.getvalue() == b"1\n2\n"


@pytest.mark.parametrize("raw", ["", "\n", '1,"2', '"', "1,2\n3,4", "1,2\r3,4", "1,2\n\n", "1\n\r"])
def test_what_is_not_one_row(raw: str) -> None:
    with pytest.raises(BadRetryFile, match=r"^file, line 2: its 'raw' is not exactly one row: "):
        rows("1,2", raw)


def test_the_dialect_is_the_runs() -> None:
    assert rows('1|"2', source=Source(path="a", delimiter="|", quote=None)) == b'1|"2\n'
    with pytest.raises(BadRetryFile):
        rows("1|'2", source=Source(path="a", delimiter="|", quote="'"))


@pytest.mark.parametrize(
    "line",
    [b"1,2", b"{}", b'{"raw": 1}', b'["raw"]', b'{"raw": "1"', b"\xff", b"[" * 100_000, b"null"],
)
def test_what_is_no_reject(line: bytes) -> None:
    with pytest.raises(BadRetryFile, match=r"^file, line 2: it is no reject") as caught:
        write_rows(record(), [b'{"raw": "1"}\n', line], io.BytesIO(), "file")
    assert "\xff" not in caught.value.message


def test_what_is_no_text() -> None:
    with pytest.raises(BadRetryFile, match=r"^file, line 1: its 'raw' is no text"):
        rows("1,\ud800")


def test_the_payload_is_the_runs_with_another_source() -> None:
    payload = payload_for(record(), "rows")
    source = payload.source
    assert (source.path, source.header, source.columns) == ("rows", False, ("id", "year"))
    assert (source.bucket, source.key, source.version_id, source.etag) == (None,) * 4
    assert (payload.table, payload.types) == ("books", {"id": "N", "year": "N"})
    assert payload.run is None
    # As a worker process, or a later attempt, gets it.
    assert Payload.from_json(payload.to_json()) == payload
