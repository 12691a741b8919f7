"""Parts about the deployed service: deployment, uploads, queues, logs, permissions, removal."""

from __future__ import annotations

import itertools
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

from ddbload.contracts.run_record import GB_SECOND, TRANSITION
from ddbload.planning.price import GROUP_TRANSITIONS, RUN_TRANSITIONS, writes
from proof.account import require
from proof.budget import run_services
from proof.cleanup import POLICY
from proof.deployment import Cdk, Deployment
from proof.session import RUN_SECONDS, Session, median, require_rows, rows

TABLES = ("tiny", "csv", "insert", "order", "slow", "stop", "four", "burst")
"""Ends of the names of the on-demand tables that the stack may write."""
_FIRST_EVENT_SECONDS, _PROBE_SECONDS = 900.0, 30.0
"""S3 sends events of a new bucket after some minutes; time between uploads until it does."""
_PROPAGATION_SECONDS = 180.0
"""Time in which IAM knows a changed policy everywhere."""


def deploy(session: Session) -> None:
    """Make tables, bucket, queue and stack, and wait until an upload starts a run."""
    maker, account = session.maker, session.account
    session.spent += session.work.fixed
    session.tables = {end: maker.table(end) for end in (*TABLES, "denied")}
    session.bucket, queue = maker.bucket("sources"), maker.events()
    cdk, begun = Cdk(account, session.record, session.folder), time.monotonic()
    cdk.bootstrap()
    account.pause(10)
    uploads = [{"prefix": f"{end}/", "table": session.tables[end]} for end in ("tiny", "burst")]
    allowed = ",".join(session.tables[end] for end in TABLES)
    more = {"log_key": "true", "log_retention_days": "1", "uploads": json.dumps(uploads)}
    cdk.deploy({"tables": allowed, "source_buckets": session.bucket, **more})
    session.deployment = stack = Deployment(account, cdk.stack, queue)
    ready = time.monotonic()
    session.figure("cdk bootstrap and cdk deploy", f"{ready - begun:.0f} s")
    attempts = itertools.count(1)

    def first_run() -> bool:
        """Upload, and look for the run of this upload or of an earlier one."""
        session.upload(f"tiny/probe-{next(attempts)}.csv")
        late = time.monotonic() + _PROBE_SECONDS
        account.until(lambda: done() or time.monotonic() > late, "an event", 2 * _PROBE_SECONDS)
        return done()

    def done() -> bool:
        ended = stack.runs_ended().values()
        return any(each.status == "SUCCEEDED" for found in ended for each in found)

    account.until(first_run, "the first run of an upload", _FIRST_EVENT_SECONDS)
    session.figure("from the deployment to the first run", f"{time.monotonic() - ready:.0f} s")


def tiny_uploads(session: Session) -> None:
    """Upload files of one row, one after another."""
    count, seconds, used = session.size, [], []
    for number in range(count):
        run, begun = session.upload(f"tiny/{number}.csv")
        ended = session.stack.ended(run, RUN_SECONDS)
        require_rows(ended, 1)
        seconds.append(ended.at - begun)
        used.append(session.stack.used(str(ended.detail["execution"])))
    session.figure("uploads that were loaded", f"{count}", count)
    spread = f"{median(seconds):.1f} s; from {min(seconds):.1f} to {max(seconds):.1f} s"
    session.figure("from the upload to the event", spread)
    transitions, gb_seconds = (median(values) for values in zip(*used, strict=True))
    most = RUN_TRANSITIONS + GROUP_TRANSITIONS
    session.figure("state transitions of a run", f"{transitions:.0f}", most)
    services = run_services(100, 0.0)
    expected = writes(1).dollars + services["Lambda"] + services["Step Functions"]
    billed = writes(1).dollars + transitions * TRANSITION + gb_seconds * GB_SECOND
    session.figure("dollars of a run, without S3", f"${billed:.6f}", f"{expected:.6f}")
    session.spent += count * (billed + services["S3 requests"])


def redrive(session: Session) -> None:
    """Keep on_upload from starting runs until an upload is a dead letter; then move it back."""
    stack, until = session.stack, session.account.until
    functions, sqs = session.account.client("lambda"), session.account.client("sqs")
    name = stack.resource("AWS::Lambda::Function", "OnUpload")
    before = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    urls = [stack.outputs[output] for output in ("UploadQueueUrl", "UploadDeadLetterQueueUrl")]

    def attribute(url: str, name: str) -> str:
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])
        return str(answer["Attributes"][name])

    def set_machine(machine: str) -> None:
        variables = {"Variables": {**before, "DDBLOAD_STATE_MACHINE": machine}}
        functions.update_function_configuration(FunctionName=name, Environment=variables)
        functions.get_waiter("function_updated_v2").wait(FunctionName=name)

    queue, letters = (attribute(url, "QueueArn") for url in urls)
    # Twenty deliveries, six minutes apart, would take two hours.
    once = json.dumps({"deadLetterTargetArn": letters, "maxReceiveCount": "1"})
    hasty = {"RedrivePolicy": once, "VisibilityTimeout": "60"}
    sqs.set_queue_attributes(QueueUrl=urls[0], Attributes=hasty)
    set_machine(f"{stack.machine}-missing")
    try:
        run, begun = session.upload("tiny/dead.csv")
        is_dead = "ApproximateNumberOfMessages"
        until(lambda: int(attribute(urls[1], is_dead)), "the dead letter", session.work.seconds)
    finally:
        set_machine(stack.machine)
    shown = f"a dead letter after {time.monotonic() - begun:.0f} s"
    session.figure("an upload that cannot start a run", shown)
    begun, shown = time.monotonic(), ""
    if not session.account.emulated:
        sqs.start_message_move_task(SourceArn=letters, DestinationArn=queue)
        ended = stack.ended(run, session.work.seconds)
        require_rows(ended, 1)
        shown = f"its run ended after {ended.at - begun:.0f} s"
    session.figure("moved back", shown)
    session.charge(100, 0.0, writes(1).dollars)


