"""The knobs: what they take, and what a wrong one says."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from ddbload import contracts
from infra.checkout import ROOT
from infra.errors import DeploymentError
from infra.settings import FUNCTIONS, OPTION_FIELDS, SOURCE_FIELDS, Settings, Upload

BOOKS = {"prefix": "books/", "table": "books"}
CDK_JSON = json.loads((ROOT / "cdk.json").read_text("utf-8"))


def settings(**context: Any) -> Settings:
    return Settings.from_context(context)


def test_cdk_json_has_every_knob_with_its_default():
    context = CDK_JSON["context"]
    assert Settings.from_context(context) == Settings()
    assert {each.name for each in fields(Settings)} == set(context) - {"cli-telemetry"}


def test_nothing_given_is_the_default():
    assert settings() == Settings()


def test_cdk_json_reaches_out_to_nobody():
    assert CDK_JSON["notices"] is False
    assert CDK_JSON["versionReporting"] is False
    assert CDK_JSON["context"]["cli-telemetry"] is False


def test_what_an_upload_may_say_is_what_the_contracts_read():
    where = {"bucket", "key", "version_id", "etag", "path"}
    assert set(SOURCE_FIELDS) == {each.name for each in fields(contracts.Source)} - where
    assert set(OPTION_FIELDS) == {each.name for each in fields(contracts.Options)}


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"tables": "books,films"}, {"tables": ("books", "films")}),
        ({"tables": " books , films,"}, {"tables": ("books", "films")}),
        ({"tables": ""}, {"tables": ()}),
        ({"tables": ["books", "books"]}, {"tables": ("books",)}),
        ({"source_buckets": "a-b,c.d"}, {"source_buckets": ("a-b", "c.d")}),
        ({"memory_mb": "2048"}, {"memory_mb": dict.fromkeys(FUNCTIONS, 2048)}),
        ({"memory_mb": 2048.0}, {"memory_mb": dict.fromkeys(FUNCTIONS, 2048)}),
        (
            {"memory_mb": '{"report": 3008}'},
            {
                "memory_mb": {
                    "preflight": 1769,
                    "import_chunk": 1769,
                    "report": 3008,
                    "on_upload": 512,
                }
            },
        ),
        ({"timeout_seconds": "60"}, {"timeout_seconds": 60}),
        ({"timeout_seconds": 31, "reserve_seconds": "30"}, {"timeout_seconds": 31}),
        ({"log_retention_days": "7"}, {"log_retention_days": 7}),
        ({"runtime": "python3.11"}, {"runtime": "python3.11"}),
        ({"architecture": "x86_64"}, {"architecture": "x86_64"}),
        ({"stack_name": "loader-2"}, {"stack_name": "loader-2"}),
        (
            {"tables": "books", "uploads": json.dumps([BOOKS])},
            {"tables": ("books",), "uploads": (Upload(prefix="books/", table="books"),)},
        ),
        # null in cdk.json is as if it were not there.
        ({"tables": None}, {"tables": ()}),
        # Keys of others: CDK's own, and those of other apps in ~/.cdk.json.
        ({"@aws-cdk/core:x": True, "aws:cdk:bundling-stacks": ["**"], "vpc": "x"}, {}),
    ],
)
def test_knobs(context: dict[str, Any], expected: dict[str, Any]):
    found = settings(**context)
    for name, value in expected.items():
        assert getattr(found, name) == value


@pytest.mark.parametrize(
    ("context", "error", "says"),
    [
        ({"table": "books"}, "UnknownSetting", "'tables' is meant"),
        ({"source-buckets": "a"}, "UnknownSetting", "'source_buckets' is meant"),
        ({"tables": "b"}, "InvalidSetting", 'tables is "b"'),
        ({"tables": ["books", 1]}, "InvalidSetting", "a list of names"),
        ({"tables": "no spaces"}, "InvalidSetting", "tables"),
        (
            {"tables": "arn:aws:dynamodb:eu-west-1:210987654321:table/books"},
            "TableElsewhere",
            "tables of other accounts or regions are not supported",
        ),
        ({"source_buckets": "s3://a-b"}, "InvalidSetting", "without s3://"),
        ({"source_buckets": "arn:aws:s3:::a-b"}, "InvalidSetting", "without s3://, arn:"),
        ({"source_buckets": "UPPER"}, "InvalidSetting", "a bucket's name"),
        ({"memory_mb": 64}, "InvalidSetting", "from 128 to 10240"),
        ({"memory_mb": {"report": True}}, "InvalidSetting", "memory_mb.report is true"),
        ({"memory_mb": {"importer": 512}}, "InvalidSetting", "one of preflight"),
        ({"memory_mb": "{"}, "InvalidSetting", "no JSON"),
        ({"timeout_seconds": 901}, "InvalidSetting", "from 2 to 900"),
        ({"timeout_seconds": "soon"}, "InvalidSetting", "from 2 to 900"),
        ({"timeout_seconds": 30}, "InvalidSetting", "reserve_seconds is 30"),
        ({"reserve_seconds": 0}, "InvalidSetting", "from 1 to 899"),
        ({"reserve_seconds": 1.5}, "InvalidSetting", "a whole number"),
        ({"log_retention_days": 31}, "InvalidSetting", "one of 1, 3, 5"),
        ({"retain_runs_days": 0}, "InvalidSetting", "retain_runs_days is 0"),
        ({"runtime": "python3.8"}, "InvalidSetting", "one of python3.11"),
        ({"architecture": "arm"}, "InvalidSetting", "one of arm64, x86_64"),
        ({"stack_name": "my_stack"}, "InvalidSetting", "stack_name"),
    ],
)
def test_wrong_knobs(context: dict[str, Any], error: str, says: str):
    with pytest.raises(DeploymentError) as caught:
        settings(**context)
    assert type(caught.value).__name__ == error
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("upload", "error", "says"),
    [
        ("books", "InvalidSetting", "uploads[1] is"),
        ({"table": "books"}, "InvalidSetting", "uploads[1].prefix is null"),
        ({**BOOKS, "prefix": "x*"}, "InvalidSetting", "plain text"),
        ({"prefix": "x"}, "InvalidSetting", "uploads[1].table is null"),
        ({**BOOKS, "prefix": "x", "table": "songs"}, "TableNotListed", "not in tables"),
        (
            {"prefix": "x", "table": "arn:aws:dynamodb:eu-west-1:1:table/books"},
            "TableElsewhere",
            "like 'books'",
        ),
        ({**BOOKS, "bucket": "other"}, "BucketNotListed", "not in source_buckets"),
        ({**BOOKS, "bucket": "s3://other"}, "InvalidSetting", "uploads[1].bucket"),
        (BOOKS, "AmbiguousUpload", "uploads[1] and uploads[0]"),
        ({**BOOKS, "prefx": "x"}, "InvalidSetting", "a field 'prefx'"),
        ({**BOOKS, "prefix": "x", "options": {"worker": 2}}, "InvalidSetting", "'worker'"),
        ({**BOOKS, "prefix": "x", "source": {"key": "x"}}, "InvalidSetting", "'key'"),
        ({**BOOKS, "prefix": "x", "types": {"year": 1}}, "InvalidSetting", "types.year is 1"),
        ({**BOOKS, "prefix": "x", "types": ["year"]}, "InvalidSetting", "an object"),
    ],
)
def test_wrong_uploads(upload: Any, error: str, says: str):
    with pytest.raises(DeploymentError) as caught:
        settings(tables="books", source_buckets="mine", uploads=[BOOKS, upload])
    assert type(caught.value).__name__ == error
    assert says in str(caught.value)


def test_uploads_are_a_list():
    with pytest.raises(DeploymentError, match="a list like"):
        settings(tables="books", uploads=BOOKS)


def test_the_same_prefix_of_two_buckets_is_two_places():
    found = settings(
        tables="books", source_buckets="mine", uploads=[BOOKS, {**BOOKS, "bucket": "mine"}]
    )
    assert [each.bucket for each in found.uploads] == [None, "mine"]


def test_every_wrong_value_says_where_to_put_the_right_one():
    with pytest.raises(DeploymentError) as caught:
        settings(tables="books", uploads=[{**BOOKS, "types": {"year": 1}}])
    assert str(caught.value).endswith("set it in cdk.json's context, or with -c uploads=...")
