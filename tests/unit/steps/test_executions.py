"""Executions, as the command line and the upload trigger see them."""

from __future__ import annotations

import json

import pytest

from ddbload.aws.retry import RetryPolicy
from ddbload.contracts.results import Failure
from ddbload.errors import AccessDenied, InvalidPayload, RunNotFound
from ddbload.steps.executions import MAX_INPUT_BYTES, Executions
from tests.fakes.stepfunctions import FakeStepFunctions, client_error


@pytest.fixture
def fake() -> FakeStepFunctions:
    return FakeStepFunctions()


@pytest.fixture
def executions(fake) -> Executions:
    return Executions(fake, fake.machine, retry_policy=RetryPolicy(sleep=lambda _: None))


def test_start_raises_at_once_when_refused(executions, fake):
    fake.failures = [client_error("AccessDeniedException", "no")]
    with pytest.raises(AccessDenied, match="starting execution a"):
        executions.start("a", {})
    assert not fake.started


def test_start_refuses_payload_that_is_too_large(executions, fake):
    with pytest.raises(InvalidPayload, match="220,000"):
        executions.start("a", {"types": {f"column{n}": "N" for n in range(20_000)}})
    assert not fake.started
    frame = len(json.dumps({"x": ""}, separators=(",", ":")))
    executions.start("b", {"x": "y" * (MAX_INPUT_BYTES - frame)})
    with pytest.raises(InvalidPayload):
        executions.start("c", {"x": "y" * (MAX_INPUT_BYTES - frame + 1)})


def test_state_that_grew_too_large_is_explained(executions, fake):
    """No state can catch it, so Report cannot say it."""
    arn = executions.start("a", {"x": "y"})
    fake.started[arn]["input"] = json.dumps({"x": "y" * 262_000})
    fake.end(arn, "FAILED", error="States.DataLimitExceeded", cause="The state/task ...")
    failure = executions.describe(arn).failure
    assert failure is not None
    assert failure.name == "States.DataLimitExceeded"
    assert "its input has 262,009, and may have 220,000" in failure.message


@pytest.mark.parametrize(
    ("status", "more", "failure"),
    [
        ("SUCCEEDED", {}, None),
        (
            "FAILED",
            {"error": "TableNotFound", "cause": "there is no table"},
            Failure("TableNotFound", "there is no table"),
        ),
        (
            "FAILED",
            {"error": "X", "cause": json.dumps({"errorMessage": "from a function"})},
            Failure("X", "from a function"),
        ),
        ("FAILED", {"error": "States.Runtime"}, Failure("States.Runtime", "no cause was given")),
        (
            "ABORTED",
            {},
            Failure("Aborted", "a user stopped the execution; resume takes the run up again"),
        ),
        ("TIMED_OUT", {"error": "States.Timeout", "cause": "c"}, Failure("States.Timeout", "c")),
    ],
)
def test_describe_returns_failure_of_ended_execution(executions, fake, status, more, failure):
    arn = executions.start("a", {})
    fake.end(arn, status, **more)
    found = executions.describe(arn)
    assert (found.running, found.failure) == (False, failure)


def test_describe_raises_when_execution_is_missing(executions, fake):
    """Step Functions forgets them after 90 days, and nobody waits for that."""
    arn = executions.start("a", {})
    for found in (executions.find(arn), executions.describe(arn)):
        assert found is not None
        assert (found.arn, found.running) == (arn, True)
    fake.is_known = lambda: False
    assert executions.find(arn) is None
    with pytest.raises(RunNotFound, match=f"there is no execution {arn}"):
        executions.describe(arn)
    with pytest.raises(RunNotFound, match="there is no execution none"):
        executions.describe("none")