def burst(session: Session) -> None:
    """Upload many files in a minute; each is loaded once."""
    count, stack, begun = session.size, session.stack, time.monotonic()
    every = 0.0 if session.account.emulated else 60 / count

    def upload(number: int) -> str:
        time.sleep(max(0.0, begun + number * every - time.monotonic()))
        return session.upload(f"burst/{number}.csv")[0]

    with ThreadPoolExecutor(16) as pool:
        runs = list(pool.map(upload, range(count)))
    uploaded = time.monotonic()
    ended = [stack.ended(run, RUN_SECONDS) for run in runs]
    for each in ended:
        require_rows(each, 1)
        session.charge(100, 0.0, writes(1).dollars)
    items, twice = session.count("burst"), sum(len(stack.runs_ended()[run]) > 1 for run in runs)
    require((items, twice) == (count, 0), f"{items} items of {count}, {twice} loaded twice")
    session.figure("items, and uploads loaded twice", f"{items}, {twice}", count)
    last = max(each.at for each in ended) - uploaded
    session.figure("from the last upload to the last event", f"{last:.0f} s")


def cold_starts(session: Session) -> None:
    """Read from Lambda's lines REPORT what cold starts were billed."""
    pages = session.account.client("logs").get_paginator("filter_log_events")
    line = re.compile(r"Billed Duration: ([\d.]+) ms.*Init Duration: ([\d.]+) ms", re.DOTALL)
    for group in session.stack.log_groups:
        request = {"logGroupName": group, "filterPattern": '"Init Duration"'}
        events = [event for page in pages.paginate(**request) for event in page["events"]]
        starts = [match for match in (line.search(event["message"]) for event in events) if match]
        shown = "none in the log"
        if starts:
            billed, began = (median(float(match[at]) for match in starts) for at in (1, 2))
            shown = f"{began:,.0f} ms; {billed:,.0f} ms billed with the work ({len(starts)} starts)"
        session.figure(group.rpartition("/")[2], shown)


def log_key(session: Session) -> None:
    """Look whether all log groups have the stack's key, and can be read with it."""
    logs, stack = session.account.client("logs"), session.stack
    key = stack.resource("AWS::KMS::Key", "Key")
    groups, events = [*stack.log_groups, f"/aws/vendedlogs/states/{stack.stack}"], 0
    for group in groups:
        (found,) = logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]
        require(str(found.get("kmsKeyId", "")).endswith(key), f"{group} is not encrypted by {key}")
        events += len(logs.filter_log_events(logGroupName=group, limit=10)["events"])
    require(events, "no log event could be read")
    session.figure(
        "log groups", f"{len(groups)} encrypted by the stack's key, and read", len(groups)
    )


def permissions(session: Session) -> None:
    """Load what the stack may not, then take a permission away and give it back."""
    stack, until = session.stack, session.account.until
    source, _ = session.put("denied.csv", rows(5))
    cases = {"denied-table": (source, "denied"), "denied-bucket": (f"s3://{stack.work}/a", "tiny")}
    for run, case in cases.items():
        found, due = session.load(run, *case)["error"], session.expected[run][0]
        require(found and found["name"] == due, f"{run}: {found} instead of {due}")
        session.figure(run, due)
    require(session.count("denied") == 0, "a table that is not allowed was written")

    # Preflight imports small sources.
    iam, attempts, begun = session.account.client("iam"), itertools.count(1), time.monotonic()
    role = stack.outputs["PreflightRoleArn"].rpartition("/")[2]
    deny = {"Effect": "Deny", "Action": "dynamodb:BatchWriteItem", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [deny]})

    def refused() -> dict[str, str] | None:
        """Start a run, anew each time: IAM takes a while to know a change."""
        report = session.load(f"denied-write-{next(attempts)}", source, "tiny")
        return report if report["error"] else None

    iam.put_role_policy(RoleName=role, PolicyName=POLICY, PolicyDocument=policy)
    try:
        report = until(refused, "the refusal", _PROPAGATION_SECONDS)
    finally:
        iam.delete_role_policy(RoleName=role, PolicyName=POLICY)
    require(report["error"]["name"] == "AccessDenied", f"the run failed by {report['error']}")
    session.figure("without dynamodb:BatchWriteItem", "AccessDenied")

    def resumed() -> bool:
        return bool(stack.ddbload("resume", report["run"])["status"] == "SUCCEEDED")

    until(resumed, "the resumed run", _PROPAGATION_SECONDS)
    shown = f"SUCCEEDED, {time.monotonic() - begun:.0f} s in all"
    session.figure("resumed with the permission", shown)
    session.charge(500, 0.0, writes(5).dollars)


def destroy(session: Session) -> None:
    """Remove the stack by `ddbload destroy`; its two buckets stay."""
    stack, begun = session.stack, time.monotonic()
    removed = stack.ddbload("destroy", "--yes", seconds=RUN_SECONDS)
    kept, due = sorted(removed["kept_buckets"]), sorted((stack.inbox, stack.work))
    require(kept == due, f"kept {kept} instead of {due}")
    session.figure("ddbload destroy", f"{time.monotonic() - begun:.0f} s, two buckets stay")
