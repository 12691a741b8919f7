from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from ddbload.aws import failures
from ddbload.write.scheduler import unsettled_rows
from ddbload.write.scheduler.key_ordering import KeyOrdering
from ddbload.write.scheduler.messages import Accepted, Throttled, Unsure
from ddbload.write.scheduler.outcome_tracker import RowOutcome
from ddbload.write.scheduler.scheduler import Scheduler
from tests.sim.__main__ import failure
from tests.sim.run import Simulation
from tests.sim.worker import BreachError
from tests.sim.world import ENDINGS, FAULTS, WORDS, world_of

SEEDS = 1000
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_seeds_pass(part):
    failed = [(seed, words) for seed in range(part, SEEDS, PARTS) if (words := failure(seed))]
    assert failed == [], "python -m tests.sim --replay SEED"


def trace(seed: int) -> list[str]:
    lines: list[str] = []
    Simulation(world_of(seed), log=lines.append).run()
    return lines


def test_seed_always_gives_the_same_run():
    long = [trace(seed) for seed in range(20)]
    assert long == [trace(seed) for seed in range(20)]
    assert len({tuple(lines) for lines in long}) > 15


def test_seeds_cover_every_fault_code_and_ending():
    happened: Counter[str] = Counter()
    for seed in range(200):
        happened += Simulation(world_of(seed)).run().happened
        happened[world_of(seed).mode] += 1
    assert {*FAULTS, *WORDS, *ENDINGS, "put", "insert", "last-wins"} <= happened.keys()
    assert min(happened.values()) >= 5, happened


def test_scenario_has_all_known_throttle_codes():
    assert set(WORDS) == failures._THROTTLES


def caught() -> set[str]:
    """What the simulation says of a scheduler that has been tampered with."""
    return {words for seed in range(40) if (words := failure(seed))}


def test_simulation_detects_forgotten_returned_rows(monkeypatch):
    real = Scheduler.answered

    def answered(self, batch, answer, now):
        if isinstance(answer, Accepted):
            answer = Accepted((), answer.consumed)
        real(self, batch, answer, now)

    monkeypatch.setattr(Scheduler, "answered", answered)
    assert any("instead of" in words or "never landed" in words for words in caught())


@pytest.mark.parametrize("kind", [Unsure, Throttled])
def test_simulation_detects_unwritten_rows_counted_as_written(monkeypatch, kind):
    real = Scheduler.answered

    def answered(self, batch, answer, now):
        real(self, batch, Accepted() if isinstance(answer, kind) else answer, now)

    monkeypatch.setattr(Scheduler, "answered", answered)
    assert any("instead of" in words for words in caught())


def test_simulation_detects_two_writes_of_one_key_in_flight(monkeypatch):
    monkeypatch.setattr(KeyOrdering, "add", lambda _self, _row: True)
    assert caught()


def test_simulation_detects_rows_never_retried(monkeypatch):
    monkeypatch.setattr(Scheduler, "_retry", lambda *_: None)
    assert any("waits for nothing" in words for words in caught())


def test_simulation_detects_wrong_counts(monkeypatch):
    real = Scheduler._settle

    def settle(self, row, outcome):
        real(self, row, RowOutcome.WRITTEN if outcome is RowOutcome.REJECTED else outcome)

    monkeypatch.setattr(Scheduler, "_settle", settle)
    assert any("instead of" in words for words in caught())


def test_simulation_detects_overwritten_later_rows(monkeypatch):
    monkeypatch.setattr(Simulation, "_holds", lambda *_: True)
    assert any("holds row" in words for words in caught())


def test_simulation_detects_a_later_row_inserted_first(monkeypatch):
    monkeypatch.setattr(unsettled_rows, "FirstWinsOrdering", KeyOrdering)
    assert caught()


def test_simulation_detects_failed_conditions_counted_as_written(monkeypatch):
    real = Scheduler.answered

    def answered(self, batch, answer, now):
        if isinstance(answer, Accepted):
            answer = replace(answer, outcome=RowOutcome.WRITTEN)
        real(self, batch, answer, now)

    monkeypatch.setattr(Scheduler, "answered", answered)
    assert any("instead of" in words for words in caught())


def test_simulation_detects_wrong_and_missing_items():
    run = Simulation(next(world for seed in range(99) if (world := world_of(seed)).rows == 300))
    run.run()
    key = next(iter(run.items))
    run.items[key] = -1
    with pytest.raises(BreachError, match="holds row -1"):
        run._check_table()
    del run.items[key]
    with pytest.raises(BreachError, match="keys"):
        run._check_table()
