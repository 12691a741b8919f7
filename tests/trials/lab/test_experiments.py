"""Each experiment runs at a small size, and draws its charts."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module

import pytest

from lab.__main__ import draw, record
from lab.harness import Setup

SIZES = {"writers": 20, "sinks": 20, "objects": 20, "listing": 1_500, "ladder": 900}


@pytest.mark.parametrize("name", SIZES)
def test_experiment_sends_everything_once_and_is_drawn(name, tmp_path):
    experiment = import_module(f"lab.experiments.{name}").EXPERIMENT
    findings = experiment.run(Setup(SIZES[name], 0.02, 1, tmp_path))
    assert all(len(row) == len(table.columns) for table in findings.tables for row in table.rows)
    record(tmp_path, {"experiment": name, "findings": asdict(findings)})
    assert len(draw(tmp_path, name)) == len(findings.charts) > 0
