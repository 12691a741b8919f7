"""After all the others: every call that a role made is allowed by what is deployed, what is
allowed is needed, and what must not be possible is not.

The policies are those of the synthesized template; while the tests run, calls are refused by
those that were deployed. Conditions, trust policies and policies of buckets, keys and queues
are judged by nobody here.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass

import pytest

from localaws.iam.requests import Call
from tests.e2e_stack.allowed_calls import MACHINE, ROLES, STEPS, Granted
from tests.e2e_stack.deployed import PAGE_STACK, SOURCES, until
from tests.e2e_stack.files import HEADER, bad_rows, plain, rows
from tests.e2e_stack.forbidden import forbidden_to, forbidden_to_all
from tests.e2e_stack.runs import Run, load
from tests.e2e_stack.upload_events import deliver, event, run_of

TABLE = "up-permitted"
REFUSED = "refused"
"""Runs of these names are refused something on purpose."""
MODES = {
    "dynamodb:PartiQLInsert": {"mode": "insert"},
    "dynamodb:PutItem": {"mode": "last-wins", "position_attribute": "at"},
    "dynamodb:UpdateItem": {"mode": "update"},
    "dynamodb:DeleteItem": {"mode": "delete", "condition": "#none = {id}"},
}
"""Options of a run that needs an action."""
LARGE = {"max_wcu": 1000}
"""Options by which preflight does not import a small source itself."""


@dataclass(frozen=True)
class Record:
    """A line of the record."""

    stack: str
    role: str
    call: Call
    allowed: bool


@pytest.fixture(scope="module")
def granted(stack):
    return Granted(stack)


@pytest.fixture(scope="module")
def exercised(stack):
    """Runs in which every step does whatever it ever does, if the other tests did not run."""
    cloud = stack.cloud
    cloud.table("id:S", name=TABLE)
    version = stack.upload(plain(5), "permitted/a.csv")
    bad = (HEADER + rows(20) + bad_rows(2)).encode()
    load(stack, bad, run="permitted", chunk_bytes=300).succeeds()
    resume_of_a_lost_segment(stack, "permitted")
    insert_twice(stack, "permitted-insert")
    load_once(stack, "permitted-once")
    several(stack, "permitted-several")
    load(stack, bad, run="permitted-failing", chunk_bytes=300, max_rejects=0).fails(
        "TooManyRejects"
    )
    again = {"run": {"resume_of": "permitted-failing"}, "options": {"max_rejects": 2}}
    resumed = Run(stack, "permitted-failing", stack.start(again, "permitted-resumed"))
    assert resumed.ended.status == "SUCCEEDED", resumed.ended.cause
    for number, (bucket, version_id) in enumerate(
        [(SOURCES, None), (SOURCES, "no-version"), (stack.inbox, None)]
    ):
        source = {"bucket": bucket, "key": "missing", "version_id": version_id}
        name = f"permitted-missing-{number}"
        gone = Run(stack, name, stack.start({"source": source, "target": {"table": TABLE}}, name))
        assert (gone.ended.status, gone.ended.error) == ("FAILED", "SourceNotFound")
    uploaded = Run(stack, "", stack.execution_of("permitted/a.csv", version))
    assert uploaded.ended.status == "SUCCEEDED"
    again = deliver(stack, event(stack, "permitted/a.csv", version))
    assert again["outcome"] == "loaded before"
    uploads_of_one_key(stack, "permitted/slowly/a.csv")
    for mode in MODES.values():
        for limit in ({}, LARGE):
            run = f"permitted-by-{mode['mode']}-{len(limit)}"
            assert load(stack, plain(5), run=run, **mode, **limit).run.ended.events
    damaged(stack, "permitted-damaged")
    stopped(stack, "permitted-stopped")


def uploads_of_one_key(stack, key):
    """The later upload waits for the run of the earlier one."""
    first = run_of(stack, stack.execution_of(key, stack.upload(plain(60), key)))
    first.reaches("run.json")
    second = run_of(stack, stack.execution_of(key, stack.upload(plain(5), key)))
    assert {first.ended.status, second.ended.status} == {"SUCCEEDED"}


def damaged(stack, run):
    """A damaged ledger, which on_stopped cannot read: its event goes to the dead letters."""
    data = plain(40)
    start = data.index(b"\n", 400) + 1
    key = f"runs/{run}/chunks/00001/{start}.json"
    stack.cloud.s3.put_object(Bucket=stack.work, Key=key, Body=b'{"rows": "all"}')
    before = stack.undelivered
    assert load(stack, data, run=run, chunk_bytes=start - 13).run.ended.error == "LedgerDamaged"
    until(lambda: stack.undelivered > before, "on_stopped does not fail")
    stack.cloud.s3.delete_object(Bucket=stack.work, Key=key)


def stopped(stack, run):
    """An execution that is stopped: on_stopped cancels its run and reports it."""
    going = load(stack, plain(600), run=run, max_wcu=20).run
    going.reaches("progress/")
    stack.cloud.stepfunctions.stop_execution(executionArn=going.arn)
    going.reaches("report.json")
    assert going.json("report.json")["status"] == "CANCELLED"
    assert going.json("control.json")["state"] == "cancelled"
    mark = {"Bucket": stack.work, "Prefix": f"notices/{run}.json"}
    until(lambda: stack.cloud.s3.list_objects_v2(**mark)["KeyCount"], "no event was sent")


def load_once(stack, run):
    """What was loaded into the table is looked for in the history."""
    payload = {
        "run": {"id": run, "once": True},
        "source": {"bucket": SOURCES, "key": stack.put(plain(5))},
        "target": {"table": stack.cloud.table()},
    }
    assert Run(stack, run, stack.start(payload)).ended.status == "SUCCEEDED"
    payload["run"]["id"] = f"{run}-again"
    again = Run(stack, f"{run}-again", stack.start(payload))
    assert again.ended.status == "SUCCEEDED"
    assert again.json("report.json")["status"] == "ALREADY_LOADED"


def insert_twice(stack, run):
    """Rows that find identical items: whose these are is looked for in the ledger."""
    once = load(stack, plain(5), run=run, mode="insert")
    once.succeeds()
    payload = {
        "run": {"id": f"{run}-again"},
        "source": {"bucket": SOURCES, "key": stack.put(plain(5))},
        "target": {"table": once.table},
        "options": {"mode": "insert"},
    }
    again = Run(stack, f"{run}-again", stack.start(payload))
    assert again.ended.status == "SUCCEEDED", again.ended.cause
    report = again.json("report.json")
    assert (report["rows"]["skipped"], report["identical"]) == (5, 5)


def several(stack, run):
    """A source of more than one object, one of which is compressed and cut."""
    stack.put(plain(2), "permitted/0.csv")
    header, *lines = plain(60, 2).splitlines(keepends=True)
    # Large enough to be cut: members of one row each, as they are.
    lines = [line.replace(b",name of", b"," + b"x" * 300_000 + b"name of") for line in lines]
    packed = b"".join(gzip.compress(line, 0) for line in (header, *lines))
    stack.put(packed, "permitted/1.csv.gz")
    source = {"bucket": SOURCES, "prefix": "permitted/"}
    options = {"chunk_bytes": 3_000_000, "workers": 4}
    payload = {"source": source, "target": {"table": stack.cloud.table()}, "options": options}
    ended = Run(stack, run, stack.start(payload, run)).ended
    assert ended.status == "SUCCEEDED", ended.cause


def resume_of_a_lost_segment(stack, run):
    """Resume a run whose function was killed after its rejects and before its segment."""
    (lost, *_) = (each for each in Run(stack, run).segments() if each["rejects"])
    name = f"runs/{run}/chunks/{lost['chunk']:05d}/{lost['start']['byte']}.json"
    stack.cloud.s3.delete_object(Bucket=stack.work, Key=name)
    arn = stack.start({"run": {"resume_of": run}}, f"{run}-again")
    resumed = Run(stack, run, arn)
    assert resumed.ended.status == "SUCCEEDED", resumed.ended.cause


@pytest.fixture(scope="module")
def recorded(exercised, granted, hasty, recorded_calls):
    """All calls of all tests, of the second stack too."""
    all_granted = {granted.stack.name: granted, hasty.name: Granted(hasty)}
    lines = [json.loads(line) for line in recorded_calls.read_text().splitlines()]
    # The page's app has the same roles; its calls were judged by its deployed policies alone.
    of_page = [each for each in lines if f":role/{PAGE_STACK}-" in each["role"]]
    assert all(each["allowed"] for each in of_page)
    lines = [each for each in lines if f":role/{PAGE_STACK}-" not in each["role"]]
    roles = {
        arn: (stack, role) for stack, of in all_granted.items() for role, arn in of.arns.items()
    }
    records = []
    for line in lines:
        if line["resource"].endswith("-missing"):
            # A test of uploads has on_upload call a machine that is not there.
            continue
        assert line.keys() == {"role", "action", "resource", "context", "allowed"}, line
        stack, role = roles[line["role"]]
        call = Call(line["action"], line["resource"], line["context"])
        records.append(Record(stack, role, call, line["allowed"]))
    return [(all_granted[record.stack], record) for record in records]


# What a role writes, except a failure's own record, without which nobody would know the reason.
WRITES = {"import_chunk": "chunks/*"}


# What a run says when something is taken away from a role.


TAKEN_AWAY = {
    ("preflight", "dynamodb:DescribeTable"): "AccessDenied",
    ("preflight", "s3:GetObject"): "AccessDenied",
    # Who may not list a bucket is not told that an object is missing.
    ("preflight", "s3:ListBucket"): "AccessDenied",
    ("preflight", "s3:PutObject"): "AccessDenied",
    # It imports small sources.
    ("preflight", "dynamodb:BatchWriteItem"): "AccessDenied",
    ("import_chunk", "dynamodb:BatchWriteItem"): "AccessDenied",
    ("import_chunk", "dynamodb:PartiQLInsert"): "AccessDenied",
    ("import_chunk", "dynamodb:PutItem"): "AccessDenied",
    ("import_chunk", "dynamodb:UpdateItem"): "AccessDenied",
    ("import_chunk", "dynamodb:DeleteItem"): "AccessDenied",
    ("import_chunk", "s3:PutObject"): "AccessDenied",
    ("report", "dynamodb:DescribeTable"): "AccessDenied",
    ("report", "s3:PutObject"): "AccessDenied",
    (MACHINE, "s3:GetObject"): "ItemReaderFailed",
    (MACHINE, "states:StartExecution"): "Permissions",
}


@pytest.mark.parametrize(("role", "action"), TAKEN_AWAY)
def test_missing_permission_is_named(stack, granted, role, action):
    """The run fails by a name that says so."""
    name = f"{REFUSED}-{role}-{action.replace(':', '-')}"
    table = stack.cloud.table()
    key = f"in/{name}.csv"
    if action != "s3:ListBucket":
        stack.put(plain(5), key)
    resource = {
        "dynamodb:DescribeTable": granted.arn("dynamodb", f"table/{table}"),
        "dynamodb:BatchWriteItem": granted.arn("dynamodb", f"table/{table}"),
        "dynamodb:PartiQLInsert": granted.arn("dynamodb", f"table/{table}"),
        "dynamodb:PutItem": granted.arn("dynamodb", f"table/{table}"),
        "dynamodb:UpdateItem": granted.arn("dynamodb", f"table/{table}"),
        "dynamodb:DeleteItem": granted.arn("dynamodb", f"table/{table}"),
        "states:StartExecution": stack.machine,
        "s3:GetObject": f"arn:aws:s3:::{SOURCES}/{key}",
        "s3:ListBucket": f"arn:aws:s3:::{SOURCES}",
        "s3:PutObject": f"arn:aws:s3:::{stack.work}/runs/{name}/{WRITES.get(role, '*')}",
    }[action]
    if role == MACHINE and action.startswith("s3:"):
        resource = f"arn:aws:s3:::{stack.work}/*"
    statement = {"Effect": "Deny", "Action": action, "Resource": resource}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    client, role_name = stack.cloud.client("iam"), granted.arns[role].rpartition("/")[2]
    client.put_role_policy(
        RoleName=role_name, PolicyName=REFUSED, PolicyDocument=json.dumps(document)
    )
    try:
        payload = {"source": {"bucket": SOURCES, "key": key}, "target": {"table": table}}
        payload["options"] = {**MODES.get(action, {}), **({} if role == "preflight" else LARGE)}
        ended = Run(stack, name, stack.start(payload, name)).ended
    finally:
        client.delete_role_policy(RoleName=role_name, PolicyName=REFUSED)
    assert (ended.status, ended.error) == ("FAILED", TAKEN_AWAY[role, action]), ended.cause
    # An answer to HEAD has no text.
    assert action in ended.cause or "403: HTTP status 403" in ended.cause


# What was done.


def test_calls_are_allowed_by_synthesized_policies(recorded):
    """Refused was only what tests took away for a while."""
    wrong = [
        (record.stack, record.role, record.call)
        for granted, record in recorded
        if not granted.policies[record.role].allow(record.call)
    ]
    assert wrong == []
    refused = [(record.role, record.call) for _, record in recorded if not record.allowed]
    assert {(role, call.action) for role, call in refused} <= TAKEN_AWAY.keys()


LOGS = {"logs:CreateLogStream", "logs:PutLogEvents"}
DONE = {
    "preflight": {
        "states:DescribeExecution": {"execution:*"},
        "dynamodb:DescribeContinuousBackups": {"table"},
        "dynamodb:DescribeTable": {"table"},
        **{action: {"table"} for action in ("dynamodb:BatchWriteItem", *MODES)},
        "events:PutEvents": {"bus"},
        "lambda:GetAccountSettings": {"*"},
        "s3:GetObject": {
            "inbox/*",
            "sources/*",
            "work/history/*",
            "work/notices/*",
            "work/once/*",
            "work/runs/*/chunks/*",
            "work/runs/*/control.json",
            "work/runs/*/execution.json",
            "work/runs/*/listing/*",
            "work/runs/*/manifest.json",
            "work/runs/*/manifest/*",
            "work/runs/*/rejects/*",
            "work/runs/*/report.html",
            "work/runs/*/report.json",
            "work/runs/*/request.json",
            "work/runs/*/run.json",
            "work/uploads/*",
        },
        "s3:GetObjectVersion": {"inbox/*", "sources/*"},
        "s3:ListBucket": {"inbox", "sources", "work"},
        "s3:PutObject": {
            "work/history/*",
            "work/notices/*",
            "work/once/*",
            "work/runs/*/attempts/*",
            "work/runs/*/chunks/*",
            "work/runs/*/execution.json",
            "work/runs/*/failures/*",
            "work/runs/*/listing/*",
            "work/runs/*/manifest.json",
            "work/runs/*/manifest/*",
            "work/runs/*/parts/*",
            "work/runs/*/progress/*",
            "work/runs/*/rejects/*",
            "work/runs/*/report.html",
            "work/runs/*/report.json",
            "work/runs/*/request.json",
            "work/runs/*/run.json",
            "work/runs/*/seek/*",
            "work/started/*",
            "work/uploads/*",
        },
    },
    "import_chunk": {
        "dynamodb:BatchWriteItem": {"table"},
        "dynamodb:DescribeTable": {"table"},
        "dynamodb:PartiQLInsert": {"table"},
        "dynamodb:PutItem": {"table"},
        "dynamodb:DeleteItem": {"table"},
        "dynamodb:UpdateItem": {"table"},
        "s3:GetObject": {
            "sources/*",
            "work/runs/*/chunks/*",
            "work/runs/*/control.json",
            "work/runs/*/parts/*",
            "work/runs/*/rejects/*",
            "work/runs/*/manifest.json",
            "work/runs/*/run.json",
            "work/runs/*/seek/*",
        },
        "s3:GetObjectVersion": {"inbox/*"},
        "s3:ListBucket": {"work"},
        "s3:PutObject": {
            "work/runs/*/attempts/*",
            "work/runs/*/chunks/*",
            "work/runs/*/failures/*",
            "work/runs/*/progress/*",
            "work/runs/*/rejects/*",
        },
        "s3:DeleteObject": {"work/runs/*/progress/*"},
    },
    "report": {
        "dynamodb:DescribeTable": {"table"},
        "s3:GetObject": {
            "work/notices/*",
            "work/runs/*/chunks/*",
            "work/runs/*/control.json",
            "work/runs/*/execution.json",
            "work/runs/*/failures/*",
            "work/runs/*/listing/*",
            "work/runs/*/manifest.json",
            "work/runs/*/rejects/*",
            # A run that was done before keeps its report; each replaces the one that it has read.
            "work/runs/*/report.html",
            "work/runs/*/report.json",
            "work/runs/*/request.json",
            "work/runs/*/run.json",
        },
        "s3:ListBucket": {"work"},
        "s3:PutObject": {
            "work/history/*",
            "work/notices/*",
            "work/runs/*/report.html",
            "work/runs/*/report.json",
            "work/runs/*/request.json",
        },
        "events:PutEvents": {"bus"},
    },
    "on_stopped": {
        "sqs:SendMessage": {"undelivered"},
        "events:PutEvents": {"bus"},
        "dynamodb:DescribeTable": {"table"},
        "s3:GetObject": {
            "work/notices/*",
            "work/runs/*/chunks/*",
            "work/runs/*/control.json",
            "work/runs/*/execution.json",
            "work/runs/*/manifest.json",
            "work/runs/*/progress.json",
            "work/runs/*/report.html",
            "work/runs/*/report.json",
            "work/runs/*/request.json",
            "work/runs/*/run.json",
        },
        "s3:ListBucket": {"work"},
        "s3:PutObject": {
            "work/history/*",
            "work/notices/*",
            "work/runs/*/control.json",
            "work/runs/*/report.html",
            "work/runs/*/report.json",
        },
        "states:DescribeExecution": {"execution:*"},
    },
    "on_upload": {
        "s3:GetObject": {
            "work/runs/*/report.json",
            "work/runs/*/run.json",
            "work/uploads/*",
        },
        "s3:ListBucket": {"work"},
        "s3:PutObject": {"work/uploads/*"},
        "sqs:DeleteMessage": {"queue"},
        "sqs:GetQueueAttributes": {"queue"},
        "sqs:ReceiveMessage": {"queue"},
        "states:StartExecution": {"machine"},
    },
    MACHINE: {
        "lambda:InvokeFunction": {
            "function import_chunk",
            "function preflight",
            "function report",
        },
        "s3:GetObject": {"work/runs/*/manifest.json"},
        "s3:PutObject": {"work/mapruns/*"},
        "states:StartExecution": {"machine"},
    },
}
"""Everything that each role ever does here, besides writing its log."""
SELDOM = {"on_stopped": {("s3:GetObject", "work/runs/*/progress.json")}}
"""Calls that depend on the moment at which an execution is stopped."""


@pytest.mark.parametrize("role", ROLES)
def test_roles_make_expected_calls_only(recorded, role):
    done = {
        (record.call.action, granted.kind(record.call.resource))
        for granted, record in recorded
        if record.role == role
    }
    logs = {(action, f"log {role}") for action in LOGS} if role in STEPS else set()
    known = logs | {(action, kind) for action, kinds in DONE[role].items() for kind in kinds}
    assert done - known == set()
    assert known - done <= SELDOM.get(role, set())


DELIVERIES = "AWS has no narrower resource for a state machine's own log."
CHILDREN = "Step Functions watches and stops a Map's children by it; here they are threads."
RESULTS = "Step Functions writes large results in parts; here each file is written at once."
LISTED = "Read on after an object vanished, it is missing and not forbidden."
OTHERS = "Read by an invocation after the one that wrote it."
LONG = (
    "For a compressed object that one invocation does not get through, which takes too long here."
)
SEGMENTS = "For more segments than one invocation reads, which are too many here."
NOT_SEEN_HERE = {
    "preflight": {
        ("s3:GetObject", "work/runs/*/seek/*"): LONG,
        ("s3:GetObject", "work/runs/*/listing/*"): OTHERS,
        ("s3:GetObject", "work/runs/*/parts/*"): OTHERS,
        ("s3:DeleteObject", "work/runs/*/progress/*"): "For an import that takes some seconds.",
        ("s3:PutObject", "work/runs/*/report-parts/*"): SEGMENTS,
        ("cloudwatch:GetMetricStatistics", "*"): (
            "Metrics are not read from another server than the table's."
        ),
    },
    "import_chunk": {
        ("s3:PutObject", "work/runs/*/seek/*"): LONG,
        ("s3:GetObject", "inbox/*"): "One list for both kinds of buckets; the inbox has versions.",
        ("s3:GetObjectVersion", "sources/*"): "The tests' source bucket keeps no versions.",
        ("s3:ListBucket", "inbox"): LISTED,
        ("s3:ListBucket", "sources"): LISTED,
    },
    "report": {
        ("s3:GetObject", "work/history/*"): "A run that finishes again, after `resume`.",
        ("s3:PutObject", "work/runs/*/report-parts/*"): SEGMENTS,
    },
    "on_stopped": {
        ("s3:GetObject", "work/history/*"): "As for report, whose work it takes over.",
        ("s3:PutObject", "work/runs/*/request.json"): "As for report: a run that failed at once.",
        ("s3:PutObject", "work/runs/*/report-parts/*"): SEGMENTS,
    },
    "on_upload": {},
    MACHINE: {
        **{
            (f"logs:{action}", "*"): DELIVERIES
            for action in (
                "CreateLogDelivery",
                "DeleteLogDelivery",
                "DescribeLogGroups",
                "DescribeResourcePolicies",
                "GetLogDelivery",
                "ListLogDeliveries",
                "PutResourcePolicy",
                "UpdateLogDelivery",
            )
        },
        ("s3:AbortMultipartUpload", "work/mapruns/*"): RESULTS,
        ("s3:GetObject", "work/mapruns/*"): RESULTS,
        ("s3:ListMultipartUploadParts", "work/mapruns/*"): RESULTS,
        ("states:DescribeExecution", "execution/ImportChunks:*"): CHILDREN,
        ("states:RedriveExecution", "execution/ImportChunks:*"): "Nobody redrives anything here.",
        ("states:DescribeExecution", "execution:*"): CHILDREN,
        ("states:StopExecution", "execution/ImportChunks:*"): CHILDREN,
        ("states:StopExecution", "execution:*"): CHILDREN,
    },
}
"""Allowed calls that are not made here, with the reason why AWS needs them."""


@pytest.mark.parametrize("role", ROLES)
def test_policies_allow_only_calls_that_are_made(recorded, granted, role):
    """Each action on each resource of each statement is used."""
    calls = [
        record.call
        for of, record in recorded
        if of is granted and record.role == role and record.allowed
    ]
    unused = granted.granted(role) - granted.used(role, calls)
    assert unused == NOT_SEEN_HERE[role].keys()


# What must not be possible.


@pytest.mark.parametrize("role", ROLES)
def test_roles_may_not_make_forbidden_calls(granted, role):
    tries = forbidden_to_all(granted, role)
    assert len(tries) > 200
    assert [call for call in sorted(tries, key=str) if granted.policies[role].allow(call)] == []


@pytest.mark.parametrize("role", ROLES)
def test_roles_may_not_make_calls_of_other_roles(granted, role):
    tries = forbidden_to(granted, role)
    assert len(tries) > 20
    assert [call for call in sorted(tries, key=str) if granted.policies[role].allow(call)] == []
