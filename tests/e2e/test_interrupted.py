"""Ctrl-C, SIGTERM and SIGKILL lose no row and leave no process running."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from itertools import count

import pytest

from tests.cli.console import PROGRAM, without_progress
from tests.cli.transcript import make_table
from tests.e2e.interrupted import ARRAY, FILE, ROWS, SLOWLY, LongRun
from tests.e2e.processes import alive, command_of, started, until
from tests.fakes.dynamodb_tables import keyed
from tests.faults.server import FaultServer

NUMBERS = count()
READ_AS = "ddbload: reading the source as json, an array\n"
GOES_ON = (
    "ddbload: interrupted; to resume: ddbload resume long --ledger ledger (or the same command with"
    " --run-id long)\n"
)


@pytest.fixture
def long(console, dynamodb):
    table = f"interrupted-{next(NUMBERS)}"
    make_table(dynamodb, table, "id:N")
    return LongRun(console, dynamodb, table)


@pytest.mark.parametrize(
    ("reached", "to"),
    [
        ("run.json", "group"),
        ("chunks/*/*.json", "group"),
        ("chunks/*/*.json", "process"),
    ],
)
def test_ctrl_c_stops_run_that_resume_completes(long, reached, to):
    """A terminal sends SIGINT to all processes, `kill -INT` to one."""
    with long.started() as running:
        long.reaches(reached, running)
        os.kill(-running.pid if to == "group" else running.pid, signal.SIGINT)
        ended = running.ended()
    assert ended.code == 130
    assert "ddbload: stopping after the requests in flight" in ended.err
    assert ended.err.endswith(GOES_ON)
    long.continued()


@pytest.mark.parametrize("imported", ["click.core", "ddbload.contracts.payload"])
def test_ctrl_c_during_start_ends_command(long, imported):
    """The signal comes before there is a run, while Python imports a known module."""
    with long.started(PYTHONPROFILEIMPORTTIME="1") as running:
        until(lambda: f" {imported}\n" in running.err.read_text(), f"{imported} is not imported")
        running.ctrl_c()
        ended = running.ended()
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.endswith("ddbload: interrupted\n")


@pytest.mark.parametrize("to", ["group", "process"])
def test_sigterm_stops_run_like_ctrl_c(long, to):
    """A service manager sends SIGTERM to all processes, so that workers die, or to one."""
    with long.started() as running:
        long.reaches("chunks/*/*.json", running)
        os.kill(-running.pid if to == "group" else running.pid, signal.SIGTERM)
        ended = running.ended()
    assert ended.code == 130
    assert ended.err.endswith(GOES_ON)
    long.continued()


def test_ignored_sigint_does_not_stop_run(long):
    """Background jobs of a script ignore SIGINT."""
    command = " ".join(map(str, [*long.command, *SLOWLY, "--processes", "2"]))
    with started(long.console, ["bash", "-c", f"trap '' INT TERM; exec {command}"]) as running:
        long.reaches("chunks/*/*.json", running)
        os.killpg(running.pid, signal.SIGINT)
        running.kill(signal.SIGTERM)
        ended = running.ended()
    assert (ended.code, ended.told) == (0, "")
    long.table_is_right()


def test_ctrl_c_while_workers_start_stops_run(long):
    """A starting worker is plain Python for a moment, which SIGINT would kill."""
    for pause in (0.0, 0.3):
        with long.started() as running:
            until(running.workers, "there are no workers")
            time.sleep(pause)
            running.ctrl_c()
            assert running.ended().code == 130
    long.continued()


def test_run_of_a_pipe_cannot_be_resumed(long):
    whole = long.console.path(FILE)
    data = whole.read_bytes()
    whole.unlink()
    os.mkfifo(whole)
    with long.started(processes=1) as running:
        with whole.open("wb") as pipe:
            pipe.write(data)
        long.reaches("manifest.json", running)
        running.ctrl_c()
        ended = running.ended()
    assert ended.code == 130
    assert ended.err.endswith("ddbload: interrupted; start again\n")


def test_second_ctrl_c_ends_run_at_once(console):
    console.write("a.csv", "id,name\n" + "".join(f"{n},name\n" for n in range(500)))
    with FaultServer(stall_seconds=60) as server:
        server.dynamodb.create_table(**keyed("stalled", id="N"))
        server.fail_at_random(1, ["stall"], 1.0)
        command = [PROGRAM, "import", "a.csv", "stalled", "--processes", "2"]
        options = ["--chunk-bytes", "2000", "--run-id", "long"]
        with started(
            console, [*command, *options], AWS_ENDPOINT_URL_DYNAMODB=server.endpoint
        ) as running:
            until(lambda: any(r.fault == "stall" for r in server.requests), "nothing was sent")
            running.ctrl_c()
            until(lambda: "again to quit now" in running.err.read_text(), "it says nothing")
            time.sleep(0.3)
            assert running.process.poll() is None, "it did not wait for its requests"
            asked = time.monotonic()
            running.ctrl_c()
            ended = running.ended()
    assert time.monotonic() - asked < 10
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.strip().endswith("again to quit now")


def test_run_completes_when_killed_repeatedly(console, dynamodb):
    """SIGKILL ends the parent process; its workers notice and end."""
    table = f"interrupted-{next(NUMBERS)}"
    make_table(dynamodb, table, "id:N")
    # Six seconds of writing, of which each attempt gets half a one.
    long = LongRun(console, dynamodb, table, rows=2400, file=ARRAY)
    rng = random.Random(2)

    def segments() -> int:
        return len(list(long.ledger.glob("runs/long/chunks/*/*.json")))

    for number in range(6):
        # In turn: while it starts, as likely as not; and while it writes.
        before = segments()
        with long.started("--engine", "async", processes=2) as running:
            if number % 2:
                until(lambda least=before: segments() > least, "nothing is imported")
            time.sleep(rng.uniform(0.0, 0.8))
            running.kill()
            assert running.process.wait() == -signal.SIGKILL, "it had ended"
            until(lambda run=running: not run.members(), "processes are left")
        assert segments() >= before
    found = long.continued(READ_AS)
    assert found["rows"] == {**dict.fromkeys(found["rows"], 0), "read": 2400, "written": 2400}
    report = json.loads((long.ledger / "runs" / "long" / "report.json").read_text())
    assert report["status"] == "SUCCEEDED"
    assert {**report["rows"], "filtered": 0} == found["rows"]


def test_status_shows_killed_run_that_resume_completes(console, dynamodb):
    """While the run lives, `status` shows progress within chunks; then, that it stopped."""
    table = f"interrupted-{next(NUMBERS)}"
    make_table(dynamodb, table, "id:N")
    long = LongRun(console, dynamodb, table, rows=4000)
    place = ("--ledger", "ledger")

    def status() -> dict:
        return json.loads(console.ddbload("status", "long", *place, "--json").out or "{}")

    # Forty seconds of writing.
    long.command[long.command.index("1500")] = "1000000"
    with long.started(slowly=("--max-wcu", "100")) as running:
        long.reaches("progress.json", running)
        until(lambda: status()["rows"]["written"] > 0, "it is not seen to write")
        found = status()
        assert (found["status"], found["error"], found["resume"]) == ("RUNNING", None, None)
        assert 0 < found["rows"]["written"] == found["rows"]["read"] < 4000
        assert 0 < found["bytes"] < found["size"] == console.path(FILE).stat().st_size
        shown = console.ddbload("status", "long", *place).out
        assert shown.startswith("run long: RUNNING\n")
        assert f"  process   {running.pid} on {os.uname().nodename} is working, " in shown
        for command in (["resume", "long", *place], list(map(str, long.command[1:]))):
            refused = console.ddbload(*command)
            assert refused.code == 1
            assert refused.told.startswith(
                "ddbload: RunUnderWay: run long is still running: process "
            )
        report = console.ddbload("report", "long", *place)
        assert report.out.startswith("run long: RUNNING\n")
        running.kill()
        assert running.process.wait() == -signal.SIGKILL
        until(lambda: not running.members(), "processes are left")
    told = without_progress(running.err.read_text())
    assert told == f"ddbload: run long (ledger {long.ledger})\n"

    shown = console.ddbload("status", "long", *place).out
    assert shown.startswith("run long: INTERRUPTED\n")
    assert " ended without a report, last heartbeat at " in shown
    assert shown.endswith("  resume    ddbload resume long --ledger ledger\n")
    assert status()["resume"] == "ddbload resume long --ledger ledger"
    resumed = console.ddbload("resume", "long", *place, "--max-wcu", "100000", "--json")
    assert (resumed.code, resumed.told) == (0, "")
    rows = json.loads(resumed.out)["rows"]
    assert rows == {**dict.fromkeys(rows, 0), "read": 4000, "written": 4000}
    long.table_is_right()
    assert (status()["status"], status()["resume"]) == ("SUCCEEDED", None)

    report_json = long.ledger.joinpath("runs", "long", "report.json")
    before = report_json.read_bytes()
    for command in (["resume", "long", *place], list(map(str, long.command[1:]))):
        again = console.ddbload(*command, "--json")
        assert (again.code, again.told) == (
            0,
            "ddbload: run long is already done; nothing was written\n",
        )
        told = json.loads(again.out)
        seconds = json.loads(before)["seconds"]
        assert told["seconds"] == pytest.approx(seconds, abs=0.001)
        assert told["rows_per_second"] == pytest.approx(4000 / seconds, abs=0.1)
    assert report_json.read_bytes() == before


def test_run_fails_when_worker_is_killed(long):
    with long.started() as running:
        long.reaches("chunks/*/*.json", running)
        os.kill(running.workers()[0], signal.SIGKILL)
        ended = running.ended()
    assert ended.code == 1
    assert "ddbload: WorkerDied: a worker process was killed or ran out of memory" in ended.err
    assert ended.out.startswith("run long: FAILED\n")
    found = long.continued()
    assert found["rows"]["read"] == ROWS


def test_interrupted_spool_leaves_no_file(console):
    """Standard input is copied to disk first; the fixture checks that the copy is removed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        command = ["bash", "-c", "(echo id,name; sleep 60) | exec ddbload import - none"]
        # The installed program, not its fork.
        with started(console, command, PATH=f"{PROGRAM.parent}:/usr/bin:/bin") as running:
            # Python tries the folder with a file of its own first, and is not to be stopped then.
            until(
                lambda: any(name.startswith("ddbload-stdin-") for name in console.leftovers()),
                "nothing is put on disk",
            )
            (importer,) = [pid for pid in running.members() if "bin/ddbload" in command_of(pid)]
            os.kill(importer, number)
            until(lambda pid=importer: not alive(pid), "it goes on")
            assert running.err.read_text().endswith("ddbload: interrupted\n")


