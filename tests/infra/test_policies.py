"""Tests of every statement of every role: nothing else is allowed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.infra.synthesis import BUCKET_KEY, KEY, NETWORK
from tests.infra.template import Template, listed

ARN = "arn:${AWS::Partition}"
HERE = "${AWS::Region}:${AWS::AccountId}"
WORK = "${StorageWork.Arn}"
INBOX = "${StorageInbox.Arn}"
TABLES = [f"{ARN}:dynamodb:{HERE}:table/books", f"{ARN}:dynamodb:{HERE}:table/films"]
SOURCES = [INBOX, f"{ARN}:s3:::other-source", f"{ARN}:s3:::third.source"]
MACHINE = "${WorkflowStateMachine}"
EXECUTION = f"{ARN}:states:{HERE}:execution:${{WorkflowStateMachine.Name}}"

LOGS = ["logs:CreateLogStream", "logs:PutLogEvents"]
READ_SOURCES = (
    ["s3:GetObject", "s3:GetObjectVersion"],
    [f"{bucket}/*" for bucket in SOURCES],
)
LIST_SOURCES = (["s3:ListBucket"], [*SOURCES, WORK])

IMPORTING = {
    "ReadChunks": (
        ["s3:GetObject"],
        [
            f"{WORK}/runs/*/chunks/*",
            f"{WORK}/runs/*/control.json",
            f"{WORK}/runs/*/parts/*",
            f"{WORK}/runs/*/rejects/*",
            f"{WORK}/runs/*/manifest.json",
            f"{WORK}/runs/*/run.json",
            f"{WORK}/runs/*/seek/*",
        ],
    ),
    "WriteChunks": (
        ["s3:PutObject"],
        [
            f"{WORK}/runs/*/attempts/*",
            f"{WORK}/runs/*/chunks/*",
            f"{WORK}/runs/*/failures/*",
            f"{WORK}/runs/*/progress/*",
            f"{WORK}/runs/*/rejects/*",
            f"{WORK}/runs/*/seek/*",
        ],
    ),
    "RenewProgress": (["s3:DeleteObject"], [f"{WORK}/runs/*/progress/*"]),
}
WRITES = [
    "dynamodb:BatchWriteItem",
    "dynamodb:DeleteItem",
    "dynamodb:DescribeTable",
    "dynamodb:PartiQLInsert",
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
]
DESCRIBES = (["dynamodb:DescribeTable"], TABLES)
REPORTING = {
    "ReadRuns": (["s3:GetObject"], [f"{WORK}/runs/*", f"{WORK}/history/*"]),
    "WriteHistory": (["s3:PutObject"], [f"{WORK}/history/*"]),
    "ListLedger": (["s3:ListBucket"], [WORK]),
    "WriteReport": (
        ["s3:PutObject"],
        [
            f"{WORK}/runs/*/report-parts/*",
            f"{WORK}/runs/*/report.html",
            f"{WORK}/runs/*/report.json",
            f"{WORK}/runs/*/request.json",
        ],
    ),
    "AnnounceRuns": (["events:PutEvents"], [f"{ARN}:events:{HERE}:event-bus/default"]),
    "MarkAnnounced": (["s3:GetObject", "s3:PutObject"], [f"{WORK}/notices/*"]),
}
ANNOUNCE_ONLY = {
    "StringEquals": {"events:source": "ddbload", "events:detail-type": "ddbload.run.completed"}
}

ALLOWED = {
    "FunctionsPreflightRole": {
        "WriteOwnLogs": (LOGS, ["${ObservabilityPreflight.Arn}"]),
        # It imports and reports small sources.
        **IMPORTING,
        **REPORTING,
        "UseTables": (sorted([*WRITES, "dynamodb:DescribeContinuousBackups"]), TABLES),
        "ReadLimits": (
            ["cloudwatch:GetMetricStatistics", "lambda:GetAccountSettings"],
            ["*"],
        ),
        "ReadLedger": (
            ["s3:GetObject"],
            [
                f"{WORK}/runs/*/control.json",
                f"{WORK}/runs/*/listing/*",
                f"{WORK}/runs/*/seek/*",
                f"{WORK}/runs/*/request.json",
                f"{WORK}/runs/*/manifest.json",
                f"{WORK}/runs/*/manifest/*",
                f"{WORK}/runs/*/run.json",
                f"{WORK}/runs/*/report.json",
                f"{WORK}/history/*",
                f"{WORK}/once/*",
                f"{WORK}/uploads/*",
            ],
        ),
        "WriteLedger": (
            ["s3:PutObject"],
            [
                f"{WORK}/runs/*/execution.json",
                f"{WORK}/runs/*/listing/*",
                f"{WORK}/runs/*/manifest.json",
                f"{WORK}/runs/*/manifest/*",
                f"{WORK}/runs/*/run.json",
                f"{WORK}/runs/*/parts/*",
                f"{WORK}/runs/*/request.json",
                f"{WORK}/runs/*/seek/*",
                f"{WORK}/once/*",
                f"{WORK}/uploads/*",
                f"{WORK}/started/*",
            ],
        ),
        "WatchUploads": (["states:DescribeExecution"], [f"{EXECUTION}:*"]),
        "ReadSources": READ_SOURCES,
        "ListSources": LIST_SOURCES,
    },
    "FunctionsImportChunkRole": {
        "WriteOwnLogs": (LOGS, ["${ObservabilityImportChunk.Arn}"]),
        **IMPORTING,
        "UseTables": (WRITES, TABLES),
        "ReadSources": READ_SOURCES,
        "ListSources": LIST_SOURCES,
    },
    "FunctionsReportRole": {
        "WriteOwnLogs": (LOGS, ["${ObservabilityReport.Arn}"]),
        **REPORTING,
        "UseTables": DESCRIBES,
    },
    "NoticeOnStoppedRole": {
        "WriteOwnLogs": (LOGS, ["${ObservabilityOnStopped.Arn}"]),
        **REPORTING,
        "UseTables": DESCRIBES,
        "CancelRuns": (["s3:PutObject"], [f"{WORK}/runs/*/control.json"]),
        "DescribeRuns": (["states:DescribeExecution"], [f"{EXECUTION}:*"]),
        "KeepFailures": (["sqs:SendMessage"], ["${NoticeUndelivered.Arn}"]),
    },
    "TriggerOnUploadRole": {
        "WriteOwnLogs": (LOGS, ["${ObservabilityOnUpload.Arn}"]),
        "StartRuns": (["states:StartExecution"], [MACHINE]),
        "ReadLedger": (
            ["s3:GetObject"],
            [f"{WORK}/runs/*/report.json", f"{WORK}/runs/*/run.json", f"{WORK}/uploads/*"],
        ),
        "OrderUploads": (["s3:PutObject"], [f"{WORK}/uploads/*"]),
        "ListLedger": (["s3:ListBucket"], [WORK]),
        "ReadQueue": (
            ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"],
            ["${TriggerUploads.Arn}"],
        ),
    },
    "WorkflowRole": {
        "CallSteps": (
            ["lambda:InvokeFunction"],
            [
                "${FunctionsPreflightFunction.Arn}",
                "${FunctionsImportChunkFunction.Arn}",
                "${FunctionsReportFunction.Arn}",
            ],
        ),
        "ReadManifests": (["s3:GetObject"], [f"{WORK}/runs/*/manifest.json"]),
        "WriteMapResults": (
            [
                "s3:AbortMultipartUpload",
                "s3:GetObject",
                "s3:ListMultipartUploadParts",
                "s3:PutObject",
            ],
            [f"{WORK}/mapruns/*"],
        ),
        "StartChildren": (["states:StartExecution"], [MACHINE]),
        "RedriveChildren": (["states:RedriveExecution"], [f"{EXECUTION}/ImportChunks:*"]),
        "WatchChildren": (
            ["states:DescribeExecution", "states:StopExecution"],
            [f"{EXECUTION}:*", f"{EXECUTION}/ImportChunks:*"],
        ),
        # CDK's own, for logs: "AWS service logs" names them, and no resource for any of them.
        "": (
            [
                "logs:CreateLogDelivery",
                "logs:GetLogDelivery",
                "logs:UpdateLogDelivery",
                "logs:DeleteLogDelivery",
                "logs:ListLogDeliveries",
                "logs:PutResourcePolicy",
                "logs:DescribeResourcePolicies",
                "logs:DescribeLogGroups",
            ],
            ["*"],
        ),
    },
}


def test_template_has_only_the_known_roles(template: Template):
    assert set(template.of_type("AWS::IAM::Role")) == set(ALLOWED)


@pytest.mark.parametrize("role", ALLOWED)
def test_role_allows_exactly_these_actions(template: Template, role: str):
    statements = template.statements(role)
    found = {
        sid: (listed(statement["Action"]), listed(statement["Resource"]))
        for sid, statement in statements.items()
    }
    assert found == ALLOWED[role]
    for sid, statement in statements.items():
        conditions = statement.pop("Condition", None)
        assert conditions == (ANNOUNCE_ONLY if sid == "AnnounceRuns" else None)
        assert set(statement) <= {"Sid", "Effect", "Action", "Resource"}
        assert statement["Effect"] == "Allow"


THEIRS = {"StringEquals": {"s3:ResourceAccount": "210987654321"}}
S3, SUFFIX = f"{ARN}:s3:::", "${AWS::URLSuffix}"


def test_limited_sources_are_read_and_listed_within_their_limits(template_with_all: Template):
    for role in ("FunctionsPreflightRole", "FunctionsImportChunkRole"):
        statements = template_with_all.statements(role)
        assert listed(statements["ReadSources"]["Resource"]) == READ_SOURCES[1]
        found = {
            sid: (listed(statement["Resource"]), statement.get("Condition"))
            for sid, statement in statements.items()
            if "Limited" in sid or "Below" in sid
        }
        assert found == {
            "ReadLimited": ([f"{S3}narrow/in/*", f"{S3}narrow/more*"], None),
            "ListBelown1": (
                [f"{S3}narrow"],
                {"StringLike": {"s3:prefix": ["in/*", "more*"]}},
            ),
            "ReadLimited210987654321": ([f"{S3}theirs/*", f"{S3}both/x/*"], THEIRS),
            "ListLimited210987654321": ([f"{S3}theirs"], THEIRS),
            "ListBelow210987654321n1": (
                [f"{S3}both"],
                {**THEIRS, "StringLike": {"s3:prefix": ["x/*"]}},
            ),
        }


def test_only_functions_in_a_vpc_may_make_network_interfaces_and_only_by_lambda(
    template: Template, template_with_all: Template
):
    assert "ec2:" not in json.dumps(template.plain)
    for role in set(ALLOWED) - {"WorkflowRole"}:
        assert template_with_all.statements(role)["ConnectToVpc"] == {
            "Sid": "ConnectToVpc",
            "Effect": "Allow",
            # Those of AWSLambdaVPCAccessExecutionRole, without the ones on logs.
            "Action": [
                "ec2:AssignPrivateIpAddresses",
                "ec2:CreateNetworkInterface",
                "ec2:DeleteNetworkInterface",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSubnets",
                "ec2:UnassignPrivateIpAddresses",
            ],
            "Resource": "*",
            "Condition": {
                "ArnLikeIfExists": {
                    "ec2:Vpc": f"{ARN}:ec2:${{AWS::Region}}:*:vpc/{NETWORK['vpc']}"
                },
                "Null": {"lambda:SourceFunctionArn": "true"},
            },
        }


def test_keys_are_granted_where_they_are_used_and_through_the_service_only(
    template_with_all: Template,
):
    found = {
        (role.removeprefix("${").removesuffix("}"), statement["Sid"]): (
            statement["Resource"],
            statement["Condition"],
        )
        for policy in template_with_all.policies
        for role in policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]
        if any(action.startswith("kms:") for action in listed(statement["Action"]))
    }

    def through(service: str) -> dict[str, Any]:
        return {"StringLike": {"kms:ViaService": [f"{service}.{SUFFIX}"]}}

    s3_here = through("s3.${AWS::Region}")
    assert found == {
        # All of them read or write the ledger; the Map reads the manifest and writes results.
        **{(role, "UseBucketKey"): (BUCKET_KEY, s3_here) for role in ALLOWED},
        ("FunctionsPreflightRole", "ReadEncryptedSources"): (KEY, through("s3.*")),
        ("FunctionsImportChunkRole", "ReadEncryptedSources"): (KEY, through("s3.*")),
        **{
            (role, "WriteEncryptedTables"): (KEY, through("dynamodb.${AWS::Region}"))
            for role in ("FunctionsPreflightRole", "FunctionsImportChunkRole")
        },
    }


def test_allowed_actions_have_no_wildcard(template: Template):
    statements = [
        statement
        for resource in template.resources.values()
        for key in ("PolicyDocument", "KeyPolicy", "AssumeRolePolicyDocument")
        for statement in resource["Properties"].get(key, {}).get("Statement", ())
    ]
    assert len(statements) > 30
    for statement in statements:
        assert "NotAction" not in statement
        assert "NotResource" not in statement
        if any("*" in action for action in listed(statement["Action"])):
            assert statement["Effect"] == "Deny"


def test_roles_trust_their_service_only(template: Template):
    for name, role in template.of_type("AWS::IAM::Role").items():
        (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
        expected: dict[str, object] = {
            "Action": "sts:AssumeRole",
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
        }
        if name == "WorkflowRole":
            expected["Principal"] = {"Service": "states.amazonaws.com"}
            expected["Condition"] = {"StringEquals": {"aws:SourceAccount": "${AWS::AccountId}"}}
        assert statement == expected
