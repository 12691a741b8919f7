"""The lab's page and one experiment; `make trials` runs all experiments."""

from __future__ import annotations

import re
import sys

import pytest

from lab import __main__ as command
from lab import harness
from lab.experiments import sinks
from lab.harness import CountsDiffer, Setup
from lab.published.sinks import message

ROOT = command.ROOT


def test_messages_arrive_once_in_every_way(tmp_path, monkeypatch):
    # What this experiment needs is in this environment, too.
    monkeypatch.setattr(harness, "RIVALS_PYTHON", sys.executable)
    findings = sinks.run(Setup(20, 0.02, 1, tmp_path))
    for table in findings.tables:
        assert [row[0] for row in table.rows] == [way.label for way in sinks.WAYS]
    assert [chart.title for chart in findings.charts] == ["Messages to S3", "Messages to SQS"]


def test_lost_and_changed_messages_are_refused():
    stored = {f"message_{i}.json": message(i) for i in range(2)}
    sinks.check("right", sinks.S3, 2, {"puts": 2, "stored": stored})
    for puts, text in ((1, message(1)), (2, "other")):
        counters = {"puts": puts, "stored": {**stored, "message_1.json": text}}
        with pytest.raises(CountsDiffer):
            sinks.check("wrong", sinks.S3, 2, counters)


def test_page_is_that_of_the_recorded_findings(tmp_path, monkeypatch):
    recorded = ROOT / command.DOCS
    (tmp_path / command.FOLDER).symlink_to(recorded / command.FOLDER)
    page = command.write_page(tmp_path).read_text("utf-8")
    assert page == (recorded / command.PAGE).read_text("utf-8")
    for chart in re.findall(r"\]\((lab/[^)]+\.svg)\)", page):
        assert (recorded / chart).read_text("utf-8").startswith("<?xml")
