"""`make bench-minutes` measures every writer, with few rows here."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from bench import table
from bench.shapes import SHAPES

ROWS = 6000


@pytest.fixture
def drained(monkeypatch):
    """Table without saved-up burst capacity, as after minutes of load."""
    capacity = table.Capacity(on_demand=2000.0, burst_seconds=1.0, saved=0.0)
    monkeypatch.setattr(table, "TABLES", {"drained": capacity})


def test_table_measures_every_writer_to_the_last_row(drained, tmp_path, capsys):
    path = tmp_path / "results.json"
    table.main(["--rows", str(ROWS), "--seed", "7", "--json", str(path)])
    found = json.loads(path.read_text())
    printed = capsys.readouterr().out.splitlines()
    assert found["seed"] == 7
    by_name = {each["writer"]: each for each in found["results"]}
    assert by_name.keys() == table.WRITERS.keys()
    for name, each in by_name.items():
        assert each["items_written"] == ROWS
        # The table accepts no more than this rate.
        assert each["seconds"] >= ROWS / 2000 - 1
        assert each["requests"] >= ROWS / 25
        assert 0 <= each["requests_throttled"] <= each["requests"]
        line = next(line for line in printed if line.strip().startswith(name))
        assert f"{each['requests_throttled']:,}" in line
    ours, plain = by_name["ddbload"], by_name["plain batch writer, 16 threads"]
    assert ours["items_returned"] < plain["items_returned"]


def test_table_figures_are_equal_for_the_same_seed(drained):
    first, again = (
        table.measure("ddbload", "drained", table.make_load(ROWS, None), seed=3) for _ in range(2)
    )
    for each in (first, again):
        del each["simulation_cpu_seconds"]
    assert first == again


def test_one_grams_have_runs_like_the_generated_file(make_file):
    path, _ = make_file(SHAPES["ngrams"], ROWS)
    load = table.make_load(ROWS, path)
    runs = list(load.runs(None))
    assert sum(runs) == load.rows == ROWS
    assert max(runs) <= 209
    drawn = list(islice(table.one_grams(table.random.Random(1)), len(runs)))
    assert sum(drawn) / sum(runs) == pytest.approx(1.0, abs=0.3)
    assert table.measure("ddbload", next(iter(table.TABLES)), load, 1)["items_written"] == ROWS
