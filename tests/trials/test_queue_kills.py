"""SIGKILL at many moments of an import into a queue, with faults besides, loses no row.

QUEUE_KILLS says how many runs of each kind, KILL_SEED which moments.
"""

from __future__ import annotations

import os
import random

import pytest

from bench.listing import bucket_server
from tests.cli.console import Console
from tests.e2e.queue_runs import FIFO, STANDARD, QueueRun

RUNS = int(os.environ.get("QUEUE_KILLS", "6"))
SEED = int(os.environ.get("KILL_SEED", "1"))
ROWS = 400
KILLS_A_RUN = 4
FAULTS = {"failed": 0.05, "throttled": 0.02, "errors": 0.02, "unavailable": 0.02, "lost": 0.04}


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


@pytest.mark.parametrize("engine", ["async", "threads", "sync"])
@pytest.mark.parametrize("queue", [STANDARD, FIFO])
@pytest.mark.parametrize("seed", range(RUNS))
def test_each_row_arrives_whatever_is_killed(console, endpoint, queue, engine, seed):
    moments = random.Random(f"{SEED} {queue} {engine} {seed}")
    run = QueueRun(
        *(console, endpoint, ROWS, queue), latency=0.004, faults={**FAULTS, "seed": seed}
    )
    options = ["--engine", engine, "--processes", moments.choice("12")]
    kills = 0
    for _ in range(KILLS_A_RUN):
        at = run.counters()["messages"] + moments.randrange(1, ROWS // 3)
        kills += run.killed([*run.command, *options], at)
    assert kills, "every run ended before its kill"
    # A FIFO queue takes a row once, whatever was sent again within its five minutes.
    run.completed(*run.command, *options, once=queue == FIFO)
