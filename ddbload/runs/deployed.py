"""Find a deployed stack, follow its executions, and read their final reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import ATTEMPTS, RetryPolicy, call_with_retries
from ddbload.context import Context
from ddbload.contracts.results import Report
from ddbload.errors import RunNotFound, StackNotFound
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.run_state import Ending, judge_attempt
from ddbload.runs.follow_progress import RequestPace, follow_progress
from ddbload.runs.progress import RunProgress
from ddbload.steps.executions import Execution, Executions
from ddbload.steps.report import read_run

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient


DEFAULT_STACK = "ddbload"
STATE_MACHINE_OUTPUT = "StateMachineArn"
WORK_BUCKET_OUTPUT = "WorkBucketName"
INBOX_BUCKET_OUTPUT = "InboxBucketName"
LOG_GROUPS_OUTPUT = "FunctionLogGroups"
VERSION_OUTPUT = "Version"


@dataclass(frozen=True, slots=True)
class Stack:
    """Deployed stack: its state machine and buckets."""

    name: str
    state_machine: str
    work_bucket: str
    inbox_bucket: str
    log_groups: tuple[str, ...] = ()
    """Log groups of the functions."""
    version: str = ""
    """Version of ddbload that was deployed."""

    @property
    def account(self) -> str:
        """Account of the stack, from arn:partition:states:region:account:stateMachine:name."""
        return self.state_machine.split(":")[4]


def find_stack(client: CloudFormationClient, name: str, *, attempts: int = ATTEMPTS) -> Stack:
    """Look up a stack by name. Raises `StackNotFound` and AWS's errors."""
    where = client.meta.region_name

    def absent(meant: AwsFailure) -> Exception | None:
        # CloudFormation has no error code for a missing stack.
        if meant.code == "ValidationError" and "does not exist" in meant.text:
            return StackNotFound(
                f"there is no stack {name} in {where}: deploy it (ddbload deploy), or name it with"
                " --stack"
            )
        return None

    answer: Any = call_with_retries(
        lambda: client.describe_stacks(StackName=name),
        f"looking up stack {name}",
        policy=RetryPolicy(attempts=attempts),
        expected=absent,
    )
    try:
        given = {each["OutputKey"]: each["OutputValue"] for each in answer["Stacks"][0]["Outputs"]}
        return Stack(
            name=name,
            state_machine=given[STATE_MACHINE_OUTPUT],
            work_bucket=given[WORK_BUCKET_OUTPUT],
            inbox_bucket=given[INBOX_BUCKET_OUTPUT],
            log_groups=tuple(filter(None, given.get(LOG_GROUPS_OUTPUT, "").split(","))),
            version=given.get(VERSION_OUTPUT, ""),
        )
    except (LookupError, TypeError):
        raise StackNotFound(
            f"stack {name} in {where} is not a ddbload stack, or its deployment did not finish:"
            f" it lacks an output {STATE_MACHINE_OUTPUT}, {WORK_BUCKET_OUTPUT} or"
            f" {INBOX_BUCKET_OUTPUT}"
        ) from None


UNKNOWN_SECONDS = 60.0
"""Seconds for which a new execution may be unknown: DescribeExecution is eventually consistent."""


def follow(
    executions: Executions,
    arn: str,
    ledger: Ledger,
    *,
    watch: Callable[[RunProgress], None],
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> Execution:
    """Wait until an execution has ended, and pass its run's progress to `watch` meanwhile.

    Raises `RunNotFound` if the execution stays unknown, and AWS's errors.
    """
    known_by = clock() + UNKNOWN_SECONDS
    began = float("-inf")

    def find_end() -> Execution | None:
        nonlocal began
        execution = executions.find(arn)
        if execution is None and clock() >= known_by:
            raise RunNotFound(
                f"Step Functions does not know execution {arn} {UNKNOWN_SECONDS:.0f} s after it"
                " was started; ddbload status shows whether it runs"
            )
        if execution is None or execution.running:
            began = clock() - execution.seconds if execution is not None else began
            return None
        return execution

    pace = RequestPace(clock, sleep)
    return follow_progress(
        ledger, find_end, watch=watch, pace=pace, clock=clock, began=lambda: began
    )


def attempt_report(run: str, execution: Execution, context: Context) -> Report:
    """Return the report of a run with the outcome of an execution that has ended.

    An execution that was refused for a run which another one works on, or has completed, has
    failed, whatever became of the run.
    """
    own = context.ledger(run).find_execution() in (None, execution.arn)
    seen = read_run(run, context, lambda _: execution if own else None)
    ending = execution.ending or Ending()
    status, error = judge_attempt(seen.state, ending, own=own)
    return replace(seen.report, status=status, error=error, seconds=execution.seconds)
