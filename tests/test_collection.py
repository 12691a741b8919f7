"""Tests have the same ids, in the same order, whenever and wherever they are collected.

Where pytest-xdist's processes disagree about them, it runs none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
COLLECT = """\
import json, pathlib, sys, time

now, ahead = time.time, float(sys.argv[1])
time.time = lambda: now() + ahead

import pytest

class Ids:
    def pytest_collection_finish(self, session):
        pathlib.Path(sys.argv[2]).write_text(json.dumps([item.nodeid for item in session.items]))

options = ["--collect-only", "-qq", "-p", "no:cacheprovider"]
sys.exit(pytest.main([*options, "tests"], plugins=[Ids()]))
"""
"""The second collection's clock is ahead, so that the test need not wait for another second."""
AHEAD = 1_000_000.0
"""Seconds: another day, and another hour of it."""


def collecting(seed: int, ahead: float, ids: Path) -> subprocess.Popen[str]:
    """Start to collect every test in a new interpreter, which writes their ids."""
    scratch = ids.with_suffix("")
    scratch.mkdir()
    # Options that this run of pytest was given are not for that one.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.Popen(
        [sys.executable, "-c", COLLECT, str(ahead), str(ids)],
        cwd=ROOT,
        env={**env, "PYTHONHASHSEED": str(seed), "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_no_id_depends_on_a_clock_an_address_or_the_order_of_a_set(tmp_path):
    files = [tmp_path / "now.json", tmp_path / "later.json"]
    # At the same time: a collection takes about 7 seconds of one core.
    processes = [collecting(1, 0.0, files[0]), collecting(2, AHEAD, files[1])]
    said = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    now, later = (json.loads(file.read_text()) for file in files)
    assert len(now) > 1000
    assert [pair for pair in zip(now, later, strict=False) if pair[0] != pair[1]] == []
    assert len(now) == len(later)
