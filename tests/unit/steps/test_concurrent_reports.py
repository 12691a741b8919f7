"""Reports of one run that overlap, or come late: every order of their accesses to the ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from ddbload.contracts.results import ExecutionAttempt, ExecutionOutput
from ddbload.contracts.states import ImportTask, PreflightTask, ReportCursor, ReportTask
from ddbload.ledger.run_state import Ending
from ddbload.steps.import_chunk import import_chunk
from ddbload.steps.preflight import preflight
from ddbload.steps.report import report_execution, write_report
from tests.unit.steps.world import RUN, World

ARN = "arn:aws:states:us-east-1:012345678912:execution:machine:name"
OTHER = f"{ARN}-resumed"
DATA = b"id,n\n" + b"".join(b"%d,1\n" % n for n in range(6))
Made = ExecutionOutput | ReportCursor


def broken_run(data: bytes = DATA, chunk_bytes: int = 100) -> World:
    """Return a run of which the last chunk is not imported."""
    world = World(data, options={"chunk_bytes": chunk_bytes})
    preflight(PreflightTask(world.payload, RUN, execution=ARN), world.context())
    for chunk in world.manifest[:-1]:
        import_chunk(ImportTask(RUN, (chunk,)), world.context())
    return world


@cache
def broken_ledger() -> Mapping[str, bytes]:
    return dict(broken_run().store.objects)


def copied_run() -> World:
    """Return `broken_run` at less cost: there are many schedules."""
    world = World(DATA)
    world.store.objects.update(broken_ledger())
    return world


def import_last(world: World) -> None:
    import_chunk(ImportTask(RUN, world.manifest[-1:]), world.context())


def report(
    world: World, cursor: ReportCursor | None = None, seconds: float = float("inf"), **more: Any
) -> Made:
    arn = more.pop("execution", ARN)
    task = ReportTask(RUN, execution=arn, report=cursor, error=more.pop("error", None))
    return report_execution(task, world.context(seconds), **more)


def status(world: World) -> str:
    found = world.ledger.find_report()
    assert found is not None
    return found.status


# Late invocations.


# Overlapping invocations, in every order of their accesses.


class Schedule:
    """Runs actors one access at a time, in the order that `choices` name; the rest by turns."""

    def __init__(self, choices: list[int]) -> None:
        self.choices = choices
        self.taken: list[tuple[int, int]] = []
        """Index that was chosen each time, and how many there were."""
        self._turns: dict[int, threading.Semaphore] = {}
        self._main = threading.Semaphore(0)

    def step(self) -> None:
        """Wait for the turn, as one of the actors; other threads just go on."""
        turn = self._turns.get(threading.get_ident())
        if turn is not None:
            self._main.release()
            turn.acquire()

    def run(self, actors: list[Callable[[], object]]) -> None:
        threads, alive = [], []
        for actor in actors:
            turn = threading.Semaphore(0)

            def act(actor: Callable[[], object] = actor, turn: threading.Semaphore = turn) -> None:
                self._turns[threading.get_ident()] = turn
                try:
                    actor()
                finally:
                    self._turns.pop(threading.get_ident())
                    self._main.release()

            threads.append(threading.Thread(target=act))
            alive.append((threads[-1], turn))
            threads[-1].start()
            # Up to its first access.
            self._main.acquire()
        while alive := [each for each in alive if each[0].ident in self._turns]:
            at = len(self.taken)
            chosen = self.choices[at] if at < len(self.choices) else 0
            self.taken.append((chosen, len(alive)))
            alive[chosen][1].release()
            self._main.acquire()
        for thread in threads:
            thread.join()


Actors = list[Callable[[], object]]
ACCESSES = (
    *("get report.json", "put_over report.json", "get execution.json", "put execution.json"),
    *("page chunks/", "put_new 5.json"),
)
"""Accesses that are ordered: to the report, to who works on the run, and to the segments."""


def every_schedule(
    make: Callable[[], tuple[World, Actors]], accesses: tuple[str, ...] = ACCESSES
) -> Iterator[World]:
    """Run actors in every order of these accesses."""
    choices: list[int] = []
    while True:
        world, actors = make()
        schedule = Schedule(choices)

        def hook(moment: str, name: str, _: bytes, schedule: Schedule = schedule) -> None:
            last = name.rpartition("/")[2] or "chunks/"
            if f"{moment} {last}" in accesses:
                schedule.step()

        world.store.hook = hook
        schedule.run(actors)
        world.store.hook = lambda *_: None
        yield world
        taken = schedule.taken
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        choices = [each for each, _ in taken[:-1]] + [taken[-1][0] + 1]


def test_success_stands_whatever_the_order() -> None:
    """A straggler's segment comes while two invocations report; neither has time for a page."""
    seen: set[tuple[str, ...]] = set()
    outcomes: list[Made] = []

    def make() -> tuple[World, Actors]:
        world = copied_run()
        outcomes.clear()

        def invocation() -> None:
            outcomes.append(report(world, seconds=50.0))

        return world, [invocation, invocation, lambda: import_last(world)]

    # Nobody else takes up the run.
    for world in every_schedule(make, (*ACCESSES[:2], *ACCESSES[4:])):
        told = {each.status for each in outcomes if isinstance(each, ExecutionOutput)}
        seen.add((*sorted(told), status(world)))
        assert (status(world) == "SUCCEEDED") == ("SUCCEEDED" in told)
    assert seen == {("FAILED",) * 2, ("SUCCEEDED",) * 2, ("FAILED", "SUCCEEDED", "SUCCEEDED")}


@pytest.mark.parametrize("imports", [True, False])
@pytest.mark.parametrize("redriven", [True, False])
def test_report_of_the_later_attempt_stands_whatever_the_order(
    imports: bool, redriven: bool
) -> None:
    later = ExecutionAttempt(ARN, 1) if redriven else ExecutionAttempt(OTHER)

    def make() -> tuple[World, Actors]:
        world = copied_run()

        def resumed() -> None:
            if not redriven:
                world.ledger.put_execution(OTHER)
            if imports:
                import_last(world)
            report(world, seconds=50.0, execution=later.execution, redrives=later.redrives)

        return world, [lambda: report(world, seconds=50.0), resumed]

    for world in every_schedule(make, ACCESSES if not redriven else (*ACCESSES[:2], *ACCESSES[4:])):
        found = world.ledger.find_report()
        assert found is not None
        assert found.status == ("SUCCEEDED" if imports else "FAILED")
        # Both may find a run that is done.
        assert imports or found.attempt == later


def test_cancelled_run_keeps_the_success_of_its_last_report() -> None:
    """`cancel` writes a report, too."""

    def make() -> tuple[World, Actors]:
        world = copied_run()

        def resumed() -> None:
            import_last(world)
            report(world, seconds=50.0)

        return world, [
            lambda: write_report(RUN, world.context(50.0), Ending(interrupted=True)),
            resumed,
        ]

    assert {status(world) for world in every_schedule(make)} == {"SUCCEEDED"}
