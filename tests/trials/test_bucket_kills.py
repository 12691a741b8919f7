"""SIGKILL at many moments of an import into a bucket loses no row and overwrites none of the run's.

KILL_POINTS says how many in all, KILL_SEED which moments.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time

import pytest

from bench.bucket import BUCKET
from bench.listing import bucket_server
from tests.cli.console import Console
from tests.e2e.bucket_runs import BucketRun, put_foreign
from tests.e2e.processes import until

POINTS = int(os.environ.get("KILL_POINTS", "100")) // 4
SEED = int(os.environ.get("KILL_SEED", "1"))
KILLS_A_RUN = 6
ROWS = 1500
FOREIGN = 40
FAULTS = dict.fromkeys(("slow_down", "errors", "conflicts", "reset_after", "lost"), 0.02)


@pytest.fixture
def endpoint():
    with bucket_server() as endpoint:
        yield endpoint


@pytest.fixture
def console(tmp_path, endpoint) -> Console:
    folder = tmp_path / "work"
    folder.mkdir()
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    return Console(folder, {**keys, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": endpoint})


def killed(run: BucketRun, seconds: float, *options: str) -> bool:
    """Start the run, and kill it after this time; False if it had ended before."""
    with run.started(*options) as running:
        time.sleep(seconds)
        running.kill()
        code = running.process.wait()
        until(lambda: not running.members(), "processes are left")
    assert code in (0, 3, -signal.SIGKILL), code
    return code == -signal.SIGKILL


@pytest.mark.timeout(0)
@pytest.mark.parametrize("engine", ["async", "threads", "sync"])
def test_bucket_is_exact_after_kills(console, endpoint, engine):
    rng = random.Random(f"{SEED} {engine}")
    kills = 0
    while kills < POINTS / 3:
        ids = rng.choices(range(ROWS * 2), k=ROWS)
        faults = {**FAULTS, "seed": rng.randrange(1000)}
        run = BucketRun(console, endpoint, ids, latency=0.004, faults=faults)
        there = sorted({f"rows/{each}.json" for each in ids})[:FOREIGN]
        for key in there:
            put_foreign(endpoint, BUCKET, key)
        for _ in range(KILLS_A_RUN):
            processes = str(rng.choice((1, 2)))
            moment = rng.uniform(0.2, 2.0)
            if not killed(run, moment, "--engine", engine, "--processes", processes):
                break
            kills += 1
        # The same command, as a kill may have come before there was a run to resume.
        run.completed(replaced=len(there))
        shutil.rmtree(run.ledger)
