from __future__ import annotations

import random

import pytest

from ddbload.contracts.results import RowCounts
from ddbload.write.scheduler.outcome_tracker import OutcomeTracker, RowOutcome


def settlement(rows: int) -> OutcomeTracker:
    made = OutcomeTracker()
    assert [made.add() for _ in range(rows)] == list(range(rows))
    return made


def test_tracker_is_empty_at_first():
    made = OutcomeTracker()
    assert (made.known, made.frontier, made.ahead, made.counts) == (0, 0, 0, RowCounts())


def test_tracker_numbers_rows_in_order():
    made = settlement(5)
    assert (made.known, made.frontier, made.ahead, made.counts) == (5, 0, 5, RowCounts())


def test_frontier_is_the_first_unsettled_row():
    made = settlement(4)
    made.settle(1, RowOutcome.WRITTEN)
    made.settle(3, RowOutcome.WRITTEN)
    assert (made.frontier, made.ahead) == (0, 4)
    made.settle(0, RowOutcome.WRITTEN)
    assert (made.frontier, made.ahead) == (2, 2)
    made.settle(2, RowOutcome.WRITTEN)
    assert (made.frontier, made.ahead) == (4, 0)


def test_counts_include_only_rows_before_the_frontier():
    made = settlement(3)
    made.settle(1, RowOutcome.REJECTED)
    assert made.counts == RowCounts()
    made.settle(0, RowOutcome.WRITTEN)
    assert made.counts == RowCounts(read=2, written=1, rejected=1)


def test_counts_separate_the_outcomes():
    made = settlement(10)
    outcomes = [RowOutcome.WRITTEN] * 4 + [RowOutcome.REJECTED] * 3 + [RowOutcome.SUPERSEDED] * 2
    for handle, outcome in enumerate([*outcomes, RowOutcome.SKIPPED]):
        made.settle(handle, outcome)
    assert made.counts == RowCounts(read=10, written=4, rejected=3, superseded=2, skipped=1)
    assert made.counts.conserved


@pytest.mark.parametrize("others", [0, 1])
def test_settle_raises_for_a_settled_row(others):
    made = settlement(2)
    made.settle(others, RowOutcome.WRITTEN)
    with pytest.raises(AssertionError, match=f"row {others} is already settled"):
        made.settle(others, RowOutcome.WRITTEN)


def check(made: OutcomeTracker, settled: dict[int, RowOutcome]) -> None:
    frontier = next(handle for handle in range(made.known + 1) if handle not in settled)
    before = [settled[handle] for handle in range(frontier)]
    assert made.frontier == frontier
    written, rejected, superseded, skipped, identical, unseen = map(before.count, RowOutcome)
    skipped += identical + unseen
    assert made.counts == RowCounts(frontier, written, rejected, superseded, skipped)
    assert made.count(RowOutcome.IDENTICAL) == identical
    assert made.count(RowOutcome.UNSEEN) == unseen
    after = [handle for handle, outcome in settled.items() if outcome is RowOutcome.WRITTEN]
    assert made.last_written() == max((each for each in after if each > frontier), default=None)


@pytest.mark.parametrize("seed", range(3))
def test_counts_do_not_depend_on_the_order_of_settling(seed):
    # More rows than are dropped at a time, and never more than so many ahead.
    rng = random.Random(seed)
    made = OutcomeTracker()
    open_rows: list[int] = []
    settled: dict[int, RowOutcome] = {}
    while made.known < 20_000 or open_rows:
        if made.known < 20_000 and (len(open_rows) < 300 or rng.random() < 0.4):
            open_rows.append(made.add())
            if made.known % 1000 == 0:
                check(made, settled)
            continue
        place = rng.randrange(len(open_rows))
        open_rows[place], open_rows[-1] = open_rows[-1], open_rows[place]
        handle = open_rows.pop()
        settled[handle] = rng.choice(list(RowOutcome))
        made.settle(handle, settled[handle])
    check(made, settled)
    assert made.counts.read == 20_000
    assert made.counts.conserved
    assert len(made._outcomes) < 5000


def test_settle_raises_for_a_row_that_was_dropped():
    made = settlement(5000)
    for handle in range(4996):
        made.settle(handle, RowOutcome.WRITTEN)
    for handle in (0, 899, 4995):
        with pytest.raises(AssertionError, match=f"row {handle} is already settled"):
            made.settle(handle, RowOutcome.WRITTEN)
    assert made.frontier == 4996
    made.settle(4996, RowOutcome.WRITTEN)
    assert made.counts == RowCounts(read=4997, written=4997)


@pytest.mark.parametrize("handles", [range(0, 9, 3), [0, 3, 6], range(5, 10), range(0)])
def test_settle_all_equals_settling_each_row(handles):
    one, other = settlement(10), settlement(10)
    one.settle_all(handles, RowOutcome.SKIPPED)
    for handle in handles:
        other.settle(handle, RowOutcome.SKIPPED)
    assert (one.frontier, one.counts) == (other.frontier, other.counts)
    for handle in set(range(10)) - set(handles):
        one.settle(handle, RowOutcome.WRITTEN)
    assert one.counts == RowCounts(10, 10 - len(handles), 0, 0, len(handles))
    if handles:
        with pytest.raises(AssertionError, match="already settled"):
            one.settle_all(handles, RowOutcome.WRITTEN)


def test_settle_all_raises_when_one_row_is_settled():
    made = settlement(10)
    made.settle(6, RowOutcome.WRITTEN)
    with pytest.raises(AssertionError, match="already settled"):
        made.settle_all(range(0, 9, 3), RowOutcome.WRITTEN)
