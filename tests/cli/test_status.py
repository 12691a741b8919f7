"""`ddbload status` of a running run, whose heartbeats this process writes."""

from __future__ import annotations

import json
import os
import time

import pytest

from ddbload.contracts.results import Heartbeat
from ddbload.contracts.row_counts import RowCounts
from ddbload.steps.report import machine
from tests.cli.console import Console
from tests.cli.transcript import make_table

LONG = 10_000.0
"""Seconds between two heartbeats, longer than any test."""


@pytest.fixture(scope="module")
def table(dynamodb):
    make_table(dynamodb, "status", "id:N")
    return "status"


def leave_heartbeat(console: Console, run: str, *, pid: int = 0, every: float = LONG) -> None:
    """Write the heartbeat of a process in preflight."""
    host, boot = machine()
    beat = Heartbeat(
        *("running", "preflight", host, boot, pid or os.getpid(), time.time() - 60, every),
        *(RowCounts(), 0, 0),
    )
    folder = console.path("ledger") / "runs" / run
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "progress.json").write_text(json.dumps(beat.to_json()))


def test_status_shows_running_before_record_exists(console):
    """Listing the objects of a source may take a while."""
    leave_heartbeat(console, "early")
    for place in ({}, {"DDBLOAD_LEDGER": "ledger"}):
        options = [] if place else ["--ledger", "ledger"]
        ended = console.ddbload("status", "early", *options, **place)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith(
            "run early: RUNNING\n"
            "  chunks    none yet, preflight is checking the source\n"
            f"  process   {os.getpid()} on {os.uname().nodename} is working, last heartbeat at "
        )
        found = json.loads(console.ddbload("status", "early", "--json", *options, **place).out)
        assert (found["run"], found["status"], found["resume"]) == ("early", "RUNNING", None)
        report = console.ddbload("report", "early", *options, **place)
        assert (report.code, report.out.splitlines()[0]) == (1, "run early: RUNNING")
        assert report.err == "ddbload: run early is still running; this is its progress\n"


def test_status_shows_preflight_while_chunks_are_unknown(console, table):
    console.write("a.csv", "id,name\n1,one\n")
    where = ("--ledger", "ledger")
    assert console.ddbload("import", "a.csv", table, "--run-id", "r", *where).code == 0
    for name in ("manifest.json", "report.json"):
        (console.path("ledger") / "runs" / "r" / name).unlink()
    leave_heartbeat(console, "r")
    shown = console.ddbload("status", "r", *where).out
    assert shown.startswith(
        "run r: RUNNING\n  from      a.csv\n  into      status\n"
        "  chunks    not known yet, preflight is reading the source\n"
    )
    refused = console.ddbload("import", "a.csv", table, "--run-id", "r", *where)
    assert refused.code == 1
    assert refused.told == (
        f"ddbload: RunUnderWay: run r is still running: process {os.getpid()} on"
        f" {os.uname().nodename} works on it; wait for its end (ddbload status r), or stop it"
        " first; if that process is gone, repeat the command in 30000 seconds\n"
    )


def test_import_prints_run_id_before_it_opens_source(console):
    ended = console.ddbload("import", "no.csv", "no-table", "--run-id", "named")
    ledger = f"{console.env['HOME']}/.local/state/ddbload"
    assert ended.err == (
        f"ddbload: run named (ledger {ledger})\nddbload: SourceNotFound: no.csv: no such file\n"
    )
    assert console.ddbload("import", "no.csv", "no-table", "--quiet").err == (
        "ddbload: SourceNotFound: no.csv: no such file\n"
    )


def test_status_offers_no_resume_when_nothing_was_written(console, table):
    console.write("bad.csv", "id,n\nx,1\ny,2\n")
    ended = console.ddbload("import", "bad.csv", table, "--run-id", "bad", "--ledger", "ledger")
    assert (ended.code, ended.out.splitlines()[0]) == (1, "run bad: FAILED")
    assert "NothingWritten: all 2 rows were rejected" in ended.err
    shown = console.ddbload("status", "bad", "--ledger", "ledger").out
    assert shown.startswith("run bad: FAILED\n")
    assert shown.endswith(
        "  resume    not possible: it would fail again; start a new run, with another run id\n"
    )
    found = json.loads(console.ddbload("status", "bad", "--ledger", "ledger", "--json").out)
    assert (found["status"], found["error"]["name"], found["resume"]) == (
        *("FAILED", "NothingWritten", None),
    )


def test_runs_of_a_source_are_listed_and_a_damaged_entry_is_named(console, table):
    where = ("--ledger", "ledger")
    for name in ("a", "b"):
        console.write(f"{name}.csv", "id,name\n1,one\n")
        assert console.ddbload("import", f"{name}.csv", table, "--run-id", name, *where).code == 0
    ended = console.ddbload("runs", "--source", "./a.csv", *where)
    assert ended.code == 0
    (_, line) = ended.out.splitlines()
    assert line.split()[:2] == ["a", "SUCCEEDED"]
    assert line.endswith("1 written  status  a.csv")
    assert len(json.loads(console.ddbload("runs", "--json", *where).out)["runs"]) == 2
    (damaged,) = console.path("ledger").glob("history/**/a.jsonl")
    damaged.write_bytes(b"{")
    ended = console.ddbload("runs", "--source", "a.csv", *where)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("ddbload: LedgerDamaged: ")
    assert "a.jsonl is not what this version of ddbload writes" in ended.err
