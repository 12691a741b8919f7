"""Step Functions as ddbload uses it: the fake and moto behave the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from ddbload.aws.retry import RetryPolicy
from ddbload.errors import ExecutionExists, RunNotFound
from ddbload.steps.executions import Executions
from tests.fakes.stepfunctions import FakeStepFunctions

PAYLOAD = {"run": {"id": "a"}, "source": {"key": "é b"}}


@pytest.fixture(params=["fake", "moto"])
def executions(request) -> Iterator[Executions]:
    if request.param == "fake":
        fake: Any = FakeStepFunctions()
        yield Executions(fake, fake.machine, retry_policy=RetryPolicy(sleep=lambda _: None))
        return
    with mock_aws():
        client = boto3.client(
            "stepfunctions",
            region_name="us-east-1",
            aws_access_key_id="a",
            aws_secret_access_key="b",
        )
        machine = client.create_state_machine(
            name="import",
            definition=json.dumps({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}),
            roleArn="arn:aws:iam::123456789012:role/r",
        )["stateMachineArn"]
        yield Executions(client, machine, retry_policy=RetryPolicy(sleep=lambda _: None))


def test_started_execution_runs(executions):
    arn = executions.start("run-1", PAYLOAD)
    assert arn == executions.arn_of("run-1")
    found = executions.describe(arn)
    assert (found.arn, found.status, found.running) == (arn, "RUNNING", True)
    assert found.input == PAYLOAD
    assert found.failure is None
    assert found.seconds >= 0


def test_another_payload_with_the_same_name_is_refused(executions):
    executions.start("run-1", PAYLOAD)
    with pytest.raises(ExecutionExists, match="run-1"):
        executions.start("run-1", {})


def test_unknown_execution_is_not_found(executions):
    with pytest.raises(RunNotFound):
        executions.describe(executions.arn_of("run-2"))
