"""Checks of this machine and of AWS: Node.js, credentials, table, bucket, quotas, stack.

All calls to AWS only read. A call without permission gives a warning, because the command that the
user wants to run may not need it.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ddbload import __version__
from ddbload.aws.failures import classify_failure
from ddbload.aws.retry import RetryPolicy, call_with_retries
from ddbload.aws.table_description import (
    TABLE_QUOTA,
    describe_table_with_response,
    recovery_if_known,
    turn_recovery_on,
    write_capacity,
)
from ddbload.deploy.toolchain import SUPPORTED_NODE, check_node
from ddbload.errors import DdbloadError, StackNotFound, ToolsUnavailable
from ddbload.records import Record
from ddbload.runs.deployed import find_stack
from ddbload.source.catalogs.globs import has_wildcards

if TYPE_CHECKING:
    from ddbload.aws.clients import Clients


OK, WARN, FAIL = "ok", "warn", "fail"


class Check(Record):
    """Result of one check."""

    check: str
    status: str
    """`ok`; `warn` for a possible later problem; `fail` for one that makes a command fail."""
    message: str
    advice: str | None = None
    """Command or change that solves the problem."""


def check_machine() -> Iterator[Check]:
    """Yield the checks of this machine, which need no AWS."""
    python = f"Python {platform.python_version()} ({sys.executable})"
    yield Check("version", OK, f"ddbload {__version__}, {python}")
    yield _check_node()


def _check_node() -> Check:
    try:
        found = check_node()
    except ToolsUnavailable as error:
        needed = "only `ddbload deploy` and `ddbload demo` need it"
        return Check("node", WARN, error.message, needed)
    shown = f"Node.js {'.'.join(map(str, found))}"
    if found[0] < SUPPORTED_NODE:
        message = f"{shown} works, but is past its end of life: install {SUPPORTED_NODE} or newer"
        return Check("node", WARN, message)
    return Check("node", OK, shown)


_ONCE = RetryPolicy(attempts=2)
NEW_ACCOUNT_CONCURRENCY = 10
"""Lambda concurrency of some new accounts; other accounts have 1,000."""
WRITE_ACTIONS = ("dynamodb:DescribeTable", "dynamodb:BatchWriteItem")
"""IAM actions on the table that every import needs."""
MODE_ACTIONS = {
    "dynamodb:PutItem": "modes insert and last-wins, and --condition",
    "dynamodb:PartiQLInsert": "mode insert",
    "dynamodb:UpdateItem": "mode update",
    "dynamodb:DeleteItem": "mode delete with --condition",
    "s3:ListBucket": "prefixes and patterns",
}
"""IAM actions that some modes need, with the reason."""


def check_aws(
    clients: Clients, *, table: str | None, source: str | None, stack: str
) -> Iterator[Check]:
    """Yield the checks that call AWS. Without credentials, yield only that check."""
    try:
        sts = clients.advisory("sts")
        answer: Any = call_with_retries(sts.get_caller_identity, "asking who calls", policy=_ONCE)
    except DdbloadError as error:
        yield Check(
            "credentials",
            FAIL,
            f"{error.name}: {error.message}",
            "set AWS_PROFILE and AWS_REGION, or give --profile and --region; AWS was asked no more",
        )
        return
    caller, region = answer["Arn"], sts.meta.region_name
    yield Check("credentials", OK, f"account {answer['Account']}, {caller}")
    yield Check("region", OK, region)
    if table is not None:
        yield from _check_table(clients, table)
    if source is not None:
        yield _check_bucket(clients, source, region)
    if table is not None or source is not None:
        yield _check_permissions(clients, caller, region, table, source)
    yield from _check_quotas(clients)
    yield _check_stack(clients, stack)


def _check_table(clients: Clients, table: str) -> Iterator[Check]:
    client = clients.dynamodb
    try:
        found, described = describe_table_with_response(
            client, table, retry_policy=_ONCE, suggest=True
        )
    except DdbloadError as error:
        yield Check("table", FAIL, f"{error.name}: {error.message}")
        return
    keys = ", ".join(f"{key.name} ({key.type})" for key in found.keys)
    capacity = write_capacity(described)
    units = f"{capacity.units:,.0f} write units a second ({capacity.how})"
    yield Check("table", OK, f"{table}: keys {keys}; {units}")
    recovery = recovery_if_known(client, table)
    if recovery:
        yield Check("backup", OK, f"{table}: point-in-time recovery is on")
    elif recovery is None:
        yield Check("backup", WARN, f"{table}: point-in-time recovery could not be checked")
    else:
        message = f"{table}: point-in-time recovery is off, so what an import overwrites is gone"
        yield Check("backup", WARN, message, turn_recovery_on(table))


def _check_bucket(clients: Clients, source: str, region: str) -> Check:
    bucket = source.removeprefix("s3://").partition("/")[0]
    found = _ask(lambda: clients.s3.head_bucket(Bucket=bucket))
    if isinstance(found, str):
        return Check("bucket", FAIL, f"{bucket}: {found}", "check its name, account and policy")
    headers = found.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    there = headers.get("x-amz-bucket-region") or region
    message = f"{bucket} in {there}"
    if there == region:
        return Check("bucket", OK, message)
    advice = "reading across regions costs transfer: run in the bucket's region if it is large"
    return Check("bucket", WARN, message, advice)


def _check_permissions(
    clients: Clients, caller: str, region: str, table: str | None, source: str | None
) -> Check:
    """Simulate the policies of the caller, an ARN, in IAM."""
    principal = _principal(caller)
    if principal is None:
        return Check("permissions", OK, "the account's root user may do everything")
    _, partition, _, _, account, _ = caller.split(":", 5)
    bucket, _, key = (source or "").removeprefix("s3://").partition("/")
    wanted: list[tuple[Sequence[str], str]] = []
    if table is not None:
        arn = f"arn:{partition}:dynamodb:{region}:{account}:table/{table}"
        table_actions = [each for each in MODE_ACTIONS if each.startswith("dynamodb:")]
        wanted.append(((*WRITE_ACTIONS, *table_actions), arn))
    if source is not None:
        arn = f"arn:{partition}:s3:::{bucket}"
        wanted += [(("s3:GetObject",), f"{arn}/{key}"), (("s3:ListBucket",), arn)]
    denied: list[str] = []
    allowed: list[str] = []
    for actions, resource in wanted:
        answer = _ask(
            partial(
                clients.advisory("iam").simulate_principal_policy,
                PolicySourceArn=principal,
                ActionNames=list(actions),
                ResourceArns=[resource],
            )
        )
        if isinstance(answer, str):
            return Check(
                "permissions",
                WARN,
                f"not checked ({answer}): {', '.join(a for each, _ in wanted for a in each)}",
                "allow iam:SimulatePrincipalPolicy, or see what ddbload plan says; nothing is"
                " tried by writing",
            )
        for each in answer["EvaluationResults"]:
            may = each["EvalDecision"] == "allowed"
            (allowed if may else denied).append(each["EvalActionName"])
    listing = source is not None and (key.endswith("/") or not key or has_wildcards(key))
    needed = {*WRITE_ACTIONS, "s3:GetObject", *(["s3:ListBucket"] if listing else [])}
    advice = (
        "allow it in the policies of this user or role; a bucket's or table's own policy, which was"
        " not looked at, may allow it too"
    )
    if missing := [each for each in denied if each in needed]:
        return Check("permissions", FAIL, f"{principal} may not {', '.join(missing)}", advice)
    if denied:
        which = ", ".join(f"{each} ({MODE_ACTIONS[each]})" for each in denied)
        return Check(
            "permissions", WARN, f"{principal} may not {which}", f"if you need it: {advice}"
        )
    return Check("permissions", OK, f"{principal} may {', '.join(allowed)}")


def _principal(caller: str) -> str | None:
    """Return the ARN of the user or role; None for the root user.

    A session's ARN lacks the role's path, which roles of IAM Identity Center always have.
    """
    account, _, named = caller.rpartition(":")
    kind, _, rest = named.partition("/")
    if kind == "root":
        return None
    if kind != "assumed-role":
        return caller
    name = rest.partition("/")[0]
    path = "aws-reserved/sso.amazonaws.com/" if name.startswith("AWSReservedSSO_") else ""
    return f"{account.replace(':sts:', ':iam:')}:role/{path}{name}"


def _check_quotas(clients: Clients) -> Iterator[Check]:
    yield _check_quota(
        *("lambda", "concurrent executions were", NEW_ACCOUNT_CONCURRENCY + 1),
        lambda: clients.advisory("lambda").get_account_settings()["AccountLimit"][
            "ConcurrentExecutions"
        ],
        "{:,} concurrent executions",
        "new accounts have few, so a deployed run has few workers: ask for more in Service"
        " Quotas (Lambda, Concurrent executions)",
    )
    yield _check_quota(
        *("dynamodb", "write quotas were", TABLE_QUOTA),
        lambda: clients.advisory("dynamodb").describe_limits()["TableMaxWriteCapacityUnits"],
        "up to {:,} write units a second for a table",
        "ask for more in Service Quotas (DynamoDB) if a load needs it",
    )


def _check_quota(
    name: str, were: str, least: int, ask: Callable[[], Any], text: str, advice: str
) -> Check:
    """Check a quota. It gives a warning below `least`, or if it could not be read."""
    found = _ask(ask)
    if isinstance(found, str):
        return Check(name, WARN, f"{were} not checked: {found}")
    if found < least:
        return Check(name, WARN, text.format(found), advice)
    return Check(name, OK, text.format(found))


def _check_stack(clients: Clients, name: str) -> Check:
    try:
        stack = find_stack(clients.cloudformation, name, attempts=2)
    except StackNotFound:
        return Check("stack", OK, f"{name} is not deployed, which only `ddbload start` needs")
    except DdbloadError as error:
        return Check("stack", WARN, f"{name} was not checked: {error.name}: {error.message}")
    if stack.version == __version__:
        return Check("stack", OK, f"{name} {stack.version}, inbox s3://{stack.inbox_bucket}")
    return Check(
        "stack",
        WARN,
        f"{name} is of ddbload {stack.version}, and this is {__version__}",
        "ddbload deploy updates it; runs that are under way go on",
    )


def _ask(call: Callable[[], Any]) -> Any:
    """Return AWS's answer, or a text that explains why there is none."""
    try:
        return call_with_retries(call, "asking", policy=_ONCE)
    except DdbloadError as error:
        text = error.message.removeprefix("asking: ")
        return re.split(r" \[request| \(tried|[;\n]", text, maxsplit=1)[0][:200]
    except Exception as error:  # an emulator may answer with something else
        if classify_failure(error) is None and not isinstance(error, LookupError | TypeError):
            raise
        return f"no such answer ({type(error).__name__})"
