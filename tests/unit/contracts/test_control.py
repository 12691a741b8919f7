"""Control of a run, and workers' progress in the names of objects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.control import IDLE, WORKING, WorkerProgress
from ddbload.contracts.row_counts import RowCounts, WorkTotals, WriteStats

COUNTS = st.integers(0, 10**11)


@st.composite
def totals(draw: st.DrawFn) -> WorkTotals:
    written, rejected, superseded, skipped = (draw(COUNTS) for _ in range(4))
    read = written + rejected + superseded + skipped
    rows = RowCounts(read, written, rejected, superseded, skipped)
    work = WriteStats(throttled=draw(COUNTS), consumed_wcu=float(draw(COUNTS)))
    return WorkTotals(rows, work, draw(st.integers(0, 10**13)))


LIMITS = st.none() | st.integers(0, 10**9).map(lambda tenths: tenths / 10)
WORKERS = st.builds(
    WorkerProgress,
    worker=st.text("0123456789abcdef", min_size=12, max_size=12),
    number=st.integers(0, 999_999),
    state=st.sampled_from([WORKING, IDLE]),
    wcu=LIMITS,
    unit_limit=LIMITS,
    settled=totals(),
    chunk=st.none() | st.integers(0, 19_999),
    start=st.integers(0, 10**13),
    current=totals(),
)


@given(WORKERS)
def test_worker_progress_is_read_back_from_its_name(progress: WorkerProgress):
    assert WorkerProgress.from_name(progress.to_name()) == progress


def test_the_name_of_large_progress_fits_a_file_system():
    rows = RowCounts(3 * 10**10, 10**10, 10**6, 10**9, 10**10)
    large = WorkTotals(rows, WriteStats(throttled=10**8, consumed_wcu=1e11), 10**13)
    progress = WorkerProgress(
        "0123456789ab", 999_999, WORKING, 40_000.5, 1e11, large, 19_999, 10**13, large
    )
    # The longest file name that Linux and macOS allow.
    assert len(progress.to_name()) <= 255


@pytest.mark.parametrize("limit", [0.01, 33.333, 249.99])
def test_a_limit_is_never_rounded_down_in_a_name(limit):
    progress = WorkerProgress("ab", 0, WORKING, limit, limit)
    read = WorkerProgress.from_name(progress.to_name())
    assert read is not None
    assert read.wcu is not None
    assert limit <= read.wcu < limit + 0.11


HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    "name",
    [
        *("", "x", "ab-1", ".tmp", "zz-000001-w-x-x" + "-0" * 16),
        *(f"ab-000001-w-{limit}-x" + "-0" * 16 for limit in ("nan", "inf", "1e999", f"{HUGE}.0")),
        *(f"ab-000001-w-x-x-x-0-{done}" + "-0" * 13 for done in (HUGE, "1_0", "٣", " 1", "+1")),
    ],
)
def test_names_of_another_kind_are_no_progress(name):
    assert WorkerProgress.from_name(name) is None
