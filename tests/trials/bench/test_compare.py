"""Medians, and the whole command."""

from __future__ import annotations

import os

import pytest

from bench import compare
from bench.checksum import ItemChecksum
from bench.clients import Client
from bench.medians import MILLION, Round
from bench.rounds import Cost, Scenario
from bench.shapes import SHAPES

SCENARIO = Scenario(SHAPES["ngrams"], tls=True, latency=0.005)


def a_round(name, cpu, turn=0, sending=2.0):
    start = Cost(cpu=0.5, wall=1.0, sending=0.0, requests=1, peak_mb=40.0)
    cost = Cost(cpu=cpu, wall=3.0, sending=sending, requests=400, peak_mb=50.0)
    return Round(Client.parse(name), SCENARIO, turn, 25, start, 10_025, cost)


def test_cpu_per_million_counts_start_up_once():
    # 10,000 rows in one second: 100 µs each.
    each = a_round("threads", cpu=1.5)
    assert each.cpu_per_million(0.5) == pytest.approx(0.5 + 1e-4 * (MILLION - 25))
    assert each.rows_per_second == pytest.approx(10_025 / 2.0)


ONE_SCENARIO = ["--clients", "batch_writer,pool@2", "--shapes", "quoted", "--wires", "tls"]
FEW_ROWS = ["--rows", "60", "--slow-rows", "60", "--latencies", "0", "--rounds", "2"]


def test_compare_ends_with_an_error_after_an_invalid_round(monkeypatch, tmp_path):
    monkeypatch.setattr(
        compare,
        "expected_checksum",
        lambda path, shape: ItemChecksum(60 if "60" in path.name else 25),
    )
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    places = ["--json", str(tmp_path / "a.json")]
    with pytest.raises(SystemExit, match="refused: batch_writer, quoted, TLS"):
        compare.main([*ONE_SCENARIO, *FEW_ROWS, *places])
    assert list(tmp_path.iterdir()) == []
    assert before is None or os.sched_getaffinity(0) == before
