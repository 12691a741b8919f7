"""The axis of time: in order, whole, with pauses cut short; and rates that keep all amounts."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddbload.contracts.results import Failure, Segment
from ddbload.contracts.segment_times import ProgressSample, SegmentTimes
from ddbload.pipeline.report_page.charts import chunks_chart, rates_chart, short, work_chart
from ddbload.pipeline.report_page.timeline import (
    MAX_LANES,
    TimeAxis,
    TimeColumns,
    Timeline,
    make_timeline,
)
from tests.unit.pipeline.page_scenes import BEGAN, work

moments = st.floats(0, 253_402_300_799.0) | st.floats(BEGAN, BEGAN + 1000)
periods = st.lists(st.tuples(moments, moments).map(sorted).map(tuple), min_size=1, max_size=30)


@settings(max_examples=40)
@given(periods, st.lists(moments))
def test_places_are_in_the_order_of_times(busy, times):
    axis = TimeAxis(busy)
    ends = [each for both in busy for each in both]
    places = [axis.place(each) for each in sorted([*times, *ends])]
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
    assert all(one <= other + 1e-9 for one, other in pairwise(places))
    assert axis.spans[0].left == 0
    assert axis.spans[-1].right == 1
    # Work has most of the width, however many pauses there are.
    assert sum(each.right - each.left for each in axis.spans) > 0.5


@settings(max_examples=40)
@given(periods, st.floats(0.1, 1e9))
def test_columns_keep_the_amount(busy, amount):
    columns = TimeColumns(TimeAxis(busy))
    for began, ended in busy:
        columns.add(began, ended, amount)
    assert sum(columns.amounts) == pytest.approx(amount * len(busy), rel=1e-6)


def test_long_pause_is_cut_short_and_short_ones_are_not():
    axis = TimeAxis([(0, 100), (110, 200), (90_000, 90_100)])
    assert [(each.began, each.ended) for each in axis.spans] == [(0, 200), (90_000, 90_100)]
    assert axis.seconds == pytest.approx(300)
    assert axis.place(40_000) == axis.spans[0].right < axis.spans[1].left


def segment(**changes: object) -> Segment:
    """Make a segment of 10 s with 160 rows, 100 of them in its first second."""
    ((made,),) = work(1, 1)[1]
    samples = [ProgressSample(1.0, 100, 200, 0), ProgressSample(5.0, 100, 200, 50)]
    times = SegmentTimes.of("ab", BEGAN, BEGAN + 10, samples)
    stats = replace(made.work, consumed_wcu=320.0, throttled=50)
    rows = replace(made.rows, read=160, written=160)
    return replace(made, rows=rows, work=stats, times=times, **changes)  # type: ignore[arg-type]


def only(timeline: Timeline | None) -> Timeline:
    assert timeline is not None
    return timeline


def test_rates_follow_the_samples():
    rates = only(make_timeline([[segment()]], ())).rates
    per_column = 10 / len(rates.rows)
    assert sum(rates.rows) * per_column == pytest.approx(160)
    assert sum(rates.units) * per_column == pytest.approx(320)
    assert sum(rates.throttled) * per_column == pytest.approx(50)
    assert rates.rows[0] == pytest.approx(100)
    assert rates.rows[len(rates.rows) // 3] == 0
    assert rates.throttled[len(rates.rows) // 3] == pytest.approx(50 / 4)


def test_segments_without_times_have_no_timeline():
    assert make_timeline([[replace(segment(), times=None)]], ()) is None
    assert make_timeline([[]], ()) is None
    both = only(make_timeline([[segment()], [replace(segment(), chunk=1, times=None)]], ()))
    assert (both.untimed, len(both.blocks)) == (1, 1)


def test_workers_share_lanes_when_there_are_many():
    _, chains = work(3 * MAX_LANES, 3 * MAX_LANES, seconds=600.0)
    timeline = only(make_timeline(chains, ()))
    assert (timeline.workers, timeline.lanes) == (3 * MAX_LANES, MAX_LANES)
    assert {each.lane for each in timeline.blocks} == set(range(MAX_LANES))


def test_failure_marks_the_last_part_of_its_chunk():
    chunks, chains = work(3, 2, parts=2)
    failure = Failure("SplitMismatch", "…", 1, BEGAN + 50)
    timeline = only(make_timeline(chains, [failure, Failure("NoTime", "…", 2)]))
    failed = [(each.segment.chunk, each.part) for each in timeline.blocks if each.failed]
    assert sorted(failed) == [(1, 1), (2, 1)]
    assert timeline.failures == (failure,)
    assert "SplitMismatch" in str(work_chart(timeline))
    assert "failed" in str(chunks_chart(chunks, chains, frozenset([1])))


def test_open_chunks_are_seen_among_thousands():
    chunks, chains = work(4000, 1)
    half = [chain if number % 2 else [] for number, chain in enumerate(chains)]
    drawn = [str(chunks_chart(chunks, each, frozenset())) for each in (chains, half)]
    # The bar is 22 high; of every second chunk, 11.
    assert "V4H" in drawn[0]
    assert "V4H" not in drawn[1]
    assert re.search(r"V1[45](\.\d)?H", drawn[1])
    failed = frozenset(range(0, 4000, 2))
    assert "V4H" in str(chunks_chart(chunks, half, failed))


@pytest.mark.parametrize("length", [0.0, 0.01, 3, 500, 90_000, 4e8, 253_402_300_799.0 - BEGAN])
def test_ticks_are_few_and_have_room(length):
    times = SegmentTimes("ab", BEGAN, BEGAN + length)
    timeline = only(make_timeline([[replace(segment(), times=times)]], ()))
    drawn = str(rates_chart(timeline.axis, []))
    assert 1 <= drawn.count("<line") <= 12


def test_failure_by_itself_leaves_room_for_the_ticks_of_the_others():
    """It is a span without length, which tells nothing of how far seconds are apart."""
    _, chains = work(4, 2)
    timeline = only(make_timeline(chains, [Failure("SplitMismatch", "…", 0, BEGAN - 600)]))
    drawn = str(rates_chart(timeline.axis, []))
    assert 4 <= drawn.count("<line") <= 12
    assert re.search(r">\d\d:\d\d:\d\d</text>", drawn)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999.4, "999"), (999.6, "1k"), (999_499, "999k"), (999_600, "1M"), (3e12, "3T")],
)
def test_numbers_of_charts_are_short(value, text):
    assert short(value) == text
