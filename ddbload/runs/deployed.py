"""Find a deployed stack, and read the reports and logs of its executions."""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import ATTEMPTS, RetryPolicy, find_with_retries
from ddbload.context import Context
from ddbload.contracts.results import Report
from ddbload.errors import StackNotFound
from ddbload.ledger.run_state import Ending, judge_attempt
from ddbload.records import Record
from ddbload.steps.executions import Execution
from ddbload.steps.report import read_run

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient


DEFAULT_STACK = "ddbload"
STATE_MACHINE_OUTPUT = "StateMachineArn"
WORK_BUCKET_OUTPUT = "WorkBucketName"
INBOX_BUCKET_OUTPUT = "InboxBucketName"
LOG_GROUPS_OUTPUT = "FunctionLogGroups"
VERSION_OUTPUT = "Version"


class Stack(Record):
    """Deployed stack: its state machine, buckets and log groups."""

    name: str
    state_machine: str
    work_bucket: str
    inbox_bucket: str
    log_groups: tuple[str, ...] = ()
    """Log groups of the stack's functions."""
    version: str = ""
    """Version of ddbload that is deployed."""

    @property
    def account(self) -> str:
        """Account id, taken from the state machine's ARN."""
        return self.state_machine.split(":")[4]


def describe_stack(client: CloudFormationClient, name: str, *, attempts: int = ATTEMPTS) -> Any:
    """Return a stack as DescribeStacks describes it; None if it does not exist.

    Raises AWS's errors.
    """

    def is_absent(failure: AwsFailure) -> bool:
        # CloudFormation has no error code for a missing stack.
        return failure.code == "ValidationError" and "does not exist" in failure.text

    return find_with_retries(
        lambda: client.describe_stacks(StackName=name),
        f"looking up stack {name}",
        is_absent,
        policy=RetryPolicy(attempts=attempts),
    )


def find_stack(client: CloudFormationClient, name: str, *, attempts: int = ATTEMPTS) -> Stack:
    """Look up a stack by name, or by `STACK/PREFIX` one of its pipelines by its outputs' prefix.

    Raises `StackNotFound` and AWS's errors.
    """
    where = client.meta.region_name
    stack, _, prefix = name.partition("/")
    found = describe_stack(client, stack, attempts=attempts)
    if found is None:
        raise StackNotFound(
            f"there is no stack {stack} in {where}: deploy it (ddbload deploy), or name it with"
            " --stack"
        )
    try:
        given = {each["OutputKey"]: each["OutputValue"] for each in found["Stacks"][0]["Outputs"]}
        return Stack(
            name=name,
            state_machine=given[prefix + STATE_MACHINE_OUTPUT],
            work_bucket=given[prefix + WORK_BUCKET_OUTPUT],
            inbox_bucket=given[prefix + INBOX_BUCKET_OUTPUT],
            log_groups=tuple(filter(None, given.get(prefix + LOG_GROUPS_OUTPUT, "").split(","))),
            version=given.get(prefix + VERSION_OUTPUT, ""),
        )
    except (LookupError, TypeError):
        raise StackNotFound(
            f"stack {stack} in {where} is not a ddbload stack, or its deployment did not finish:"
            f" it lacks an output {prefix}{STATE_MACHINE_OUTPUT}, {prefix}{WORK_BUCKET_OUTPUT} or"
            f" {prefix}{INBOX_BUCKET_OUTPUT}"
        ) from None


def attempt_report(run: str, execution: Execution, context: Context) -> Report:
    """Return the report of a run, with the outcome of an execution that has ended.

    An execution that was refused because another one works on the run, or has completed it, counts
    as failed even though the run may be complete.
    """
    own = context.ledger(run).find_execution() in (None, execution.arn)
    seen = read_run(run, context, lambda _: execution if own else None)
    ending = execution.ending or Ending()
    status, error = judge_attempt(seen.state, ending, own=own)
    return replace(seen.report, status=status, error=error, seconds=execution.seconds)


FAULTS = ("Task timed out", "Runtime exited")
"""Texts by which Lambda logs that a function was killed. Such lines name a request, not a run."""
LATE_SECONDS = 60.0
"""Seconds by which an event may appear late in CloudWatch Logs."""
_REQUEST = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
# Executions of a resumed run are named by the run id and a suffix.
_RESUMED = re.compile("(-r[0-9a-f]{8})?")


class LogEvent(Record):
    """Line logged by a function."""

    id: str
    at: float
    """Seconds since the epoch."""
    function: str
    stream: str
    message: str
    fields: dict[str, Any] | None
    """Fields of the message if it is a JSON object."""


@dataclass(slots=True)
class RunLogs:
    """Reader of one run's logs."""

    client: Any
    """Client of CloudWatch Logs."""
    groups: Sequence[str]
    """Log groups of the functions, as far as they exist."""
    run: str
    missing: Callable[[str], object] = lambda _: None
    """Called with the name of a log group that no longer exists."""
    _requests: set[str] = field(default_factory=set, init=False)
    _seen: dict[str, float] = field(default_factory=dict, init=False)

    def events(self, since: float) -> Iterator[LogEvent]:
        """Return the run's events since a time (in seconds since the epoch), sorted by time.

        Each event is returned once, even over several calls. Raises `AccessDenied` and AWS's
        errors.
        """
        self._seen = {each: at for each, at in self._seen.items() if at >= since}
        groups = [self._events_of(group, since) for group in self.groups]
        for event in heapq.merge(*groups, key=lambda event: event.at):
            if event.id not in self._seen:
                self._seen[event.id] = event.at
                yield event

    def _events_of(self, group: str, since: float) -> Iterator[LogEvent]:
        """Yield the events of one log group, which CloudWatch Logs sorts by time."""
        function = group.rpartition("/")[2]
        for page in self._pages(group, since):
            for each in page.get("events", ()):
                message = each.get("message", "").rstrip("\n")
                fields = _json_object(message)
                if self._is_of_run(message, fields):
                    yield LogEvent(
                        *(str(each.get("eventId", "")), each["timestamp"] / 1000, function),
                        *(each.get("logStreamName", ""), message, fields),
                    )

    def _pages(self, group: str, since: float) -> Iterator[Any]:
        # "Enclose exact phrases and terms that include non-alphanumeric characters in double
        # quotation marks", and "?" matches any of several terms (FilterAndPatternSyntax).
        pattern = " ".join(f'?"{term}"' for term in (self.run, *FAULTS))
        token: dict[str, str] = {}

        def read() -> Any:
            return self.client.filter_log_events(
                logGroupName=group,
                startTime=max(0, int(since * 1000)),
                filterPattern=pattern,
                **token,
            )

        while True:
            page = find_with_retries(
                read,
                f"reading the log group {group}",
                lambda failure: failure.code == "ResourceNotFoundException",
            )
            if page is None:
                self.groups = [each for each in self.groups if each != group]
                self.missing(group)
                return
            yield page
            # "This operation can return empty results while there are more log events available
            # through the token."
            if not page.get("nextToken"):
                return
            token = {"nextToken": page["nextToken"]}

    def _is_of_run(self, message: str, fields: dict[str, Any] | None) -> bool:
        """Return whether an event belongs to the run; other run ids may have the same beginning."""
        if fields is not None:
            named = fields.get("run")
            if not isinstance(named, str) or not named.startswith(self.run):
                return False
            if not _RESUMED.fullmatch(named.removeprefix(self.run)):
                return False
            self._requests.update(_REQUEST.findall(message))
            return True
        return any(request in self._requests for request in _REQUEST.findall(message))


def _json_object(message: str) -> dict[str, Any] | None:
    try:
        value = json.loads(message)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
