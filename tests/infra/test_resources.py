"""Tests of all resources of the stack except roles and policies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload import __version__
from tests.infra.synthesis import CONTEXT, NETWORK, Synthesized
from tests.infra.template import Template

INBOX = "${StorageInbox}"
FUNCTIONS = {
    "FunctionsPreflightFunction": ("preflight", 900, 1769, "ObservabilityPreflight"),
    "FunctionsImportChunkFunction": ("import_chunk", 900, 768, "ObservabilityImportChunk"),
    "FunctionsReportFunction": ("report", 900, 1769, "ObservabilityReport"),
    "TriggerOnUploadFunction": ("on_upload", 60, 512, "ObservabilityOnUpload"),
    "NoticeOnStoppedFunction": ("on_stopped", 900, 1769, "ObservabilityOnStopped"),
}


def test_only_buckets_outlive_the_stack(template: Template):
    kept = {
        name
        for name, resource in template.resources.items()
        if resource.get("DeletionPolicy", "Delete") != "Delete"
    }
    assert kept == {
        "StorageWork",
        "StorageWorkPolicy",
        "StorageInbox",
        "StorageInboxPolicy",
    }
    for name in kept:
        # A deployment that fails at the start leaves none behind.
        assert template.resources[name]["DeletionPolicy"] == "RetainExceptOnCreate"
        assert template.resources[name]["UpdateReplacePolicy"] == "Retain"


def test_resource_names_do_not_collide_between_stacks(template: Template):
    for resource in template.resources.values():
        for key, value in resource["Properties"].items():
            if key.endswith("Name") and key not in ("FunctionName", "PolicyName"):
                assert "${AWS::StackName}" in value


def test_buckets_are_private_and_encrypted(template: Template):
    for name, bucket in template.of_type("AWS::S3::Bucket").items():
        assert bucket["BucketEncryption"] == {
            "ServerSideEncryptionConfiguration": [
                {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
            ]
        }
        assert bucket["PublicAccessBlockConfiguration"] == {
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        }
        assert bucket["OwnershipControls"] == {
            "Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]
        }
        policy = template.resources[f"{name}Policy"]["Properties"]
        assert policy["Bucket"] == f"${{{name}}}"
        assert policy["PolicyDocument"]["Statement"] == [
            {
                "Action": "s3:*",
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                "Effect": "Deny",
                "Principal": {"AWS": "*"},
                "Resource": [f"${{{name}.Arn}}", f"${{{name}.Arn}}/*"],
            }
        ]


def test_work_bucket_expires_old_runs(template: Template):
    work = template.resources["StorageWork"]["Properties"]
    assert work["LifecycleConfiguration"]["Rules"] == [
        {"Id": "ExpireRuns", "Prefix": "runs/", "ExpirationInDays": 90, "Status": "Enabled"},
        {"Id": "ExpireStarts", "Prefix": "started/", "ExpirationInDays": 90, "Status": "Enabled"},
        {
            "Id": "ExpireUploadOrder",
            "Prefix": "uploads/",
            "ExpirationInDays": 90,
            "Status": "Enabled",
        },
        {"Id": "ExpireClaims", "Prefix": "once/", "ExpirationInDays": 90, "Status": "Enabled"},
        {"Id": "ExpireMapRuns", "Prefix": "mapruns/", "ExpirationInDays": 90, "Status": "Enabled"},
        {"Id": "ExpireNotices", "Prefix": "notices/", "ExpirationInDays": 90, "Status": "Enabled"},
        {
            "Id": "AbortUploads",
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
            "Status": "Enabled",
        },
    ]
    assert "VersioningConfiguration" not in work
    assert "NotificationConfiguration" not in work


def test_inbox_keeps_versions_and_sends_events(template: Template):
    inbox = template.resources["StorageInbox"]["Properties"]
    assert inbox["VersioningConfiguration"] == {"Status": "Enabled"}
    assert inbox["NotificationConfiguration"] == {
        "EventBridgeConfiguration": {"EventBridgeEnabled": True}
    }
    # What lies in the inbox itself never expires: it is people's.
    assert inbox["LifecycleConfiguration"]["Rules"] == [
        {
            "Id": "ExpireReplacedVersions",
            "ExpiredObjectDeleteMarker": True,
            "NoncurrentVersionExpiration": {"NoncurrentDays": 90},
            "Status": "Enabled",
        },
        {
            "Id": "AbortUploads",
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
            "Status": "Enabled",
        },
    ]


def test_import_concurrency_is_reserved_and_told_to_preflight(
    template: Template, template_with_all: Template
):
    reserved, told = "ReservedConcurrentExecutions", "DDBLOAD_IMPORT_CONCURRENCY"
    functions = template_with_all.of_type("AWS::Lambda::Function")
    assert {name: each[reserved] for name, each in functions.items() if reserved in each} == {
        "FunctionsImportChunkFunction": 20
    }
    variables = {name: each["Environment"]["Variables"] for name, each in functions.items()}
    assert {name: each[told] for name, each in variables.items() if told in each} == {
        "FunctionsPreflightFunction": "20"
    }
    for function in template.of_type("AWS::Lambda::Function").values():
        assert reserved not in function
        assert told not in function["Environment"]["Variables"]


CHARGED = {
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::KMS::Key",
    "AWS::Lambda::Alias",
    "AWS::Lambda::Version",
    "AWS::SecretsManager::Secret",
}
"""Types with a monthly price, or that snapshots and provisioned concurrency need."""


def test_default_stack_has_no_standing_charge(template: Template, template_with_all: Template):
    assert not CHARGED & {resource["Type"] for resource in template.resources.values()}
    assert "Provisioned" not in json.dumps(template.plain)
    for function in template.of_type("AWS::Lambda::Function").values():
        assert "TracingConfig" not in function
    # What is off by default is all that the other template has besides.
    extra = set(template_with_all.resources) - set(template.resources)
    # Longer policies are split, which costs nothing.
    kinds = {template_with_all.resources[name]["Type"] for name in extra}
    assert kinds - {"AWS::IAM::ManagedPolicy"} <= CHARGED
    assert set(template.resources) <= set(template_with_all.resources)


def test_snapshots_are_made_and_invoked_by_alias(template: Template, template_with_all: Template):
    assert "SnapStart" not in json.dumps(template.plain)
    functions = template_with_all.of_type("AWS::Lambda::Function")
    made = {name for name, each in functions.items() if "SnapStart" in each}
    # on_stopped is hardly ever invoked, and its snapshot would have a price.
    assert made == set(functions) - {"NoticeOnStoppedFunction"}
    aliases = template_with_all.of_type("AWS::Lambda::Alias")
    assert {name: each["Name"] for name, each in aliases.items()} == {
        f"{name}Aliaslive": "live" for name in made
    }
    machine = template_with_all.resources["WorkflowStateMachine"]["Properties"]
    steps = [
        f"${{Functions{name}FunctionAliaslive}}" for name in ("Preflight", "ImportChunk", "Report")
    ]
    substituted = machine["DefinitionSubstitutions"].items()
    assert [arn for name, arn in substituted if name.endswith("FunctionArn")] == steps
    statements = [each["PolicyDocument"]["Statement"] for each in template_with_all.policies]
    (call,) = (each for all_ in statements for each in all_ if each.get("Sid") == "CallSteps")
    assert call["Resource"] == steps
    (mapping,) = template_with_all.of_type("AWS::Lambda::EventSourceMapping").values()
    assert mapping["FunctionName"] == "${TriggerOnUploadFunctionAliaslive}:live"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_has_the_settings_of_its_step(template: Template, name: str):
    module, timeout, memory, group = FUNCTIONS[name]
    function = dict(template.resources[name]["Properties"])
    code = function.pop("Code")
    assert code == template.resources["FunctionsPreflightFunction"]["Properties"]["Code"]
    assert function.pop("Description")
    variables = function.pop("Environment")["Variables"]
    # Only what reads sources needs what some of them are read with.
    layers = CONTEXT["layers"] if module in ("preflight", "import_chunk") else None
    assert function.pop("Layers", None) == layers
    assert function == {
        "Architectures": ["arm64"],
        "Handler": f"lambdas.{module}.handler",
        "LoggingConfig": {"LogGroup": f"${{{group}}}"},
        "MemorySize": memory,
        "Role": f"${{{name[: -len('Function')]}Role.Arn}}",
        "Runtime": "python3.13",
        "Timeout": timeout,
    }
    expected = {
        "DDBLOAD_ACCOUNT": "${AWS::AccountId}",
        "DDBLOAD_WORK_BUCKET": "${StorageWork}",
        "DDBLOAD_INBOX": INBOX,
        "DDBLOAD_SOURCE_BUCKETS": f"{INBOX},other-source,third.source",
        "DDBLOAD_TABLES": "books,films",
        "POWERTOOLS_SERVICE_NAME": "${AWS::StackName}",
    }
    if module in ("preflight", "import_chunk"):
        expected["DDBLOAD_RESERVE_SECONDS"] = "30"
    if module == "preflight":
        expected["DDBLOAD_SMALL_BYTES"] = "1048576"
    if module == "on_stopped":
        expected["DDBLOAD_STATE_MACHINE"] = "${WorkflowStateMachine}"
    if module == "on_upload":
        expected["DDBLOAD_STATE_MACHINE"] = "${WorkflowStateMachine}"
        uploads = json.loads(variables.pop("DDBLOAD_UPLOADS"))
        assert uploads == [
            {"bucket": INBOX, "prefix": "books/", "table": "books", "types": {"year": "N"}},
            {"bucket": INBOX, "prefix": "films/", "table": "films", "source": {"format": "tsv"}},
            {"bucket": "other-source", "prefix": "", "table": "films", "options": {"workers": 2}},
            {"bucket": "other-source", "prefix": "old/", "table": "films"},
        ]
    assert variables == expected


def test_all_functions_connect_to_a_vpc_if_one_is_set(
    template: Template, template_with_all: Template
):
    config = {name: NETWORK[name].split(",") for name in ("subnets", "security_groups")}
    for name in FUNCTIONS:
        assert "VpcConfig" not in template.resources[name]["Properties"]
        assert template_with_all.resources[name]["Properties"]["VpcConfig"] == {
            "SubnetIds": config["subnets"],
            "SecurityGroupIds": config["security_groups"],
        }
    for role in template_with_all.of_type("AWS::IAM::Role").values():
        # CDK's own way would add AWSLambdaVPCAccessExecutionRole, which may write any log.
        assert "vpc" not in json.dumps(role.get("ManagedPolicyArns", ())).lower()


def test_state_machine_has_role_and_logs(template: Template):
    machine = dict(template.resources["WorkflowStateMachine"]["Properties"])
    del machine["DefinitionString"]
    assert machine == {
        "DefinitionSubstitutions": {
            "PreflightFunctionArn": "${FunctionsPreflightFunction.Arn}",
            "ImportChunkFunctionArn": "${FunctionsImportChunkFunction.Arn}",
            "ReportFunctionArn": "${FunctionsReportFunction.Arn}",
            "WorkBucketName": "${StorageWork}",
            "Partition": "${AWS::Partition}",
        },
        "LoggingConfiguration": {
            "Destinations": [
                {
                    "CloudWatchLogsLogGroup": {
                        "LogGroupArn": "${ObservabilityStateMachine.Arn}",
                    }
                }
            ],
            "IncludeExecutionData": False,
            "Level": "ERROR",
        },
        "RoleArn": "${WorkflowRole.Arn}",
        "TracingConfiguration": {"Enabled": False},
    }


def upload_rules(template: Template) -> dict[str, Any]:
    rules = template.of_type("AWS::Events::Rule")
    return {name: rule for name, rule in rules.items() if name.startswith("Trigger")}


def test_event_rules_match_mapped_uploads_only(template: Template):
    patterns = {name: rule["EventPattern"] for name, rule in upload_rules(template).items()}
    created = {"source": ["aws.s3"], "detail-type": ["Object Created"]}
    assert patterns == {
        "TriggerInbox": {
            **created,
            "detail": {
                "bucket": {"name": [INBOX]},
                "object": {"key": [{"prefix": "books/"}, {"prefix": "films/"}]},
            },
        },
        # One of its prefixes is empty, and so all keys are meant.
        "TriggerBucketothersource": {
            **created,
            "detail": {"bucket": {"name": ["other-source"]}},
        },
    }


def test_ended_executions_invoke_on_stopped(template: Template):
    rule = template.resources["NoticeStopped"]["Properties"]
    assert rule["EventPattern"] == {
        "source": ["aws.states"],
        "detail-type": ["Step Functions Execution Status Change"],
        "detail": {
            "stateMachineArn": ["${WorkflowStateMachine}"],
            "status": ["ABORTED", "FAILED", "TIMED_OUT"],
        },
    }
    (target,) = rule["Targets"]
    assert target["Arn"] == "${NoticeOnStoppedFunction.Arn}"
    assert target["DeadLetterConfig"] == {"Arn": "${NoticeUndelivered.Arn}"}
    (permission,) = template.of_type("AWS::Lambda::Permission").values()
    assert permission == {
        "Action": "lambda:InvokeFunction",
        "FunctionName": "${NoticeOnStoppedFunction.Arn}",
        "Principal": "events.amazonaws.com",
        "SourceArn": "${NoticeStopped.Arn}",
    }
    (config,) = template.of_type("AWS::Lambda::EventInvokeConfig").values()
    assert config == {
        "DestinationConfig": {"OnFailure": {"Destination": "${NoticeUndelivered.Arn}"}},
        "FunctionName": "${NoticeOnStoppedFunction}",
        "MaximumEventAgeInSeconds": 21600,
        "MaximumRetryAttempts": 2,
        "Qualifier": "$LATEST",
    }


def test_queue_keeps_uploads_until_their_run_has_started(template: Template):
    queue = template.resources["TriggerUploads"]["Properties"]
    function = template.resources["TriggerOnUploadFunction"]["Properties"]
    dead_letters = template.resources["TriggerDeadLetters"]["Properties"]
    assert queue == {
        "MessageRetentionPeriod": 7 * 86400,
        "RedrivePolicy": {
            "deadLetterTargetArn": "${TriggerDeadLetters.Arn}",
            "maxReceiveCount": 20,
        },
        "SqsManagedSseEnabled": True,
        # "Set the source queue's visibility timeout to at least six times the configuration
        # timeout on your function."
        "VisibilityTimeout": 6 * function["Timeout"],
    }
    assert dead_letters == {"MessageRetentionPeriod": 14 * 86400, "SqsManagedSseEnabled": True}
    # "The expiration of a message is always based on its original enqueue timestamp."
    assert dead_letters["MessageRetentionPeriod"] > queue["MessageRetentionPeriod"]


def test_on_upload_reads_the_queue_in_small_batches(template: Template):
    (mapping,) = template.of_type("AWS::Lambda::EventSourceMapping").values()
    assert mapping == {
        "BatchSize": 10,
        "Enabled": True,
        "EventSourceArn": "${TriggerUploads.Arn}",
        "FunctionName": "${TriggerOnUploadFunction}",
        # Without it, one failed message would bring back those whose runs have started.
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "ScalingConfig": {"MaximumConcurrency": 10},
    }


def test_outputs_are_those_that_the_command_line_reads(template: Template):
    outputs = template.plain["Outputs"]
    assert {name: output["Value"] for name, output in outputs.items()} == {
        "StateMachineArn": "${WorkflowStateMachine}",
        "WorkBucketName": "${StorageWork}",
        "InboxBucketName": INBOX,
        "UploadQueueUrl": "${TriggerUploads}",
        "UploadDeadLetterQueueUrl": "${TriggerDeadLetters}",
        "PreflightRoleArn": "${FunctionsPreflightRole.Arn}",
        "ImportChunkRoleArn": "${FunctionsImportChunkRole.Arn}",
        "ReportRoleArn": "${FunctionsReportRole.Arn}",
        "OnUploadRoleArn": "${TriggerOnUploadRole.Arn}",
        "OnStoppedRoleArn": "${NoticeOnStoppedRole.Arn}",
        "StateMachineRoleArn": "${WorkflowRole.Arn}",
        "FunctionLogGroups": ",".join(
            f"${{Observability{name}}}"
            for name in ("Preflight", "ImportChunk", "Report", "OnUpload", "OnStopped")
        ),
        "Version": __version__,
    }


def test_complete_deployment_has_no_warnings(synthesized: Synthesized):
    assert synthesized.warnings == []
