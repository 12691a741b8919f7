"""Tests of the construct in another project's app (foreign_app.py): grants, names and errors."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ddbload.contracts.upload_rule import UploadRule
from infra.errors import DeploymentError
from infra.settings import Settings
from tests.infra.synthesis import BUCKET_KEY, KEY, Synthesized, run
from tests.infra.template import Template, listed

FIRST, SECOND = "Load", "filmsmoreLoad"
"""Logical ids of the two pipelines' resources begin so."""
PIPELINES = (FIRST, SECOND)
FUNCTIONS = (
    *("FunctionsPreflight", "FunctionsImportChunk", "FunctionsReport"),
    *("TriggerOnUpload", "NoticeOnStopped"),
)
BOOKS = "${data:ExportsOutputFnGetAttBooksArn}"
ORDERS = "arn:${AWS::Partition}:dynamodb:eu-west-1:${AWS::AccountId}:table/old-orders"
FILMS = "${Films.Arn}"
INCOMING = "arn:${AWS::Partition}:s3:::${data:ExportsOutputRefIncoming}"
PARTNER = "arn:${AWS::Partition}:s3:::partner-data"
FILM_UPLOADS = "arn:${AWS::Partition}:s3:::${FilmUploads}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("foreign")
    run(sys.executable, "-m", "tests.infra.foreign_app", str(made))
    return made


@pytest.fixture(scope="module")
def shop(folder: Path) -> Template:
    return Template(Synthesized(folder, "shop").template)


