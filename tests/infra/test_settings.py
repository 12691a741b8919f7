"""Tests of the settings: values that are allowed, and errors for the others."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from ddbload.contracts.column_mapping import check_column_names, check_dialect, column_changes
from ddbload.contracts.options import ENGINES, MAX_CONCURRENCY, ON_EMPTY, SCANS, Options
from ddbload.contracts.payload import (
    CELL_TYPES,
    NULL_POLICIES,
    TYPES,
    ColumnMapping,
    NullHandling,
    Payload,
)
from ddbload.contracts.source import (
    COMPRESSIONS,
    DUPLICATES,
    FORMATS,
    LAYOUTS,
    LOCATION_FIELDS,
    MATCHES,
    PRESETS,
    Source,
)
from ddbload.contracts.upload_rule import SourceBucket, Upload, UploadRule
from ddbload.dynamodb.modes import MODES
from ddbload.errors import DdbloadError
from infra import ROOT
from infra.errors import DeploymentError, InvalidSetting
from infra.settings import FUNCTIONS, Settings
from tests.infra.synthesis import NETWORK

KEY = f"arn:aws:kms:eu-west-1:123456789012:key/mrk-{'12ab' * 8}"
OTHER_KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:ops"
BOOKS = {"prefix": "books/", "table": "books"}
CDK_JSON = json.loads((ROOT / "cdk.json").read_text("utf-8"))


def settings(**context: Any) -> Settings:
    return Settings.from_context(context)


def test_cdk_json_has_every_knob_with_its_default():
    context = CDK_JSON["context"]
    assert Settings.from_context(context) == Settings()
    ours = {name for name in context if not name.startswith("@aws-cdk")}
    assert {each.name for each in fields(Settings)} == ours - {"cli-telemetry"}


def names_of(message: type) -> set[str]:
    return {each.name for each in fields(message)}


def whole_numbers(most: int) -> list[Any]:
    return [-1, 0, 1, most, most + 1, 1.5, True, "1", None, [], {}]


FIELD_VALUES: dict[str, dict[str, list[Any]]] = {
    "types": {"year": [*TYPES, *CELL_TYPES, "Q", "s", "", 1, None, ["S"], {}]},
    "source": {
        "format": [*FORMATS, "auto", "xlsx", "CSV", "", 1, None, []],
        "delimiter": [
            *(";", "\t", "\u2028", "||", "auto", 'a"', '"', "", ";\n", "\n", "\r", "\ud800"),
            *(1, None, []),
        ],
        "quote": ["'", '"', "", None, ",", ";", "''", "\n", "\r", "\udfff", 1, True, []],
        "escape": ["\\", '"', ",", ";", "", None, "\\\\", "\n", "\udfff", 1, True, []],
        "comment": ["#", "--", '"', ",", "", None, "#\n", "\r", "\udfff", 1, True, []],
        "skip_lines": whole_numbers(2**53),
        "header": [True, False, None, 0, 1, "true", []],
        "columns": [["a"], ["a", ""], ["a", "a"], ["\ud800"], [], ["a", 1], "a", None, {}, 1],
        "encoding": [
            *("utf-8", "UTF8", "utf_8_sig", "latin-1", "UTF-16", "shift_jis", "utf-7", "auto"),
            *("rot13", "base64", "idna", "unicode_escape", "utf-88", "\0", "", None, 8, []),
        ],
        "compression": [*COMPRESSIONS, "auto", "lzip", "", 1, None, []],
        "max_expansion": whole_numbers(2**53),
        "match": [*MATCHES, "order", "", 1, None, []],
        "duplicate_columns": [*DUPLICATES, "drop", "", 1, None, []],
        "decimal": [".", ",", ";", "", None, 1, []],
        "thousands": [".", ",", "'", " ", "_", "", None, 1, []],
        "dialect": [*PRESETS, "mssql", "", None, 1, []],
        "from_table": ["a", "", None, "\ud800", 1, True, []],
        "layout": [*LAYOUTS, "auto", "list", "", 1, None, []],
    },
    "mapping": {
        "rename": [
            *({"a": "b"}, {"a": "b", "c": "d"}, {"": "a"}, {}, None),
            *({"a": ""}, {"a": "b", "c": "b"}, {"a": 1}, {"a": "\ud800"}, {"\ud800": "a"}),
            *(["a"], "a", 1, False),
        ],
        "drop": [["a"], ["a", "a"], [""], [], None, ["\ud800"], [1], "a", {}, 0, False],
        "set": [
            *({"pk": "USER#{id}"}, {"pk": "{a}{b}"}, {"pk": "{{}}"}, {"pk": ""}, {}, None),
            *({"pk": "{"}, {"pk": "}"}, {"pk": "{}"}, {"pk": "{a{b}}"}, {"pk": "\ud800"}),
            *({"": "a"}, {"\ud800": "a"}, {"pk": 1}, ["a"], 0),
        ],
    },
    "nulls": {
        "policy": [*NULL_POLICIES, "drop", "", 1, None, []],
        "markers": [["-"], ["", "NULL"], [], None, ["\ud800"], [1], "-", {}, 0],
    },
    "options": {
        "mode": [*MODES, "upsert", "", 1, None, []],
        "position_attribute": ["at", "", 1, None, [], "\ud800"],
        "engine": [*ENGINES, "processes", 1, None, []],
        "workers": [*whole_numbers(10_000), "auto", "all"],
        "concurrency": whole_numbers(MAX_CONCURRENCY),
        "chunk_bytes": whole_numbers(2**53),
        "max_wcu": [*whole_numbers(2**53), 0.9, 1e308, float("inf"), 10**400, "50%", "0%"],
        "max_cost": [0, 0.01, 1e308, float("inf"), "5", True, None, []],
        "unit_price": [0, 0.625, -1, "0.625", True, None, []],
        "require_backup": [True, False, None, "true", 1],
        "max_rejects": [*whole_numbers(2**53), "5%", "0%", "101%", "5"],
        "max_row_bytes": whole_numbers(2**53),
        "scan": [*SCANS, "auto", "some", "", 1, None, []],
        "on_empty": [*ON_EMPTY, "null", "", 1, None, []],
        "add": [["tags"], ["tags", "tags"], [""], [], None, ["\ud800"], [1], "tags", {}],
        "only_existing": [True, False, None, "true", 1],
        "condition": ["a = {a}", "a = {", "", "\ud800", "a" * 4097, 1, None, []],
    },
}
"""Values for each field of an upload rule, right ones and wrong ones."""

LAYER = "arn:aws:lambda:eu-west-1:123456789012:layer:formats:3"


def test_every_field_of_an_upload_rule_is_tried():
    assert set(FIELD_VALUES["source"]) == names_of(Source) - set(LOCATION_FIELDS)
    # A share is a text in max_wcu and max_rejects.
    assert set(FIELD_VALUES["options"]) == names_of(Options) - {
        "max_wcu_percent",
        "max_rejects_percent",
    }
    assert set(FIELD_VALUES["mapping"]) == names_of(ColumnMapping)
    assert set(FIELD_VALUES["nulls"]) == names_of(NullHandling)
    # A rule has the fields of a payload and those that select uploads. Its target is a table.
    others = {"run", "force", "retry_of", "target", "transform"}
    assert names_of(UploadRule) - {"prefix", "bucket"} == names_of(Payload) - others


def deployment_accepts(upload: dict[str, Any]) -> bool:
    try:
        settings(tables="books", uploads=[upload])
    except InvalidSetting:
        return False
    return True


def run_accepts(upload: dict[str, Any]) -> bool:
    """By the contracts, as on_upload and the workers read it."""
    try:
        rule = UploadRule.from_json(upload)
        # Of an export, only this starts a run.
        key = "a.csv" if rule.source.get("format") != "dynamodb-export" else "manifest-summary.json"
        uploaded = Upload(bucket="inbox", key=f"books/{key}", version_id=None, etag="e")
        payload = Payload.from_json(rule.payload(uploaded))
        check_dialect(payload.source)
        check_column_names(payload.source.columns or ())
        column_changes(payload.mapping)
    except DdbloadError:
        return False
    return True


@pytest.mark.parametrize(
    ("part", "name"), [(part, name) for part, names in FIELD_VALUES.items() for name in names]
)
def test_upload_rule_is_refused_exactly_when_its_runs_would_fail(part: str, name: str):
    found = {}
    for number, value in enumerate(FIELD_VALUES[part][name]):
        upload = {**BOOKS, part: {name: value}}
        found[number] = deployment_accepts(upload)
        assert found[number] == run_accepts(upload), value
    assert set(found.values()) == {True, False}


def test_upload_rule_is_written_completely():
    said = {
        "types": {"year": "epoch"},
        "source": {"format": "csv", "escape": "\\", "skip_lines": 2.0},
        "options": {"mode": "plan"},
        "infer_types": True,
        "mapping": {"set": {"pk": "USER#{id}"}},
        "nulls": {"policy": "null"},
    }
    (upload,) = settings(tables="books", uploads=[{**BOOKS, **said}]).uploads
    written = json.loads(json.dumps(replace(upload, bucket="inbox").to_json()))
    assert written == {**BOOKS, "bucket": "inbox", **said}
    assert json.dumps(written["source"]["skip_lines"]) == "2"
    assert UploadRule.from_json(written).to_json() == written
    (upload,) = settings(tables="books", uploads=[BOOKS]).uploads
    assert upload.to_json() == BOOKS


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"tables": "books,films"}, {"tables": ("books", "films")}),
        ({"tables": " books , films,"}, {"tables": ("books", "films")}),
        ({"tables": ""}, {"tables": ()}),
        ({"tables": ["books", "books"]}, {"tables": ("books",)}),
        ({"layers": LAYER}, {"layers": (LAYER,)}),
        ({"layers": [LAYER, LAYER]}, {"layers": (LAYER,)}),
        ({"extras": "parquet,zstd"}, {"extras": ("parquet", "zstd")}),
        ({"extras": ["zstd", "zstd"]}, {"extras": ("zstd",)}),
        ({"extras": ""}, {"extras": ()}),
        (
            {"source_buckets": "a-b,c.d/in/"},
            {"source_buckets": (SourceBucket("a-b"), SourceBucket("c.d", "in/"))},
        ),
        (
            {"source_buckets": '["a-b/x,y", {"bucket": "c.d", "owner": "123456789012"}]'},
            {
                "source_buckets": (
                    SourceBucket("a-b", "x,y"),
                    SourceBucket("c.d", owner="123456789012"),
                )
            },
        ),
        (
            {"source_buckets": [{"bucket": "a-b", "prefix": "p", "requester_pays": True}]},
            {"source_buckets": (SourceBucket("a-b", "p", requester_pays=True),)},
        ),
        ({"kms_keys": f"{KEY},{OTHER_KEY}"}, {"kms_keys": (KEY, OTHER_KEY)}),
        ({"bucket_key": KEY}, {"bucket_key": KEY}),
        ({"alarm_topic": TOPIC}, {"alarm_topic": TOPIC}),
        (
            {"dashboard": "true", "tracing": True, "alarm_topic": ""},
            {"dashboard": True, "tracing": True, "alarm_topic": None},
        ),
        ({"memory_mb": "2048"}, {"memory_mb": dict.fromkeys(FUNCTIONS, 2048)}),
        ({"memory_mb": 2048.0}, {"memory_mb": dict.fromkeys(FUNCTIONS, 2048)}),
        (
            {"memory_mb": '{"report": 3008}'},
            {
                "memory_mb": {
                    "preflight": 1769,
                    "import_chunk": 768,
                    "report": 3008,
                    "on_upload": 512,
                    "on_stopped": 1769,
                }
            },
        ),
        ({"timeout_seconds": "60"}, {"timeout_seconds": 60}),
        ({"import_concurrency": "50"}, {"import_concurrency": 50}),
        ({"import_concurrency": None}, {"import_concurrency": None}),
        ({"timeout_seconds": 31}, {"timeout_seconds": 31}),
        ({"log_retention_days": "7"}, {"log_retention_days": 7}),
        ({"log_key": True}, {"log_key": True}),
        ({"log_key": "true"}, {"log_key": True}),
        ({"log_key": False}, {"log_key": False}),
        ({"log_key": "false"}, {"log_key": False}),
        ({"log_key": None}, {"log_key": False}),
        ({"runtime": "python3.11"}, {"runtime": "python3.11"}),
        ({"snap_start": "true"}, {"snap_start": True}),
        ({"architecture": "x86_64"}, {"architecture": "x86_64"}),
        ({"stack_name": "loader-2"}, {"stack_name": "loader-2"}),
        (
            {"tables": "books", "uploads": json.dumps([BOOKS])},
            {"tables": ("books",), "uploads": (UploadRule("books/", "books"),)},
        ),
        (
            NETWORK,
            {
                "vpc": NETWORK["vpc"],
                "subnets": tuple(NETWORK["subnets"].split(",")),
                "security_groups": (NETWORK["security_groups"],),
            },
        ),
        ({"vpc": "", "subnets": [], "security_groups": ""}, {"vpc": None, "subnets": ()}),
        # null in cdk.json is as if it were not there.
        ({"tables": None}, {"tables": ()}),
        # Keys of others: CDK's own, and those of other apps in ~/.cdk.json.
        ({"@aws-cdk/core:x": True, "aws:cdk:bundling-stacks": ["**"], "cluster": "x"}, {}),
    ],
)
def test_knob_is_read(context: dict[str, Any], expected: dict[str, Any]):
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
        ({"source_buckets": "arn:aws:s3:::a-b"}, "InvalidSetting", "without s3:// or arn:"),
        ({"source_buckets": "point-x1-s3alias"}, "InvalidSetting", "no alias of an access point"),
        ({"source_buckets": "a-b/*.csv"}, "InvalidSetting", "plain text that keys begin with"),
        ({"source_buckets": ["a-b/${x}"]}, "InvalidSetting", "which IAM takes for a variable"),
        ({"source_buckets": [{"bucket": "a-b", "owner": 1}]}, "InvalidSetting", "[0].owner"),
        ({"source_buckets": [{"name": "a-b"}]}, "InvalidSetting", "'source_buckets[0].bucket'"),
        ({"source_buckets": [1]}, "InvalidSetting", "source_buckets[0] is 1"),
        ({"source_buckets": {"bucket": "a-b"}}, "InvalidSetting", "must be a list like"),
        ({"source_buckets": '[{"bucket"'}, "InvalidSetting", "source_buckets is not JSON"),
        (
            {"source_buckets": ["a-b/x", {"bucket": "a-b", "owner": "123456789012"}]},
            "InvalidSetting",
            "different owner or requester_pays",
        ),
        ({"alarm_topic": "ops"}, "InvalidSetting", "the ARN of an SNS topic"),
        ({"dashboard": "yes"}, "InvalidSetting", "true or false"),
        ({"tracing": 1}, "InvalidSetting", "true or false"),
        ({"kms_keys": "alias/mine"}, "InvalidSetting", "the ARN of a KMS key"),
        ({"bucket_key": KEY.replace(":key/", ":alias/")}, "InvalidSetting", "know no aliases"),
        ({"source_buckets": "UPPER"}, "InvalidSetting", "a bucket's name"),
        ({"memory_mb": 64}, "InvalidSetting", "from 128 to 10240"),
        ({"memory_mb": {"report": True}}, "InvalidSetting", "memory_mb.report is true"),
        ({"memory_mb": {"importer": 512}}, "InvalidSetting", "one of preflight"),
        ({"memory_mb": "{"}, "InvalidSetting", "not JSON"),
        ({"timeout_seconds": 901}, "InvalidSetting", "from 2 to 900"),
        ({"timeout_seconds": "soon"}, "InvalidSetting", "from 2 to 900"),
        ({"log_retention_days": 31}, "InvalidSetting", "one of 1, 3, 5"),
        ({"log_key": "yes"}, "InvalidSetting", 'log_key is "yes", and must be true or false'),
        ({"log_key": "True"}, "InvalidSetting", "true or false"),
        ({"log_key": 1}, "InvalidSetting", "true or false"),
        ({"log_key": ""}, "InvalidSetting", "true or false"),
        ({"log_keys": "true"}, "UnknownSetting", "'log_key' is meant"),
        ({"layers": LAYER.rpartition(":")[0]}, "InvalidSetting", "ARN of a layer's version"),
        ({"layers": "pyarrow"}, "InvalidSetting", "ARN of a layer's version"),
        ({"layers": [f"{LAYER}{n}" for n in range(6)]}, "InvalidSetting", "at most 5"),
        (
            {"layers": [f"{LAYER}{n}" for n in range(4)], "extras": "parquet,zstd"},
            *("InvalidSetting", "at most 5 with those of extras"),
        ),
        ({"extras": "orc"}, "InvalidSetting", "one of parquet, zstd"),
        ({"extra": "zstd"}, "UnknownSetting", "'extras' is meant"),
        ({"retain_runs_days": 0}, "InvalidSetting", "retain_runs_days is 0"),
        ({"import_concurrency": 0}, "InvalidSetting", "import_concurrency is 0"),
        ({"import_concurrency": "all"}, "InvalidSetting", "from 1 to 10000"),
        ({"runtime": "python3.8"}, "InvalidSetting", "one of python3.11"),
        (
            {"runtime": "python3.11", "snap_start": True},
            *("InvalidSetting", "snap_start is true, and must be false with python3.11"),
        ),
        ({"architecture": "arm"}, "InvalidSetting", "one of arm64, x86_64"),
        ({"stack_name": "my_stack"}, "InvalidSetting", "stack_name"),
        ({**NETWORK, "vpc": ""}, "InvalidSetting", "and vpc is missing: set all three, or none"),
        ({"vpc": NETWORK["vpc"]}, "InvalidSetting", "subnets and security_groups is missing"),
        ({**NETWORK, "security_groups": []}, "InvalidSetting", "set all three, or none of them"),
        ({**NETWORK, "vpc": "main"}, "InvalidSetting", 'vpc is "main"'),
        ({**NETWORK, "subnets": "sg-0a1b2c3d"}, "InvalidSetting", "subnets is"),
        (
            {**NETWORK, "subnets": [f"subnet-{each:08x}" for each in range(17)]},
            *("InvalidSetting", "at most 16"),
        ),
        (
            {**NETWORK, "security_groups": [f"sg-{each:08x}" for each in range(6)]},
            *("InvalidSetting", "at most 5"),
        ),
        ({"subnet": "subnet-0a1b2c3d"}, "UnknownSetting", "'subnets' is meant"),
    ],
)
def test_wrong_knob_is_named(context: dict[str, Any], error: str, says: str):
    with pytest.raises(DeploymentError) as caught:
        settings(**context)
    assert type(caught.value).__name__ == error
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("upload", "error", "says"),
    [
        ("books", "InvalidSetting", "'uploads[1]' must be a JSON object"),
        ({"table": "books"}, "InvalidSetting", "'uploads[1].prefix' must be plain text"),
        ({**BOOKS, "prefix": "x*"}, "InvalidSetting", "plain text"),
        ({"prefix": "x"}, "InvalidSetting", "'uploads[1].table' is missing"),
        ({**BOOKS, "prefix": "x", "table": "songs"}, "TableNotListed", "not in tables"),
        (
            {"prefix": "x", "table": "arn:aws:dynamodb:eu-west-1:1:table/books"},
            "TableElsewhere",
            "like 'books'",
        ),
        ({**BOOKS, "bucket": "other"}, "BucketNotListed", "not in source_buckets"),
        (
            {**BOOKS, "bucket": "narrow"},
            "BucketNotListed",
            "of which source_buckets has narrow/books/new/ only",
        ),
        ({**BOOKS, "bucket": "s3://other"}, "InvalidSetting", "uploads[1].bucket"),
        (BOOKS, "AmbiguousUpload", "uploads[1] and uploads[0]"),
        ({**BOOKS, "prefx": "x"}, "InvalidSetting", "unknown field 'uploads[1].prefx'"),
        (
            {**BOOKS, "prefix": "x", "options": {"worker": 2}},
            "InvalidSetting",
            "unknown field 'uploads[1].options.worker'",
        ),
        (
            {**BOOKS, "prefix": "x", "source": {"key": "x"}},
            "InvalidSetting",
            "unknown field 'uploads[1].source.key'",
        ),
        (
            {**BOOKS, "prefix": "x", "types": {"year": 1}},
            "InvalidSetting",
            "'uploads[1].types.year' must be a string, not 1",
        ),
        ({**BOOKS, "prefix": "x", "types": {"x": "Q"}}, "InvalidSetting", "one of S, N, BOOL"),
        (
            {**BOOKS, "prefix": "x", "options": {"workers": "x"}},
            "InvalidSetting",
            "'uploads[1].options.workers' must be a whole number from 1 to 10000",
        ),
        (
            {**BOOKS, "prefix": "x", "source": {"delimiter": ":\n"}},
            "InvalidSetting",
            "uploads[1]: 'source.delimiter' cannot contain a line end",
        ),
        ({**BOOKS, "prefix": "x", "types": ["year"]}, "InvalidSetting", "an object"),
    ],
)
def test_wrong_upload_rule_is_named(upload: Any, error: str, says: str):
    with pytest.raises(DeploymentError) as caught:
        settings(tables="books", source_buckets="mine,narrow/books/new/", uploads=[BOOKS, upload])
    assert type(caught.value).__name__ == error
    assert says in str(caught.value)


def test_rules_of_two_buckets_may_share_a_prefix():
    found = settings(
        tables="books", source_buckets="mine", uploads=[BOOKS, {**BOOKS, "bucket": "mine"}]
    )
    assert [each.bucket for each in found.uploads] == [None, "mine"]
