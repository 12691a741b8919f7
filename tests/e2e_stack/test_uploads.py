"""Uploads start runs: each object version one, of the table that its prefix is mapped to."""

from __future__ import annotations

import json

from tests.e2e.expected import by_key, expected
from tests.e2e_stack.deployed import until
from tests.e2e_stack.files import HEADER, MARKER, bad_rows, plain, rows
from tests.e2e_stack.runs import Load
from tests.e2e_stack.upload_events import deliver, event, run_of
from tests.oracle.csv_machine import read_rows

TYPED = (
    "id;year;ok;text\n"
    f"{MARKER}-1;1999;true;'a;\nb'\n"
    f"{MARKER}-2;-0.50;FALSE;{MARKER}\n"
    f"{MARKER}-3;;;\n"
    f"{MARKER}-4;year;yes;\n"
)


def uploaded(stack, data, key, table, bucket=None):
    """Upload a file, and find the run that it starts."""
    version = stack.upload(data, key, bucket)
    run = run_of(stack, stack.execution_of(key, version))
    found = read_rows(data)
    return Load(run, table, expected(data, found[1:], found[0].fields), data)


def test_upload_uses_types_and_dialect_of_rule(stack):
    stack.cloud.table("id:S", name="up-typed")
    run = run_of(stack, stack.execution_of("typed/a.csv", stack.upload(TYPED, "typed/a.csv")))
    assert run.ended.status == "SUCCEEDED"
    assert by_key(stack.cloud.items("up-typed"), "id") == {
        f"{MARKER}-1": {
            "id": {"S": f"{MARKER}-1"},
            "year": {"N": "1999"},
            "ok": {"BOOL": True},
            "text": {"S": "a;\nb"},
        },
        f"{MARKER}-2": {
            "id": {"S": f"{MARKER}-2"},
            "year": {"N": "-0.5"},
            "ok": {"BOOL": False},
            "text": {"S": MARKER},
        },
        f"{MARKER}-3": {"id": {"S": f"{MARKER}-3"}},
    }
    (reject,) = map(json.loads, run.rejects())
    assert (reject["cause"], reject["column"]) == ("not_a_number", "year")


def test_repeated_deliveries_start_one_run(stack):
    """The same event more than once, at once or late, starts one run; a new version another."""
    table = stack.cloud.table("id:S", name="up-slowly")
    key = "slowly/a.csv"
    first = stack.upload(plain(60), key)
    run = run_of(stack, stack.execution_of(key, first))
    for _ in range(2):
        done = deliver(stack, event(stack, key, first))
        assert done == {"outcome": "started before", "run": run.id, "execution": None}
    run.reaches("run.json")
    assert deliver(stack, event(stack, key, first))["outcome"] == "started before"
    second = stack.upload(plain(5, first=60), key)
    other = run_of(stack, stack.execution_of(key, second))
    assert {run.ended.status, other.ended.status} == {"SUCCEEDED"}
    assert other.id != run.id
    assert (
        by_key(stack.cloud.items(table), "id")
        == expected(*(plain(65), read_rows(plain(65))[1:], HEADER.strip().split(","))).items
    )

    done = deliver(stack, event(stack, key, first))
    assert done == {"outcome": "loaded before", "run": run.id, "execution": None}
    assert len(stack.started_by(key)) == 2


def test_newest_of_several_uploads_to_a_key_is_loaded_last(stack):
    """They come in any order, and older ones may be left out; none is loaded after a newer one."""
    table = stack.cloud.table("id:S", name="up-ordered")
    key = "ordered/a.csv"
    versions = [stack.upload(f"id,v\n{MARKER},{number}\n", key) for number in range(3)]
    last = run_of(stack, stack.execution_of(key, versions[-1]))
    assert last.ended.status == "SUCCEEDED"
    assert all(len(stack.started_by(key, version)) <= 1 for version in versions)
    for arn in stack.started_by(key):
        assert run_of(stack, arn).ended.status == "SUCCEEDED"
    assert stack.cloud.items(table) == [{"id": {"S": MARKER}, "v": {"S": "2"}}]


def test_failed_delivery_is_repeated_and_dead_letter_starts_its_run_when_moved_back(stack):
    """A function that cannot start runs gets the message again, until it is a dead letter."""
    table = stack.cloud.table("id:S", name="up-moved")
    repair = stack.configure("on_upload", DDBLOAD_STATE_MACHINE=f"{stack.machine}-missing")
    key = "moved/a \x1b[31mb.csv"
    try:
        version = stack.upload(plain(10), key)
        until(lambda: dead_letters_of(stack) == 1, "the upload is no dead letter")
    finally:
        repair()
    assert stack.started_by(key) == []
    # As StartMessageMoveTask does, which the servers of the tests lack.
    sqs, queue = stack.cloud.client("sqs"), stack.outputs["UploadDeadLetterQueueUrl"]
    (letter,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    sqs.send_message(QueueUrl=stack.outputs["UploadQueueUrl"], MessageBody=letter["Body"])
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=letter["ReceiptHandle"])
    run = run_of(stack, stack.execution_of(key, version))
    assert run.ended.status == "SUCCEEDED"
    assert len(stack.cloud.items(table)) == 10


def dead_letters_of(stack):
    url, name = stack.outputs["UploadDeadLetterQueueUrl"], "ApproximateNumberOfMessages"
    sqs = stack.cloud.client("sqs")
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])
    return int(found["Attributes"][name])


def test_failed_upload_is_not_started_again(stack, console):
    """The failed run is not started again; `resume` continues it with the same id."""
    table = stack.cloud.table("id:S", name="up-strict")
    data = (HEADER + rows(20) + bad_rows(2)).encode()
    load = uploaded(stack, data, "strict/a.csv", table)
    load.fails("TooManyRejects")
    version = load.run.json("run.json")["pinned"]["version_id"]
    done = deliver(stack, event(stack, "strict/a.csv", version))
    assert done["outcome"] == "started before"

    ended = console.ddbload("resume", load.run.id, "--max-rejects", "2", "--json")
    assert (ended.code, json.loads(ended.out)["run"]) == (3, load.run.id)
    load.is_loaded()
    done = deliver(stack, event(stack, "strict/a.csv", version))
    assert done["outcome"] == "loaded before"


def test_upload_before_its_table_fails_and_resumes(stack, console):
    """It fails before there is a ledger, and can be taken up all the same."""
    version = stack.upload(plain(10), "early/a.csv")
    arn = stack.execution_of("early/a.csv", version)
    run = run_of(stack, arn)
    assert (run.ended.status, run.ended.error) == ("FAILED", "TableNotFound")
    assert sorted(run.names()) == ["request.json"]
    shown = console.ddbload("status", run.id)
    assert (shown.code, "TableNotFound" in shown.out) == (0, True)

    stack.cloud.table("id:S", name="up-early")
    ended = console.ddbload("resume", run.id, "--json")
    assert (ended.code, json.loads(ended.out)["rows"]["written"]) == (0, 10)
    assert len(stack.cloud.items("up-early")) == 10
    assert run.json("run.json")["payload"]["source"]["version_id"] == version
