"""Step Functions in memory, with executions that tests end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:ddbload-import"


@dataclass
class FakeStepFunctions:
    """One state machine. Executions run until `end` is called."""

    machine: str = MACHINE
    started: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)
    """Errors to raise, one for each call, before it takes effect."""
    is_known: Callable[[], bool] = lambda: True
    """False while the eventually consistent DescribeExecution does not know new executions."""
    meta: Any = field(default_factory=lambda: SimpleNamespace(region_name="us-east-1"))

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> Any:  # noqa: N803 - botocore's own names
        self._fail()
        assert stateMachineArn == self.machine
        arn = f"{self.machine.replace(':stateMachine:', ':execution:')}:{name}"
        there = self.started.get(arn)
        if there is not None and not (there["status"] == "RUNNING" and there["input"] == input):
            raise client_error("ExecutionAlreadyExists", "Execution Already Exists")
        if there is None:
            self.started[arn] = {
                "executionArn": arn,
                "name": name,
                "status": "RUNNING",
                "input": input,
                "startDate": datetime.now(UTC),
            }
        return {"executionArn": arn, "startDate": self.started[arn]["startDate"]}

    def describe_execution(self, *, executionArn: str) -> Any:  # noqa: N803 - the same
        self._fail()
        if not executionArn.startswith("arn:aws:states:"):
            raise client_error("InvalidArn", "Invalid Arn")
        if executionArn not in self.started or not self.is_known():
            raise client_error("ExecutionDoesNotExist", "Execution Does Not Exist")
        return dict(self.started[executionArn])

    def list_executions(
        self,
        *,
        stateMachineArn: str,  # noqa: N803 - the same
        maxResults: int,  # noqa: N803 - the same
        statusFilter: str | None = None,  # noqa: N803 - the same
    ) -> Any:
        self._fail()
        assert stateMachineArn == self.machine
        found = [e for e in self.started.values() if statusFilter in (None, e["status"])]
        return {"executions": [dict(each) for each in found[::-1][:maxResults]]}

    def end(self, arn: str, status: str = "SUCCEEDED", **more: str) -> None:
        self.started[arn].update(status=status, stopDate=datetime.now(UTC), **more)

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


def client_error(code: str, message: str, status: int = 400) -> Exception:
    from botocore.exceptions import ClientError

    answer: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, "FakeOperation")
