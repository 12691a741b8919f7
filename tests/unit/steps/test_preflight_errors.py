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
from tests.unit.steps.world import BUCKET, RUN, World
from tests.unit.steps.worlds import assert_refused

FILE = b"id,year,name\nb1,1999,x\n"


# The table.


def test_preflight_refuses_missing_table():
    world = World(FILE, make_table=False)
    assert_refused(world, errors.TableNotFound, "there is no table books in us-east-1")


@pytest.mark.parametrize("status", ["CREATING", "DELETING", "INACCESSIBLE_ENCRYPTION_CREDENTIALS"])
def test_preflight_refuses_table_that_is_not_active(status):
    world = World(FILE)
    with_status(world, status)
    assert_refused(world, errors.TableNotActive, f"table books is {status}")


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


def test_error_shows_no_columns_that_may_be_a_row():
    """Without a header the first row takes its place, and errors must not quote it."""
    for file in (b"top,secret\n", b"secret,secret\n", b"secret,\n"):
        world = World(file, types={"a": "N"}, keys=[("id", "S")])
        with pytest.raises(errors.DdbloadError) as raised:
            world.preflight()
        assert "secret" not in raised.value.message


# The source.


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


def test_preflight_refuses_key_of_unknown_type():
    table = Table("books", "id", (KeyAttribute("id", "M", 2048),))
    with pytest.raises(errors.UnsupportedKeyType, match="a key of type M in table books"):
        check_column_types(["id"], {}, table)
