"""Whatever is wrong is named before anything is written."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ddbload import errors
from ddbload.context import AccessPolicy
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.contracts.states import PreflightTask
from ddbload.contracts.upload_rule import SourceBucket
from ddbload.reading.open_sources import list_bucket
from ddbload.steps.checks import check_column_types
from ddbload.steps.preflight import preflight
from tests.fakes.client import ServiceError
from tests.fakes.dynamodb_faults import Fault, fails
from tests.fakes.s3_faults import Fault as S3Fault
from tests.fakes.s3_faults import slow_down
from tests.unit.steps.world import BUCKET, KEY, RUN, TABLE, World
from tests.unit.steps.worlds import assert_refused

PLACE = {"bucket": BUCKET, "key": KEY}
FILE = b"id,year,name\nb1,1999,x\n"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sauce": {}}, "unknown field 'sauce'"),
        ({"option": {}}, "unknown field 'option' (did you mean 'options'?)"),
        ({"source": ..., "Source": {}}, "'source' is missing; there is 'Source'"),
        ({"source": {"bucket": "s3://b", "key": "k"}}, "name of a bucket alone, such as b"),
        ({"source": {"bucket": "b", "key": "s3://b/k"}}, "without s3:// and the bucket"),
        ({"source": {**PLACE, "headers": True}}, "'source.headers'"),
        ({"source": {"bucket": "b"}}, "'source.key' is missing"),
        ({"source": {"path": "/f", "bucket": "b"}}, "'source.bucket' and 'source.path' are two"),
        ({"source": {**PLACE, "prefix": "in/"}}, "'source.key' and 'source.prefix' are two"),
        ({"source": {"manifest": "m", "key": "k"}}, "'source.key' and 'source.manifest' are two"),
        ({"source": {"bucket": "b", "glob": "*", "etag": "x"}}, "'source.etag'"),
        ({"source": None}, "'source' is missing"),
        ({"source": "s3://b/k"}, "'source' must be a JSON object, not a string"),
        ({"source": {**PLACE, "format": "xml"}}, "'source.format'"),
        ({"source": {**PLACE, "encoding": "klingon"}}, "'source.encoding'"),
        ({"source": {**PLACE, "columns": []}}, "'source.columns'"),
        ({"source": {**PLACE, "header": "yes"}}, "'source.header'"),
        ({"source": {**PLACE, "delimiter": "\n"}}, "'source.delimiter'"),
        ({"source": {**PLACE, "delimiter": '"'}}, "same character"),
        ({"source": {**PLACE, "quote": "''"}}, "'source.quote'"),
        ({"source": {**PLACE, "quote": 1}}, "'source.quote'"),
        ({"target": {"table": "x"}}, "'target.table'"),
        ({"target": {"table": "books", "region": "r"}}, "'target.region'"),
        ({"target": ...}, "'target' is missing"),
        ({"types": {"year": "date"}}, "'types.year'"),
        ({"types": ["year"]}, "'types'"),
        ({"options": {"mode": "upsert"}}, "'options.mode'"),
        ({"options": {"engine": "warp"}}, "'options.engine'"),
        ({"options": {"workers": 0}}, "'options.workers'"),
        ({"options": {"chunk_bytes": 0}}, "'options.chunk_bytes'"),
        ({"options": {"chunk_bytes": 1.5}}, "'options.chunk_bytes'"),
        ({"options": {"max_rejects": -1}}, "'options.max_rejects'"),
        ({"options": {"max_row_bytes": True}}, "'options.max_row_bytes'"),
        ({"options": {"max_wcu": 0.5}}, "'options.max_wcu'"),
        ({"options": {"speed": 11}}, "'options.speed'"),
        ({"run": {"id": "../up"}}, "a run id has"),
        ({"run": {"resume_of": "other"}}, "'source' cannot be given with 'run.resume_of'"),
    ],
)
def test_preflight_refuses_invalid_payload(changes, words):
    assert_refused(World(FILE), errors.InvalidPayload, re.escape(words), **changes)


@pytest.mark.parametrize("payload", [None, [], "books.csv", 7])
def test_preflight_refuses_payload_that_is_no_object(payload):
    world = World(FILE)
    with pytest.raises(errors.InvalidPayload, match="the input must be a JSON object"):
        preflight(PreflightTask(payload, RUN), world.context())
    assert world.store.objects == {}


@pytest.mark.parametrize("run", ["", "../up", "a/b", ".hidden", "x" * 81, "é", "a b", "a\n"])
def test_preflight_refuses_invalid_run_id(run):
    world = World(FILE)
    with pytest.raises(errors.InvalidPayload, match="a run id has"):
        preflight(PreflightTask(world.payload, run), world.context())
    assert world.store.objects == {}


def test_preflight_uses_run_id_of_payload():
    world = World(FILE)
    result = preflight(PreflightTask({**world.payload, "run": {"id": "own"}}, RUN), world.context())
    assert result.run == "own"
    assert {name.split("/")[1] for name in world.store.names("runs/")} == {"own"}


# The table.


def test_preflight_refuses_missing_table():
    world = World(FILE, make_table=False)
    assert_refused(world, errors.TableNotFound, "there is no table books in us-east-1")


@pytest.mark.parametrize("status", ["CREATING", "DELETING", "INACCESSIBLE_ENCRYPTION_CREDENTIALS"])
def test_preflight_refuses_table_that_is_not_active(status):
    world = World(FILE)
    with_status(world, status)
    assert_refused(world, errors.TableNotActive, f"table books is {status}")


@pytest.mark.parametrize("status", ["ACTIVE", "UPDATING"])
def test_preflight_accepts_table_that_is_updating(status):
    world = World(FILE)
    with_status(world, status)
    assert world.preflight().chunks == 1


def with_status(world: World, status: str) -> None:
    real = world.dynamodb.describe_table

    def describe(**params: Any) -> Any:
        answer = real(**params)
        answer["Table"]["TableStatus"] = status
        return answer

    world.dynamodb.describe_table = describe  # type: ignore[method-assign]


@pytest.mark.parametrize("keys", [[("isbn", "S")], [("id", "S"), ("edition", "N")], [("ID", "S")]])
def test_preflight_refuses_missing_key_column(keys):
    missing = re.escape(keys[-1][0])
    words = f"keyed by '{missing}', which is none of the file's 3 columns"
    assert_refused(World(FILE, keys), errors.KeyColumnMissing, words)


@pytest.mark.parametrize(
    ("keys", "indexes", "types", "named"),
    [
        ([("id", "S")], [], {"id": "N"}, "'id' is declared N, and is a key of type S"),
        ([("id", "N")], [], {"id": "S"}, "'id' is declared S, and is a key of type N"),
        ([("id", "N")], [], {"id": "BOOL"}, "'id' is declared BOOL"),
        ([("id", "S"), ("year", "N")], [], {"year": "S"}, "'year' is declared S"),
        ([("id", "S")], [[("year", "N")]], {"year": "S"}, "'year' is declared S"),
        ([("id", "S")], [[("name", "S"), ("year", "N")]], {"year": "BOOL"}, "'year'"),
        ([("id", "S")], [[("name", "S")]], {"name": "N"}, "'name' is declared N"),
    ],
)
def test_preflight_refuses_declared_type_other_than_key_type(keys, indexes, types, named):
    assert_refused(World(FILE, keys, indexes, types=types), errors.KeyTypeMismatch, named)


@pytest.mark.parametrize(
    ("keys", "indexes"),
    [
        ([("id", "B")], []),
        ([("id", "S"), ("year", "B")], []),
        ([("id", "S")], [[("name", "B")]]),
    ],
)
def test_binary_key_is_read_as_base64(keys, indexes):
    world = World(FILE.replace(b"1999", b"19-9"), keys, indexes)
    assert world.run().rows.rejected == 1
    assert {each["cause"] for each in world.rejects()} == {"not_base64"}


def test_preflight_refuses_key_of_unknown_type():
    table = Table("books", "id", (KeyAttribute("id", "M", 2048),))
    with pytest.raises(errors.UnsupportedKeyType, match="a key of type M in table books"):
        check_column_types(["id"], {}, table)


def test_preflight_accepts_index_key_without_column():
    world = World(FILE, indexes=[[("elsewhere", "B"), ("nowhere", "N")]])
    assert world.run().rows.written == 1


def test_index_key_columns_get_type_of_index():
    world = World(FILE, indexes=[[("year", "N")]])
    world.run()
    assert world.items == [{"id": {"S": "b1"}, "year": {"N": "1999"}, "name": {"S": "x"}}]


# Columns.


@pytest.mark.parametrize(
    ("head", "source", "error", "words"),
    [
        (b"id,a,id", {}, errors.DuplicateColumn, "columns 1 and 3 have the same name"),
        (b"id,a", {"columns": ["id", "id"]}, errors.DuplicateColumn, "columns 1 and 2"),
        (b",,", {}, errors.EmptyColumnName, "column 1 has no name"),
        (b"id,a", {"columns": ["id", ""]}, errors.EmptyColumnName, "column 2 has no name"),
        (b"id," + b"x" * 65536, {}, errors.ColumnNameTooLong, "the name of column 2"),
        (b"id," + "é".encode() * 32768, {}, errors.ColumnNameTooLong, "the name of column 2"),
        (b'id,"a', {}, errors.BadHeader, r"the header at line 1, byte 0, column 2: .*unterm"),
        (b'id,"a"b', {}, errors.BadHeader, r"line 1, byte 0, column 2: .*\(bad_quote\)"),
        (b"\r\n\nid,\xff", {}, errors.BadHeader, r"line 3, byte 3, column 2: .*\(bad_encoding\)"),
        (b"id,\xff", {"header": False}, errors.BadHeader, "the first row, which says how many"),
        (b"id,a", {"columns": ["id"], "header": True}, errors.BadHeader, "1 columns are named"),
        (b"id,a", {"columns": ["id", "b", "c"], "header": True}, errors.BadHeader, "has 2"),
    ],
)
def test_preflight_refuses_invalid_column_names(head, source, error, words):
    assert_refused(World(head + b"\n1,2\n", source=source), error, words)


def test_preflight_accepts_longest_column_name():
    name = "é" * 32767 + "x"
    world = World(f"id,{name}\n1,2\n".encode())
    assert world.run().rows.written == 1
    assert world.items == [{"id": {"S": "1"}, name: {"S": "2"}}]


def test_preflight_refuses_type_for_unknown_column():
    world = World(FILE, types={"yaer": "N"})
    words = "a type is declared for 'yaer', which is none of the file's 3 columns"
    assert_refused(world, errors.UnknownColumn, words)


def test_error_shows_column_that_differs_in_case_or_spaces():
    world = World(b"Id,a\n1,2\n", keys=[("id", "S")])
    words = "'Id' is one, and names are compared exactly"
    assert_refused(world, errors.KeyColumnMissing, words)


def test_error_shows_no_columns_that_may_be_a_row():
    """Without a header the first row takes its place, and errors must not quote it."""
    for file in (b"top,secret\n", b"secret,secret\n", b"secret,\n"):
        world = World(file, types={"a": "N"}, keys=[("id", "S")])
        with pytest.raises(errors.DdbloadError) as raised:
            world.preflight()
        assert "secret" not in raised.value.message


# The source.


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"\x1f\x8b\x08", "gzip"),
        (b"\x28\xb5\x2f\xfd\0", "Zstandard"),
        (b"PK\x03\x04\x14\0", "ZIP"),
        (b"PAR1\x15\x04", "Parquet"),
        ("id,año\n".encode("utf-16"), "UTF-16"),
        (b"\xfe\xff" + "id,a\n".encode("utf-16-be"), "UTF-16"),
    ],
)
@pytest.mark.parametrize("source", [{}, {"columns": ["id", "x"]}, {"header": False}])
def test_preflight_refuses_binary_files(start, words, source):
    world = World(start + b"x" * 100, source={**source, "compression": "none"})
    assert_refused(world, errors.UnsupportedFormat, words)


def test_preflight_refuses_missing_object():
    world = World(FILE, source={"key": "missing"})
    assert_refused(world, errors.SourceNotFound, "s3://bucket/missing: no such object")


def test_preflight_refuses_object_with_other_etag():
    world = World(FILE, source={"etag": '"0123"'})
    assert_refused(world, errors.SourceChanged, "its ETag is not the one that was asked for")


def test_preflight_raises_source_changed_when_object_is_overwritten(monkeypatch):
    monkeypatch.setattr("ddbload.source.byte_source.FIRST_BYTES", 4)
    world = World(FILE)
    overwrite = S3Fault(before=lambda: world.overwrite(FILE + b"b2,2000,y\n"))
    world.s3.faults.add("get_object", None, overwrite)
    with pytest.raises(errors.SourceChanged, match="overwritten"):
        world.preflight()
    assert world.beyond_request == {}


@pytest.mark.parametrize("head", [b"id,a", b'id,"a\n'])
def test_preflight_refuses_header_that_is_too_long(head):
    world = World(head + b"x" * 5000 + b"\n1,2\n", options={"max_row_bytes": 1000})
    words = r"the row at line 1, byte 0 is longer than 1000 bytes"
    assert_refused(world, errors.RowTooLong, words)


@pytest.mark.parametrize("row", [b"1," + b"x" * 2000, b'1,"' + b"x\n" * 1000 + b'"'])
@pytest.mark.parametrize("after", [b"\n", b""])
def test_preflight_refuses_row_that_is_too_long(row, after):
    world = World(b"id,a\n0,0\n" + row + after, options={"max_row_bytes": 1000})
    with pytest.raises(errors.RowTooLong, match=r"the row at line 3, byte 9 is longer"):
        world.preflight()
    assert world.manifest == ()
    assert world.items == []
    assert world.report().error.name == "IncompleteRun"
    world.options["max_row_bytes"] = 5000
    assert world.run().status == "SUCCEEDED"


@pytest.mark.parametrize("row", [b'1,"', b'1,"x', b'1,"x\ny\n', b'1,"x\n' + b"9,y\n" * 40])
def test_preflight_refuses_unclosed_quote(row):
    world = World(b"id,a\n0,0\n" + row, options={"chunk_bytes": 3})
    with pytest.raises(errors.UnterminatedQuote, match=r"line 3, byte 9 has a quoted field"):
        world.preflight()
    assert world.items == []


# What a deployment may do.


@pytest.mark.parametrize("allowed", [[], ["other", "another"]])
def test_preflight_refuses_bucket_that_is_not_allowed(allowed):
    world = World(FILE, access=AccessPolicy(sources=tuple(map(SourceBucket, allowed))))
    named = "none" if not allowed else "another, other"
    assert_refused(world, errors.BucketNotAllowed, f"bucket bucket is not among .*: {named}")
    assert len(world.s3.calls) == 2


def test_preflight_refuses_objects_outside_of_the_allowed_prefix():
    below = SourceBucket(BUCKET, "in/books/")
    world = World(FILE, access=AccessPolicy(sources=(below, SourceBucket("other"))))
    assert_refused(
        world,
        errors.BucketNotAllowed,
        "s3://bucket/in/f.csv is outside of .*: bucket/in/books/",
        source={**world.payload["source"], "key": "in/f.csv"},
    )
    assert len(world.s3.calls) == 2


@pytest.mark.parametrize("listed", ["in/", "in/books", "", "out/in/books/"])
def test_listing_outside_of_the_allowed_prefix_is_refused(listed):
    world = World(FILE, access=AccessPolicy(sources=(SourceBucket(BUCKET, "in/books/"),)))
    with pytest.raises(errors.BucketNotAllowed, match="is outside of"):
        list_bucket(BUCKET, listed, world.context())


@pytest.mark.parametrize("allowed", [[], ["other"]])
def test_preflight_refuses_table_that_is_not_allowed(allowed):
    world = World(FILE, access=AccessPolicy(tables=frozenset(allowed)))
    assert_refused(world, errors.TableNotAllowed, "table books is not among")
    assert [call.operation for call in world.dynamodb.calls] == ["create_table"]


def test_run_succeeds_when_bucket_and_table_are_allowed():
    permitted = AccessPolicy(sources=(SourceBucket(BUCKET),), tables=frozenset({TABLE}))
    assert World(FILE, access=permitted).run().status == "SUCCEEDED"


def test_preflight_refuses_path_unless_allowed(tmp_path):
    path = tmp_path / "f.csv"
    path.write_bytes(FILE)
    source = {"path": str(path)}
    assert_refused(World(FILE), errors.BucketNotAllowed, "another machine", source=source)
    world = World(FILE, access=AccessPolicy(paths=True, sources=()))
    preflight(PreflightTask({**world.payload, "source": source}, RUN), world.context())
    assert world.in_ledger("run") == ["run.json"]


# AWS.


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (fails("AccessDeniedException"), errors.AccessDenied),
        (fails("ExpiredTokenException"), errors.AccessDenied),
        (fails("InvalidSignatureException"), errors.AccessDenied),
        (Fault(raises=ServiceError("ValidationException", 400, "no")), errors.RequestRefused),
    ],
)
def test_preflight_raises_when_table_cannot_be_described(fault, error):
    world = World(FILE)
    world.dynamodb.faults.add("describe_table", fault)
    assert_refused(world, error, "describing table books")


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalServerError"])
def test_preflight_retries_describing_the_table(code):
    world = World(FILE)
    world.dynamodb.faults.add("describe_table", fails(code), times=5)
    world.preflight()
    assert world.clock.time > 1000.0
    world.dynamodb.faults.add("describe_table", fails(code), times=6)
    with pytest.raises(errors.ServiceUnavailable, match="describing table books"):
        world.preflight()


def test_preflight_raises_when_source_cannot_be_read():
    world = World(FILE)
    world.s3.faults.add("get_object", slow_down(), times=6)
    assert_refused(world, errors.ServiceUnavailable, "SlowDown")


@pytest.mark.parametrize("letter", ["x", "é"])
def test_input_that_leaves_no_room_for_an_error_is_refused(letter):
    """With an error on top its state would be too large, and the run end without a report."""
    world = World(FILE)

    def run(size: int) -> None:
        types = {letter * (size // len(letter.encode())): "S"}
        payload = {**world.payload, "types": types}
        preflight(PreflightTask(payload, RUN, execution="arn"), world.context())

    with pytest.raises(errors.InvalidPayload, match="takes 220,000 of ddbload's"):
        run(240_000)
    assert world.in_ledger() == []
    with pytest.raises(errors.DdbloadError) as raised:
        run(200_000)
    assert "220,000" not in raised.value.message
