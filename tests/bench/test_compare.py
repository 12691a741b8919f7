"""Figures, charts, and the whole command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from bench import compare
from bench.charts import BAR, bar, svg, table
from bench.checksum import ItemChecksum
from bench.clients import ROOT, Client
from bench.medians import MILLION, Round, figures
from bench.rounds import Cost, Scenario
from bench.shapes import SHAPES

SCENARIO = Scenario(SHAPES["ngrams"], tls=True, latency=0.005)
NAMESPACE = "{http://www.w3.org/2000/svg}"


def parsed(text):
    return ET.fromstring(text)  # noqa: S314 - of our own making


def a_round(name, cpu, turn=0, sending=2.0):
    start = Cost(cpu=0.5, wall=1.0, sending=0.0, requests=1, peak_mb=40.0)
    cost = Cost(cpu=cpu, wall=3.0, sending=sending, requests=400, peak_mb=50.0)
    return Round(Client.named(name), SCENARIO, turn, 25, start, 10_025, cost)


def test_start_up_is_counted_once():
    # 10,000 rows for a second: 100 µs each.
    each = a_round("threads", cpu=1.5)
    assert each.cpu_per_million(0.5) == pytest.approx(0.5 + 1e-4 * (MILLION - 25))
    assert each.rows_per_second == pytest.approx(10_025 / 2.0)


def test_medians_and_who_is_compared_with_whom():
    rounds = {
        "threads": [a_round("threads", cpu, turn) for turn, cpu in enumerate((1.5, 9.5, 2.5))],
        "batch_writer": [
            a_round("batch_writer", cpu, turn) for turn, cpu in enumerate((4.5, 0.5, 5.5))
        ],
    }
    threads, plain = figures([each for own in rounds.values() for each in own])
    assert [threads.client.name, plain.client.name] == ["threads", "batch_writer"]
    cpu = [each.cpu_per_million(0.5) for each in rounds["threads"]]
    assert [threads.least, threads.cpu_per_million, threads.most] == pytest.approx(sorted(cpu))
    assert plain.times_less == 1.0
    assert threads.times_less == pytest.approx(plain.cpu_per_million / threads.cpu_per_million)
    assert figures(rounds["threads"])[0].times_less is None


def test_one_slow_start_changes_nothing():
    rounds = [a_round("threads", 1.5, turn) for turn in range(3)]
    slow = replace(rounds[0], start=replace(rounds[0].start, cpu=1.4))
    assert figures([slow, *rounds[1:]]) == figures(rounds)


def test_bars():
    assert bar(1.0) == "█" * BAR
    assert bar(0.5) == "█" * (BAR // 2)
    assert bar(0.0) == "▏"
    assert len(bar(0.51)) == BAR // 2 + 1


def test_a_table_has_a_line_for_each():
    lines = table(figures([a_round("threads", 1.5), a_round("batch_writer", 4.5)])).splitlines()
    assert lines[0] == "ngrams, TLS, 5 ms"
    assert "threads@16" in lines[2]
    assert "batch_writer" in lines[3]
    assert "█" * BAR in lines[3]
    assert table([]) == ""


def test_the_svg_is_one_and_its_bars_are_as_long_as_they_say():
    panel = figures([a_round("threads", 1.5), a_round("batch_writer", 4.5)])
    odd = replace(SCENARIO, shape=replace(SCENARIO.shape, name='<&">'))
    other = [replace(figure, scenario=odd) for figure in panel]
    root = parsed(svg([panel, [], other], caption="CPU & <cores>"))
    assert root.tag == NAMESPACE + "svg"
    texts = [text.text for text in root.iter(NAMESPACE + "text")]
    assert "CPU & <cores>" in texts
    assert '<&">, TLS, 5 ms' in texts
    bars = [(rect.get("class"), float(rect.get("width"))) for rect in root.iter(NAMESPACE + "rect")]
    assert [kind for kind, _ in bars] == 2 * ["ours", "rival"]
    assert bars[0][1] / bars[1][1] == pytest.approx(
        panel[0].cpu_per_million / panel[1].cpu_per_million, rel=0.01
    )
    for place in ("y", "x"):
        assert all(float(each.get(place)) >= 0 for each in root.iter() if each.get(place))
    assert max(float(each.get("y", 0)) for each in root.iter()) < float(root.get("height"))


SMALL = ["--clients", "batch_writer,pool@2", "--shapes", "quoted", "--wires", "tls"]
SMALLER = ["--rows", "60", "--slow-rows", "60", "--latencies", "0", "--rounds", "2"]


def test_the_whole_command(tmp_path):
    to_json, to_svg = tmp_path / "made" / "a.json", tmp_path / "made" / "a.svg"
    places = ["--json", str(to_json), "--svg", str(to_svg), "--seed", "7"]
    ended = subprocess.run(
        [sys.executable, "-m", "bench.compare", *SMALL, *SMALLER, *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "quoted, TLS, 0 ms" in ended.stdout
    result = json.loads(to_json.read_text())
    assert result["seed"] == 7
    assert result["machine"]["versions"]["aiobotocore"]
    # In rotated order.
    order = [(each["turn"], each["client"]) for each in result["rounds"]]
    assert order == [(0, "batch_writer"), (0, "pool@2"), (1, "pool@2"), (1, "batch_writer")]
    assert {each["client"] for each in result["figures"]} == {"batch_writer", "pool@2"}
    parsed(to_svg.read_text())


def test_a_wrong_round_ends_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(
        compare,
        "expected_checksum",
        lambda path, shape: ItemChecksum(60 if "60" in path.name else 25),
    )
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    places = ["--json", str(tmp_path / "a.json"), "--svg", str(tmp_path / "a.svg")]
    with pytest.raises(SystemExit, match="refused: batch_writer, quoted, TLS"):
        compare.main([*SMALL, *SMALLER, *places])
    assert list(tmp_path.iterdir()) == []
    assert before is None or os.sched_getaffinity(0) == before


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--rows 25", "at least 26 rows"),
        ("--slow-rows 25", "at least 26 rows"),
        ("--rounds 0", "one round"),
        ("--shapes ngrams,round", "'round' is none of ngrams, wide, quoted"),
        ("--wires wireless", "'wireless' is none of tls, plain"),
        ("--clients nobody", "no client nobody: there are sync"),
        ("--clients pool,pool@16", "a client is named twice"),
        ("--latencies soon", "invalid _latencies value"),
        ("--latencies=-1", "invalid _latencies value"),
    ],
)
def test_usage(words, why, capsys):
    with pytest.raises(SystemExit) as ended:
        compare.main(words.split())
    assert ended.value.code == 2
    assert why in capsys.readouterr().err


def test_aiobotocore_needs_its_own_environment(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(compare, "RIVALS_PYTHON", tmp_path / "python")
    with pytest.raises(SystemExit) as ended:
        compare.main(["--clients", "aiobotocore"])
    assert ended.value.code == 2
    assert "`make bench` makes" in capsys.readouterr().err
