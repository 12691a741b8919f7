"""Start, list, describe and stop executions of the deployed state machine."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries, find_with_retries
from ddbload.contracts.results import ExecutionAttempt, Failure
from ddbload.errors import (
    ExecutionExists,
    InvalidPayload,
    RequestRefused,
    RunNotFound,
)
from ddbload.ledger.run_state import Ending
from ddbload.records import Record

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

EXECUTION_RUNNING, EXECUTION_SUCCEEDED = "RUNNING", "SUCCEEDED"
EXECUTION_ABORTED, EXECUTION_TIMED_OUT = "ABORTED", "TIMED_OUT"
_DATA_LIMIT = "States.DataLimitExceeded"
MAX_INPUT_BYTES = 220_000
"""Most bytes of a payload: a state may have 262,144, of which a caught error takes 32,768."""


class Execution(Record):
    """Description of an execution by Step Functions."""

    arn: str
    status: str
    """RUNNING, SUCCEEDED, FAILED, TIMED_OUT or ABORTED."""
    input: Any
    failure: Failure | None
    """Error of a failed execution; None while it runs and if it succeeded."""
    seconds: float
    """Seconds from the start to the end, or until now."""
    started: float = 0.0
    """Seconds since the epoch."""
    redrives: int = 0
    """Number of times that the execution was redriven."""

    @property
    def running(self) -> bool:
        """True while the execution may still import rows."""
        return self.status in (EXECUTION_RUNNING, "PENDING_REDRIVE")

    @property
    def ending(self) -> Ending | None:
        """End of the execution; None while it runs."""
        if self.running:
            return None
        return Ending(
            failure=self.failure,
            aborted=self.status == EXECUTION_ABORTED,
            timed_out=self.status == EXECUTION_TIMED_OUT,
            attempt=ExecutionAttempt(self.arn, self.redrives),
            began=self.started,
            seconds=self.seconds,
        )


def check_input(payload: object) -> None:
    """Raise `InvalidPayload` for the input of an execution that could not carry an error with it.

    An execution that was started otherwise than by ddbload may have up to 262,144 bytes.
    """
    text = json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
    _check_size(len(text.encode(errors="surrogatepass")))


def _check_size(size: int) -> None:
    if size > MAX_INPUT_BYTES:
        raise InvalidPayload(
            f"the payload has {size:,} bytes, and an execution takes {MAX_INPUT_BYTES:,} of"
            " ddbload's: name fewer columns or types"
        )


class Executions(Record):
    """Executions of one state machine."""

    client: SFNClient
    machine: str
    retry_policy: RetryPolicy = DEFAULT_POLICY

    @classmethod
    def beside(cls, arn: str, client: SFNClient, *, retry_policy: RetryPolicy) -> Self:
        """Return the executions of the machine that an execution belongs to."""
        machine = arn.replace(":execution:", ":stateMachine:", 1).rpartition(":")[0]
        return cls(client, machine, retry_policy=retry_policy)

    def start(self, name: str, payload: Mapping[str, Any]) -> str:
        """Start an execution and return its ARN; that of a running one with this name and payload.

        Raises `ExecutionExists`: Step Functions keeps a name for 90 days after the execution.
        """
        text = json.dumps(payload, separators=(",", ":"))
        _check_size(len(text))

        def taken(failure: AwsFailure) -> Exception | None:
            if failure.code == "ExecutionAlreadyExists":
                return ExecutionExists(f"an execution {name} was started before")
            return None

        answer: Any = call_with_retries(
            lambda: self.client.start_execution(
                stateMachineArn=self.machine, name=name, input=text
            ),
            f"starting execution {name}",
            expected=taken,
            policy=self.retry_policy,
        )
        return str(answer["executionArn"])

    def newest(self, most: int, status: str | None = None) -> dict[str, str]:
        """Return the newest executions, at most 1,000, or those of one status: ARNs and names."""
        more: Any = {} if status is None else {"statusFilter": status}
        answer: Any = call_with_retries(
            lambda: self.client.list_executions(
                stateMachineArn=self.machine, maxResults=min(most, 1000), **more
            ),
            "listing executions",
            policy=self.retry_policy,
        )
        return {each["executionArn"]: each["name"] for each in answer["executions"]}

    def stop(self, arn: str, error: str, cause: str) -> None:
        """Stop an execution; do nothing if it has ended. Raises `AccessDenied`."""
        call_with_retries(
            lambda: self.client.stop_execution(executionArn=arn, error=error, cause=cause),
            f"stopping execution {arn}",
            policy=self.retry_policy,
        )

    def arn_of(self, name: str) -> str:
        """Return the ARN that an execution with this name has."""
        return f"{self.machine.replace(':stateMachine:', ':execution:', 1)}:{name}"

    def describe(self, arn: str) -> Execution:
        """Describe an execution. Raises `RunNotFound`."""
        execution = self.find(arn)
        if execution is None:
            raise RunNotFound(f"there is no execution {arn}")
        return execution

    def find(self, arn: str) -> Execution | None:
        """Describe an execution; None if Step Functions does not know it.

        Step Functions forgets an execution 90 days after its end, and may not know it right after
        its start.
        """
        answer: Any = find_with_retries(
            lambda: self.client.describe_execution(executionArn=arn),
            "asking after the execution",
            lambda failure: failure.code in ("ExecutionDoesNotExist", "InvalidArn"),
            policy=self.retry_policy,
        )
        if answer is None:
            return None
        started = answer["startDate"].timestamp()
        ended = answer["stopDate"].timestamp() if answer.get("stopDate") else time.time()
        try:
            payload = json.loads(answer.get("input") or "null")
        except (ValueError, RecursionError):
            raise RequestRefused(f"execution {arn}: its input is no JSON") from None
        return Execution(
            arn=arn,
            status=answer["status"],
            input=payload,
            failure=_failure(answer),
            seconds=max(0.0, ended - started),
            started=started,
            redrives=answer.get("redriveCount", 0),
        )


def _failure(answer: Mapping[str, Any]) -> Failure | None:
    status = answer["status"]
    if status in (EXECUTION_RUNNING, EXECUTION_SUCCEEDED, "PENDING_REDRIVE"):
        return None
    hint = {
        EXECUTION_ABORTED: "a user stopped the execution; resume takes the run up again",
        EXECUTION_TIMED_OUT: "the execution took longer than it may; resume takes the run up again",
    }
    error = answer.get("error") or status.title().replace("_", "")
    cause = answer.get("cause") or hint.get(status)
    if error == _DATA_LIMIT:
        # Step Functions lets no state catch it.
        cause = (
            f"the execution's state would have more than 262,144 bytes: its input has"
            f" {len((answer.get('input') or '').encode()):,}, and may have {MAX_INPUT_BYTES:,},"
            " because ddbload adds to it; name fewer columns or types"
        )
    return Failure.caught({"Error": error, "Cause": cause})
