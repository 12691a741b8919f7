"""Calls that must not be allowed: to no role, and to all roles but one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from localaws.iam.requests import Call
from tests.e2e_stack.allowed_calls import MACHINE, STEPS, Granted
from tests.e2e_stack.deployed import FORBIDDEN, SOURCES

PROGRESS = "runs/r/progress/ab-000001-i-x-x-x-0"
NOTICE = "notices/r.json"
LEDGER = (
    "runs/r/run.json",
    "runs/r/execution.json",
    "runs/r/listing/l/00000.json",
    "runs/r/manifest.json",
    "runs/r/manifest/0.json",
    "runs/r/parts/0-9.json",
    "runs/r/chunks/00000/1.json",
    "runs/r/rejects/00000/1-2.jsonl",
    "runs/r/failures/00000.json",
    "runs/r/report.json",
    "runs/r/control.json",
    PROGRESS,
    "started/99999999999999-r",
    "history/books/id/object/0-0/r.jsonl",
    "uploads/0/999999999.json",
    "once/books/id/load/object/0/999999999.json",
    NOTICE,
)
"""One of each kind of file of a run, and of what is kept beside the runs."""
RESULTS = "mapruns/11111111/SUCCEEDED_0.json"
BESIDE = (
    "a.csv",
    "runs",
    "runs/r",
    "runs/r/other.txt",
    "run/r/run.json",
    "Runs/r/run.json",
    "mapruns",
)
"""Keys that are not files of a run, though some resemble them."""

TABLE_ACTIONS = (
    "CreateTable", "DeleteTable", "GetItem", "BatchGetItem", "PartiQLDelete", "Query", "Scan",
    "UpdateTable",
)  # fmt: skip
WRITES = ("BatchWriteItem", "DeleteItem", "PartiQLInsert", "PutItem", "UpdateItem")
BUCKET_ACTIONS = (
    "DeleteBucket", "DeleteBucketPolicy", "ListBucketVersions", "PutBucketAcl",
    "PutBucketNotification", "PutBucketPolicy", "PutBucketPublicAccessBlock",
    "PutBucketVersioning", "PutEncryptionConfiguration", "PutLifecycleConfiguration",
)  # fmt: skip
FUNCTION_ACTIONS = (
    "AddPermission", "DeleteFunction", "GetFunction", "PublishVersion", "PutFunctionConcurrency",
    "UpdateFunctionCode", "UpdateFunctionConfiguration",
)  # fmt: skip
MACHINE_ACTIONS = (
    "CreateStateMachine", "DeleteStateMachine", "DescribeStateMachine", "ListExecutions",
    "StartSyncExecution", "UpdateStateMachine",
)  # fmt: skip


def forbidden_to_all(granted: Granted, role: str) -> set[Call]:
    """List calls that no role may make; `role` is the caller, which may write to its log group."""
    return {
        *_on_tables(granted),
        *_on_objects(granted),
        *_on_buckets(granted),
        *_on_functions_and_machines(granted),
        *_on_the_rest(granted, role),
    }


def _all(service: str, actions: Iterable[str], resources: Iterable[str]) -> set[Call]:
    return {Call(f"{service}:{action}", on) for action, on in product(actions, resources)}


def _on_tables(granted: Granted) -> set[Call]:
    first = granted.stack.cloud.tables[0]
    table = granted.arn("dynamodb", f"table/{first}")
    others = [
        granted.arn("dynamodb", f"table/{name}") for name in ("other", f"{first}0", f"{first}-copy")
    ]
    abroad = f"arn:aws:dynamodb:eu-north-1:{granted.place.account}:table/{first}"
    strangers = f"arn:aws:dynamodb:{granted.place.region}:999999999999:table/{first}"
    needed = ("DescribeTable", *WRITES)
    return {
        *_all("dynamodb", needed, [*others, abroad, strangers, f"{table}/index/i"]),
        *_all("dynamodb", TABLE_ACTIONS, [table, *others]),
        *_all("dynamodb", ["ListTables"], ["*"]),
    }


def _on_objects(granted: Granted) -> set[Call]:
    stack = granted.stack
    work, inbox, sources = (f"arn:aws:s3:::{name}" for name in (stack.work, stack.inbox, SOURCES))
    others = [f"arn:aws:s3:::{FORBIDDEN}", f"{work}2", f"{inbox}-logs", f"{sources}.old"]
    keys = [*LEDGER, RESULTS, *BESIDE]
    everywhere = [f"{bucket}/{key}" for bucket in (work, inbox, sources) for key in keys]
    elsewhere = [f"{bucket}/{key}" for bucket in others for key in keys]
    given = [f"{bucket}/{key}" for bucket in (inbox, sources) for key in keys]
    removing = ("DeleteObject", "DeleteObjectVersion", "PutObjectRetention")
    giving_away = ("PutObjectAcl", "PutObjectTagging", "GetObjectAcl", "RestoreObject")
    return {
        *_all("s3", (*removing, *giving_away), everywhere) - {_renewal(granted)},
        *_all("s3", ("GetObject", "GetObjectVersion", "PutObject"), elsewhere),
        *_all("s3", ("PutObject", "AbortMultipartUpload"), given),
        *_all("s3", ("PutObject",), [f"{work}/{key}" for key in BESIDE]),
    }


def _renewal(granted: Granted) -> Call:
    """Return the call by which a worker deletes its earlier progress."""
    return Call("s3:DeleteObject", f"arn:aws:s3:::{granted.stack.work}/{PROGRESS}")


def _on_buckets(granted: Granted) -> set[Call]:
    stack = granted.stack
    own = [f"arn:aws:s3:::{name}" for name in (stack.work, stack.inbox, SOURCES)]
    others = [f"arn:aws:s3:::{name}" for name in (FORBIDDEN, f"{stack.work}2", f"{SOURCES}.old")]
    return {
        *_all("s3", BUCKET_ACTIONS, [*own, *others]),
        *_all("s3", ("ListBucket", "CreateBucket"), others),
        *_all("s3", ("ListAllMyBuckets",), ["*"]),
    }


def _on_functions_and_machines(granted: Granted) -> set[Call]:
    functions = [granted.function(step) for step in STEPS]
    machine = granted.stack.machine
    others = [f"{machine}2", granted.arn("states", "stateMachine:other")]
    executions = [granted.arn("states", f"execution:{name}:run") for name in ("other", "ddbload")]
    return {
        *_all("lambda", FUNCTION_ACTIONS, functions),
        *_all("lambda", ("InvokeFunction",), map(granted.function, ("on_upload", "on_stopped"))),
        *_all("lambda", ("InvokeFunction",), [f"{name}2" for name in functions]),
        *_all(
            "lambda", ("CreateFunction", "InvokeFunction"), [granted.arn("lambda", "function:x")]
        ),
        *_all("states", MACHINE_ACTIONS, [machine, *others]),
        *_all("states", ("StartExecution",), others),
        *_all("states", ("DescribeExecution", "StopExecution"), executions),
    }


def _on_the_rest(granted: Granted, role: str) -> set[Call]:
    name = granted.stack.name
    groups = [f"/ddbload/{name}/{step}" for step in STEPS if step != role]
    groups += [f"/ddbload/{name}2/{role}", f"/ddbload/{name}/{role}2", "/aws/lambda/other"]
    streams = [granted.arn("logs", f"log-group:{group}:log-stream:s") for group in groups]
    own = granted.arn("logs", f"log-group:/ddbload/{name}/{role}:log-stream:s")
    queues = [granted.arn("sqs", each) for each in ("other", granted.dead_letters)]
    roles = granted.arns.values()
    return {
        *_all("logs", ("CreateLogStream", "PutLogEvents"), streams),
        *_all("logs", ("DeleteLogGroup", "DeleteLogStream", "GetLogEvents"), [own, *streams]),
        *_all("logs", ("CreateLogGroup",), [granted.arn("logs", "log-group:new")]),
        *_all("sqs", ("ReceiveMessage", "DeleteMessage", "PurgeQueue"), queues),
        *_all("sqs", ("PurgeQueue", "SendMessage"), [*queues, granted.arn("sqs", granted.queue)]),
        *_all("sts", ("AssumeRole",), roles),
        *_all("iam", ("PassRole", "PutRolePolicy", "AttachRolePolicy"), roles),
        *_all("kms", ("Decrypt", "GenerateDataKey"), [granted.arn("kms", "key/any")]),
        *_all("events", ("PutEvents",), [granted.arn("events", "event-bus/default")]),
        *_events_of_others(granted),
    }


def _events_of_others(granted: Granted) -> set[Call]:
    bus = granted.arn("events", "event-bus/default")
    other_bus = granted.arn("events", "event-bus/other")
    own = {"events:source": "ddbload", "events:detail-type": "ddbload.run.completed"}
    return {
        Call("events:PutEvents", bus, {**own, "events:source": "aws.states"}),
        Call("events:PutEvents", bus, {**own, "events:detail-type": "ddbload.other"}),
        Call("events:PutEvents", other_bus, own),
    }


# What only some may do, by role: files of the ledger, by how they are used.

REPORTED = set(LEDGER) - {
    "started/99999999999999-r",
    "uploads/0/999999999.json",
    "once/books/id/load/object/0/999999999.json",
}
READ = {
    # It reports small sources, and so may read whatever Report reads.
    "preflight": {*LEDGER} - {"started/99999999999999-r"},
    "import_chunk": {
        "runs/r/control.json",
        "runs/r/manifest.json",
        "runs/r/run.json",
        "runs/r/parts/0-9.json",
        "runs/r/chunks/00000/1.json",
        "runs/r/rejects/00000/1-2.jsonl",
    },
    "report": REPORTED,
    "on_stopped": REPORTED,
    "on_upload": {"runs/r/run.json", "runs/r/report.json", "uploads/0/999999999.json"},
    MACHINE: {"runs/r/manifest.json", RESULTS},
}
IMPORTED = {
    PROGRESS,
    "runs/r/chunks/00000/1.json",
    "runs/r/rejects/00000/1-2.jsonl",
    "runs/r/failures/00000.json",
}
REPORT = {"runs/r/report.json", "history/books/id/object/0-0/r.jsonl", NOTICE}
WRITTEN = {
    "preflight": {
        "runs/r/run.json",
        "runs/r/execution.json",
        "runs/r/listing/l/00000.json",
        "runs/r/manifest.json",
        "runs/r/manifest/0.json",
        "runs/r/parts/0-9.json",
        "started/99999999999999-r",
        "uploads/0/999999999.json",
        "once/books/id/load/object/0/999999999.json",
        # It imports and reports small sources.
        *IMPORTED,
        *REPORT,
    },
    "import_chunk": IMPORTED,
    "report": REPORT,
    "on_stopped": {
        "runs/r/control.json",
        "runs/r/report.json",
        "history/books/id/object/0-0/r.jsonl",
        NOTICE,
    },
    "on_upload": {"uploads/0/999999999.json"},
    MACHINE: {RESULTS},
}
READS_SOURCES = {"preflight", "import_chunk"}


def forbidden_to(granted: Granted, role: str) -> set[Call]:
    """List calls that other roles may make, but not this one."""
    stack = granted.stack
    work, inbox, sources = (f"arn:aws:s3:::{name}" for name in (stack.work, stack.inbox, SOURCES))
    files = {*LEDGER, RESULTS}
    found = {
        *_all("s3", ("GetObject",), [f"{work}/{key}" for key in files - READ[role]]),
        *_all("s3", ("PutObject",), [f"{work}/{key}" for key in files - WRITTEN[role]]),
        *_all("s3", ("GetObjectVersion",), [f"{work}/{key}" for key in files]),
    }
    if role not in READS_SOURCES:
        found.add(_renewal(granted))
    if role not in READS_SOURCES:
        objects = [f"{bucket}/a.csv" for bucket in (inbox, sources)]
        found |= _all("s3", ("GetObject", "GetObjectVersion"), objects)
        found |= _all("s3", ("ListBucket",), [inbox, sources])
    table = [granted.arn("dynamodb", f"table/{granted.stack.cloud.tables[0]}")]
    if role not in READS_SOURCES:
        found |= _all("dynamodb", WRITES, table)
    if role not in {"preflight", "import_chunk", "report", "on_stopped"}:
        found |= _all("dynamodb", ("DescribeTable",), table)
    if role not in {"on_upload", MACHINE}:
        found |= _all("states", ("StartExecution",), [stack.machine])
    if role != MACHINE:
        running = f"{stack.machine.replace(':stateMachine:', ':execution:')}:run"
        found |= _all("states", ("StopExecution",), [running])
        if role not in {"preflight", "on_stopped"}:
            found |= _all("states", ("DescribeExecution",), [running])
        found |= _all("lambda", ("InvokeFunction",), map(granted.function, STEPS))
        found |= _all("s3", ("AbortMultipartUpload",), [f"{work}/{RESULTS}"])
    else:
        found |= _all("s3", ("ListBucket",), [work])
    if role != "on_upload":
        queue = granted.arn("sqs", granted.queue)
        found |= _all("sqs", ("ReceiveMessage", "DeleteMessage"), [queue])
    return found
