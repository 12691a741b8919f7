"""Check what AWS says: credentials, clock, table, bucket, permissions, quotas, the stack.

Every call reads. A call that is not allowed makes a warning, since the command that is meant may
not need it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from ddbload import __version__
from ddbload.aws.failures import classify_failure
from ddbload.aws.retry import RetryPolicy, call_with_retries
from ddbload.doctor.local_checks import FAIL, OK, WARN, Check
from ddbload.errors import DdbloadError, StackNotFound
from ddbload.runs.deployed import find_stack

if TYPE_CHECKING:
    from ddbload.aws.clients import Clients

_ONCE = RetryPolicy(attempts=2)
SKEW_WARN, SKEW_FAIL = 60, 240
"""Seconds between this machine's clock and AWS's, which refuses five minutes."""
NEW_ACCOUNT_CONCURRENCY = 10
"""Lambda's concurrency of new accounts; older ones have 1,000."""
DEFAULT_TABLE_WCU = 40_000
"""DynamoDB's default for the write capacity of a table."""
DEFAULT_TRANSITIONS = 800
"""Step Functions' default for state transitions a second, in most regions."""
WRITE_ACTIONS = ("dynamodb:DescribeTable", "dynamodb:BatchWriteItem")
"""Actions on the table that every import needs."""
MODE_ACTIONS = {
    "dynamodb:PutItem": "modes insert and last-wins, and --condition",
    "dynamodb:PartiQLInsert": "mode insert",
    "dynamodb:UpdateItem": "mode update",
    "dynamodb:DeleteItem": "mode delete with --condition",
    "s3:ListBucket": "prefixes and patterns",
}
"""Actions that only some imports need, and which."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Caller of AWS."""

    account: str
    arn: str
    partition: str


def check_aws(
    clients: Clients,
    *,
    table: str | None,
    source: str | None,
    stack: str,
    now: Callable[[], datetime],
) -> Iterator[Check]:
    """Yield the checks that ask AWS; without credentials only that one."""
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
    caller = Caller(answer["Account"], answer["Arn"], answer["Arn"].split(":")[1])
    region = sts.meta.region_name
    yield Check("credentials", OK, f"account {caller.account}, {caller.arn}")
    yield Check("region", OK, region)
    yield _check_clock(answer, now())
    if table is not None:
        yield from _check_table(clients, table)
    if source is not None and source.startswith("s3://"):
        yield from _check_bucket(clients, source, region)
    if table is not None or source is not None:
        yield _check_permissions(clients, caller, region, table, source)
    yield from _check_quotas(clients)
    yield _check_stack(clients, stack)


def _check_clock(answer: Any, now: datetime) -> Check:
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        seconds = abs((parsedate_to_datetime(headers["date"]) - now).total_seconds())
    except (KeyError, TypeError, ValueError):
        return Check("clock", WARN, "AWS's answer has no date to compare with")
    message = f"{seconds:.0f} s from AWS's"
    if seconds < SKEW_WARN:
        return Check("clock", OK, message)
    advice = "set this machine's clock (NTP): AWS refuses requests that are five minutes off"
    return Check("clock", FAIL if seconds > SKEW_FAIL else WARN, message, advice)


def _check_table(clients: Clients, table: str) -> Iterator[Check]:
    client = clients.dynamodb
    try:
        found: Any = call_with_retries(
            lambda: client.describe_table(TableName=table)["Table"],
            f"describing table {table}",
            policy=_ONCE,
        )
    except DdbloadError as error:
        missing = "ResourceNotFound" in error.message
        what = f"there is no table {table}" if missing else f"{error.name}: {error.message}"
        where = f" in {client.meta.region_name}"
        advice = "check name, account and region; ddbload import --create-table may make it"
        yield Check("table", FAIL, what + (where if missing else ""), advice if missing else None)
        return
    types = {each["AttributeName"]: each["AttributeType"] for each in found["AttributeDefinitions"]}
    keys = [f"{key['AttributeName']} ({types[key['AttributeName']]})" for key in found["KeySchema"]]
    billing = found.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
    capacity = "on demand"
    if billing == "PROVISIONED":
        units = found.get("ProvisionedThroughput", {}).get("WriteCapacityUnits", 0)
        capacity = f"{units:,} write units a second provisioned"
    status = found["TableStatus"]
    message = f"{table}: {status}, keys {', '.join(keys)}, {capacity}"
    if status in ("ACTIVE", "UPDATING"):
        yield Check("table", OK, message)
    else:
        yield Check("table", FAIL, message, "wait until it is ACTIVE")
    yield _check_backup(clients, table)


