from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ddbload.dynamodb.modes import RowOrder
from ddbload.write.scheduler import unsettled_rows
from ddbload.write.scheduler.answers import Accepted, Answers, RowOutcome, Throttled, Unsure
from ddbload.write.scheduler.scheduler import Scheduler
from ddbload.write.scheduler.single_rows import KeyOrdering
from tests.sim.__main__ import failure
from tests.sim.import_simulation import ImportSimulation
from tests.sim.invocation import BreachError
from tests.sim.scenario import ENDINGS, FAULTS, THROTTLE_CODES, scenario_for

SEEDS = 70
"""`make simulate` runs 10,000."""


def test_seeds_pass_and_cover_every_fault_code_and_ending():
    event_counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        try:
            event_counts += ImportSimulation(scenario_for(seed)).run().event_counts
        except Exception as error:
            error.add_note(f"python -m tests.sim --replay {seed}")
            raise
        event_counts[scenario_for(seed).mode] += 1
    assert {*FAULTS, *THROTTLE_CODES, *ENDINGS, "put", "insert", "last-wins"} <= event_counts.keys()
    assert min(event_counts.values()) >= 4, event_counts


def detected_errors() -> Iterator[str]:
    """Run 40 seeds with a faulty scheduler, as long as the caller asks; yield their errors."""
    return (error for seed in range(40) if (error := failure(seed)))


@pytest.mark.parametrize(
    ("kind", "falsified"),
    [
        pytest.param(
            Accepted, lambda answer: Accepted((), answer.consumed), id="returned rows forgotten"
        ),
        pytest.param(Unsure, lambda _: Accepted(), id="unanswered rows written"),
        pytest.param(Throttled, lambda _: Accepted(), id="throttled rows written"),
        pytest.param(
            Accepted,
            lambda answer: replace(answer, outcome=RowOutcome.WRITTEN),
            id="failed conditions written",
        ),
    ],
)
def test_simulation_detects_false_answers(monkeypatch, kind, falsified):
    real = Scheduler.answered

    def answered(self, batch, answer, now):
        real(self, batch, falsified(answer) if isinstance(answer, kind) else answer, now)

    monkeypatch.setattr(Scheduler, "answered", answered)
    assert any("instead of" in error or "never landed" in error for error in detected_errors())


def test_simulation_detects_two_writes_of_one_key_in_flight(monkeypatch):
    monkeypatch.setattr(KeyOrdering, "add", lambda _self, _row: True)
    assert any(detected_errors())


def test_simulation_detects_rows_never_retried(monkeypatch):
    monkeypatch.setattr(unsettled_rows.UnsettledRows, "retry", lambda *_, **__: None)
    assert any("waits for nothing" in error for error in detected_errors())


def test_simulation_detects_wrong_counts(monkeypatch):
    real = Answers._settle

    def settle(self, row, outcome):
        real(self, row, RowOutcome.WRITTEN if outcome is RowOutcome.REJECTED else outcome)

    monkeypatch.setattr(Answers, "_settle", settle)
    assert any("instead of" in error for error in detected_errors())


def test_simulation_detects_overwritten_later_rows(monkeypatch):
    monkeypatch.setattr(ImportSimulation, "_condition_holds", lambda *_: True)
    assert any("holds row" in error for error in detected_errors())


def test_simulation_detects_a_later_row_inserted_first(monkeypatch):
    monkeypatch.setattr(unsettled_rows, "KeyOrdering", lambda *_: KeyOrdering(RowOrder.LAST_WINS))
    assert any(detected_errors())


def test_simulation_detects_wrong_and_missing_items():
    run = ImportSimulation(
        next(scenario for seed in range(99) if (scenario := scenario_for(seed)).rows == 300)
    )
    run.run()
    key = next(iter(run.items))
    run.items[key] = -1
    with pytest.raises(BreachError, match="holds row -1"):
        run._check_table()
    del run.items[key]
    with pytest.raises(BreachError, match="keys"):
        run._check_table()
