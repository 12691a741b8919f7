"""Executions, as the command line and the upload trigger see them."""

from __future__ import annotations

import json

import pytest

from ddbload.aws.retry import RetryPolicy
from ddbload.contracts.results import Failure
from ddbload.errors import AccessDenied, ExecutionExists, InvalidPayload, RunNotFound
from ddbload.pipeline.executions import MAX_INPUT_BYTES, Executions
from tests.fakes.stepfunctions import FakeStepFunctions, client_error


@pytest.fixture
def fake() -> FakeStepFunctions:
    return FakeStepFunctions()


@pytest.fixture
def executions(fake) -> Executions:
    return Executions(fake, fake.machine, retry_policy=RetryPolicy(sleep=lambda _: None))


def test_the_same_payload_while_it_runs_is_the_same_execution(executions, fake):
    assert executions.start("a", {"x": 1}) == executions.start("a", {"x": 1})
    assert len(fake.started) == 1


def test_a_name_is_taken_when_its_execution_has_ended(executions, fake):
    fake.end(executions.start("a", {"x": 1}))
    with pytest.raises(ExecutionExists):
        executions.start("a", {"x": 1})


def test_throttling_is_waited_out(executions, fake):
    fake.failures = [client_error("ThrottlingException", "slow")] * 3
    assert executions.start("a", {}) == executions.arn_of("a")


def test_a_refusal_is_not_repeated(executions, fake):
    fake.failures = [client_error("AccessDeniedException", "no")]
    with pytest.raises(AccessDenied, match="starting execution a"):
        executions.start("a", {})
    assert not fake.started


def test_what_does_not_fit_an_execution_is_not_sent(executions, fake):
    with pytest.raises(InvalidPayload, match="220,000"):
        executions.start("a", {"types": {f"column{n}": "N" for n in range(20_000)}})
    assert not fake.started
    frame = len(json.dumps({"x": ""}, separators=(",", ":")))
    executions.start("b", {"x": "y" * (MAX_INPUT_BYTES - frame)})
    with pytest.raises(InvalidPayload):
        executions.start("c", {"x": "y" * (MAX_INPUT_BYTES - frame + 1)})


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
            Failure("Aborted", "somebody stopped the execution; resume takes the run up again"),
        ),
        ("TIMED_OUT", {"error": "States.Timeout", "cause": "c"}, Failure("States.Timeout", "c")),
    ],
)
def test_why_an_execution_ended(executions, fake, status, more, failure):
    arn = executions.start("a", {})
    fake.end(arn, status, **more)
    found = executions.describe(arn)
    assert (found.running, found.failure) == (False, failure)


def test_an_execution_that_is_not_there(executions, fake):
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
        executions.find("none")
