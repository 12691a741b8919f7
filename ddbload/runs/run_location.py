"""Locate a run: in a ledger that this machine can read, or in a deployed stack."""

from __future__ import annotations

import os
from collections.abc import Callable

from ddbload import errors
from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.retry import ATTEMPTS
from ddbload.context import Context, segment_reader
from ddbload.contracts.messages import is_text
from ddbload.ledger.bucket_store import BucketStore
from ddbload.ledger.run_objects import newest_runs
from ddbload.records import Record
from ddbload.runs.deployed import DEFAULT_STACK, Stack, find_stack
from ddbload.runs.follow_progress import RequestPace, follow_progress
from ddbload.runs.local_runs import LocalSettings, default_ledger, live_heartbeat
from ddbload.runs.progress import RunProgress
from ddbload.steps.executions import Execution, Executions
from ddbload.steps.report import SeenRun, read_run

_COMPARED_RUNS = 1000
"""Runs of a ledger that are searched for a name similar to a missing run id."""
UNKNOWN_SECONDS = 60.0
"""Seconds for which a new execution may be missing: DescribeExecution is eventually consistent."""


class RunLocation(Record):
    """Ledger that this machine can read, and its runs."""

    context: Context

    def last_execution(self, run: str) -> Execution | None:  # noqa: ARG002 - see Deployed
        """Return the last known execution of a run; None for a run on this machine."""
        return None

    def read(self, run: str) -> SeenRun:
        """Read a run and its last execution, and derive its state. Raises `RunNotFound`."""
        execution = self.last_execution(run)
        return read_run(run, self.context, lambda _: execution)

    def has(self, run: str) -> bool:
        """Return whether the ledger or an execution knows the run."""
        known = self.context.ledger(run)
        return (
            known.find_record() is not None
            or known.find_request() is not None
            or self.last_execution(run) is not None
        )


class Deployed(RunLocation):
    """Deployed stack, its ledger and its runs."""

    stack: Stack
    executions: Executions
    """Executions of the stack's state machine."""

    def last_execution(self, run: str) -> Execution | None:
        """Return the last known execution of a run, if any."""
        arn = self.context.ledger(run).find_execution() or self.executions.arn_of(run)
        return self.executions.find(arn)

    def follow(self, run: str, arn: str, watch: Callable[[RunProgress], None]) -> Execution:
        """Wait until an execution of a run has ended, passing its progress to `watch`.

        Raises `RunNotFound` if the execution is still missing after `UNKNOWN_SECONDS`, and AWS's
        errors.
        """
        clock = self.context.clock
        known_by, began = clock() + UNKNOWN_SECONDS, float("-inf")

        def find_end() -> Execution | None:
            nonlocal began
            execution = self.executions.find(arn)
            if execution is None and clock() >= known_by:
                raise errors.RunNotFound(
                    f"Step Functions does not know execution {arn} {UNKNOWN_SECONDS:.0f} s after"
                    " it was started; ddbload status shows whether it runs"
                )
            if execution is None or execution.running:
                began = clock() - execution.seconds if execution is not None else began
                return None
            return execution

        pace = RequestPace(clock, self.context.sleep)
        return follow_progress(self.context.ledger(run), find_end, pace, watch, began=lambda: began)


def stack_name(stack: str | None) -> str:
    """Return the name of the deployed stack: as given, else $DDBLOAD_STACK, else `ddbload`."""
    return stack or os.environ.get("DDBLOAD_STACK") or DEFAULT_STACK


def find_deployed(stack: str | None, aws: AwsSettings, *, attempts: int = ATTEMPTS) -> Deployed:
    """Find the deployed stack. Raises `StackNotFound` and AWS's errors."""
    clients = Clients(aws)
    name = stack_name(stack)
    if not is_text(name):
        raise errors.InvalidUsage("the stack's name is not valid UTF-8")
    found = find_stack(clients.cloudformation, name, attempts=attempts)
    for bucket in (found.work_bucket, found.inbox_bucket):
        clients.set_terms(bucket, owner=found.account)
    store = BucketStore(clients.s3, found.work_bucket, read_many=segment_reader(clients))
    return Deployed(
        Context(store=store, clients=clients),
        found,
        Executions(clients.stepfunctions, found.state_machine),
    )


def find_runs(ledger: str | None, stack: str | None, aws: AwsSettings) -> RunLocation:
    """Return the given stack, else the given ledger, else the default ledger."""
    if ledger is not None and stack is not None:
        raise errors.InvalidUsage(
            "--ledger and --stack exclude each other; a run is in one of them"
        )
    if stack is not None:
        return find_deployed(stack, aws)
    return RunLocation(LocalSettings(str(ledger or default_ledger()), aws).context())


def find_run(run: str, ledger: str | None, stack: str | None, aws: AwsSettings) -> RunLocation:
    """Find the run in the given ledger or stack, else in the default ledger, then the stack.

    Raises `InvalidUsage` and `RunNotFound`; if a stack is given, also `StackNotFound` and AWS's
    errors.
    """
    local = find_runs(ledger, stack, aws)
    if (
        ledger is not None
        or stack is not None
        or local.has(run)
        or live_heartbeat(run, local.context) is not None
    ):
        return local
    try:
        found = find_deployed(None, aws, attempts=1)
        if found.has(run):
            return found
        nor = f"nor in stack {found.stack.name}"
    except errors.LedgerDamaged:
        # The stack has the run, so its error is the one to report.
        raise
    except errors.DdbloadError as error:
        nor = f"nor is there a stack to ask ({error.name})"
    where = local.context.store.uri("runs")
    raise errors.RunNotFound(
        f"there is no run {run} in the ledger at {where}, {nor}; --ledger or --stack name"
        f" another{_other_runs(run, local.context)}"
    )


def _other_runs(run: str, context: Context) -> str:
    """Suggest the run ids that were probably meant, or the newest runs of a ledger."""
    try:
        runs = newest_runs(context.store, _COMPARED_RUNS)
    except errors.DdbloadError:
        return ""
    near = errors.did_you_mean(run, runs)
    if near or not runs:
        return near or "; this one has no runs"
    newest = ", ".join(runs[:3])
    return f"; the newest here: {newest} (ddbload runs lists them)"
