"""Parts about the deployed service: deployment, uploads, queues, logs, permissions, removal."""

from __future__ import annotations

import itertools
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

from botocore.exceptions import ClientError

from ddbload.contracts import run_record as prices
from ddbload.plan.price import CHUNK_TRANSITIONS, RUN_TRANSITIONS, writes
from proof.budget import run_services
from proof.cleanup import POLICY
from proof.deployment import Cdk, Deployment
from proof.session import (
    NOT_BILLED,
    PREFIXES,
    RUN_SECONDS,
    TABLES,
    Session,
    median,
    require,
    rows,
    succeeded,
)

_FIRST_EVENT_SECONDS = 900.0
"""S3 sends events of a new bucket after some minutes."""
_PROBE_SECONDS = 30.0
"""Seconds between uploads until one of them starts a run that succeeds."""
_PROPAGATION_SECONDS = 180.0
"""Time in which IAM knows a changed policy everywhere."""
_UPLOADS_PAGE = "docs/deploy.md#uploads"


def deploy(session: Session) -> None:
    """Make tables, bucket, queue and stack, and wait until an upload starts a run."""
    cdk = Cdk(session.account, session.record, session.folder)
    for table in TABLES:
        session.tables[table] = session.maker.table(table)
    session.bucket = session.maker.bucket("sources")
    queue = session.maker.events()
    begun = time.monotonic()
    cdk.bootstrap()
    session.account.pause(10)
    uploads = [{"prefix": prefix, "table": session.tables[end]} for prefix, end in PREFIXES.items()]
    cdk.deploy(
        {
            "tables": ",".join(name for end, name in session.tables.items() if end != "denied"),
            "source_buckets": session.bucket,
            "uploads": uploads,
            "log_key": True,
            "log_retention_days": 1,
        }
    )
    session.stack = Deployment(session.account, cdk.stack, queue)
    ready = time.monotonic()
    session.measured(
        "cdk bootstrap and cdk deploy",
        f"{ready - begun:.0f} s",
        "minutes",
        "docs/getting-started.md",
    )
    session.spent += session.work.fixed
    attempts = itertools.count(1)

    def is_done() -> bool:
        ended = session.stack.runs_ended().values()
        return any(each.status == "SUCCEEDED" for found in ended for each in found)

    def first_run() -> bool:
        """Upload, and look for the run of this upload or of an earlier one."""
        number, until = next(attempts), time.monotonic() + _PROBE_SECONDS
        session.upload(f"tiny/probe-{number}.csv", f"probe-{number},x\n")
        session.account.until(
            lambda: is_done() or time.monotonic() > until, "an event", 2 * _PROBE_SECONDS
        )
        return is_done()

    session.account.until(first_run, "the first run of an upload", _FIRST_EVENT_SECONDS)
    session.on_aws(
        *("from the deployment to the first run", f"{time.monotonic() - ready:.0f} s"),
        *("about five minutes", "Amazon S3 user guide, EventBridge"),
        "the emulation sends events at once",
    )


def tiny_uploads(session: Session) -> None:
    """Upload files of one row, one after another."""
    count = session.size
    stack, seconds, used = session.stack, [], []
    for number in range(count):
        run, begun = session.upload(f"tiny/{number}.csv", f"tiny-{number},x\n")
        ended = stack.ended(run, RUN_SECONDS)
        succeeded(ended, 1)
        seconds.append(ended.at - begun)
        used.append(stack.used(str(ended.detail["execution"])))
    spread = f"{median(seconds):.1f} s; {min(seconds):.1f} to {max(seconds):.1f} s"
    session.on_aws(
        *(f"from the upload to the event, median of {count}", spread),
        *("5 to 8 s: to the Map's first child, and cold starts", "docs/scale.md (guessed)"),
        f"{spread} here, which says nothing of AWS",
    )
    transitions = median([each for each, _ in used])
    most = RUN_TRANSITIONS + CHUNK_TRANSITIONS
    session.on_aws(
        *("state transitions of a run", f"{transitions:.0f}", f"at most {most}", "docs/cost.md"),
        f"{transitions:.0f} in the execution; its Map's children cannot be listed there",
    )
    services = run_services(100, 0.0)
    page = writes(1).dollars + services["Lambda"] + services["Step Functions"]
    gb_seconds = median([each for _, each in used])
    billed = writes(1).dollars + transitions * prices.TRANSITION + gb_seconds * prices.GB_SECOND
    session.on_aws(
        *("dollars of a run, without S3", f"${billed:.6f}", f"${page:.6f}", "docs/cost.md"),
        NOT_BILLED,
    )
    session.spent += count * (billed + services["S3 requests"])


