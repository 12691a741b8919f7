"""Following an execution, and finding a stack."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ddbload.aws.retry import RetryPolicy
from ddbload.contracts.states import PreflightTask
from ddbload.errors import RunNotFound
from ddbload.runs.deployed import Stack
from ddbload.runs.progress import RunProgress
from ddbload.runs.run_location import Deployed
from ddbload.steps.executions import Executions
from ddbload.steps.preflight import preflight
from tests.fakes.stepfunctions import FakeStepFunctions
from tests.unit.runs.hand_written import HandWritten
from tests.unit.steps.world import RUN, World

FILE = b"id\n" + b"".join(b"k%03d\n" % n for n in range(40))


class Watched:
    """Execution whose steps run while the follower sleeps, one after another."""

    def __init__(self) -> None:
        self.world = World(FILE, options={"chunk_bytes": 50})
        self.fake: Any = FakeStepFunctions()
        self.executions = Executions(
            self.fake, self.fake.machine, retry_policy=RetryPolicy(sleep=lambda _: None)
        )
        self.arn = self.executions.start(RUN, self.world.payload)
        self.seen: list[RunProgress] = []
        self.steps = iter(self.happenings())
        self.began = self.world.clock.time

    @property
    def slept(self) -> float:
        return self.world.clock.time - self.began

    def happenings(self) -> Any:
        yield
        preflight(PreflightTask(self.world.payload, RUN), self.world.context())
        yield
        worker = HandWritten(self.world.ledger)
        for chunk in self.world.manifest:
            worker.works_on(chunk, read=1)
            yield
            self.world.import_one(chunk)
            worker.finished(chunk)
            yield
        for _ in range(3):
            yield
        self.world.report()
        self.fake.end(self.arn)
        yield from itertools.repeat(None)

    def sleep(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)
        next(self.steps)

    def follow(self, sleep: Callable[[float], None] | None = None) -> Any:
        context = replace(self.world.context(), sleep=sleep or self.sleep)
        there = Deployed(context, Stack("ddbload", self.fake.machine, "", ""), self.executions)
        return there.follow(RUN, self.arn, self.seen.append)


def test_follow_passes_on_progress_until_end():
    watched = Watched()
    assert watched.follow().status == "SUCCEEDED"
    rows = [each.totals.rows.written for each in watched.seen]
    assert rows == sorted(rows)
    assert (rows[0], rows[-1]) == (0, 40)
    assert len(set(rows)) > 3
    last = watched.seen[-1]
    assert (last.totals.bytes, last.size, last.adopted_rows) == (len(FILE), len(FILE), 0)
    steps = [step for step, _ in itertools.groupby(each.step for each in watched.seen)]
    assert steps == ["checking the source", "importing", "reporting"]


@pytest.mark.parametrize("seconds", [1, 5, 55])
def test_follow_waits_when_execution_is_unknown_at_first(seconds):
    """DescribeExecution is eventually consistent."""
    watched = Watched()
    watched.fake.is_known = lambda: watched.slept >= seconds
    assert watched.follow().status == "SUCCEEDED"
    assert watched.seen[-1].totals.rows.written == 40


def test_follow_raises_when_execution_stays_unknown():
    watched = Watched()
    watched.steps = itertools.repeat(None)
    watched.fake.is_known = lambda: False
    with pytest.raises(RunNotFound, match=f"does not know execution {watched.arn} 60 s after"):
        watched.follow()
    assert 60 <= watched.slept < 80