@pytest.fixture(scope="module")
def errors(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads((folder / "errors.json").read_text("utf-8"))
    return found


def granted(template: Template, pipeline: str, service: str) -> dict[tuple[str, str], Any]:
    """Return the resources of a service that functions may use, by role and Sid."""
    return {
        (function, sid): listed(statement["Resource"])
        for function in FUNCTIONS
        for sid, statement in template.statements(f"{pipeline}{function}Role").items()
        if any(action.startswith(f"{service}:") for action in listed(statement["Action"]))
    }


def test_roles_use_the_given_tables_only(shop: Template):
    for pipeline, tables in ((FIRST, [BOOKS, ORDERS]), (SECOND, [FILMS])):
        found = granted(shop, pipeline, "dynamodb")
        assert found == {
            (function, "UseTables"): tables for function in FUNCTIONS if "OnUpload" not in function
        }


def test_roles_use_the_keys_of_the_given_tables_and_buckets_only(shop: Template):
    books, incoming = (
        f"${{data:ExportsOutputFnGetAtt{each}KeyArn}}" for each in ("Books", "Incoming")
    )
    first = granted(shop, FIRST, "kms")
    assert first == {
        **{(function, "UseBucketKey"): ["${LedgerKey.Arn}"] for function in FUNCTIONS},
        ("FunctionsPreflight", "WriteEncryptedTables"): [books, KEY],
        ("FunctionsImportChunk", "WriteEncryptedTables"): [books, KEY],
        ("FunctionsPreflight", "ReadEncryptedSources"): [incoming],
        ("FunctionsImportChunk", "ReadEncryptedSources"): [incoming],
    }
    # The bucket's alias stands for its key, which IAM knows. Preflight writes no rows here.
    films = ["${FilmsKey.Arn}", BUCKET_KEY]
    assert granted(shop, SECOND, "kms") == {
        ("FunctionsImportChunk", "WriteEncryptedTables"): films,
        ("FunctionsPreflight", "ReadEncryptedSources"): films,
        ("FunctionsImportChunk", "ReadEncryptedSources"): films,
    }


def test_roles_read_the_given_buckets_only(shop: Template):
    for function in ("FunctionsPreflight", "FunctionsImportChunk"):
        of_first = shop.statements(f"{FIRST}{function}Role")
        inbox, work = (f"${{{FIRST}Storage{name}.Arn}}" for name in ("Inbox", "Work"))
        assert of_first["ReadSources"]["Resource"] == [f"{inbox}/*", f"{INCOMING}/*"]
        assert of_first["ListSources"]["Resource"] == [inbox, INCOMING, work]
        limited = of_first["ReadLimited210987654321"]
        assert limited["Resource"] == f"{PARTNER}/exports/*"
        assert limited["Condition"] == {"StringEquals": {"s3:ResourceAccount": "210987654321"}}
        of_second = shop.statements(f"{SECOND}{function}Role")
        assert of_second["ReadSources"]["Resource"][1:] == [f"{FILM_UPLOADS}/*"]
        assert of_second["ListSources"]["Resource"][1:2] == [FILM_UPLOADS]


def test_roles_allow_what_those_of_the_stack_do(shop: Template, template: Template):
    """So the tests of each statement, and of the calls that need them, hold for them as well."""
    for name in template.of_type("AWS::IAM::Role"):
        wanted = {sid: each["Action"] for sid, each in template.statements(name).items()}
        found = {sid: each["Action"] for sid, each in shop.statements(f"{FIRST}{name}").items()}
        keys = {"UseBucketKey", "WriteEncryptedTables", "ReadEncryptedSources"}
        limited = {"ReadLimited210987654321", "ListBelow210987654321n1"}
        more = keys | limited | {"ConnectToVpc"}
        assert {sid: each for sid, each in found.items() if sid not in more} == wanted


def test_stack_of_tables_and_buckets_gets_nothing_but_exports(folder: Path):
    resources = Synthesized(folder, "data").template["Resources"].values()
    assert sorted(each["Type"] for each in resources) == [
        *("AWS::DynamoDB::Table", "AWS::KMS::Key", "AWS::KMS::Key", "AWS::S3::Bucket")
    ]
    for key in (each for each in resources if each["Type"] == "AWS::KMS::Key"):
        (statement,) = key["Properties"]["KeyPolicy"]["Statement"]
        assert statement["Action"] == "kms:*"


def test_pipelines_of_a_stack_use_nothing_of_each_other(shop: Template):
    for mine, other in (PIPELINES, PIPELINES[::-1]):
        for name, resource in shop.resources.items():
            if name.startswith(mine):
                assert f"${{{other}" not in json.dumps(resource), name


def test_pipelines_of_a_stack_share_no_name(shop: Template):
    named = Counter(
        (resource["Type"], value)
        for resource in shop.resources.values()
        for key, value in resource.get("Properties", {}).items()
        if key in ("AlarmName", "DashboardName", "LogGroupName", "Name", "PolicyName", "QueueName")
        or (key == "FunctionName" and resource["Type"] == "AWS::Lambda::Function")
    )
    assert len([kind for kind, _ in named if kind == "AWS::Logs::LogGroup"]) == 12
    assert set(named.values()) == {1}
    for _, name in (each for each in named if each[0] == "AWS::Logs::LogGroup"):
        # "Log group names consist of the following characters"
        assert re.fullmatch(r"[A-Za-z0-9_/.#-]{1,512}", name.replace("${AWS::StackName}", "s"))


def test_metrics_are_those_of_their_pipeline(shop: Template):
    services = {
        pipeline: shop.resources[f"{pipeline}FunctionsReportFunction"]["Properties"]["Environment"][
            "Variables"
        ]["POWERTOOLS_SERVICE_NAME"]
        for pipeline in PIPELINES
    }
    assert services[FIRST] == "${AWS::StackName}/Load"
    assert services[SECOND].startswith("${AWS::StackName}/films---more/Load-")
    alarms = shop.of_type("AWS::CloudWatch::Alarm")
    for name, pipeline in (("LoadAlarmsRunsFailed", FIRST), ("FilmRejects", SECOND)):
        (dimension,) = alarms[name]["Dimensions"]
        assert dimension == {"Name": "service", "Value": services[pipeline]}
    for pipeline, other in (PIPELINES, PIPELINES[::-1]):
        body = shop.resources[f"{pipeline}Dashboard"]["Properties"]["DashboardBody"]
        assert services[pipeline] in body
        assert f'"{services[other]}"' not in body


def test_rules_of_uploads_name_their_tables_and_buckets(shop: Template):
    function = shop.resources[f"{FIRST}TriggerOnUploadFunction"]["Properties"]
    uploads = json.loads(function["Environment"]["Variables"]["DDBLOAD_UPLOADS"])
    books, inbox = "${data:ExportsOutputRefBooks}", f"${{{FIRST}StorageInbox}}"
    incoming = "${data:ExportsOutputRefIncoming}"
    assert uploads == [
        {"prefix": "books/", "table": books, "bucket": inbox, "types": {"year": "N"}},
        {
            "prefix": "in/",
            "table": books,
            "bucket": incoming,
            "where": [{"column": "year", "op": ">=", "value": "2000"}],
        },
        {"prefix": "orders/", "table": "old-orders", "bucket": inbox, "once": True},
    ]
    rules = shop.of_type("AWS::Events::Rule")
    buckets = {
        name: rule["EventPattern"]["detail"]["bucket"]["name"]
        for name, rule in rules.items()
        if "Trigger" in name
    }
    assert buckets == {
        f"{FIRST}TriggerInbox": [inbox],
        f"{FIRST}TriggerSource2": [incoming],
        f"{SECOND}TriggerSource1": ["${FilmUploads}"],
    }


def test_outputs_find_each_pipeline(shop: Template):
    outputs = shop.plain["Outputs"]
    assert outputs["StateMachineArn"]["Value"] == f"${{{FIRST}WorkflowStateMachine}}"
    assert outputs["FilmsStateMachineArn"]["Value"] == f"${{{SECOND}WorkflowStateMachine}}"
    assert len(outputs) == 26


def test_bucket_that_sends_no_events_is_warned_of(folder: Path):
    ours = [each for each in Synthesized(folder, "shop").warnings if "ddbload" in each]
    (warning,) = ours
    assert warning.startswith("Uploads to shop/FilmUploads start no run until it sends its events")


WRONG = {
    "table not listed": ("TableNotListed", "uploads[0] goes to the table 'wrong0/Other'"),
    "bucket not listed": ("BucketNotListed", "uploads[0] comes from the bucket 'data/Incoming'"),
    "two rules of one prefix": ("AmbiguousUpload", "uploads[1] and uploads[0] have the same"),
    "different terms": ("InvalidSetting", "names the bucket 'data/Incoming' with different owner"),
    "wrong type": ("InvalidSetting", "'uploads[0].types.year' must be one of S, N,"),
    "wrong option": ("InvalidSetting", "'uploads[0].options.position_attribute' is missing"),
    "wrong prefix": ("InvalidSetting", "'uploads[0].prefix' must be plain text"),
    "wrong column of a filter": ("InvalidSetting", "uploads[0]: 'year' is not a comparison"),
    "misspelt parameter": ("UnknownSetting", "no parameter 'dashbord': 'dashboard' is meant?"),
    "knob of the stack": ("UnknownSetting", "no parameter 'stack_name'"),
    "wrong knob": ("InvalidSetting", "timeout_seconds is 1000, and must be a whole number"),
    "half a network": ("InvalidSetting", "subnets and security_groups is missing"),
    "names of tables": ("InvalidSetting", "tables has the text 'books'"),
    "names of buckets": ("InvalidSetting", "source_buckets has the text 'books'"),
    "imported alias": ("InvalidSetting", "alias/books is an imported alias of a KMS key"),
    "table of another stack's region": ("TableElsewhere", "elsewhere/There is in us-east-1"),
    "table of another region by ARN": ("TableElsewhere", "is in 123456789012, us-east-1"),
    "uploads of another region": ("InvalidSetting", "the bucket elsewhere/Events of another"),
    "too many rules": ("TooManySettings", "the environment of on_upload would have up to"),
    "unknown metric": ("UnknownSetting", "'RowsWriten': 'RowsWritten' is meant?"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistake_is_a_named_error(errors: dict[str, list[str]], case: str):
    name, says = WRONG[case]
    assert errors[case][0] == name
    assert says in errors[case][1]
    # Neither where settings of the stack are set, nor how CDK names what is not known yet.
    assert "cdk.json" not in errors[case][1]
    assert "Token[" not in errors[case][1]


def test_every_mistake_is_expected(errors: dict[str, list[str]]):
    assert set(errors) == set(WRONG)


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        ("wrong type", {"types": {"year": "Q"}}),
        ("wrong option", {"options": {"mode": "last-wins"}}),
        ("wrong prefix", {"prefix": "a*"}),
        ("wrong column of a filter", {"where": ["year"]}),
    ],
)
def test_upload_has_the_errors_of_the_setting(
    errors: dict[str, list[str]], case: str, rule: dict[str, Any]
):
    uploads = [{"prefix": "a/", "table": "books", **rule}]
    with pytest.raises(DeploymentError) as caught:
        Settings.from_context({"tables": ["books"], "uploads": uploads})
    assert str(caught.value).startswith(f"{errors[case][1]}: set it in cdk.json's context")


def test_parameters_are_those_of_the_settings():
    # Importing CDK starts a Node process, which no other process of the tests needs.
    from infra.inputs import Knobs, Upload

    assert [each.name for each in fields(Upload)] == [each.name for each in fields(UploadRule)]
    names = {each.name for each in fields(Settings)}
    assert set(Knobs.__annotations__) < names
    # CDK's objects in their place; a foreign stack has its own name.
    assert names - set(Knobs.__annotations__) == {
        *("tables", "source_buckets", "uploads", "kms_keys", "bucket_key", "layers"),
        *("alarm_topic", "vpc", "subnets", "security_groups", "stack_name"),
    }
