"""What Lambda does around a handler, and what it refuses."""

import json

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.localaws.conftest import receive, wait_for
from tests.localaws.template import template


def test_a_function_runs_as_a_process_of_its_own_and_stays_warm(app):
    _, first = app.invoke("Answer", {"n": 1})
    _, second = app.invoke("Answer", {"n": 2})
    assert first["event"] == {"n": 1}
    assert first["pid"] == second["pid"] != app.aws.pid


def test_the_context_knows_the_time_that_remains(app):
    _, answer = app.invoke("Answer", {})
    assert 10_000 < answer["remaining"] <= 20_000


def test_the_environment_is_lambdas_and_nothing_of_ours(app, monkeypatch):
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


def test_calls_carry_the_functions_role(app):
    _, arn = app.invoke("Answer", {"wish": "whoami"})
    role = app.outputs["FunctionRole"].rsplit("/", 1)[-1]
    assert f":assumed-role/{role}/" in arn


def test_dynamodb_is_dynalite(app):
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
def test_what_lambda_does_not_bring_along_is_not_there(app, module):
    answer, error = app.invoke("Answer", {"wish": "import", "module": module})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "ModuleNotFoundError"


def test_an_error_of_the_handler_keeps_its_name(app):
    answer, error = app.invoke("Answer", {"wish": "raise"})
    assert answer["FunctionError"] == "Unhandled"
    assert (error["errorType"], error["errorMessage"]) == ("NoSuchColour", "mauve")


def test_a_handler_that_is_not_there_is_an_error_and_not_a_hang(app):
    answer, error = app.invoke("Missing", {})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Runtime.HandlerNotFound"


def test_a_function_is_ended_at_its_timeout(app):
    _, warm = app.invoke("Hurried", {})
    answer, error = app.invoke("Hurried", {"wish": "sleep", "seconds": 30})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Sandbox.Timedout"
    assert error["errorMessage"].endswith("Error: Task timed out after 1.00 seconds")
    _, after = app.invoke("Hurried", {})
    assert after["pid"] != warm["pid"]


def test_a_function_is_ended_for_its_memory(app):
    answer, error = app.invoke("Small", {"wish": "memory", "megabytes": 400})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Runtime.ExitError"
    assert error["errorMessage"].endswith("Runtime exited with error: signal: killed")
    _, enough = app.invoke("Small", {})
    assert enough["event"] == {}


def test_a_process_that_exits_is_an_error(app):
    _, error = app.invoke("Answer", {"wish": "exit"})
    assert error["errorType"] == "Runtime.ExitError"
    assert error["errorMessage"].endswith("exit status 3")


def test_a_request_over_6_mb_is_refused(app):
    with pytest.raises(ClientError) as refused:
        app.invoke("Answer", {"x": "x" * 6_291_456})
    assert refused.value.response["Error"]["Code"] == "RequestTooLargeException"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 413


def test_an_event_over_1_mb_is_refused(app):
    with pytest.raises(ClientError) as refused:
        app.invoke("Answer", {"x": "x" * 1_048_576}, InvocationType="Event")
    assert refused.value.response["Error"]["Code"] == "RequestTooLargeException"


def test_an_answer_over_6_mb_is_an_error(app):
    answer, error = app.invoke("Answer", {"wish": "large", "bytes": 6_291_555})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Function.ResponseSizeTooLarge"
    # Two quotes make it the most that is allowed.
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
def test_an_environment_that_lambda_refuses_is_refused(app, variables, said):
    functions = app.client("lambda")
    with pytest.raises(ClientError, match="InvalidParameterValueException") as refused:
        functions.update_function_configuration(
            FunctionName=app.outputs["Answer"], Environment={"Variables": variables}
        )
    assert said in refused.value.response["Error"]["Message"]


@pytest.mark.parametrize("limits", [{"Timeout": 901}, {"MemorySize": 127}, {"Timeout": 0}])
def test_a_template_with_limits_beyond_lambdas_is_refused(app, limits):
    part = {name: template()["Resources"][name] for name in ("FunctionRole", "Answer")}
    part["Answer"]["Properties"] |= limits
    with pytest.raises(ClientError, match="Member must have value between"):
        app.create_stack(f"limits-{next(iter(limits.values()))}", {"Resources": part})


def test_a_template_with_a_reserved_variable_is_refused(app):
    body = template()
    keep = body["Resources"]["Keep"]["Properties"]
    keep["Environment"] = {"Variables": {"AWS_LAMBDA_FUNCTION_NAME": "x"}}
    wanted = ("FunctionRole", "Keep")
    part = {"Resources": {name: body["Resources"][name] for name in wanted}}
    with pytest.raises(ClientError, match="Reserved keys"):
        app.create_stack("reserved", part)


def test_a_failing_event_is_repeated_then_its_destinations_get_it(app):
    before = app.client("sqs").get_queue_attributes(
        QueueUrl=app.outputs["Failures"], AttributeNames=["ApproximateNumberOfMessages"]
    )
    assert before["Attributes"]["ApproximateNumberOfMessages"] == "0"
    answer, _ = app.invoke("Fail", {"n": 7}, InvocationType="Event")
    assert answer["StatusCode"] == 202
    record = json.loads(receive(app, "Failures")["Body"])
    assert record["requestPayload"] == {"n": 7}
    assert record["requestContext"]["condition"] == "RetriesExhausted"
    # The template allows one repetition.
    assert record["requestContext"]["approximateInvokeCount"] == 2
    assert record["responsePayload"]["errorType"] == "NoSuchColour"
    dead = receive(app, "DeadLetters")
    assert json.loads(dead["Body"]) == {"n": 7}
    assert dead["MessageAttributes"]["ErrorMessage"]["StringValue"] == "always"


def test_what_a_function_prints_is_in_its_log_group(app):
    app.invoke("Fail", {})
    logs = app.client("logs")

    def lines():
        found = logs.filter_log_events(logGroupName=f"/aws/lambda/{app.outputs['Fail']}")
        return [event["message"] for event in found["events"]]

    wait_for(lambda: "failing" in lines())
    assert any(line.startswith("REPORT RequestId:") for line in wait_for(lines))


def test_a_functions_code_can_be_changed(app):
    body = template()
    body["Resources"]["Answer"]["Properties"]["Environment"] = {"Variables": {"CHANGED": "yes"}}
    app.client("cloudformation").update_stack(StackName="app", TemplateBody=json.dumps(body))
    _, seen = app.invoke("Answer", {"wish": "environment"})
    assert seen["CHANGED"] == "yes"


def test_boto3_finds_everything_by_the_environment(aws, monkeypatch):
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    session = boto3.session.Session()
    assert session.client("sts").get_caller_identity()["Account"] == aws.account
    assert session.client("dynamodb").meta.endpoint_url == aws.dynamodb_endpoint
