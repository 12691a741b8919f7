"""Rows become objects: each once, whatever fails and whoever is killed."""

from __future__ import annotations

import json
import random

import pytest

from bench.bucket import BUCKET
from bench.listing import bucket_server, control
from tests.cli.console import PROGRAM, Console
from tests.e2e.bucket_runs import RUN, BucketRun, put_foreign
from tests.e2e.processes import until

FAULTS = {
    "seed": 5,
    **dict.fromkeys(("slow_down", "errors", "conflicts", "reset_before"), 0.03),
    **dict.fromkeys(("reset_after", "lost"), 0.06),
}
IDS = random.Random(8).choices(range(90), k=120)
"""Ids of rows, of which many come again, in the same chunk and in others."""


@pytest.fixture(scope="module")
def endpoint():
    with bucket_server() as endpoint:
        yield endpoint


@pytest.fixture
def console(tmp_path, endpoint) -> Console:
    folder = tmp_path / "work"
    folder.mkdir()
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    return Console(folder, {**keys, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": endpoint})


@pytest.mark.parametrize("engine", ["async", "threads"])
def test_each_key_has_one_row_under_faults(console, endpoint, engine):
    run = BucketRun(console, endpoint, IDS, faults=FAULTS)
    run.completed(*run.command, "--engine", engine, "--processes", "1")
    rejects = (run.ledger / "runs" / RUN / "rejects.jsonl").read_text().splitlines()
    assert {json.loads(line)["cause"] for line in rejects} == {"duplicate_key"}


def test_a_killed_run_is_resumed_exactly(console, endpoint):
    run = BucketRun(console, endpoint, IDS, latency=0.02)
    with run.started("--processes", "2", "--concurrency", "2") as running:
        until(lambda: run.counters().get("stored", 0) >= 20, "nothing is written")
        running.kill()
        running.process.wait()
        until(lambda: not running.members(), "processes are left")
    assert run.counters()["stored"] < len(run.bodies), "it ended too soon"
    run.completed(str(PROGRAM), "resume", RUN, "--ledger", "ledger", "--processes", "1")


def test_objects_of_others_are_replaced_or_skipped(console, endpoint):
    run = BucketRun(console, endpoint, range(6))
    for key in ("rows/2.json", "rows/5.json"):
        put_foreign(endpoint, BUCKET, key)
    skipping = [*run.command, "--mode", "insert", "--json"]
    ended = console.run([RUN + "-1" if each == RUN else each for each in skipping])
    rows = json.loads(ended.out)["rows"]
    assert (ended.code, rows["written"], rows["skipped"]) == (0, 4, 2), ended
    assert control(endpoint, "/stored")["rows/2.json"]["body"] == "foreign"
    assert run.counters()["overwritten"] == 0
    # Those of the first run are another run's, too.
    run.completed(replaced=6)
