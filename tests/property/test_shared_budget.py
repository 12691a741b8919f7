"""Workers that publish, list, start, stop, die and freeze in any order never exceed the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.control import IDLE, WORKING, SeenWorker, WorkerProgress
from ddbload.contracts.row_counts import RowCounts, WorkTotals, WriteStats
from ddbload.write.pacing.shared_budget import Limits, SharedBudget

WORKERS = 5
TOLERANCE = 1e-6


@dataclass
class Worker:
    """A worker that takes one step at a time, so that any other may act between two steps."""

    number: int
    run: Run
    budget: SharedBudget = field(default_factory=lambda: SharedBudget(3))
    used: float = 0.0
    state: str = WORKING
    dead: bool = False
    silent: bool = False
    """It was silent for three periods: it sends nothing, and others may forget it."""
    phase: int = 0
    seen: list[SeenWorker] = field(default_factory=list)

    def step(self) -> None:
        """Claim, publish, list, or use what the listing allows, in turn."""
        if self.dead or self.state == IDLE:
            return
        if self.silent:
            self.budget.rejoin()
            self.phase = 0
        if self.phase == 0:
            self.budget.set_budget(self.run.control)
            self.budget.claim(self.used)
            self.silent = False
        elif self.phase == 1:
            self.publish()
        elif self.phase == 2:
            self.seen = self.run.listing(self.number)
        else:
            self.budget.listed(self.seen)
        self.phase = (self.phase + 1) % 4

    def publish(self) -> None:
        claimed = self.budget.claimed
        self.run.published[self.number] = WorkerProgress.from_name(
            WorkerProgress(
                f"{self.number:x}",
                0,
                self.state,
                claimed.wcu,
                claimed.units,
                settled=WorkTotals(RowCounts(), WriteStats(consumed_wcu=self.used)),
            ).to_name()
        )

    def use(self, units: float) -> None:
        """Consume units, as far as they are allowed."""
        if not (self.dead or self.silent or self.state == IDLE):
            most = self.budget.allowed.units
            self.used += units if most is None else max(0.0, min(units, most - self.used))

    def stop(self) -> None:
        """End in order."""
        if not self.dead and self.state != IDLE:
            self.state = IDLE
            self.budget.release(self.used)
            self.publish()

    @property
    def wcu_in_use(self) -> float:
        if self.state == IDLE or self.silent:
            return 0.0
        allowed = self.budget.allowed.wcu
        return math.inf if allowed is None else allowed


class Run:
    """A run with its control, the published claims, and all workers that it ever had."""

    def __init__(self, control: Limits) -> None:
        self.control = control
        self.most_units = control.units or math.inf
        self.published: dict[int, WorkerProgress] = {}
        self.workers: dict[int, Worker] = {}

    def start(self, number: int) -> None:
        if number not in self.workers:
            worker = self.workers[number] = Worker(number, self)
            worker.budget.set_budget(self.control)
            worker.budget.rejoin()

    def listing(self, own: int) -> list[SeenWorker]:
        return [
            SeenWorker(progress, 0.0, alive=not self.workers[number].silent)
            for number, progress in self.published.items()
            if number != own
        ]

    def check(self) -> None:
        """The oracle: what is in use now, against the largest budget that a worker knows."""
        users = [each for each in self.workers.values() if each.wcu_in_use]
        known = [each.budget.budget.wcu for each in users]
        if users and None not in known:
            total = sum(each.wcu_in_use for each in users)
            assert total <= max(known) + TOLERANCE, [vars(each) for each in users]
        limited = [each for each in self.workers.values() if each.budget.budget.units is not None]
        assert sum(each.used for each in limited) <= self.most_units + TOLERANCE

    def settle(self, rounds: int, units: float = 0.0) -> list[Worker]:
        """Let all living workers act in turn; return them."""
        living = [each for each in self.workers.values() if not each.dead and each.state != IDLE]
        for each in self.workers.values():
            each.silent = each.silent or each.dead
        for _ in range(rounds):
            for _ in range(4):
                for each in living:
                    each.step()
                    self.check()
            for each in living:
                each.use(units)
                self.check()
        return living


numbers = st.integers(0, WORKERS - 1)
events = st.one_of(
    st.tuples(st.sampled_from(["step"] * 12 + ["start"] * 2 + ["die", "silence", "stop"]), numbers),
    st.tuples(st.just("limit"), st.sampled_from([100.0, 300.0, 30.0, None])),
    st.tuples(st.just("use"), st.tuples(numbers, st.sampled_from([1.0, 20.0, 1000.0]))),
)


def play(run: Run, history: list[tuple[str, object]]) -> None:
    for event, value in history:
        if event == "limit":
            run.control = Limits(value, run.control.units)
        elif event == "use":
            number, units = value
            if number in run.workers:
                run.workers[number].use(units)
        elif event == "start":
            run.start(value)
        elif value in run.workers:
            worker = run.workers[value]
            if event == "step":
                worker.step()
            elif event == "stop":
                worker.stop()
            elif event == "silence":
                worker.silent = True
            else:
                worker.dead = True
        run.check()


@given(st.lists(events, max_size=120))
def test_shares_in_use_never_exceed_max_wcu(history):
    run = Run(Limits(wcu=300.0))
    run.start(0)
    run.start(1)
    play(run, history)
    living = run.settle(4)
    wanted = run.control.wcu
    if living and wanted is not None:
        assert sum(each.wcu_in_use for each in living) >= 0.95 * wanted


@given(st.lists(events, max_size=120), st.sampled_from([5.0, 700.0, 20_000.0]))
def test_units_used_never_exceed_max_cost_and_reach_it(history, units):
    run = Run(Limits(units=units))
    run.start(0)
    run.start(1)
    play(run, [each for each in history if each[0] != "limit"])
    living = run.settle(60, units=units / 10)
    if living:
        lost = sum(
            run.published[each.number].unit_limit - each.used
            for each in run.workers.values()
            if each.dead and each.number in run.published
        )
        assert sum(each.used for each in run.workers.values()) >= 0.98 * (units - lost) - WORKERS
        assert all(each.budget.is_spent(each.used) for each in living)