def _check_backup(clients: Clients, table: str) -> Check:
    client = clients.dynamodb
    found = _ask(lambda: client.describe_continuous_backups(TableName=table))
    if isinstance(found, str):
        return Check("backup", WARN, f"{table}: point-in-time recovery was not checked: {found}")
    described = found["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
    if described.get("PointInTimeRecoveryStatus") == "ENABLED":
        return Check("backup", OK, f"{table}: point-in-time recovery is on")
    return Check(
        "backup",
        WARN,
        f"{table}: point-in-time recovery is off, so what an import overwrites is gone",
        f"aws dynamodb update-continuous-backups --table-name {table}"
        " --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true",
    )


def _check_bucket(clients: Clients, source: str, region: str) -> Iterator[Check]:
    bucket, _, key = source.removeprefix("s3://").partition("/")
    s3 = clients.s3
    found = _ask(lambda: s3.head_bucket(Bucket=bucket))
    if isinstance(found, str):
        yield Check("bucket", FAIL, f"{bucket}: {found}", "check its name, account and policy")
        return
    headers = found.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    there = headers.get("x-amz-bucket-region") or region
    message = f"{bucket} in {there}"
    versioning = _ask(lambda: s3.get_bucket_versioning(Bucket=bucket))
    if isinstance(versioning, str):
        message += ", versioning not checked"
    else:
        message += f", versioning {versioning.get('Status', 'off').lower()}"
    if there == region:
        yield Check("bucket", OK, message)
    else:
        advice = "reading across regions costs transfer: run in the bucket's region if it is large"
        yield Check("bucket", WARN, message, advice)
    yield _check_source(s3, bucket, key)


def _check_source(s3: Any, bucket: str, key: str) -> Check:
    if not _is_prefix(key):
        found = _ask(lambda: s3.head_object(Bucket=bucket, Key=key))
        if isinstance(found, str):
            advice = "check the key, and s3:GetObject; a prefix ends in /"
            return Check("source", FAIL, f"s3://{bucket}/{key}: {found}", advice)
        return Check("source", OK, f"s3://{bucket}/{key}, {found['ContentLength']:,} bytes")
    prefix = re.split(r"[*?\[]", key, maxsplit=1)[0]
    listed = _ask(lambda: s3.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1))
    if isinstance(listed, str):
        advice = "a prefix or a pattern needs s3:ListBucket"
        return Check("source", FAIL, f"s3://{bucket}/{prefix}: {listed}", advice)
    if not listed.get("KeyCount"):
        return Check("source", FAIL, f"s3://{bucket}/{prefix}: no objects", "check the prefix")
    return Check("source", OK, f"s3://{bucket}/{prefix}: has objects")


def _is_prefix(key: str) -> bool:
    return not key or key.endswith("/") or any(each in key for each in "*?[")


def _check_permissions(
    clients: Clients, caller: Caller, region: str, table: str | None, source: str | None
) -> Check:
    """Have IAM simulate the caller's policies."""
    principal = _principal(caller)
    if principal is None:
        return Check("permissions", OK, "the account's root user may do everything")
    wanted: list[tuple[Sequence[str], str]] = []
    if table is not None:
        start = f"arn:{caller.partition}:dynamodb:{region}:{caller.account}:table/"
        table_actions = [each for each in MODE_ACTIONS if each.startswith("dynamodb:")]
        wanted.append(((*WRITE_ACTIONS, *table_actions), start + table))
    if source is not None and source.startswith("s3://"):
        bucket, _, key = source.removeprefix("s3://").partition("/")
        arn = f"arn:{caller.partition}:s3:::{bucket}"
        wanted += [(("s3:GetObject",), f"{arn}/{key}"), (("s3:ListBucket",), arn)]
    if not wanted:
        return Check("permissions", OK, "none are needed to read a local file")
    denied: list[str] = []
    allowed: list[str] = []
    for actions, resource in wanted:
        answer = _simulate(clients, principal, actions, resource)
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
    listing = source is not None and _is_prefix(source.partition("//")[2].partition("/")[2])
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


