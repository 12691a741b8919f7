"""Tests have the same ids, in the same order, whenever and wherever they are collected.

Where pytest-xdist's processes disagree about them, it runs none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
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
AHEAD = 1_000_000.0
"""Seconds: another day, and another hour of it."""


def collected_elsewhere(folder: Path) -> list[str]:
    """Return the ids that a new interpreter with another clock, seed and folder collects."""
    ids, scratch = folder / "ids.json", folder / "scratch"
    scratch.mkdir()
    # Options that this run of pytest was given are not for that one.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, str(AHEAD), str(ids)],
        check=False,
        cwd=ROOT,
        env={**env, "PYTHONHASHSEED": seed, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    collected: list[str] = json.loads(ids.read_text())
    return collected


def test_no_id_depends_on_a_clock_an_address_or_the_order_of_a_set(tmp_path, request):
    here = [item.nodeid for item in request.session.items]
    elsewhere = collected_elsewhere(tmp_path)
    assert len(elsewhere) > 1000
    # This run may be of some tests only, and of files in an order that its command gave.
    wanted = set(here)
    assert by_file(test for test in elsewhere if test in wanted) == by_file(here)


def by_file(tests: Iterable[str]) -> dict[str, list[str]]:
    """Group ids by the files that they are in."""
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(test.partition("::")[0], []).append(test)
    return files
