"""CloudFormation behaves like AWS where moto alone does not."""

import json

import pytest

from tests.trials.localaws.conftest import wait_for
from tests.trials.localaws.template import template


def part(*names):
    everything = template()["Resources"]
    return {"Resources": {name: everything[name] for name in names}}


def test_change_set_has_outputs_after_execution(app):
    body = part("MachineRole")
    body["Outputs"] = {"Role": {"Value": {"Fn::GetAtt": ["MachineRole", "Arn"]}}}
    app.put("templates/a b.json", json.dumps(body).encode(), bucket="Kept")
    stacks = app.client("cloudformation")
    url = f"{app.aws.endpoint}/{app.outputs['Kept']}/templates/a%20b.json"
    stacks.create_change_set(
        StackName="changed",
        ChangeSetName="first",
        ChangeSetType="CREATE",
        TemplateURL=url,
        Capabilities=["CAPABILITY_IAM"],
    )
    stacks.execute_change_set(StackName="changed", ChangeSetName="first")
    assert app.outputs_of("changed")["Role"].startswith(f"arn:aws:iam::{app.aws.account}:role/")


def test_stack_is_updated_with_previous_value_of_parameter_that_was_not_given(app):
    """cdk sends this with each update of a stack that it deployed directly."""
    app.client("ssm").put_parameter(Name="/b/version", Value="21", Type="String")
    stacks = app.client("cloudformation")
    body = part("MachineRole")
    body["Parameters"] = {
        "Version": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/b/version"}
    }
    allowed = {"StackName": "kept", "Capabilities": ["CAPABILITY_IAM"]}
    stacks.create_stack(TemplateBody=json.dumps(body), **allowed)
    body["Outputs"] = {"Version": {"Value": {"Ref": "Version"}}}
    kept = [{"ParameterKey": "Version", "UsePreviousValue": True}]
    stacks.update_stack(TemplateBody=json.dumps(body), Parameters=kept, **allowed)
    assert app.outputs_of("kept") == {"Version": "21"}


def test_definition_is_read_from_s3_with_substitutions(app):
    states = {"Stop": {"Type": "Fail", "Error": "${Word}", "Cause": "none"}}
    definition = {"StartAt": "Stop", "States": states}
    app.put("machine.json", json.dumps(definition).encode(), bucket="Kept")
    body = part("MachineRole", "Machine")
    properties = body["Resources"]["Machine"]["Properties"]
    del properties["DefinitionString"]
    properties["DefinitionS3Location"] = {"Bucket": app.outputs["Kept"], "Key": "machine.json"}
    properties["DefinitionSubstitutions"] = {"Word": "Filled"}
    body["Outputs"] = {"Machine": {"Value": {"Ref": "Machine"}}}
    app.create_stack("from-s3", body)
    client = app.client("stepfunctions")
    machine = app.outputs_of("from-s3")["Machine"]

    def error():
        execution = client.start_execution(stateMachineArn=machine)["executionArn"]
        return wait_for(lambda: client.describe_execution(executionArn=execution).get("error"))

    assert error() == "Filled"
    properties["DefinitionSubstitutions"] = {"Word": "Changed"}
    app.client("cloudformation").update_stack(StackName="from-s3", TemplateBody=json.dumps(body))
    assert error() == "Changed"


def test_bucket_gets_versioning_from_its_template(app):
    s3 = app.client("s3")
    body = part("Inbox")
    body["Outputs"] = {"Inbox": {"Value": {"Ref": "Inbox"}}}
    app.create_stack("inbox", body)
    bucket = app.outputs_of("inbox")["Inbox"]
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"


@pytest.mark.parametrize("policy", ["Retain", "RetainExceptOnCreate"])
def test_stack_deletion_keeps_retained_resources(app, policy):
    body = template()
    body["Resources"]["Kept"]["DeletionPolicy"] = policy
    role = next(name for name, of in body["Resources"].items() if of["Type"] == "AWS::IAM::Role")
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/k"}
    body["Resources"]["Attached"] = {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {
            "PolicyDocument": {"Version": "2012-10-17", "Statement": [statement]},
            "Roles": [{"Ref": role}],
        },
    }
    app.create_stack("short", body)
    outputs = app.outputs_of("short")
    app.client("cloudformation").delete_stack(StackName="short")
    functions = app.client("lambda").list_functions()["Functions"]
    assert outputs["Answer"] not in {function["FunctionName"] for function in functions}
    machines = app.client("stepfunctions").list_state_machines()["stateMachines"]
    assert outputs["Machine"] not in {machine["stateMachineArn"] for machine in machines}
    buckets = {bucket["Name"] for bucket in app.client("s3").list_buckets()["Buckets"]}
    assert outputs["Kept"] in buckets
    assert outputs["Inbox"] not in buckets
