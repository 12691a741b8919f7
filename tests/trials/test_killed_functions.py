"""SIGKILL of functions' processes, at many moments of deployed runs, loses and doubles no row.

KILL_FUNCTIONS says how many in all, KILL_SEED which moments.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from localaws import LocalAws
from tests.cli.console import Console
from tests.e2e.processes import children, command_of
from tests.e2e_stack.deployed import Cloud, Stack
from tests.e2e_stack.files import plain
from tests.e2e_stack.runs import Load, load

KILLS = int(os.environ.get("KILL_FUNCTIONS", "20"))
SEED = int(os.environ.get("KILL_SEED", "1"))
ROWS = 3000


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with LocalAws() as aws:
        yield Cloud(aws, tmp_path_factory.mktemp("killed")).deploy("ddbload", [])


def function_processes(emulator: int) -> list[int]:
    """List the live processes of all functions of an emulator."""
    found, parents = [], [emulator]
    while parents:
        below = [child for parent in parents for child in children(parent)]
        found += [pid for pid in below if "bootstrap" in command_of(pid)]
        parents = below
    return found


def kill_until_ended(made: Load, emulator: int, rng: random.Random, most: int) -> int:
    """Kill one function's process after the other while the run lasts; return how many."""
    killed = 0
    while killed < most and made.run.status == "RUNNING":
        time.sleep(rng.uniform(0.0, 1.5))
        alive = function_processes(emulator)
        if alive:
            # It may have ended meanwhile.
            with suppress(ProcessLookupError):
                os.kill(rng.choice(alive), signal.SIGKILL)
                killed += 1
    return killed


@pytest.mark.timeout(0)
def test_deployed_runs_are_exact_after_kills(stack: Stack, tmp_path: Path):
    cloud, rng = stack.cloud, random.Random(SEED)
    console = Console(tmp_path, cloud.environment)
    killed = runs = 0
    while killed < KILLS:
        runs += 1
        name = f"killed-{SEED}-{runs}"
        made = load(
            stack,
            plain(ROWS),
            run=name,
            chunk_bytes=20_000,
            workers=3,
            max_wcu=rng.choice((200, 400)),
        )
        killed += kill_until_ended(made, cloud.aws.pid, rng, KILLS - killed)
        if made.run.ended.status != "SUCCEEDED":
            # Every retry of one step was killed, too: the run failed by name. `resume` helps, also
            # if that step was Preflight, so that the run has no record.
            resumed = console.ddbload("resume", name, "--stack", stack.name)
            assert resumed.code == 0, (resumed.err, made.run.ended)
        made.is_loaded()
