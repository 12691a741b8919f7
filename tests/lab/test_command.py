"""`make lab` writes into an ignored folder; `make lab-page` into docs, on an idle machine only."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import pytest

from lab import __main__ as command
from lab.experiment import Experiment
from lab.findings import Findings, Table
from lab.machine_load import MachineBusy
from tests.cli.console import ROOT


def git(*words):
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def test_lab_changes_no_tracked_file(tmp_path):
    before = git("status", "--porcelain", "--untracked-files=no")
    words = ("-m", "lab", "--experiment", "sinks", "--size", "3", "--latency-ms", "0")
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["build"]
    assert "Written:\nbuild/lab.md\nbuild/lab/sinks-1.svg" in done.stdout
    assert git("status", "--porcelain", "--untracked-files=no") == before
    written = ["build/lab.md", "build/lab/sinks.json"]
    assert git("check-ignore", *written).split() == written


@pytest.mark.parametrize(("target", "is_page"), [("lab", False), ("lab-page", True)])
def test_targets_of_make(target, is_page):
    done = subprocess.run(
        ["make", "--dry-run", target, "SIZE=9"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (each for each in done.stdout.splitlines() if "-m lab" in each)
    assert ("--page" in line, "--size 9" in line) == (is_page, True)


class AnyMachine:
    """Stands in for a machine that is idle, or busy, whatever runs here."""

    def __init__(self, *, busy):
        self._busy = busy

    def undisturbed(self, label, way):
        if self._busy:
            raise MachineBusy(f"before {label} another process was busy")
        return way()


def run_page(monkeypatch, folder, *, busy):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(command, "IdleMachine", lambda _say: AnyMachine(busy=busy))
    monkeypatch.setattr(command, "_machine", lambda: "a machine")
    table = Table("Times", ("way", "s"), [("a way", "8")])
    experiment = Experiment(
        *("made", "Made up", "A title", "It measures nothing.", "rows", 5, 10, 8.0),
        run=lambda setup: setup.measured("a way", lambda: Findings([table], [], [], [])),
    )
    options = argparse.Namespace(page=True, size=None, latency_ms=None, seed=1)
    command._run(experiment, [experiment], options)


def test_page_is_written_on_an_idle_machine(tmp_path, monkeypatch):
    run_page(monkeypatch, tmp_path, busy=False)
    assert "| a way | 8 |" in (tmp_path / "docs" / "lab.md").read_text()


def test_page_is_refused_on_a_busy_machine(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match=r"^made: before a way another process was busy$"):
        run_page(monkeypatch, tmp_path, busy=True)
    assert list(tmp_path.iterdir()) == []
