"""Runs of real processes that are limited and cancelled."""

from __future__ import annotations

import time

from tests.e2e.control_runs import controlled_run


def test_cancelled_run_stops_and_is_resumed(tmp_path):
    with controlled_run(tmp_path, 900) as run:
        with run.start("--max-wcu", "60", "--chunk-bytes", "4000") as running:
            run.reaches(60)
            cancelled = run.control("cancel")
            stopped = time.monotonic()
            assert (cancelled.code, cancelled.err) == (0, "")
            assert cancelled.out.startswith("run a: CANCELLED\n")
            assert running.process.wait(30) == 130
        assert run.table.since(stopped) == 0
        assert run.report()["status"] == "CANCELLED"
        limited = run.control("limit", "--max-wcu", "none")
        assert "before: at most 60 write units/s" in limited.out
        with run.resume() as running:
            assert running.process.wait(30) == 0
        assert run.report()["rows"]["written"] == 900
