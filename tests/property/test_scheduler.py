"""Laws of the scheduler at the faulty table of tests/unit/write/scheduler_simulation.py."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ddbload.write.pacing.adaptive_rate import MIN_UNITS_PER_SECOND
from tests.unit.write.scheduler_simulation import FAULTS, MAX_LATENCY, Scenario, SchedulerSimulation

LONGEST_BACK_OFF = 20.0
SPLITS = 5
"""Halvings from 25 rows to one."""


def worlds(**settled: Any) -> st.SearchStrategy[SchedulerSimulation]:
    """Runs that have ended, in worlds of all kinds but for what is settled."""
    shares = st.sampled_from([0.0, 0.05, 0.3, 1.0])
    drawn: dict[str, st.SearchStrategy[Any]] = {
        "seed": st.integers(0, 2**32),
        "rows": st.integers(0, 80),
        "keys": st.sampled_from([0, 1, 3, 10, 40]),
        "invalid": st.sampled_from([0.0, 0.02, 0.3]),
        "rejects": st.sampled_from([0.0, 0.1]),
        "odd": st.sampled_from([0.0, 0.2, 1.0]),
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
    if settled.pop("to_the_end", False):
        ending = {}
    strategies = drawn | ending | {name: st.just(value) for name, value in settled.items()}
    return st.builds(Scenario, **strategies).map(
        lambda scenario: SchedulerSimulation(scenario).run()
    )


@given(worlds())
def test_every_row_before_the_frontier_is_counted_once(run):
    counts = run.scheduler.outcomes.counts
    before = range(run.scheduler.outcomes.frontier)
    rejected = {row for row in before if run.source[row].rejected or row in run.scheduler.refused}
    written = {row for row in before if row in run.said_written}
    assert counts.conserved
    assert counts.read == len(before)
    assert counts.rejected == len(rejected)
    assert counts.written == len(written)
    assert counts.superseded == len(set(before) - rejected - written)


@given(worlds())
def test_a_row_is_released_once_and_only_when_it_is_settled(run):
    assert len(set(run.released)) == len(run.released)
    frontier = run.scheduler.outcomes.frontier
    sent = {row for row in range(frontier) if not run.source[row].rejected}
    assert sent <= set(run.released)
    for row in run.released:
        own = row in run.said_written or row in run.scheduler.refused
        later = any(
            other > row and run.source[other].key == run.source[row].key
            for other in run.said_written
        )
        assert own or later


@given(worlds())
def test_of_a_key_one_row_is_under_way_and_none_goes_again_behind_a_later_one(run):
    assert run.breaches == []


@given(worlds(to_the_end=True, keys=0))
def test_with_unique_keys_the_table_is_the_valid_rows(run):
    valid = {i for i, row in enumerate(run.source) if row.valid and not row.rejected}
    assert run.table == {row: row for row in valid}


@given(worlds(to_the_end=True))
def test_every_key_with_a_valid_row_holds_one_of_its_own(run):
    keys = {row.key for row in run.source}
    expected = {key: rows for key in keys if (rows := run.rows_of(key))}
    assert run.table.keys() == expected.keys()
    assert all(run.table[key] in rows for key, rows in expected.items())


@given(worlds(to_the_end=True, faults=FAULTS))
def test_where_no_write_lands_after_its_answer_the_last_valid_row_stays(run):
    assert all(run.table[key] == run.rows_of(key)[-1] for key in run.table)


@given(worlds(faults=FAULTS))
def test_what_counts_as_written_is_in_the_table_or_overwritten_by_a_later_row(run):
    for row in range(run.scheduler.outcomes.frontier):
        if row in run.said_written:
            assert run.table[run.source[row].key] >= row


@given(worlds(faults=FAULTS))
def test_what_counts_as_superseded_gave_way_to_a_later_row(run):
    for row in range(run.scheduler.outcomes.frontier):
        source = run.source[row]
        if row in run.said_written or row in run.scheduler.refused or source.rejected:
            continue
        assert run.table[source.key] > row


@given(worlds(to_the_end=True, max_wcu=None))
def test_it_ends_soon_after_the_table_recovers(run):
    assert run.scheduler.outcomes.frontier == len(run.source)
    bad = sum(not row.valid for row in run.source)
    requests = len(run.source) + (SPLITS + 1) * bad
    assert run.answers_since <= requests
    # The rate that the faults left: rows of one unit each take so long at the slowest.
    slowly = len(run.source) / MIN_UNITS_PER_SECOND
    limit = 2 * LONGEST_BACK_OFF + requests * MAX_LATENCY + slowly
    assert run.now - run.recovered_at <= limit


@given(worlds(faults=(*FAULTS, "late"), fault_rate=1.0, recovers_after=10**9, deadline=30.0))
def test_it_ends_at_the_deadline_although_the_table_does_not_recover(run):
    assert run.now <= 30.0 + MAX_LATENCY
