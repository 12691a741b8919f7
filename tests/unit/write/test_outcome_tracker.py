from __future__ import annotations

import random

import pytest

from ddbload.contracts.row_counts import RowCounts
from ddbload.write.scheduler.answers import OutcomeTracker, RowOutcome


def tracker_of(rows: int) -> OutcomeTracker:
    tracker = OutcomeTracker()
    assert [tracker.add() for _ in range(rows)] == list(range(rows))
    return tracker


@pytest.mark.parametrize("others", [0, 1])
def test_settle_raises_for_a_settled_row(others):
    tracker = tracker_of(2)
    tracker.settle(others, RowOutcome.WRITTEN)
    with pytest.raises(AssertionError, match=f"row {others} is already settled"):
        tracker.settle(others, RowOutcome.WRITTEN)
    with pytest.raises(AssertionError, match="already settled"):
        tracker.settle_all(range(2), RowOutcome.WRITTEN)


def check(tracker: OutcomeTracker, settled: dict[int, RowOutcome]) -> None:
    frontier = next(handle for handle in range(tracker.known + 1) if handle not in settled)
    before = [settled[handle] for handle in range(frontier)]
    assert tracker.frontier == frontier
    counts = map(before.count, RowOutcome)
    written, rejected, superseded, skipped, identical, unseen, uncertain = counts
    skipped += identical + unseen
    written += uncertain
    assert tracker.counts == RowCounts(frontier, written, rejected, superseded, skipped)
    assert tracker.count(RowOutcome.IDENTICAL) == identical
    assert tracker.count(RowOutcome.UNSEEN) == unseen
    assert tracker.count(RowOutcome.UNCERTAIN) == uncertain
    own = (RowOutcome.WRITTEN, RowOutcome.UNCERTAIN)
    after = [handle for handle, outcome in settled.items() if outcome in own]
    assert tracker.last_written() == max((each for each in after if each > frontier), default=None)


@pytest.mark.parametrize("seed", range(3))
def test_counts_do_not_depend_on_the_order_of_settling(seed):
    # More rows than are dropped at a time, with a bounded number of unsettled ones.
    rng = random.Random(seed)
    tracker = OutcomeTracker()
    open_rows: list[int] = []
    settled: dict[int, RowOutcome] = {}
    while tracker.known < 20_000 or open_rows:
        if tracker.known < 20_000 and (len(open_rows) < 300 or rng.random() < 0.4):
            open_rows.append(tracker.add())
            if tracker.known % 1000 == 0:
                check(tracker, settled)
            continue
        index = rng.randrange(len(open_rows))
        open_rows[index], open_rows[-1] = open_rows[-1], open_rows[index]
        handle = open_rows.pop()
        settled[handle] = rng.choice(list(RowOutcome))
        tracker.settle(handle, settled[handle])
    check(tracker, settled)
    assert tracker.counts.read == 20_000
    assert tracker.counts.conserved
    assert len(tracker._outcomes) < 5000


@pytest.mark.parametrize("handles", [range(0, 9, 3), [0, 3, 6], range(5, 10), range(0)])
def test_settle_all_equals_settling_each_row(handles):
    one, other = tracker_of(10), tracker_of(10)
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