@pytest.mark.parametrize(
    ("mode", "engine"), [("put", "async"), ("insert", "threads"), ("update", "sync")]
)
def test_ctrl_c_counts_every_row_that_was_written(console, engine, mode):
    """Rows come back and answers get lost, so that written rows lie beyond those that are left."""
    console.write(FILE, "id,name\n" + "".join(f"{number},name\n" for number in range(20_000)))
    with FaultServer(stall_seconds=0.1) as server:
        server.dynamodb.create_table(**keyed("slow", id="N"))
        faults = ["InternalServerError", "late", "ThrottlingException"]
        operations = ["BatchWriteItem", "BatchExecuteStatement", "PutItem", "UpdateItem"]
        server.fail_at_random(7, faults, 0.3, operations)
        command = [PROGRAM, "import", FILE, "slow", "--mode", mode, "--engine", engine, "--json"]
        with started(
            console, [*command, "--quiet"], AWS_ENDPOINT_URL_DYNAMODB=server.endpoint
        ) as running:
            until(lambda: len(server.dynamodb.items("slow")) > 100, "nothing is written")
            running.ctrl_c()
            ended = running.ended()
        items = len(server.dynamodb.items("slow"))
    assert ended.code == 130
    rows = json.loads(ended.out)["rows"]
    assert (rows["written"], rows["read"]) == (items, items)
