"""Find a run: in a ledger that this machine reads, or in a deployed stack."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from functools import wraps
from typing import Any, cast

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.retry import ATTEMPTS
from ddbload.cli.options import F, aws_options, decorate, ledger_option, run_argument, stack_option
from ddbload.context import Context, segment_reader
from ddbload.contracts.messages import is_text
from ddbload.errors import DdbloadError, InvalidUsage, LedgerDamaged, RunNotFound, did_you_mean
from ddbload.ledger.bucket_store import BucketStore
from ddbload.ledger.history import newest_runs
from ddbload.runs.deployed import DEFAULT_STACK, Stack, find_stack
from ddbload.runs.local_settings import LocalSettings, default_ledger
from ddbload.runs.run_status import live_heartbeat
from ddbload.steps.executions import Execution, Executions
from ddbload.steps.report import SeenRun, read_run

_COMPARED_RUNS = 1000
"""Runs of a ledger that are compared with one that it does not have."""


@dataclass(frozen=True, slots=True)
class Deployed:
    """Deployed stack with the clients that reach it."""

    stack: Stack
    context: Context
    executions: Executions

    def last_execution(self, run: str) -> Execution | None:
        """Return the last known execution of a run, if any."""
        arn = self.context.ledger(run).find_execution() or self.executions.arn_of(run)
        try:
            return self.executions.describe(arn)
        except RunNotFound:
            # Step Functions forgets an execution after 90 days.
            return None


@dataclass(frozen=True, slots=True)
class RunLocation:
    """Location of a run."""

    context: Context
    deployed: Deployed | None = None
    """The stack that has the run; None for a run of a local ledger."""

    def read(self, run: str) -> SeenRun:
        """Read a run and its last execution, and judge its state. Raises `RunNotFound`."""
        execution = None if self.deployed is None else self.deployed.last_execution(run)
        return read_run(run, self.context, lambda _: execution)


def find_deployed(stack: str | None, aws: AwsSettings, *, attempts: int | None = None) -> Deployed:
    """Find the deployed stack: the one named, or $DDBLOAD_STACK, or `ddbload`.

    Raises `StackNotFound` and AWS's errors.
    """
    clients: Clients = Clients(aws)
    name = stack or os.environ.get("DDBLOAD_STACK") or DEFAULT_STACK
    if not is_text(name):
        raise InvalidUsage("the stack's name is not valid UTF-8")
    found = find_stack(clients.cloudformation, name, attempts=attempts or ATTEMPTS)
    for bucket in (found.work_bucket, found.inbox_bucket):
        clients.set_terms(bucket, owner=found.account)
    return Deployed(
        stack=found,
        context=Context(
            store=BucketStore(clients.s3, found.work_bucket, read_many=segment_reader(clients)),
            clients=clients,
        ),
        executions=Executions(clients.stepfunctions, found.state_machine),
    )


@dataclass(frozen=True, slots=True)
class NamedRun:
    """Run that a command names, and the options that locate it."""

    run: str
    ledger: str | None
    stack: str | None
    aws: AwsSettings

    def command(self, name: str, run: str | None = None) -> str:
        """Return a command on this run or on another one of its place, such as `resume`."""
        given = {
            "--ledger": self.ledger,
            "--stack": self.stack,
            "--profile": self.aws.profile,
            "--region": self.aws.region,
            "--endpoint-url": self.aws.endpoint_url,
        }
        words = ["ddbload", name, run or self.run]
        words += [
            word for option, value in given.items() if value is not None for word in (option, value)
        ]
        words += ["--requester-pays"] if self.aws.requester_pays else []
        return shlex.join(words)

    @property
    def local(self) -> Context:
        """Context of the ledger that this machine reads."""
        return LocalSettings(self.ledger or default_ledger(), self.aws).context()

    def find(self) -> RunLocation:
        """Find the run in the ledger or stack given, else in the default ledger, then the stack.

        Raises `InvalidUsage`, `RunNotFound`, and for a stack that is given `StackNotFound` and
        AWS's errors.
        """
        run = self.run
        if self.ledger is not None and self.stack is not None:
            raise InvalidUsage("--ledger and --stack exclude each other; a run is in one of them")
        if self.stack is not None:
            found = find_deployed(self.stack, self.aws)
            return RunLocation(found.context, found)
        local = self.local
        known = local.ledger(run)
        if (
            self.ledger is not None
            or known.find_record() is not None
            or known.find_request() is not None
            or live_heartbeat(run, local) is not None
        ):
            return RunLocation(local)
        try:
            found = find_deployed(None, self.aws, attempts=1)
            there = found.context.ledger(run)
            if there.find_record() or there.find_request() or found.last_execution(run):
                return RunLocation(found.context, found)
            nor = f"nor in stack {found.stack.name}"
        except LedgerDamaged:
            # The stack has the run, so this error is the answer.
            raise
        except DdbloadError as error:
            nor = f"nor is there a stack to ask ({error.name})"
        where = local.store.uri("runs")
        raise RunNotFound(
            f"there is no run {run} in the ledger at {where}, {nor}; --ledger or --stack name"
            f" another{_other_runs(run, local)}"
        )


def _other_runs(run: str, context: Context) -> str:
    """Name the run that was likely meant, or the newest ones of a ledger."""
    try:
        runs = newest_runs(context.store, _COMPARED_RUNS)
    except DdbloadError:
        return ""
    near = did_you_mean(run, runs)
    if near or not runs:
        return near or "; this one has no runs"
    newest = ", ".join(runs[:3])
    return f"; the newest here: {newest} (ddbload runs lists them)"


def run_options(command: F) -> F:
    """Add the argument RUN and the options that locate it, passed as one `named: NamedRun`."""

    @wraps(command)
    def with_run(
        *, run: str, ledger: str | None, stack: str | None, aws: AwsSettings, **given: Any
    ) -> Any:
        return command(named=NamedRun(run, ledger, stack, aws), **given)

    return decorate(cast("F", with_run), (run_argument, ledger_option, stack_option, aws_options))
