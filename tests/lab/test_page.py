"""What a run found is kept, drawn, and shown on the page."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from dataclasses import replace
from pathlib import Path
from unittest import mock
from xml.parsers import expat

import pytest

from lab.__main__ import experiments, keep_to_this_machine
from lab.draw import number, svg
from lab.experiment import Experiment
from lab.findings import (
    OURS,
    PUBLISHED,
    RIVAL,
    Bar,
    Bars,
    CountsDiffer,
    Findings,
    Lane,
    Lines,
    Series,
    ServerCost,
    Span,
    Table,
    Timeline,
    require_count,
)
from lab.page import Run, page, write_run
from lab.terminal import chart_text, table_text

DOCS = Path(__file__).parents[2] / "docs"
BARS = Bars("Time", "s", [Bar("one <thread>", 8.0, RIVAL, "7 x"), Bar("ddbload", 2.0, OURS)])
LINES = Lines(
    "Time by threads",
    "threads",
    "s",
    [
        Series("threads", RIVAL, [(1, 10.0), (10, 1.0), (100, 1.0)]),
        Series("published", PUBLISHED, [(1, 1000.0), (100, 1.0)]),
    ],
)
TIMELINE = Timeline(
    "Requests",
    [Lane("early", [Span(0, 1, "request"), Span(0.5, 1.5, "request"), Span(1, 2, "parse")])],
)
FINDINGS = Findings(
    tables=[Table("Times", ("way", "s"), [("a|b", "8"), ("ddbload", "2")])],
    charts=[BARS, replace(BARS, logarithmic=True), LINES, TIMELINE],
    servers=[ServerCost("sink", 0.5, 2.0)],
    notes=["A note."],
)
EXPERIMENT = Experiment(
    *("made", "Made up", "A title", "It measures nothing.", "rows", 5, 10, 8.0),
    run=lambda _: FINDINGS,
)
RUN = Run("made", 5, 8.0, 1, "a machine", "2026-11-22", FINDINGS)


def test_findings_read_from_json_are_equal():
    again = Run.from_json(json.loads(json.dumps(RUN.to_json())))
    assert again == replace(RUN, findings=again.findings)
    assert json.dumps(again.to_json()) == json.dumps(RUN.to_json())
    assert [type(chart) for chart in again.findings.charts] == [Bars, Bars, Lines, Timeline]


def require_xml(drawing):
    expat.ParserCreate().Parse(drawing, True)


def numbers(attribute, drawing):
    return [float(each) for each in re.findall(rf' {attribute}="([^"]+)"', drawing)]


def test_bars_are_as_long_as_their_values():
    drawing = svg(BARS)
    require_xml(drawing)
    assert "one &lt;thread&gt;" in drawing
    first, second = numbers("width", drawing)[1:]
    assert first / second == pytest.approx(4.0, rel=0.01)


def test_logarithmic_bars_differ_by_powers_of_ten():
    chart = Bars(
        "Time", "s", [Bar(f"{value:g}", value, RIVAL) for value in (500.0, 5.0, 0.5)], True
    )
    drawing = svg(chart)
    require_xml(drawing)
    first, second, third = numbers("width", drawing)[1:]
    assert first - second == pytest.approx(2 * (second - third), abs=0.3)
    assert third > 20
    # A line at each power of ten from 0.1 to 100, and its name.
    assert re.findall(r'text-anchor="middle">([^<]+)<', drawing) == ["0.1", "1", "10", "100"]
    assert "logarithmic" in drawing
    lengths = [line.count("█") for line in chart_text(chart).splitlines()[1:]]
    assert lengths[0] == 30 > lengths[1] > lengths[2] > 3


@pytest.mark.parametrize("values", [[], [0.0], [1.0], [0.0, 10.0]])
def test_logarithmic_bars_take_any_value(values):
    chart = Bars("Time", "s", [Bar("a", value, OURS) for value in values], logarithmic=True)
    require_xml(svg(chart))
    assert len(chart_text(chart).splitlines()) == 1 + len(values)


def test_values_beside_bars_stay_inside_the_drawing():
    long = Bar("a name", 9.0, OURS, "with more to say of it than others have")
    drawing = svg(Bars("Time", "s", [long, Bar("b", 1.0, RIVAL)]))
    begins = re.findall(r'<text x="([0-9.]+)"[^>]*>([^<]*)</text>', drawing)
    ends = {text: float(x) + 6.6 * len(text) for x, text in begins}
    assert ends["9.00, with more to say of it than others have"] == pytest.approx(748, abs=1)
    first, second = numbers("width", drawing)[1:]
    assert first / second == pytest.approx(9.0, rel=0.01)


def test_names_below_lines_do_not_cover_one_another():
    points = [(float(x), 1.0) for x in (1, 2, 80, 88, 90, 95, 100)]
    drawing = svg(Lines("Time", "threads", "s", [Series("a", RIVAL, points)]))
    names = re.findall(r'class="small" text-anchor="middle">([^<]+)<', drawing)
    assert names == ["100", "80", "2", "1"]


def test_lines_fall_where_their_values_do():
    drawing = svg(LINES)
    require_xml(drawing)
    first = re.search(r'<polyline[^>]*points="([^"]+)"', drawing)[1].split()
    (x1, y1), (x2, y2), (x3, y3) = (map(float, each.split(",")) for each in first)
    # A logarithmic axis: ten times as many threads are as far on the right each time.
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    # Heights count downwards.
    assert y1 < y2 == y3
    assert "stroke-dasharray" in drawing


def test_names_of_lines_that_end_together_do_not_cover_one_another():
    drawing = svg(LINES)
    heights = [float(y) for y in re.findall(r'y="([0-9.]+)">(?:threads|published)<', drawing)]
    assert len(heights) == 2
    assert abs(heights[0] - heights[1]) >= 12
    # Both end at the bottom, above the axis's names.
    assert max(heights) < 44 + 260 + 12


def test_name_of_a_line_that_another_passes_is_on_its_left():
    longer = Series("longer", RIVAL, [(1, 1.0), (100, 100.0)])
    drawing = svg(Lines("a", "x", "s", [Series("short", RIVAL, [(1, 2.0), (10, 20.0)]), longer]))
    assert 'text-anchor="end">short<' in drawing
    assert re.search(r'<text[^>]*text-anchor="end">longer<', drawing) is None


def test_name_of_a_point_stands_below_a_line_that_begins_beside_it():
    rising = Series("rising", RIVAL, [(1, 10.0), (100, 100.0)])
    point = Series("point", PUBLISHED, [(1, 10.1)])
    drawing = svg(Lines("a", "x", "s", [rising, point, Series("low", OURS, [(1, 1.0), (100, 1)])]))
    begin = float(re.search(r'<polyline[^>]*points="[0-9.]+,([0-9.]+)', drawing)[1])
    name = float(re.search(r'y="([0-9.]+)">point<', drawing)[1])
    # A name's letters reach about 9 pixels up.
    assert name - 9 > begin


def test_spans_of_a_timeline_that_overlap_are_in_rows_of_their_own():
    drawing = svg(TIMELINE)
    require_xml(drawing)
    spans = re.findall(r'<rect x="([0-9.]+)" y="([0-9.]+)" width="([0-9.]+)" height="11"', drawing)
    places = [(float(y), float(x), float(x) + float(width)) for x, y, width in spans]
    assert len(places) == 3
    for y, begin, end in places:
        others = [each for each in places if each != (y, begin, end) and each[0] == y]
        assert all(begin >= until - 0.1 or end <= since + 0.1 for _, since, until in others)


def test_terminal_shows_bars_and_aligned_figures():
    text = chart_text(BARS).splitlines()
    assert text[1].count("█") == 30
    assert text[2].count("█") == 7
    assert text[1].endswith("8.00 7 x")
    assert table_text(FINDINGS.tables[0]).splitlines()[1:] == [
        "  way      s",
        "  a|b      8",
        "  ddbload  2",
    ]
    assert "threads, by threads" in chart_text(LINES)
    assert chart_text(TIMELINE).count("█") > 72


def test_names_of_columns_are_stacked_where_a_table_is_too_wide():
    table = Table("Times", ("way", "most in flight", "s"), [("threads", "8", "0.5")])
    assert table_text(table, 26).splitlines() == [
        "Times",
        "             most",
        "               in",
        "  way      flight    s",
        "  threads       8  0.5",
    ]
    assert len(table_text(table, 40).splitlines()) == 3


def test_charts_in_a_terminal_keep_to_its_width():
    for chart in (BARS, LINES, TIMELINE):
        lines = chart_text(chart, 44).splitlines()
        assert max(map(len, lines)) <= 44
        assert sum(line.count("█") for line in lines) > 20


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (832.65, "833"),
        (71.23, "71.2"),
        (1.9, "1.90"),
        (0.05, "0.0500"),
        (80_000, "80,000"),
        (0, "0"),
    ],
)
def test_figures_have_three_digits(value, text):
    assert number(value) == text


def test_counts_that_differ_are_refused():
    require_count("a way", 3, 3)
    with pytest.raises(CountsDiffer, match="a way: 2 of 3 arrived"):
        require_count("a way", 3, 2)


def test_page_has_a_section_for_each_run(tmp_path):
    charts = write_run(RUN, tmp_path, [EXPERIMENT])
    text = (tmp_path / "lab.md").read_text()
    assert [chart.name for chart in charts] == [f"made-{at}.svg" for at in range(1, 5)]
    assert "Published as *A title*." in text
    assert "make lab EXPERIMENT=made SIZE=5 LATENCY_MS=8 SEED=1" in text
    assert "| a\\|b | 8 |" in text
    assert "25% of a core" in text
    for chart in charts:
        assert f"](lab/{chart.name})" in text


def test_settings_for_aws_and_proxies_do_not_reach_the_labs_clients():
    proxy = "http://127.0.0.1:9"
    theirs = {"AWS_PROFILE": "none", "AWS_ENDPOINT_URL": proxy, "http_proxy": proxy}
    with mock.patch.dict(os.environ, {**theirs, "no_proxy": "example.com"}):
        keep_to_this_machine()
        assert not [name for name in os.environ if name.startswith("AWS_")]
        assert urllib.request.proxy_bypass("127.0.0.1")
        assert urllib.request.proxy_bypass("example.com")
        assert not urllib.request.proxy_bypass("example.net")


def test_charts_of_an_earlier_run_are_removed(tmp_path):
    write_run(RUN, tmp_path, [EXPERIMENT])
    write_run(replace(RUN, findings=replace(FINDINGS, charts=[BARS])), tmp_path, [EXPERIMENT])
    assert sorted(each.name for each in (tmp_path / "lab").iterdir()) == ["made-1.svg", "made.json"]


@pytest.mark.parametrize("experiment", experiments(), ids=lambda experiment: experiment.name)
def test_page_shows_what_was_found(experiment):
    """The page and its charts in the repository are those of the findings beside them."""
    run = Run.from_json(json.loads((DOCS / "lab" / f"{experiment.name}.json").read_text()))
    for at, chart in enumerate(run.findings.charts):
        assert (DOCS / "lab" / f"{experiment.name}-{at + 1}.svg").read_text() == svg(chart)
    assert page(DOCS, experiments()) == (DOCS / "lab.md").read_text()
