"""Laws of the scheduler at the faulty table of tests/unit/write/scheduler_simulation.py."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ddbload.write.pacing.pacing import MIN_UNITS_PER_SECOND
from tests.unit.write.scheduler_simulation import FAULTS, MAX_LATENCY, Scenario, SchedulerSimulation

LONGEST_BACK_OFF = 20.0
SPLITS = 5
"""Halvings from 25 rows to one."""


def finished_runs(**fixed: Any) -> st.SearchStrategy[SchedulerSimulation]:
    """Generate finished runs of scenarios; `fixed` sets some of their values."""
    shares = st.sampled_from([0.0, 0.05, 0.3, 1.0])
    drawn: dict[str, st.SearchStrategy[Any]] = {
        "seed": st.integers(0, 2**32),
        "rows": st.integers(0, 80),
        "keys": st.sampled_from([0, 1, 3, 10, 40]),
        "invalid": st.sampled_from([0.0, 0.02, 0.3]),
        "rejects": st.sampled_from([0.0, 0.1]),
        "offered_singly": st.sampled_from([0.0, 0.2, 1.0]),
        "faults": st.lists(st.sampled_from([*FAULTS, "late"]), unique=True).map(tuple),
        "fault_rate": shares,
        "recovers_after": st.sampled_from([10, 60, 120]),
        "batch_rows": st.sampled_from([1, 2, 5, 25]),
        "ahead": st.sampled_from([3, 30, 20_000]),
        "concurrency": st.integers(1, 6),
        "max_wcu": st.sampled_from([None, None, 20.0]),
    }
    ending = {
        "deadline": st.sampled_from([math.inf, 0.0, 0.05, 0.5, 5.0]),
        "stops_after": st.none() | st.integers(0, 40),
    }
    if fixed.pop("to_the_end", False):
        ending = {}
    strategies = drawn | ending | {name: st.just(value) for name, value in fixed.items()}
    return st.builds(Scenario, **strategies).map(
        lambda scenario: SchedulerSimulation(scenario).run()
    )


@given(finished_runs())
def test_counts_include_each_row_before_the_frontier_once(run):
    counts = run.scheduler.outcomes.counts
    before = range(run.scheduler.outcomes.frontier)
    rejected = {row for row in before if run.source[row].rejected or row in run.scheduler.refused}
    written = {row for row in before if row in run.reported_written}
    assert counts.conserved
    assert counts.read == len(before)
    assert counts.rejected == len(rejected)
    assert counts.written == len(written)
    assert counts.superseded == len(set(before) - rejected - written)


@given(finished_runs())
def test_row_is_released_once_and_only_when_settled(run):
    assert len(set(run.released)) == len(run.released)
    frontier = run.scheduler.outcomes.frontier
    sent = {row for row in range(frontier) if not run.source[row].rejected}
    assert sent <= set(run.released)
    for row in run.released:
        settled = row in run.reported_written or row in run.scheduler.refused
        later = any(
            other > row and run.source[other].key == run.source[row].key
            for other in run.reported_written
        )
        assert settled or later


@given(finished_runs())
def test_rows_of_a_key_are_sent_one_at_a_time_and_in_order(run):
    assert run.breaches == []


@given(finished_runs(to_the_end=True, keys=0))
def test_table_holds_the_valid_rows_when_keys_are_unique(run):
    valid = {i for i, row in enumerate(run.source) if row.valid and not row.rejected}
    assert run.table == {row: row for row in valid}


@given(finished_runs(to_the_end=True))
def test_table_holds_a_valid_row_of_every_key(run):
    keys = {row.key for row in run.source}
    expected = {key: rows for key in keys if (rows := run.rows_of(key))}
    assert run.table.keys() == expected.keys()
    assert all(run.table[key] in rows for key, rows in expected.items())


@given(finished_runs(to_the_end=True, faults=FAULTS))
def test_table_holds_the_last_valid_row_when_no_write_is_late(run):
    assert all(run.table[key] == run.rows_of(key)[-1] for key in run.table)


@given(finished_runs(faults=FAULTS))
def test_written_row_is_in_the_table_or_overwritten_by_a_later_row(run):
    for row in range(run.scheduler.outcomes.frontier):
        if row in run.reported_written:
            assert run.table[run.source[row].key] >= row


@given(finished_runs(faults=FAULTS))
def test_superseded_row_has_a_later_row_in_the_table(run):
    for row in range(run.scheduler.outcomes.frontier):
        source = run.source[row]
        if row in run.reported_written or row in run.scheduler.refused or source.rejected:
            continue
        assert run.table[source.key] > row


@given(finished_runs(to_the_end=True, max_wcu=None))
def test_scheduler_finishes_soon_after_the_table_recovers(run):
    assert run.scheduler.outcomes.frontier == len(run.source)
    bad = sum(not row.valid for row in run.source)
    requests = len(run.source) + (SPLITS + 1) * bad
    assert run.answers_since <= requests
    # Time for all rows, of one unit each, at the lowest rate that faults may leave.
    slowest = len(run.source) / MIN_UNITS_PER_SECOND
    limit = 2 * LONGEST_BACK_OFF + requests * MAX_LATENCY + slowest
    assert run.now - run.recovered_at <= limit


@given(finished_runs(faults=(*FAULTS, "late"), fault_rate=1.0, recovers_after=10**9, deadline=30.0))
def test_scheduler_finishes_at_the_deadline_without_recovery(run):
    assert run.now <= 30.0 + MAX_LATENCY
