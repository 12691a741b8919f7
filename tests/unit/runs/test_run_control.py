"""Cancelling, limiting and taking up runs, against fakes of AWS."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.control import (
    CANCELLED_CONTROL,
    IDLE,
    WORKING,
    Control,
    NewLimits,
    WorkerProgress,
)
from ddbload.contracts.options import Options
from ddbload.runs.run_control import cancel_run, change_limits, take_up
from ddbload.steps.executions import Executions
from tests.fakes.stepfunctions import MACHINE, FakeStepFunctions, client_error
from tests.unit.runs.local_runs import conduct
from tests.unit.steps.world import RUN, World

DATA = b"id,a\n" + b"".join(b"r%d,x\n" % n for n in range(50))
CANCELLED = Control(state=CANCELLED_CONTROL)


@pytest.fixture
def world():
    made = World(DATA, options={"chunk_bytes": 100, "max_wcu": 300})
    made.preflight()
    return made


def tell(world: World, number: int, state: str, worker: str = "ab") -> None:
    world.ledger.put_worker(WorkerProgress(worker, number, state, 100, None), None)


class FakeExecutions(FakeStepFunctions):
    """Step Functions that stops executions, unless it is forbidden."""

    forbidden = False

    def stop_execution(self, *, executionArn: str, error: str, cause: str) -> Any:  # noqa: N803 - botocore's own names
        if self.forbidden:
            raise client_error("AccessDeniedException", "not allowed")
        self.end(executionArn, "ABORTED", error=error, cause=cause)
        return {}


def test_cancel_writes_control_and_report(world):
    world.import_one(world.manifest[0])
    ended = cancel_run(RUN, world.context())
    assert (ended.report.status, ended.silent, ended.report.error) == ("CANCELLED", (), None)
    assert ended.report.rows.read > 0
    assert world.ledger.find_control() == Control(CANCELLED_CONTROL, 300)
    assert world.ledger.find_report() == ended.report


def test_cancel_waits_for_each_worker(world):
    tell(world, 0, WORKING)
    context = world.context()
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.clock.sleep(seconds)
        if len(slept) == 3:
            tell(world, 1, IDLE)

    context.sleep = sleep
    assert cancel_run(RUN, context).silent == ()
    assert len(slept) == 3


def test_cancel_names_a_worker_that_falls_silent(world):
    tell(world, 0, WORKING)
    (silent,) = cancel_run(RUN, world.context()).silent
    assert silent.startswith("worker ab: silent for")


@pytest.mark.parametrize("forbidden", [False, True])
def test_cancel_stops_the_execution(world, forbidden):
    fake: Any = FakeExecutions()
    fake.forbidden = forbidden
    executions = Executions(fake, MACHINE)
    arn = executions.start(RUN, {})
    ended = cancel_run(
        RUN, world.context(), executions=executions, execution=executions.describe(arn)
    )
    assert ended.report.status == "CANCELLED"
    assert (ended.stop_refused is not None) == forbidden
    assert executions.describe(arn).status == ("RUNNING" if forbidden else "ABORTED")


@pytest.mark.parametrize("options", [{"max_wcu": 5}, {"max_wcu": "50%"}])
def test_run_that_was_cancelled_before_it_had_a_record_leaves_its_id_free(options):
    """Nothing is left to resume: an execution that somebody starts by hand must not be refused."""
    fake: Any = FakeExecutions()
    world, executions = World(DATA, options=options), Executions(fake, MACHINE)
    arn = executions.start(RUN, world.payload)
    ended = cancel_run(
        RUN, world.context(), executions=executions, execution=executions.describe(arn)
    )
    assert (ended.report, ended.stop_refused) == (None, None)
    assert world.ledger.find_control() is None
    world.preflight()
    assert world.ledger.find_record() is not None


def test_cancelled_run_is_taken_up_with_its_changed_limits(world):
    cancel_run(RUN, world.context())
    change_limits(RUN, world.context(), NewLimits(max_wcu=50))
    take_up(RUN, world.context())
    assert world.ledger.find_control() == Control(max_wcu=50)
    take_up(RUN, world.context(), limits=NewLimits(max_cost=2.0))
    assert world.ledger.find_control() == Control(max_wcu=50, max_cost=2.0)
    take_up(RUN, world.context(), limits=NewLimits("none", "none"))
    assert world.ledger.find_control() == Control()
    take_up(RUN, world.context(), limits=NewLimits.of(Options(max_wcu_percent=50.0)))
    control = world.ledger.find_control()
    assert control is not None
    assert control.max_wcu is not None


def meanwhile(world: World, moment: str, act: Any) -> list[str]:
    """Act once, before the ledger's control is read or written; return the moments seen."""
    seen: list[str] = []

    def hook(now: str, name: str, _: bytes) -> None:
        if name.endswith("control.json") and now == moment and moment not in seen:
            seen.append(now)
            act()

    world.store.hook = hook
    return seen


def test_slow_limit_does_not_overwrite_a_cancellation(world, monkeypatch):
    """The table is described, and the run is cancelled meanwhile."""
    from ddbload.runs import run_control

    def capacity(*_: Any, **__: Any) -> Any:
        cancel_run(RUN, world.context())
        return SimpleNamespace(share=lambda _: 77.0)

    monkeypatch.setattr(run_control, "table_write_capacity", capacity)
    _, after = change_limits(RUN, world.context(), NewLimits(max_wcu="50%"))
    assert after.cancelled
    assert world.ledger.find_control() == Control(CANCELLED_CONTROL, 77.0)


def test_run_that_is_cancelled_as_it_is_taken_up_stays_cancelled(world):
    world.ledger.change_control(lambda _: Control())
    meanwhile(world, "put_over", lambda: cancel_run(RUN, world.context()))
    with pytest.raises(errors.Cancelled):
        take_up(RUN, world.context(), limits=NewLimits(max_wcu=9))
    assert world.ledger.find_control() == CANCELLED


def test_local_run_continues_after_it_was_cancelled(world):
    cancel_run(RUN, world.context())
    assert conduct(world).report.status == "SUCCEEDED"
    assert not world.ledger.find_control().cancelled