def redrive(session: Session) -> None:
    """Keep on_upload from starting runs until an upload is a dead letter; then move it back."""
    stack, client = session.stack, session.account.client
    functions, sqs = client("lambda"), client("sqs")
    name = stack.resource("AWS::Lambda::Function", "OnUpload")
    before = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    queue, letters = stack.outputs["UploadQueueUrl"], stack.outputs["UploadDeadLetterQueueUrl"]
    arns = [
        sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        for url in (queue, letters)
    ]
    # Twenty deliveries, six minutes apart, would take two hours.
    once = {"deadLetterTargetArn": arns[1], "maxReceiveCount": "1"}
    hasty = {"RedrivePolicy": json.dumps(once), "VisibilityTimeout": "60"}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=hasty)

    def set_machine(machine: str) -> None:
        variables = {**before, "DDBLOAD_STATE_MACHINE": machine}
        functions.update_function_configuration(
            FunctionName=name, Environment={"Variables": variables}
        )
        functions.get_waiter("function_updated_v2").wait(FunctionName=name)

    def dead() -> bool:
        wanted = "ApproximateNumberOfMessages"
        answer = sqs.get_queue_attributes(QueueUrl=letters, AttributeNames=[wanted])
        return bool(answer["Attributes"][wanted] != "0")

    set_machine(f"{stack.machine}-missing")
    try:
        run, begun = session.upload("tiny/dead.csv", "dead,x\n")
        session.account.until(dead, "the dead letter", session.work.seconds)
    finally:
        set_machine(stack.machine)
    session.measured(
        "an upload that cannot start a run",
        f"a dead letter after {time.monotonic() - begun:.0f} s",
        "after one delivery here, 20 by default",
        "docs/deploy.md#bursts",
    )
    expected = ("the run of the upload", "docs/operations.md#resume")
    if session.account.emulated:
        session.leave_out("moved back", "StartMessageMoveTask is missing there", *expected)
        return
    begun = time.monotonic()
    sqs.start_message_move_task(SourceArn=arns[1], DestinationArn=arns[0])
    ended = stack.ended(run, session.work.seconds)
    succeeded(ended, 1)
    session.measured("moved back", f"its run ended after {ended.at - begun:.0f} s", *expected)
    session.spent += sum(run_services(100, 0.0).values())


def burst(session: Session) -> None:
    """Upload many files in a minute; each is loaded once."""
    count = session.size
    every = 0.0 if session.account.emulated else 60 / count
    begun = time.monotonic()

    def upload(number: int) -> str:
        time.sleep(max(0.0, begun + number * every - time.monotonic()))
        return session.upload(f"burst/{number}.csv", f"burst-{number},x\n")[0]

    with ThreadPoolExecutor(16) as pool:
        runs = list(pool.map(upload, range(count)))
    uploaded = time.monotonic()
    ended = [session.stack.ended(run, RUN_SECONDS) for run in runs]
    for each in ended:
        succeeded(each, 1)
    items, twice = (
        session.count("burst"),
        sum(len(session.stack.runs_ended()[run]) > 1 for run in runs),
    )
    require(items == count, f"{items} items of {count} uploads")
    session.measured(f"{count} uploads", f"{items} items", f"{count}", _UPLOADS_PAGE)
    session.measured("uploads loaded twice", f"{twice}", "0", "make simulate")
    last = max(each.at for each in ended)
    session.on_aws(
        *("from the last upload to the last event", f"{last - uploaded:.0f} s"),
        *("5 s; 200 s with ten concurrent functions", "tests/sim/bursts.py (simulated)"),
        "the emulation runs four processes of a function",
    )
    services = sum(run_services(100, 0.0).values())
    session.spent += count * (services + writes(1).dollars)


def cold_starts(session: Session) -> None:
    """Read from the logs what cold starts were billed."""
    logs = session.account.client("logs")
    for group in session.stack.log_groups:
        pages = logs.get_paginator("filter_log_events").paginate(
            logGroupName=group, filterPattern='"Init Duration"'
        )
        found = [_report_line(event["message"]) for page in pages for event in page["events"]]
        starts = [each for each in found if each is not None]
        name = f"{group.rpartition('/')[2]}: cold starts"
        if not starts:
            session.leave_out(name, "the log has none")
            continue
        billed, began = (median([each[at] for each in starts]) for at in (0, 1))
        session.measured(
            name,
            f"{len(starts)}, median {began:,.0f} ms, billed {billed:,.0f} ms with their work",
            "1,000 ms",
            "docs/scale.md (guessed)",
        )


