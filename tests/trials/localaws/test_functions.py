"""Lambda functions run, fail and are limited as on AWS."""

import json

import pytest

from tests.trials.localaws.conftest import receive


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


@pytest.mark.parametrize("module", ["pytest", "moto", "localaws", "tests", "aws_cdk"])
def test_import_fails_for_packages_outside_lambdas_runtime(app, module):
    answer, error = app.invoke("Answer", {"wish": "import", "module": module})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "ModuleNotFoundError"


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


def test_response_is_an_error_over_6_mb(app):
    answer, error = app.invoke("Answer", {"wish": "large", "bytes": 6_291_555})
    assert answer["FunctionError"] == "Unhandled"
    assert error["errorType"] == "Function.ResponseSizeTooLarge"
    # With its two quotes the response is exactly at the limit.
    answer, text = app.invoke("Answer", {"wish": "large", "bytes": 6_291_554})
    assert "FunctionError" not in answer
    assert len(text) == 6_291_554


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
