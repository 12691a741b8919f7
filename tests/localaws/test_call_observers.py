"""Calls of functions and state machines are recorded, and refused without permission."""

import json
import socket
from urllib.parse import urlsplit

import pytest

from localaws import LocalAws, dynamodb_proxy
from tests.localaws.conftest import Deployed
from tests.localaws.machines import SELECTOR, distributed, invoke, machine


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return tmp_path_factory.mktemp("calls") / "calls.jsonl"


@pytest.fixture(scope="module")
def watched(record):
    with LocalAws("--record-calls", str(record), "--enforce-iam") as aws:
        yield Deployed(aws)


@pytest.fixture
def observed_calls(record, watched):
    """Read the role, action and verdict of each call up to now."""
    roles = {watched.outputs[name]: name for name in ("FunctionRole", "MachineRole")}

    def look():
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        return {(roles[line["role"]], line["action"], line["allowed"]) for line in lines}

    return look


def allow(watched, role, *actions):
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    watched.client("iam").put_role_policy(
        RoleName=watched.outputs[role].rsplit("/", 1)[-1],
        PolicyName="allowed",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
    )


def test_function_call_is_refused_without_the_roles_permission(watched, observed_calls):
    wish = {"wish": "put", "bucket": watched.outputs["Kept"], "key": "x"}
    _, error = watched.invoke("Answer", wish)
    assert "AccessDenied" in error["errorMessage"]
    _, error = watched.invoke("Answer", {**wish, "megabytes": 9})
    assert "AccessDenied" in error["errorMessage"]
    _, error = watched.invoke("Answer", {"wish": "tables"})
    assert "AccessDenied" in error["errorMessage"]
    allow(watched, "FunctionRole", "s3:PutObject", "dynamodb:ListTables")
    for allowed in (wish, {"wish": "tables"}):
        answer, _ = watched.invoke("Answer", allowed)
        assert "FunctionError" not in answer
    expected = {
        ("FunctionRole", action, allowed)
        for action in ("s3:PutObject", "dynamodb:ListTables")
        for allowed in (True, False)
    }
    assert expected <= observed_calls()


def test_machine_call_is_refused_without_the_roles_permission(watched, observed_calls):
    watched.put("items.json", b"[1]", bucket="Kept")
    reader = {
        "Resource": "arn:aws:states:::s3:getObject",
        "ReaderConfig": {"InputType": "JSON"},
        "Parameters": {"Bucket": "${Kept}", "Key": "items.json"},
    }
    writer = {
        "Resource": "arn:aws:states:::s3:putObject",
        "Parameters": {"Bucket": "${Kept}", "Prefix": "mapruns"},
    }
    mapped = distributed(
        machine(Work=invoke()), ItemReader=reader, ItemSelector=SELECTOR, ResultWriter=writer
    )
    del mapped["ItemsPath"]
    single, whole = machine(Work=invoke()), machine(Map=mapped)

    # Each additional permission leads to the next error.
    assert watched.run(single)["error"] == "Lambda.AWSLambdaException"
    assert watched.run(whole, {"bad": None})["error"] == "States.ItemReaderFailed"
    rights = ["s3:GetObject"]
    allow(watched, "MachineRole", *rights)
    assert watched.run(whole, {"bad": None})["error"] == "States.Permissions"
    rights.append("states:StartExecution")
    allow(watched, "MachineRole", *rights)
    assert watched.run(whole, {"bad": None})["error"] == "States.ExceedToleratedFailureThreshold"
    rights.append("lambda:InvokeFunction")
    allow(watched, "MachineRole", *rights)
    watched.run(single, expect="SUCCEEDED")
    assert watched.run(whole, {"bad": None})["error"] == "States.ResultWriterFailed"
    rights.append("s3:PutObject")
    allow(watched, "MachineRole", *rights)
    watched.run(whole, {"bad": None}, expect="SUCCEEDED")
    expected = {("MachineRole", right, allowed) for right in rights for allowed in (True, False)}
    assert expected <= observed_calls()


@pytest.mark.parametrize(("sent", "calls"), [(b"{}", 1), (b"{", 0), (b"", 0)])
def test_incomplete_request_is_not_observed(monkeypatch, sent, calls):
    observed_calls = []
    monkeypatch.setattr(dynamodb_proxy, "check_signed_request", observed_calls.append)
    # Nothing listens on port 1, so forwarding fails.
    proxy = dynamodb_proxy.DynamoDBProxy("http://127.0.0.1:1")
    place = urlsplit(proxy.endpoint)
    try:
        with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
            host = f"Host: {place.netloc}\r\n".encode()
            connection.sendall(b"POST / HTTP/1.1\r\n" + host + b"Content-Length: 2\r\n\r\n" + sent)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
    finally:
        proxy.close()
    assert len(observed_calls) == calls