def _report_line(message: str) -> tuple[float, float] | None:
    """Return billed and initial milliseconds of Lambda's line REPORT."""
    billed = re.search(r"Billed Duration: ([\d.]+) ms", message)
    began = re.search(r"Init Duration: ([\d.]+) ms", message)
    return (float(billed[1]), float(began[1])) if billed and began else None


def log_key(session: Session) -> None:
    """Look whether all log groups have the stack's key, and can be read with it."""
    logs = session.account.client("logs")
    stack = session.stack
    key = stack.resource("AWS::KMS::Key", "Key")
    groups = [*stack.log_groups, f"/aws/vendedlogs/states/{stack.stack}"]
    events = 0
    for group in groups:
        (found,) = logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]
        require(str(found.get("kmsKeyId", "")).endswith(key), f"{group} is not encrypted by {key}")
        events += len(logs.filter_log_events(logGroupName=group, limit=10)["events"])
    require(events, "no log event could be read")
    session.measured(
        f"{len(groups)} log groups",
        "encrypted by the stack's key, and read",
        "the same",
        "docs/security.md",
    )


def permissions(session: Session) -> None:
    """Load what the stack may not, then take a permission away and give it back."""
    stack, tables = session.stack, session.tables
    source, _ = session.put("denied.csv", rows(5))
    elsewhere = f"s3://{stack.work}/none.csv"
    for run, where, table, expected in (
        ("denied-table", source, tables["denied"], "TableNotAllowed"),
        ("denied-bucket", elsewhere, tables["tiny"], "BucketNotAllowed"),
    ):
        found = (stack.start(run, where, table)["error"] or {}).get("name")
        require(found == expected, f"{run}: {found} instead of {expected}")
        session.measured(run, str(found), expected, "docs/troubleshooting.md")

    role = stack.outputs["ImportChunkRoleArn"].rpartition("/")[2]
    iam = session.account.client("iam")
    deny = {"Effect": "Deny", "Action": "dynamodb:BatchWriteItem", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [deny]})
    name = {"RoleName": role, "PolicyName": POLICY}
    attempts = iter(range(1000))

    def start() -> dict[str, object]:
        """Start a run, anew each time: IAM takes a while to know a change."""
        run = f"denied-write-{next(attempts)}"
        report: dict[str, object] = stack.start(run, source, tables["tiny"])
        return report

    begun = time.monotonic()
    iam.put_role_policy(**name, PolicyDocument=policy)
    try:
        refused = session.account.until(
            lambda: (report := start())["error"] and report, "the refusal", _PROPAGATION_SECONDS
        )
    finally:
        iam.delete_role_policy(**name)
    require(refused["error"]["name"] == "AccessDenied", f"the run failed by {refused['error']}")
    session.measured(
        "without dynamodb:BatchWriteItem",
        "AccessDenied",
        "AccessDenied",
        "docs/troubleshooting.md",
    )
    session.account.until(
        lambda: stack.ddbload("resume", refused["run"])["status"] == "SUCCEEDED",
        "the resumed run",
        _PROPAGATION_SECONDS,
    )
    session.measured(
        "resumed with the permission",
        f"SUCCEEDED, {time.monotonic() - begun:.0f} s in all",
        "after some minutes at most",
        "docs/troubleshooting.md",
    )
    session.spent += 5 * sum(run_services(100, 0.0).values())


def destroy(session: Session) -> None:
    """Remove the stack by `ddbload destroy`; its two buckets stay."""
    stack = session.stack
    begun = time.monotonic()
    removed = stack.ddbload("destroy", "--yes", seconds=RUN_SECONDS)
    kept = sorted(removed["kept_buckets"])
    wanted = sorted((stack.inbox, stack.work))
    require(kept == wanted, f"kept {kept} instead of {wanted}")
    session.measured(
        "ddbload destroy",
        f"{time.monotonic() - begun:.0f} s, two buckets stay",
        "two buckets stay",
        "docs/operations.md#destroy",
    )
    session.stack = None
    try:
        session.account.client("cloudformation").describe_stacks(StackName=stack.stack)
    except ClientError:
        return
    require(False, f"the stack {stack.stack} is still there")
