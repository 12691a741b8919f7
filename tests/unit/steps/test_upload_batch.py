"""A batch of uploads: each message is either done with, or named as one to deliver again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload.aws.retry import RetryPolicy
from ddbload.errors import InvalidPayload, ServiceUnavailable
from ddbload.steps.executions import Executions
from ddbload.steps.uploads import handle_batch
from tests.fakes.stepfunctions import FakeStepFunctions, client_error


class Batch:
    """A batch of messages, each with its number as its event."""

    def __init__(self, messages: int) -> None:
        self.begun: list[object] = []
        self.failures: dict[str, str] = {}
        self.event = {
            "Records": [{"messageId": f"m{n}", "body": json.dumps(n)} for n in range(messages)]
        }

    def handle(self, start: Any, must_end: Any = lambda: False) -> list[str]:
        """Return the ids of the messages that come again."""

        def begin(event: object) -> object:
            self.begun.append(event)
            return start(event)

        answer = handle_batch(
            self.event,
            begin,
            must_end=must_end,
            failed=lambda message, error: self.failures.update({message: error.name}),
        )
        assert set(answer) == {"batchItemFailures"}
        return [each["itemIdentifier"] for each in answer["batchItemFailures"]]


def test_messages_that_are_not_begun_in_time_come_again():
    """A function killed at its timeout would bring back messages whose runs have started."""
    batch = Batch(4)
    assert batch.handle(lambda _: None, must_end=lambda: len(batch.begun) == 2) == ["m2", "m3"]
    assert batch.failures == {"m2": "ServiceUnavailable", "m3": "ServiceUnavailable"}


def test_throttled_start_goes_back_to_the_queue_within_seconds():
    """StartExecution's errors for a full bucket, and for a million open executions."""
    for code in ("ThrottlingException", "ExecutionLimitExceeded", "TooManyRequestsException"):
        slept: list[float] = []
        stepfunctions = FakeStepFunctions(failures=[client_error(code, "slow")] * 99)
        policy = RetryPolicy(sleep=slept.append)
        executions = Executions(stepfunctions, stepfunctions.machine, retry_policy=policy)  # type: ignore[arg-type]
        batch = Batch(1)
        assert batch.handle(lambda _, to=executions: to.start("run", {})) == ["m0"]
        assert batch.failures == {"m0": ServiceUnavailable.__name__}
        assert sum(slept) < 7


def test_event_of_s3_itself_is_refused_by_name():
    batch = Batch(0)
    for records in ([{"eventSource": "aws:s3"}], ["m0"], {"messageId": "m0"}):
        batch.event = {"Records": records}
        with pytest.raises(InvalidPayload, match="not a batch of messages, as SQS sends them"):
            batch.handle(lambda _: None)
