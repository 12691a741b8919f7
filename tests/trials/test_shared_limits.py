"""Limits of runs in sequence, of which the first is cancelled, killed or frozen."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.e2e.control_runs import controlled_run
from tests.e2e.processes import until

LIMIT = 300
WINDOW = 10.0
TOLERANCE = 1.05


@pytest.mark.parametrize("end", ["cancel", "kill", "freeze"])
def test_two_runs_in_sequence_stay_within_max_wcu(tmp_path, end):
    with controlled_run(tmp_path, 12_000) as run:
        limits = ("--max-wcu", str(LIMIT), "--chunk-bytes", "20000")
        with run.start(*limits) as first:
            run.reaches(12 * LIMIT)
            if end == "cancel":
                cancelled = run.control("cancel")
                assert cancelled.code == 0, cancelled.err
            else:
                number = signal.SIGKILL if end == "kill" else signal.SIGSTOP
                members = first.members()
                for pid in members:
                    os.kill(pid, number)
                if end == "kill":
                    first.process.wait()
                if end == "freeze":
                    # The heartbeat of a process that exists counts for six seconds.
                    time.sleep(6.5)
            with run.resume() as second:
                run.reaches(4 * LIMIT)
                if end == "freeze":
                    for pid in members:
                        os.kill(pid, signal.SIGCONT)
                assert second.process.wait(120) == 0
            until(lambda: first.process.poll() is not None, "the first is left", 60)
        assert run.table.most_within(WINDOW) <= TOLERANCE * LIMIT * WINDOW
        assert run.report()["rows"]["written"] == 12_000


def test_freed_share_is_used_and_limit_is_obeyed(tmp_path):
    with controlled_run(tmp_path, 11_000) as run:
        # Three chunks for two workers, so that one of them has nothing to do during the last third.
        with run.start("--max-wcu", "200", "--chunk-bytes", "130000") as running:
            run.reaches(3_000)
            until(lambda: len(_idle(run)) == 1, "no worker has ended", 60)
            time.sleep(3)
            begun = time.monotonic()
            time.sleep(5)
            assert run.table.rate(begun, begun + 5) >= 0.93 * 200
            assert run.control("limit", "--max-wcu", "100").code == 0
            changed = time.monotonic()
            time.sleep(9)
            assert run.table.rate(changed + 5, changed + 9) <= 100 * TOLERANCE + 5
            assert run.control("limit", "--max-wcu", "none").code == 0
            assert running.process.wait(60) == 0
        assert run.table.most_within(WINDOW) <= 11_000


def _idle(run):
    names = [path.name for path in run.ledger.glob("runs/a/progress/[!.]*")]
    return [name for name in names if name.split("-")[2] == "i"]


@pytest.mark.parametrize("units_of_item", [1, 4])
def test_max_cost_is_kept(tmp_path, units_of_item):
    units = 20_000
    with controlled_run(tmp_path, 40_000, units_of_item) as run:
        cost = ("--max-cost", f"{units / 1e6}", "--unit-price", "1")
        with run.start(*cost, "--chunk-bytes", "40000") as running:
            assert running.process.wait(120) == 1
        assert run.report()["error"]["name"] == "MaxCostReached"
        assert 0.98 * units <= run.table.units <= 1.02 * units
        with run.resume("--max-cost", f"{2 * units / 1e6}") as running:
            running.process.wait(120)
        assert run.table.units <= 1.02 * 2 * units
