"""Test template with every kind of emulated resource, independent of ddbload."""

import json
from pathlib import Path

_CODE = Path(__file__).with_name("handlers.py").read_text()
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": ["lambda.amazonaws.com", "states.amazonaws.com"]},
            "Action": "sts:AssumeRole",
        }
    ],
}


def _function(handler, **properties):
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Code": {"ZipFile": _CODE},
            "Handler": f"index.{handler}",
            "Role": {"Fn::GetAtt": ["FunctionRole", "Arn"]},
            "Runtime": "python3.13",
            "Timeout": 20,
            "MemorySize": 256,
            **properties,
        },
    }


def _rule(pattern, target):
    return {
        "Type": "AWS::Events::Rule",
        "Properties": {
            "EventPattern": {"source": ["aws.s3"], "detail-type": ["Object Created"], **pattern},
            "Targets": [{"Id": "target", **target}],
        },
    }


def _on(prefix):
    return {
        "detail": {
            "bucket": {"name": [{"Ref": "Inbox"}]},
            "object": {"key": [{"prefix": prefix}]},
        }
    }


def _arn(resource):
    return {"Fn::GetAtt": [resource, "Arn"]}


def _permission(function, rule):
    return {
        "Type": "AWS::Lambda::Permission",
        "Properties": {
            "Action": "lambda:InvokeFunction",
            "FunctionName": {"Ref": function},
            "Principal": "events.amazonaws.com",
            "SourceArn": _arn(rule),
        },
    }


def template():
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": _TRUST}}
    resources = {
        "FunctionRole": role,
        "MachineRole": role,
        "Kept": {"Type": "AWS::S3::Bucket"},
        "Inbox": {
            "Type": "AWS::S3::Bucket",
            "Properties": {
                "VersioningConfiguration": {"Status": "Enabled"},
                "NotificationConfiguration": {
                    "EventBridgeConfiguration": {"EventBridgeEnabled": True}
                },
            },
        },
        "DeadLetters": {"Type": "AWS::SQS::Queue"},
        "Failures": {"Type": "AWS::SQS::Queue"},
        "Answer": _function("answer"),
        "Hurried": _function("answer", Timeout=1),
        "Small": _function("answer", MemorySize=128),
        "Missing": _function("nothing"),
        "Custom": _function("custom"),
        "Keep": _function("keep", Environment={"Variables": {"KEPT": {"Ref": "Kept"}}}),
        "Fail": _function("fail", DeadLetterConfig={"TargetArn": _arn("DeadLetters")}),
        "FailConfig": {
            "Type": "AWS::Lambda::EventInvokeConfig",
            "Properties": {
                "FunctionName": {"Ref": "Fail"},
                "Qualifier": "$LATEST",
                "MaximumRetryAttempts": 1,
                "DestinationConfig": {"OnFailure": {"Destination": _arn("Failures")}},
            },
        },
        "Machine": {
            "Type": "AWS::StepFunctions::StateMachine",
            "Properties": {
                "RoleArn": _arn("MachineRole"),
                "DefinitionString": json.dumps(
                    {
                        "StartAt": "Keep",
                        "States": {
                            "Keep": {
                                "Type": "Task",
                                "Resource": "arn:aws:states:::lambda:invoke",
                                "Parameters": {"FunctionName": "${Keep}", "Payload.$": "$"},
                                "End": True,
                            }
                        },
                    }
                ),
                "DefinitionSubstitutions": {"Keep": _arn("Keep")},
            },
        },
        "KeepRule": _rule(_on("keep/"), {"Arn": _arn("Keep")}),
        "KeepPermission": _permission("Keep", "KeepRule"),
        "MachineRule": _rule(
            _on("machine/"), {"Arn": {"Ref": "Machine"}, "RoleArn": _arn("MachineRole")}
        ),
        # There is no permission for this rule, so EventBridge may not invoke the function.
        "ForbiddenRule": _rule(
            _on("forbidden/"),
            {"Arn": _arn("Answer"), "DeadLetterConfig": {"Arn": _arn("DeadLetters")}},
        ),
        "FailRule": _rule(_on("fail/"), {"Arn": _arn("Fail")}),
        "FailPermission": _permission("Fail", "FailRule"),
    }
    outputs = {
        name: {"Value": {"Ref": name}}
        for name, resource in resources.items()
        if resource["Type"].startswith(
            ("AWS::S3", "AWS::SQS", "AWS::Lambda::Function", "AWS::StepFunctions")
        )
    }
    outputs["MachineRole"] = {"Value": _arn("MachineRole")}
    outputs["FunctionRole"] = {"Value": _arn("FunctionRole")}
    return {"Resources": resources, "Outputs": outputs}