def _simulate(clients: Clients, principal: str, actions: Sequence[str], resource: str) -> Any:
    iam = clients.advisory("iam")
    return _ask(
        lambda: iam.simulate_principal_policy(
            PolicySourceArn=principal, ActionNames=list(actions), ResourceArns=[resource]
        )
    )


def _principal(caller: Caller) -> str | None:
    """Return the ARN of the user or role; None for the root user.

    A session names its role without the path, which a role of IAM Identity Center always has.
    """
    kind, _, rest = caller.arn.split(":", 5)[5].partition("/")
    if kind == "root":
        return None
    if kind != "assumed-role":
        return caller.arn
    name = rest.partition("/")[0]
    path = "aws-reserved/sso.amazonaws.com/" if name.startswith("AWSReservedSSO_") else ""
    return f"arn:{caller.partition}:iam::{caller.account}:role/{path}{name}"


def _check_quotas(clients: Clients) -> Iterator[Check]:
    functions = _ask(lambda: clients.advisory("lambda").get_account_settings())
    if isinstance(functions, str):
        yield Check("lambda", WARN, f"concurrent executions were not checked: {functions}")
    else:
        many = functions["AccountLimit"]["ConcurrentExecutions"]
        message = f"{many:,} concurrent executions"
        few = many <= NEW_ACCOUNT_CONCURRENCY
        advice = (
            "new accounts have few, so a deployed run has few workers: ask for more in Service"
            " Quotas (Lambda, Concurrent executions)"
        )
        yield Check("lambda", WARN if few else OK, message, advice if few else None)
    limits = _ask(lambda: clients.advisory("dynamodb").describe_limits())
    if isinstance(limits, str):
        yield Check("dynamodb", WARN, f"write quotas were not checked: {limits}")
    else:
        units = limits["TableMaxWriteCapacityUnits"]
        message = f"up to {units:,} write units a second for a table"
        low = units < DEFAULT_TABLE_WCU
        advice = "ask for more in Service Quotas (DynamoDB) if a load needs it"
        yield Check("dynamodb", WARN if low else OK, message, advice if low else None)
    yield _check_step_functions(clients)


def _check_step_functions(clients: Clients) -> Check:
    client = clients.advisory("service-quotas")
    found = _ask(lambda: client.list_service_quotas(ServiceCode="states", MaxResults=100))
    if isinstance(found, str):
        return Check("stepfunctions", WARN, f"state transitions were not checked: {found}")
    rates = [
        each["Value"]
        for each in found["Quotas"]
        if "statetransition" in each["QuotaName"].lower().replace(" ", "")
        and "refill" in each["QuotaName"].lower()
    ]
    if not rates:
        return Check("stepfunctions", WARN, "Service Quotas names no rate of state transitions")
    message = f"{min(rates):,.0f} state transitions a second"
    if min(rates) < DEFAULT_TRANSITIONS:
        advice = (
            "new accounts have fewer, which AWS raises with use; runs of many chunks start slowly"
        )
        return Check("stepfunctions", WARN, message, advice)
    return Check("stepfunctions", OK, message)


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
    """Return an answer of AWS, or a text that says why it is missing."""
    try:
        return call_with_retries(call, "asking", policy=_ONCE)
    except DdbloadError as error:
        text = error.message.removeprefix("asking: ")
        return re.split(r" \[request| \(tried|[;\n]", text, maxsplit=1)[0][:200]
    except Exception as error:  # an emulator may answer with something else
        if classify_failure(error) is None and not isinstance(error, LookupError | TypeError):
            raise
        return f"no such answer ({type(error).__name__})"
