"""Rates over the time of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddbload.contracts.results import Segment
from ddbload.contracts.row_counts import ProgressSample, ProgressSamples, SegmentTimes
from ddbload.report_page.timeline import LIMIT_SECONDS, Timeline, make_timeline
from ddbload.write.pacing.pacing import WcuBudget
from tests.unit.steps.page_scenes import BEGAN, work


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
    rates = only(make_timeline([[segment()]], ()))
    seconds = [ended - began for began, ended in rates.windows]
    assert seconds == pytest.approx([1.0] * 10)
    assert sum(rates.rows) == pytest.approx(160)
    assert sum(rates.units) == pytest.approx(320)
    assert sum(rates.throttled) == pytest.approx(50)
    assert rates.rows[0] == pytest.approx(100)
    assert rates.rows[3] == 0
    assert rates.throttled[3] == pytest.approx(50 / 4)


def limited_segment(worker: int, share: float, seconds: float) -> Segment:
    """Make the segment of a worker that sends all it may, sampled as an import samples it."""
    budget, now, used = WcuBudget(share, 0.0), 0.0, 0
    samples = ProgressSamples(f"{worker:02x}", BEGAN, 0.0)
    while now < seconds:
        now += 0.01
        while budget.ready_at(now) <= now:
            charge = budget.charge(int(budget.request_units()))
            used += round(charge)
            samples.add(now, used, used, 0)
    ((made,),) = work(1, 1)[1]
    stats = replace(made.work, consumed_wcu=float(used))
    return replace(made, work=stats, times=samples.times(seconds))


def test_units_stay_at_the_limit_when_workers_send_all_they_may():
    chains = [[limited_segment(worker, 100.0, 65.0)] for worker in range(4)]
    rates = only(make_timeline(chains, (), limited=True))
    assert min(ended - began for began, ended in rates.windows) >= LIMIT_SECONDS
    assert len(rates.units) == 6
    assert max(rates.units) <= 400 * 1.03
    assert min(rates.units) >= 400 * 0.97
