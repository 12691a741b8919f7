"""Laws of roles and policies.

test_snapshot.py has each statement, and tests/e2e_stack/test_permissions.py the calls that need it.
"""

from __future__ import annotations

import json
from typing import Any

from tests.infra.synthesis import BUCKET_KEY, KEY, NETWORK
from tests.infra.template import Template, listed

ARN = "arn:${AWS::Partition}"
INBOX = "${StorageInbox.Arn}"
SOURCES = [INBOX, f"{ARN}:s3:::other-source", f"{ARN}:s3:::third.source"]

ROLES = {
    *("FunctionsPreflightRole", "FunctionsImportChunkRole", "FunctionsReportRole"),
    *("NoticeOnStoppedRole", "TriggerOnUploadRole", "WorkflowRole"),
}


THEIRS = {"StringEquals": {"s3:ResourceAccount": "210987654321"}}
S3, SUFFIX = f"{ARN}:s3:::", "${AWS::URLSuffix}"


def test_limited_sources_are_read_and_listed_within_their_limits(template_with_all: Template):
    for role in ("FunctionsPreflightRole", "FunctionsImportChunkRole"):
        statements = template_with_all.statements(role)
        assert listed(statements["ReadSources"]["Resource"]) == [
            f"{bucket}/*" for bucket in SOURCES
        ]
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
    for role in ROLES - {"WorkflowRole"}:
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
        **{(role, "UseBucketKey"): (BUCKET_KEY, s3_here) for role in ROLES},
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
    roles = template.of_type("AWS::IAM::Role")
    assert set(roles) == ROLES
    for name, role in roles.items():
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
