"""Executions of the deployed state machine: started, and looked at."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries
from ddbload.contracts.results import Failure
from ddbload.errors import ExecutionExists, InvalidPayload, RequestRefused, RunNotFound

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

RUNNING, SUCCEEDED, ABORTED = "RUNNING", "SUCCEEDED", "ABORTED"
MAX_INPUT_BYTES = 220_000
"""Step Functions allows any state 262,144, and what was caught, up to 32,768, comes on top."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What Step Functions says of an execution."""

    arn: str
    status: str
    """RUNNING, SUCCEEDED, FAILED, TIMED_OUT or ABORTED."""
    input: Any
    failure: Failure | None
    """Why it did not succeed; None while it runs."""
    seconds: float
    """From its start to its end, or until now."""

    @property
    def running(self) -> bool:
        """Whether it may still do something."""
        return self.status in (RUNNING, "PENDING_REDRIVE")


class _UnknownExecution(Exception):
    """Step Functions has no execution of this name."""


class Executions:
    """The executions of one state machine."""

    def __init__(
        self,
        client: SFNClient,
        machine: str,
        *,
        retry_policy: RetryPolicy = DEFAULT_POLICY,
    ) -> None:
        self._client = client
        self._machine = machine
        self._retry_policy = retry_policy

    def start(self, name: str, payload: Mapping[str, Any]) -> str:
        """Start an execution; its ARN. While one of this name and payload runs, it is that one.

        Raises `ExecutionExists`: Step Functions keeps a name for 90 days, whatever became of it.
        """
        text = json.dumps(payload, separators=(",", ":"))
        if len(text.encode()) > MAX_INPUT_BYTES:
            raise InvalidPayload(
                f"the payload has {len(text.encode()):,} bytes, and an execution takes"
                f" {MAX_INPUT_BYTES:,} of ddbload's: name fewer columns or types"
            )

        def taken(meant: AwsFailure) -> Exception | None:
            if meant.code == "ExecutionAlreadyExists":
                return ExecutionExists(f"an execution {name} was started before")
            return None

        answer: Any = call_with_retries(
            lambda: self._client.start_execution(
                stateMachineArn=self._machine, name=name, input=text
            ),
            f"starting execution {name}",
            expected=taken,
            policy=self._retry_policy,
        )
        return str(answer["executionArn"])

    def named(self, name: str) -> str:
        """The ARN of the execution of this name, if there is one."""
        return f"{self._machine.replace(':stateMachine:', ':execution:', 1)}:{name}"

    def describe(self, arn: str) -> Execution:
        """What became of an execution. Raises `RunNotFound`."""
        found = self.find(arn)
        if found is None:
            raise RunNotFound(f"there is no execution {arn}")
        return found

    def find(self, arn: str) -> Execution | None:
        """What became of an execution; None where Step Functions knows none of this name.

        It forgets an execution 90 days after its end, and may not know it yet right after its
        start. Raises `RunNotFound` for what is no execution's ARN.
        """

        def absent(meant: AwsFailure) -> Exception | None:
            if meant.code == "ExecutionDoesNotExist":
                return _UnknownExecution()
            if meant.code == "InvalidArn":
                return RunNotFound(f"there is no execution {arn}")
            return None

        try:
            answer: Any = call_with_retries(
                lambda: self._client.describe_execution(executionArn=arn),
                "asking after the execution",
                expected=absent,
                policy=self._retry_policy,
            )
        except _UnknownExecution:
            return None
        began = answer["startDate"].timestamp()
        ended = answer["stopDate"].timestamp() if answer.get("stopDate") else time.time()
        try:
            given = json.loads(answer.get("input") or "null")
        except ValueError:
            raise RequestRefused(f"execution {arn}: its input is no JSON") from None
        return Execution(
            arn=arn,
            status=answer["status"],
            input=given,
            failure=_failure(answer),
            seconds=max(0.0, ended - began),
        )


def _failure(answer: Mapping[str, Any]) -> Failure | None:
    status = answer["status"]
    if status in (RUNNING, SUCCEEDED, "PENDING_REDRIVE"):
        return None
    hint = {
        ABORTED: "somebody stopped the execution; resume takes the run up again",
        "TIMED_OUT": "the execution took longer than it may; resume takes the run up again",
    }
    caught = {
        "Error": answer.get("error") or status.title().replace("_", ""),
        "Cause": answer.get("cause") or hint.get(status),
    }
    return Failure.caught(caught)
