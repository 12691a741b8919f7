"""Find a deployed stack, follow its executions, and read their final reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import ATTEMPTS, RetryPolicy, call_with_retries
from ddbload.contracts.results import (
    CANCELLED,
    FAILED,
    SUCCEEDED,
    Failure,
    Report,
    RowCounts,
    Segment,
    WriteStats,
)
from ddbload.contracts.run_record import RunRecord
from ddbload.errors import Cancelled, RunNotFound, StackNotFound
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context, RunTotals
from ddbload.pipeline.executions import EXECUTION_ABORTED, Execution, Executions
from ddbload.pipeline.report import current_report, done_before

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient


DEFAULT_STACK = "ddbload"
STATE_MACHINE_OUTPUT = "StateMachineArn"
WORK_BUCKET_OUTPUT = "WorkBucketName"
INBOX_BUCKET_OUTPUT = "InboxBucketName"


@dataclass(frozen=True, slots=True)
class Stack:
    """Deployed stack: its state machine and buckets."""

    name: str
    state_machine: str
    work_bucket: str
    inbox_bucket: str

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
                f"there is no stack {name} in {where}: deploy it, or name it with --stack"
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
            name, given[STATE_MACHINE_OUTPUT], given[WORK_BUCKET_OUTPUT], given[INBOX_BUCKET_OUTPUT]
        )
    except (LookupError, TypeError):
        raise StackNotFound(
            f"stack {name} in {where} is not a ddbload stack, or its deployment did not finish:"
            f" it lacks an output {STATE_MACHINE_OUTPUT}, {WORK_BUCKET_OUTPUT} or"
            f" {INBOX_BUCKET_OUTPUT}"
        ) from None


FOLLOW_POLL_SECONDS = 1.0
UNKNOWN_SECONDS = 60.0
"""Seconds for which a new execution may be unknown: DescribeExecution is eventually consistent."""


def follow(
    executions: Executions,
    arn: str,
    ledger: Ledger,
    *,
    watch: Callable[[RunTotals], None],
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> Execution:
    """Wait until an execution has ended, and pass its run's totals to `watch` meanwhile.

    Raises `RunNotFound` if the execution stays unknown, and AWS's errors.
    """
    reader = _TotalsReader(ledger)
    known_by = clock() + UNKNOWN_SECONDS
    while True:
        execution = executions.find(arn)
        if execution is None and clock() >= known_by:
            raise RunNotFound(
                f"Step Functions does not know execution {arn} {UNKNOWN_SECONDS:.0f} s after it"
                " was started; ddbload status shows whether it runs"
            )
        totals = reader.totals()
        if totals is not None:
            watch(totals)
        if execution is not None and not execution.running:
            return execution
        sleep(FOLLOW_POLL_SECONDS)


class _TotalsReader:
    """Totals of a run, from its segments; each segment is read once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._record: RunRecord | None = None
        self._read: set[str] = set()
        self._rows, self._work, self._bytes = RowCounts(), WriteStats(), 0
        self._adopted_rows: int | None = None

    def totals(self) -> RunTotals | None:
        """Return the run's totals; None until it has a record."""
        if self._record is None or self._record.size is None:
            # Preflight knows the size of some sources only at its end.
            self._record = self._ledger.find_record()
        if self._record is None:
            # No record yet, so all rows will be this execution's.
            self._adopted_rows = 0
            return None
        for segment in self._new_segments():
            self._rows += segment.rows
            self._work += segment.work
            self._bytes += segment.end.byte - segment.start.byte
        if self._adopted_rows is None:
            # Rows found at first may be an earlier execution's, and do not count for the speed.
            self._adopted_rows = self._rows.read
        begun = self._record.data_start.byte
        return RunTotals(
            self._rows,
            self._work,
            begun + self._bytes,
            self._record.size or 0,
            self._adopted_rows,
        )

    def _new_segments(self) -> list[Segment]:
        names = [name for name in self._ledger.segment_names() if name not in self._read]
        self._read.update(names)
        return self._ledger.segments(names)


def final_report(run: str, execution: Execution, context: Context) -> Report | None:
    """Return the report of a run whose execution has ended; None if it has no record.

    A failed execution never yields a success: it may have been refused for a run that an earlier
    one completed. An execution stopped after the run was done does not change the report.
    """
    ledger = context.ledger(run)
    if ledger.find_record() is None:
        return None
    if execution.status == EXECUTION_ABORTED and (done := done_before(ledger)) is not None:
        return done
    found = current_report(run, context)
    if execution.status == SUCCEEDED:
        return found
    failure = execution.failure or Failure(execution.status, "the execution did not succeed")
    error = found.error
    if error is None or error.name != failure.name:
        # The failure in the ledger may be an earlier execution's.
        error = failure
    return replace(found, status=run_status(execution), error=error, seconds=execution.seconds)


def run_status(execution: Execution) -> str:
    """Translate the status of a run's last execution to a status of the run.

    A stopped run is CANCELLED. For a run that succeeded, only its report tells whether rows were
    rejected.
    """
    if execution.running or execution.status == SUCCEEDED:
        return execution.status
    failure = execution.failure
    cancelled = failure is not None and failure.name == Cancelled.__name__
    return CANCELLED if cancelled or execution.status == EXECUTION_ABORTED else FAILED
