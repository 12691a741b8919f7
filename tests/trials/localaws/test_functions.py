"""Lambda functions run, fail and are limited as on AWS."""

import io
import json
import time
import zipfile

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.trials.localaws.conftest import receive, wait_for
from tests.trials.localaws.template import template


def test_function_reuses_its_process_when_warm(app):
    _, first = app.invoke("Answer", {"n": 1})
    _, second = app.invoke("Answer", {"n": 2})
    assert first["event"] == {"n": 1}
    assert first["pid"] == second["pid"] != app.aws.pid


def test_context_returns_the_remaining_time(app):
    _, answer = app.invoke("Answer", {})
    assert 10_000 < answer["remaining"] <= 20_000


def test_function_environment_has_only_lambdas_variables(app, monkeypatch):
    _, seen = app.invoke("Answer", {"wish": "environment"})
    assert seen["AWS_REGION"] == seen["AWS_DEFAULT_REGION"] == app.aws.region
    assert seen["AWS_LAMBDA_FUNCTION_NAME"] == app.outputs["Answer"]
    assert seen["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "256"
    assert seen["AWS_LAMBDA_FUNCTION_VERSION"] == "$LATEST"
    assert seen["AWS_EXECUTION_ENV"] == "AWS_Lambda_python3.13"
    assert seen["_HANDLER"] == "index.answer"
    assert seen["AWS_ENDPOINT_URL"] == app.aws.endpoint
    assert seen["AWS_ENDPOINT_URL_DYNAMODB"] == app.aws.dynamodb_endpoint
    assert "VIRTUAL_ENV" not in seen
    assert "PYTEST_CURRENT_TEST" not in seen


def test_function_calls_use_its_role(app):
    _, arn = app.invoke("Answer", {"wish": "whoami"})
    role = app.outputs["FunctionRole"].rsplit("/", 1)[-1]
    assert f":assumed-role/{role}/" in arn


def test_function_reaches_dynalite(app):
    name = "tables-of-a-function"
    app.client("dynamodb").create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    _, tables = app.invoke("Answer", {"wish": "tables"})
    assert name in tables


@pytest.mark.parametrize("module", ["pytest", "moto", "localaws", "tests", "aws_cdk"])
def test_import_fails_for_packages_outside_lambdas_runtime(app, module):
    answer, error = app.invoke("Answer", {"wish": "import", "module": module})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "ModuleNotFoundError"


def test_function_imports_packages_of_its_layers(app):
    """Later layers are unpacked over earlier ones, and the code comes before both."""
    resources = {"FunctionRole": template()["Resources"]["FunctionRole"]}
    for number, files in enumerate(({"one": 1, "two": 1, "index": 1}, {"two": 2})):
        content = archive({f"python/{name}.py": f"VALUE = {files[name]}" for name in files})
        app.put(f"layer-{number}.zip", content)
        place = {"S3Bucket": app.outputs["Inbox"], "S3Key": f"layer-{number}.zip"}
        made = {"Type": "AWS::Lambda::LayerVersion", "Properties": {"Content": place}}
        resources[f"Layer{number}"] = made
    code = "import one, two\ndef answer(event, context): return [one.VALUE, two.VALUE]\n"
    properties = {
        "Runtime": "python3.13",
        "Role": {"Fn::GetAtt": ["FunctionRole", "Arn"]},
        "Handler": "index.answer",
        "Code": {"ZipFile": code},
        "FunctionName": "with-layers",
        "Layers": [{"Ref": "Layer0"}, {"Ref": "Layer1"}],
    }
    resources["Layered"] = {"Type": "AWS::Lambda::Function", "Properties": properties}
    app.create_stack("layers", {"Resources": resources})
    client = app.client("lambda")
    answer = client.invoke(FunctionName="with-layers")
    assert json.loads(answer["Payload"].read()) == [1, 2]

    properties["Layers"].pop()
    app.client("cloudformation").update_stack(
        StackName="layers", TemplateBody=json.dumps({"Resources": resources})
    )
    answer = client.invoke(FunctionName="with-layers")
    assert json.loads(answer["Payload"].read()) == [1, 1]


def archive(files):
    """Pack files into a zip archive."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return data.getvalue()


def test_handler_error_keeps_its_type(app):
    answer, error = app.invoke("Answer", {"wish": "raise"})
    assert answer["FunctionError"] == "Unhandled"
    assert (error["errorType"], error["errorMessage"]) == ("NoSuchColour", "mauve")


def test_missing_handler_is_an_error(app):
    answer, error = app.invoke("Missing", {})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Runtime.HandlerNotFound"


def test_function_is_killed_at_its_timeout(app):
    _, warm = app.invoke("Hurried", {})
    answer, error = app.invoke("Hurried", {"wish": "sleep", "seconds": 30})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Sandbox.Timedout"
    assert error["errorMessage"].endswith("Error: Task timed out after 1.00 seconds")
    _, after = app.invoke("Hurried", {})
    assert after["pid"] != warm["pid"]


def test_function_is_killed_over_its_memory_limit(app):
    answer, error = app.invoke("Small", {"wish": "memory", "megabytes": 400})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Runtime.ExitError"
    assert error["errorMessage"].endswith("Runtime exited with error: signal: killed")
    _, enough = app.invoke("Small", {})
    assert enough["event"] == {}


def test_process_exit_is_an_error(app):
    _, error = app.invoke("Answer", {"wish": "exit"})
    assert error["errorType"] == "Runtime.ExitError"
    assert error["errorMessage"].endswith("exit status 3")


def test_request_is_refused_over_6_mb(app):
    with pytest.raises(ClientError) as refused:
        app.invoke("Answer", {"x": "x" * 6_291_456})
    assert refused.value.response["Error"]["Code"] == "RequestTooLargeException"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 413


def test_asynchronous_event_is_refused_over_1_mb(app):
    with pytest.raises(ClientError) as refused:
        app.invoke("Answer", {"x": "x" * 1_048_576}, InvocationType="Event")
    assert refused.value.response["Error"]["Code"] == "RequestTooLargeException"


def test_response_is_an_error_over_6_mb(app):
    answer, error = app.invoke("Answer", {"wish": "large", "bytes": 6_291_555})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Function.ResponseSizeTooLarge"
    # With its two quotes the response is exactly at the limit.
    answer, text = app.invoke("Answer", {"wish": "large", "bytes": 6_291_554})
    assert "FunctionError" not in answer
    assert len(text) == 6_291_554


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"AWS_REGION": "mars"}, "Reserved keys used in this request: AWS_REGION"),
        ({"_HANDLER": "x", "AWS_SESSION_TOKEN": "x"}, "AWS_SESSION_TOKEN, _HANDLER"),
        ({"A": "x"}, "regular expression"),
        ({"LONG": "x" * 4096}, "exceeded the 4KB limit"),
    ],
)
def test_invalid_environment_is_refused(app, variables, said):
    functions = app.client("lambda")
    with pytest.raises(ClientError, match="InvalidParameterValueException") as refused:
        functions.update_function_configuration(
            FunctionName=app.outputs["Answer"], Environment={"Variables": variables}
        )
    assert said in refused.value.response["Error"]["Message"]


def test_template_is_refused_with_a_reserved_variable(app):
    body = template()
    keep = body["Resources"]["Keep"]["Properties"]
    keep["Environment"] = {"Variables": {"AWS_LAMBDA_FUNCTION_NAME": "x"}}
    wanted = ("FunctionRole", "Keep")
    part = {"Resources": {name: body["Resources"][name] for name in wanted}}
    with pytest.raises(ClientError, match="Reserved keys"):
        app.create_stack("reserved", part)


def test_failing_event_is_retried_then_sent_to_destinations(app):
    answer, _ = app.invoke("Fail", {"n": 7}, InvocationType="Event")
    assert answer["StatusCode"] == 202
    failure = receive(app, "Failures", lambda record: record["requestPayload"] == {"n": 7})
    record = json.loads(failure["Body"])
    assert record["requestContext"]["condition"] == "RetriesExhausted"
    # The template allows one retry.
    assert record["requestContext"]["approximateInvokeCount"] == 2
    assert record["responsePayload"]["errorType"] == "NoSuchColour"
    dead = receive(app, "DeadLetters", lambda event: event == {"n": 7})
    assert dead["MessageAttributes"]["ErrorMessage"]["StringValue"] == "always"


def test_function_output_is_in_its_log_group(app):
    app.invoke("Fail", {})
    logs = app.client("logs")

    def lines():
        found = logs.filter_log_events(logGroupName=f"/aws/lambda/{app.outputs['Fail']}")
        return [event["message"] for event in found["events"]]

    wait_for(lambda: "failing" in lines())
    assert any(line.startswith("REPORT RequestId:") for line in wait_for(lines))


def test_events_of_several_log_streams_are_listed_by_time(app):
    logs, now = app.client("logs"), int(time.time() * 1000)
    logs.create_log_group(logGroupName="several")
    for stream, ages in (("a", (9, 3)), ("b", (7, 1))):
        logs.create_log_stream(logGroupName="several", logStreamName=stream)
        events = [{"timestamp": now - age, "message": f"{stream}{age}"} for age in ages]
        logs.put_log_events(logGroupName="several", logStreamName=stream, logEvents=events)
    found = logs.filter_log_events(logGroupName="several", limit=3)
    assert [event["message"] for event in found["events"]] == ["a9", "b7", "a3"]
    rest = logs.filter_log_events(logGroupName="several", nextToken=found["nextToken"])
    assert [event["message"] for event in rest["events"]] == ["b1"]


def test_stack_update_changes_a_functions_environment(app):
    body = template()
    body["Resources"]["Answer"]["Properties"]["Environment"] = {"Variables": {"CHANGED": "yes"}}
    app.client("cloudformation").update_stack(StackName="app", TemplateBody=json.dumps(body))
    _, seen = app.invoke("Answer", {"wish": "environment"})
    assert seen["CHANGED"] == "yes"


def test_boto3_finds_endpoints_by_the_environment(aws, monkeypatch):
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    session = boto3.session.Session()
    assert session.client("sts").get_caller_identity()["Account"] == aws.account
    assert session.client("dynamodb").meta.endpoint_url == aws.dynamodb_endpoint
