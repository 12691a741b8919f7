"""Rows become messages: each at least once whatever fails, and once where nothing does."""

from __future__ import annotations

import json

import pytest

from bench.listing import bucket_server, control
from tests.cli.console import Console
from tests.e2e.processes import until
from tests.e2e.queue_runs import FIFO, RUN, STANDARD, QueueRun

FAULTS = {"seed": 3, "failed": 0.1, "throttled": 0.03, "errors": 0.03, "lost": 0.05}


@pytest.fixture(scope="module")
def endpoint():
    with bucket_server("bench.message_queue") as endpoint:
        yield endpoint


@pytest.fixture
def console(tmp_path, endpoint) -> Console:
    folder = tmp_path / "work"
    folder.mkdir()
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    return Console(folder, {**keys, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": endpoint})


def test_each_row_arrives_once_where_nothing_fails(console, endpoint):
    run = QueueRun(console, endpoint, 205)
    result = run.completed(*run.command, "--processes", "1", once=True)
    assert result["delivery"] == "standard"
    assert "consumed_wcu" not in result
    assert run.counters()["entries"] == 205


@pytest.mark.parametrize(("queue", "engine"), [(STANDARD, "async"), (FIFO, "threads")])
def test_each_row_arrives_under_faults(console, endpoint, queue, engine):
    run = QueueRun(console, endpoint, 120, queue, faults=FAULTS)
    # A message whose answer was lost arrives twice in a standard queue, and the report says so.
    once = queue == FIFO
    run.completed(*run.command, "--engine", engine, "--processes", "1", once=once)
    found = run.counters()
    assert found["failed"], "nothing failed"
    assert found["messages"] - found["duplicates"] == 120


def test_a_killed_run_into_a_fifo_queue_is_resumed_exactly(console, endpoint):
    run = QueueRun(console, endpoint, 150, FIFO, latency=0.02)
    assert run.killed(run.command, 60), "it ended too soon"
    assert run.counters()["messages"] < 150
    run.completed(*run.resume, once=True)
    assert run.counters()["deduplicated"], "the kill came between two chunks"


def test_an_interrupted_run_sends_nothing_twice(console, endpoint):
    run = QueueRun(console, endpoint, 150, latency=0.02, faults={"failed": 0.2})
    with run.started("--processes", "1", "--concurrency", "2") as running:
        until(lambda: run.counters()["messages"] >= 40, "no message arrives")
        running.ctrl_c()
        assert running.ended().code == 130
    assert run.counters()["messages"] < 150, "it ended too soon"
    run.completed(*run.resume, once=True)


def test_a_queue_that_was_made_again_is_not_the_runs(console, endpoint):
    run = QueueRun(console, endpoint, 300, latency=0.02)
    assert run.killed([*run.command, "--processes", "1", "--concurrency", "1"], 10)
    control(endpoint, "/reset", {"queues": {STANDARD: {"CreatedTimestamp": "1"}}})
    ended = console.run(run.resume)
    assert ended.code == 1
    assert "wrote to another queue" in ended.err
    assert run.counters()["messages"] == 0


def test_rows_that_no_message_can_be_made_of_are_rejects(console, endpoint):
    control(endpoint, "/reset", {"queues": {STANDARD: {"MaximumMessageSize": "1024"}}})
    console.write("rows.csv", f"id,text\n1,short\n2,{'x' * 1100}\n3,\x01\x7f\ufffe\n")
    ended = console.ddbload("import", "rows.csv", "sqs:orders", "--run-id", RUN, "--ledger", "l")
    assert ended.code == 3, ended
    line = console.ddbload("rejects", RUN, "--ledger", "l").out
    assert json.loads(line)["cause"] == "message_too_long"
    bodies = [json.loads(each["body"]) for each in control(endpoint, "/messages")]
    assert bodies == [{"id": "1", "text": "short"}, {"id": "3", "text": "\x01\x7f\ufffe"}]


@pytest.mark.parametrize(
    ("settings", "name", "told"),
    [
        ({"queues": {"orders": {}}}, "ordesr", "there is no queue ordesr in us-east-1"),
        ({"queues": {"orders": {}}, "denied": ["SendMessage"]}, "orders", "sqs:SendMessage"),
    ],
    ids=["missing", "denied"],
)
def test_queue_that_cannot_be_used_is_named(console, endpoint, settings, name, told):
    control(endpoint, "/reset", settings)
    console.write("rows.csv", "id\nsecret\n")
    ended = console.ddbload("import", "rows.csv", f"sqs:{name}")
    assert ended.code == 1
    assert told in ended.err
    assert "secret" not in ended.err
