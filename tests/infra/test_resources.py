"""Laws of all resources except roles and policies; test_snapshot.py has what each of them is."""

from __future__ import annotations

import json

from tests.infra.synthesis import NETWORK, Synthesized
from tests.infra.template import Template


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


def test_all_functions_connect_to_a_vpc_if_one_is_set(
    template: Template, template_with_all: Template
):
    config = {name: NETWORK[name].split(",") for name in ("subnets", "security_groups")}
    functions = template_with_all.of_type("AWS::Lambda::Function")
    assert len(functions) == 5
    for name, function in functions.items():
        assert "VpcConfig" not in template.resources[name]["Properties"]
        assert function["VpcConfig"] == {
            "SubnetIds": config["subnets"],
            "SecurityGroupIds": config["security_groups"],
        }
    for role in template_with_all.of_type("AWS::IAM::Role").values():
        # CDK's own way would add AWSLambdaVPCAccessExecutionRole, which may write any log.
        assert "vpc" not in json.dumps(role.get("ManagedPolicyArns", ())).lower()


def test_queue_keeps_uploads_until_their_run_has_started(template: Template):
    queue = template.resources["TriggerUploads"]["Properties"]
    function = template.resources["TriggerOnUploadFunction"]["Properties"]
    dead_letters = template.resources["TriggerDeadLetters"]["Properties"]
    # "Set the source queue's visibility timeout to at least six times the configuration
    # timeout on your function."
    assert queue["VisibilityTimeout"] == 6 * function["Timeout"]
    # "The expiration of a message is always based on its original enqueue timestamp."
    assert dead_letters["MessageRetentionPeriod"] > queue["MessageRetentionPeriod"]


def test_complete_deployment_has_no_warnings(synthesized: Synthesized):
    assert synthesized.warnings == []
