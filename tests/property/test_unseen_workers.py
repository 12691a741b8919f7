"""When `cancel` returns, no function sends: also none that has not written its progress yet."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddbload import run_worker
from ddbload.contracts.control import UNSEEN_SECONDS
from ddbload.errors import Cancelled
from ddbload.ledger.ledger import Ledger
from ddbload.run_worker import RunWorker
from ddbload.runs.run_control import cancel_run
from ddbload.steps.executions import Executions
from tests.fakes.stepfunctions import MACHINE, FakeStepFunctions
from tests.unit.steps.world import RUN, MemoryStore, World

WORKERS = 4
LONGEST_PAUSE = 6.0


class SlowStore(MemoryStore):
    """Store whose answers are late, so that what a worker reads may be outdated."""

    seconds = 0.0

    def get(self, name: str) -> bytes | None:
        found = super().get(name)
        if name.endswith("control.json"):
            self.clock.sleep(self.seconds)  # type: ignore[attr-defined]
        return found

    def uri(self, name: str) -> str:
        # The periods of workers are those of a ledger in S3.
        return f"s3://{name}"


class Function:
    """Environment of a function whose thread acts when the test says so."""

    def __init__(self, number: int, world: World, store: SlowStore) -> None:
        self._world = world
        self._ledger = Ledger(store, RUN)
        self._record = self._ledger.record()
        worker = RunWorker(f"a{number}", lingers=False, clock=world.clock)
        self._worker = worker
        self._session = worker.session(self._ledger, self._record)
        self._invocation: ExitStack | None = None

    def begin(self) -> None:
        if self._invocation is None:
            self._invocation = ExitStack()
            try:
                self._invocation.enter_context(self._worker.importing(self._ledger, self._record))
            except Cancelled:
                self._invocation = None

    def tick(self) -> None:
        if self._invocation is not None:
            self._session.tick()

    def end(self) -> None:
        if self._invocation is not None:
            self._invocation.close()
            self._invocation = None

    @property
    def may_send(self) -> bool:
        """True if a request could be sent now."""
        now = self._world.clock()
        if self._invocation is None or self._session.stop_requested(now):
            return False
        return self._session.budget.ready_at(now) < math.inf


steps = st.lists(
    st.tuples(
        st.sampled_from(["begin", "tick", "tick", "tick", "end"]),
        st.integers(0, WORKERS - 1),
        st.sampled_from([0.0, 0.5, 1.0, 2.0, LONGEST_PAUSE]),
    ),
    max_size=60,
)


@settings(max_examples=100)
@given(steps, steps, st.sampled_from([0.0, 0.4, 2.0, UNSEEN_SECONDS, 9.0]))
def test_nothing_is_sent_after_cancel_has_returned(before, meanwhile, late):
    world = World(b"id,a\n1,x\n")
    world.store = store = SlowStore(clock=world.clock)
    world.preflight()
    with pytest.MonkeyPatch.context() as patch, ExitStack() as ends:
        patch.setattr(run_worker, "TICK_SECONDS", 1e6)
        functions = [Function(number, world, store) for number in range(WORKERS)]
        for each in functions:
            ends.callback(each.end)

        def play(history: list[tuple[str, int, float]]) -> None:
            while history:
                event, number, seconds = history.pop(0)
                store.seconds = late
                getattr(functions[number], event)()
                store.seconds = 0.0
                world.clock.sleep(seconds)

        play(list(before))
        left = list(meanwhile)

        def sleep(seconds: float) -> None:
            world.clock.sleep(seconds)
            play([left.pop(0)] if left else [])

        fake: Any = FakeStepFunctions()
        context = replace(world.context(), sleep=sleep)
        ended = cancel_run(RUN, context, executions=Executions(fake, MACHINE))
        if not ended.silent:
            assert [each.may_send for each in functions] == [False] * WORKERS
            play(left)
            assert [each.may_send for each in functions] == [False] * WORKERS
