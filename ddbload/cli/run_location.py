"""Where a run is kept: in a ledger of this machine's, or by a deployed stack."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddbload.contracts.json_reader import is_text
from ddbload.errors import DdbloadError, InvalidUsage, LedgerDamaged, RunNotFound

if TYPE_CHECKING:
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.aws.clients import Clients
    from ddbload.pipeline.context import Context
    from ddbload.pipeline.executions import Execution, Executions
    from ddbload.runs.deployed import Stack


@dataclass(frozen=True, slots=True)
class Deployed:
    """A stack, and what reaches it."""

    stack: Stack
    context: Context
    executions: Executions

    def last_execution(self, run: str) -> Execution | None:
        """The execution that last worked on a run, as far as is known; None when none did."""
        arn = self.context.ledger(run).find_execution() or self.executions.named(run)
        try:
            return self.executions.describe(arn)
        except RunNotFound:
            # Step Functions forgets an execution after 90 days.
            return None


@dataclass(frozen=True, slots=True)
class RunLocation:
    """Where a run is; `deployed` when that is a stack."""

    context: Context
    deployed: Deployed | None = None


def deployed(stack: str | None, aws: AwsSettings, *, attempts: int | None = None) -> Deployed:
    """The stack of this name, or else $DDBLOAD_STACK, or else ddbload.

    Raises `StackNotFound`, and AWS's errors.
    """
    from ddbload.aws.clients import Clients
    from ddbload.aws.retry import ATTEMPTS
    from ddbload.ledger.store import BucketStore
    from ddbload.pipeline.context import Context
    from ddbload.pipeline.executions import Executions
    from ddbload.runs.deployed import DEFAULT_STACK, find_stack

    clients: Clients = Clients(aws)
    name = stack or os.environ.get("DDBLOAD_STACK") or DEFAULT_STACK
    if not is_text(name):
        raise InvalidUsage("the stack's name is not text in UTF-8")
    found = find_stack(clients.cloudformation, name, attempts=attempts or ATTEMPTS)
    return Deployed(
        stack=found,
        context=Context(store=BucketStore(clients.s3, found.work_bucket), clients=clients),
        executions=Executions(clients.stepfunctions, found.state_machine),
    )


def resume_line(run: str, **given: str | None) -> str:
    """The command that takes a run up, with the options that were given to find it."""
    words = ["ddbload", "resume", run]
    for name, value in given.items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", value]
    return shlex.join(words)


def place_given(
    run: str,
    *,
    ledger: str | None,
    stack: str | None,
    profile: str | None,
    region: str | None,
    endpoint_url: str | None,
) -> RunLocation:
    """Where a run is, by the options of a command. Raises as `place_of`."""
    from ddbload.aws.boto_clients import AwsSettings

    return place_of(run, ledger, stack, AwsSettings(profile, region, endpoint_url))


def place_of(run: str, ledger: str | None, stack: str | None, aws: AwsSettings) -> RunLocation:
    """Where a run is: in the ledger or stack that is named, or else wherever it is known.

    Raises `InvalidUsage`, `RunNotFound`, and for a stack that is named `StackNotFound` and AWS's
    errors.
    """
    from ddbload.runs.local_settings import LocalSettings, default_ledger
    from ddbload.runs.run_status import live_heartbeat

    if ledger is not None and stack is not None:
        raise InvalidUsage("--ledger and --stack name two places; a run is in one")
    if stack is not None:
        found = deployed(stack, aws)
        return RunLocation(found.context, found)
    local = LocalSettings(ledger or default_ledger(), aws).context()
    known = local.ledger(run)
    if (
        ledger is not None
        or known.find_record() is not None
        or live_heartbeat(run, local) is not None
    ):
        return RunLocation(local)
    try:
        found = deployed(None, aws, attempts=1)
        if found.context.ledger(run).find_record() or found.last_execution(run):
            return RunLocation(found.context, found)
        nor = f"nor in stack {found.stack.name}"
    except LedgerDamaged:
        # So it is there.
        raise
    except DdbloadError as error:
        nor = f"nor is there a stack to ask ({error.name})"
    where = local.store.uri("runs")
    raise RunNotFound(
        f"there is no run {run} in the ledger at {where}, {nor}; --ledger or --stack name another"
    )
