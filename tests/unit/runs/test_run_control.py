"""Cancelling, limiting and taking up runs, against fakes of AWS."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ddbload import errors
from ddbload.cli.run_location import Deployed
from ddbload.cli.start_command import start_run
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


def test_cancel_names_a_worker_that_goes_on(world):
    context, number = world.context(), 0

    def sleep(seconds: float) -> None:
        nonlocal number
        number += 1
        world.clock.sleep(seconds)
        tell(world, number, WORKING)

    tell(world, 0, WORKING)
    context.sleep = sleep
    (silent,) = cancel_run(RUN, context).silent
    assert silent.endswith("has not stopped yet")


def test_cancel_ignores_workers_that_died_long_ago(world):
    tell(world, 0, WORKING)
    world.clock.sleep(1000)
    assert cancel_run(RUN, world.context()).silent == ()


def test_cancel_leaves_a_done_run_alone():
    world = World(DATA)
    world.run()
    ended = cancel_run(RUN, world.context())
    assert (ended.already_done, ended.report.status) == (True, "SUCCEEDED")
    assert world.ledger.find_control() is None


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


def test_run_without_a_record_stays_cancelled_while_its_execution_goes_on():
    fake: Any = FakeExecutions()
    fake.forbidden = True
    world, executions = World(DATA), Executions(fake, MACHINE)
    arn = executions.start(RUN, world.payload)
    cancel_run(RUN, world.context(), executions=executions, execution=executions.describe(arn))
    with pytest.raises(errors.Cancelled, match=f"ddbload resume {RUN} continues it"):
        world.preflight()


def test_start_begins_a_run_again_that_was_cancelled_before_it_had_a_record():
    fake: Any = FakeExecutions()
    world = World(DATA)
    stack: Any = None
    there = Deployed(stack, world.context(), Executions(fake, MACHINE))
    first = start_run(RUN, world.payload, there)
    with pytest.raises(errors.ExecutionExists):
        start_run(RUN, {**world.payload, "options": {"max_wcu": 5}}, there)
    cancel_run(
        RUN, world.context(), executions=there.executions, execution=there.last_execution(RUN)
    )
    assert start_run(RUN, world.payload, there).startswith(f"{first}-r")


def test_cancelled_run_is_taken_up_with_its_changed_limits(world):
    cancel_run(RUN, world.context())
    change_limits(RUN, world.context(), max_wcu=50)
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


def test_functions_of_a_stopped_execution_are_stopped_first(world):
    tell(world, 0, WORKING)
    context, seen = world.context(), []

    def sleep(seconds: float) -> None:
        world.clock.sleep(seconds)
        seen.append(world.ledger.find_control())
        tell(world, 1, IDLE)

    context.sleep = sleep
    take_up(RUN, context, functions=True)
    assert [each.cancelled for each in seen] == [True]
    assert world.ledger.find_control() == Control(max_wcu=300)


def test_run_whose_workers_go_on_is_not_taken_up(world):
    context, number = world.context(), 0

    def sleep(seconds: float) -> None:
        nonlocal number
        number += 1
        world.clock.sleep(seconds)
        tell(world, number, WORKING)

    tell(world, 0, WORKING)
    context.sleep = sleep
    with pytest.raises(errors.RunUnderWay, match="ab"):
        take_up(RUN, context, functions=True)
    assert world.ledger.find_control().cancelled


def test_limits_of_a_done_run_are_refused():
    world = World(DATA)
    world.run()
    with pytest.raises(errors.InvalidUsage, match="has ended"):
        change_limits(RUN, world.context(), max_wcu=5)


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
    _, after = change_limits(RUN, world.context(), max_wcu="50%")
    assert after.cancelled
    assert world.ledger.find_control() == Control(CANCELLED_CONTROL, 77.0)


def test_limit_is_made_again_when_the_run_is_cancelled_as_it_is_written(world):
    seen = meanwhile(world, "put_over", lambda: cancel_run(RUN, world.context()))
    _, after = change_limits(RUN, world.context(), max_wcu=5)
    assert seen
    assert after == world.ledger.find_control() == Control(CANCELLED_CONTROL, 5)


def test_cancellation_keeps_a_limit_that_is_changed_as_it_is_written(world):
    meanwhile(world, "put_over", lambda: change_limits(RUN, world.context(), max_wcu=5))
    cancel_run(RUN, world.context())
    assert world.ledger.find_control() == Control(CANCELLED_CONTROL, 5)


def test_run_that_is_cancelled_as_it_is_taken_up_stays_cancelled(world):
    world.ledger.change_control(lambda _: Control())
    meanwhile(world, "put_over", lambda: cancel_run(RUN, world.context()))
    with pytest.raises(errors.Cancelled):
        take_up(RUN, world.context(), limits=NewLimits(max_wcu=9))
    assert world.ledger.find_control() == CANCELLED


def test_control_that_always_changes_is_given_up(world):
    numbers = iter(range(10**6))

    def change(control: Control | None) -> Control:
        world.store.objects[f"runs/{RUN}/control.json"] = b'{"state":"running","max_wcu":%d}' % (
            next(numbers) + 1
        )
        return control or Control()

    with pytest.raises(errors.ServiceUnavailable, match="changed 30 times"):
        world.ledger.change_control(lambda known: replace(change(known), max_wcu=0.5))


def test_limits_are_replaced_or_removed(world):
    before, after = change_limits(RUN, world.context(), max_wcu="none")
    assert (before, after) == (Control(max_wcu=300), Control())
    _, after = change_limits(RUN, world.context(), max_wcu="50%")
    assert after.max_wcu > 1


def test_limits_that_cannot_be_read_are_named_with_the_way_out(world):
    world.store.put(f"runs/{RUN}/control.json", b'{"state":"running","max_wcu":NaN}')
    with pytest.raises(errors.LedgerDamaged, match=r"control\.json .* delete it"):
        cancel_run(RUN, world.context())


def test_local_run_continues_after_it_was_cancelled(world):
    cancel_run(RUN, world.context())
    assert conduct(world).report.status == "SUCCEEDED"
    assert not world.ledger.find_control().cancelled


def test_limits_that_were_changed_hold_when_a_local_run_is_resumed(world):
    """The record has the limits that the run began with."""
    cancel_run(RUN, world.context())
    change_limits(RUN, world.context(), max_wcu=5000)
    assert conduct(world, limits=NewLimits()).report.status == "SUCCEEDED"
    assert world.ledger.find_control() == Control(max_wcu=5000)


def test_deployed_run_reports_that_it_was_cancelled(world):
    world.ledger.change_control(lambda _: CANCELLED)
    assert world.report().status == "CANCELLED"
