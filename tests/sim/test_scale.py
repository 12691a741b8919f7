"""The simulation of large loads keeps to its assumptions, and to what preflight may read."""

from __future__ import annotations

import pytest

from tests.sim import scale, scale_imports
from tests.sim.scale_imports import Load, import_all


def test_imports_take_as_long_as_the_table():
    fleet = import_all([Load(10.0, 100, 1000.0, 10)], table_rate=500.0, worker_rate=1000.0)
    assert fleet.end == pytest.approx(10 + scale_imports.MAP_SECONDS + 100_000 / 500, rel=0.01)
    assert fleet.first_writes == [10.0 + scale_imports.MAP_SECONDS + scale_imports.START_SECONDS]
    assert fleet.invocations == 100


def test_function_is_continued_after_its_time():
    rows = 2.5 * scale_imports.INVOCATION_SECONDS
    fleet = import_all([Load(0.0, 2, rows, 2)], table_rate=1e9, worker_rate=1.0)
    assert fleet.invocations == 6


def test_runs_share_the_functions_of_the_account():
    loads = [Load(0.0, 600, 100.0, 600)] * 3
    fleet = import_all(loads, table_rate=1e9, worker_rate=1.0)
    # 1,000 environments need ten seconds, and each works for 100.
    ramp = scale_imports.CONCURRENCY / scale_imports.STARTS_PER_SECOND
    assert fleet.first_writes[0] < 10
    assert fleet.first_writes[-1] == pytest.approx(scale_imports.MAP_SECONDS + 101, abs=ramp)
    assert fleet.end == pytest.approx(scale_imports.MAP_SECONDS + 200, abs=2 * ramp)


@pytest.mark.parametrize("number", range(5))
def test_small_part_of_each_load(number):
    each = scale.scenarios(0.0005)[number]
    outcome = scale.simulate(each, "edges", counts_processor=False)
    text = each.objects.count * each.objects.size
    assert outcome.preflights == 1
    assert outcome.chunks >= 1
    assert outcome.first_write < 30
    # The first object tells format and types; of the others, windows or heads are read.
    window = 1 << 20 if "no quotes" in each.name else 1 << 14
    windows = max(outcome.chunks, each.objects.count) * window
    assert outcome.preflight_bytes <= min(windows, text) + 2**22
    assert each.name in scale.page([outcome])
