"""`ddbload` against the deployed stack: started, watched, asked after, and taken up again."""

from __future__ import annotations

import json

import pytest

from tests.cli.console import PROGRAM
from tests.e2e.expected import read_rejects
from tests.e2e.processes import started
from tests.e2e_stack.deployed import SOURCES, until
from tests.e2e_stack.files import HEADER, MARKER, bad_rows, odd, plain, rows
from tests.e2e_stack.runs import Run

LIMITS = ("--max-rejects", "1000000", "--chunk-bytes", "1500")


@pytest.fixture
def ddbload(console):
    """Run it, and look at its exit status."""

    def run(*words, code=0, **env):
        ended = console.ddbload(*words, **env)
        assert ended.code == code, ended
        assert MARKER not in ended.err
        return ended

    return run


def test_start_and_import_give_the_same_table(stack, ddbload):
    data = odd(11, 300)
    uri = f"s3://{SOURCES}/{stack.put(data)}"
    tables = {command: stack.cloud.table() for command in ("start", "import")}
    found = {}
    for command, table in tables.items():
        words = ("--run-id", f"same-{command}", *LIMITS)
        shown = ddbload(command, uri, table, "--json", *words, code=3)
        found[command] = json.loads(shown.out)
    by_start, by_import = (
        sorted(stack.cloud.items(table), key=lambda item: item["id"]["S"])
        for table in tables.values()
    )
    assert by_start == by_import
    assert len(by_start) > 200
    assert found["start"]["rows"] == found["import"]["rows"]
    assert found["start"]["bytes"] == found["import"]["bytes"] == len(data)
    started_ones = ddbload("rejects", "same-start", "--stack", "ddbload").out
    assert started_ones == ddbload("rejects", "same-import").out
    assert len(read_rejects(started_ones.splitlines())) == found["start"]["rows"]["rejected"]
    # What runs under way of one stack are called, is nothing to the other ledger.
    assert ddbload("rejects", "same-start").out == started_ones


def test_commands_describe_deployed_run(stack, ddbload):
    data = (HEADER + rows(50) + bad_rows(1)).encode()
    uri, table = f"s3://{SOURCES}/{stack.put(data)}", stack.cloud.table()
    shown = ddbload("start", uri, table, "--run-id", "asked", code=3)
    assert (
        "run asked: SUCCEEDED_WITH_REJECTS\n  rows      51 read: 50 written, 1 rejected\n"
        in shown.out
    )
    assert shown.told == "ddbload: run asked has started; Ctrl-C stops following, not the run\n"
    for words in ([], ["--stack", stack.name]):
        status = json.loads(ddbload("status", "asked", "--json", *words).out)
        assert (status["status"], status["table"], status["source"]) == (
            "SUCCEEDED_WITH_REJECTS",
            table,
            uri,
        )
        assert status["execution"].endswith(":asked")
        report = json.loads(ddbload("report", "asked", "--json", *words, code=3).out)
        assert (report["status"], report["rows"]["written"]) == ("SUCCEEDED_WITH_REJECTS", 50)
        assert json.loads(ddbload("rejects", "asked", *words).out)["cause"] == "field_count"
    assert (
        "run asked: SUCCEEDED_WITH_REJECTS"
        in ddbload("status", "asked", DDBLOAD_STACK=stack.name).out
    )
    seconds = json.loads(ddbload("report", "asked", "--json", code=3).out)["seconds"]
    again = ddbload("start", uri, table, "--run-id", "asked", "--json", code=3)
    assert again.told == "ddbload: run asked is already done; nothing was written\n"
    assert json.loads(again.out)["seconds"] == seconds
    # What is done is not another mode's, table's or object's.
    other = ddbload("start", uri, table, "--run-id", "asked", "--mode", "insert", code=1)
    assert "ExecutionExists: a run asked was started before: ddbload resume asked" in other.err


def test_commands_describe_failed_run(stack, ddbload):
    table = stack.cloud.table()
    uri = f"s3://{SOURCES}/no/such.csv"
    shown = ddbload("start", uri, table, "--run-id", "failed", "--json", code=1)
    found = json.loads(shown.out)
    assert (found["status"], found["error"]["name"]) == ("FAILED", "SourceNotFound")
    assert found["rows"]["read"] == 0
    assert f"ddbload: SourceNotFound: {uri}: no such object\n" in shown.err
    status = json.loads(ddbload("status", "failed", "--json").out)
    assert (status["status"], status["error"]["name"]) == ("FAILED", "SourceNotFound")
    report = json.loads(ddbload("report", "failed", "--json", code=1).out)
    assert (report["status"], report["error"]["name"]) == ("FAILED", "SourceNotFound")
    # It is there now; nothing of the run was written, so what it was started with is taken again.
    stack.put(plain(5), "no/such.csv")
    again = json.loads(ddbload("resume", "failed", "--json").out)
    assert (again["run"], again["status"], again["rows"]["written"]) == ("failed", "SUCCEEDED", 5)
    done = ddbload("resume", "failed")
    assert done.told == "ddbload: run failed is already done; nothing was written\n"
    assert "5 read: 5 written" in done.out


def test_status_describes_running_run(stack, console, ddbload):
    """Detached, looked at, not to be resumed; Ctrl-C ends the watching only."""
    uri, table = f"s3://{SOURCES}/{stack.put(plain(200))}", stack.cloud.table()
    slowly = ("--max-wcu", "20", "--chunk-bytes", "150", "--workers", "1")
    shown = ddbload("start", uri, table, "--run-id", "slow", *slowly, "--detach", "--json")
    answer = json.loads(shown.out)
    assert (answer["run"], answer["status"]) == ("slow", "RUNNING")
    run = Run(stack, "slow", answer["execution"])
    run.reaches("chunks/")
    refused = ddbload("resume", "slow", code=1)
    assert refused.err.startswith("ddbload: ExecutionExists: run slow is still running: ")
    status = json.loads(ddbload("status", "slow", "--json").out)
    assert status["status"] == "RUNNING"
    assert 0 < status["rows"]["written"] < 200
    report = ddbload("report", "slow", "--json", code=1)
    assert json.loads(report.out)["status"] == "RUNNING"
    assert "run slow is still running" in report.err
    assert run.status == "RUNNING"

    command = [PROGRAM, "start", uri, table, "--run-id", "watched", *slowly]
    with started(console, command) as running:
        until(
            lambda: (
                running.process.poll() is not None
                or "watched has started" in running.err.read_text()
            ),
            "it is not started",
        )
        running.ctrl_c()
        ended = running.ended()
    assert ended.code == 130
    assert "ddbload: stopped following; the run continues: ddbload status watched; " in ended.err
    for each in (run, Run(stack, "watched")):
        assert each.ended.status == "SUCCEEDED"
        assert each.json("report.json")["rows"]["written"] == 200
    assert json.loads(ddbload("report", "slow", "--json").out)["status"] == "SUCCEEDED"
