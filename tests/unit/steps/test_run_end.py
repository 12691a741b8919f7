"""The event of an ended attempt, and runs whose execution ended without a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddbload.contracts.control import (
    CANCELLED_CONTROL,
    IDLE,
    WORKING,
    Control,
    NewLimits,
    WorkerProgress,
)
from ddbload.contracts.results import ExecutionAttempt, ExecutionOutput, Failure
from ddbload.contracts.states import ImportTask, PreflightTask, ReportTask
from ddbload.runs.run_control import change_limits, take_up
from ddbload.steps.executions import Executions
from ddbload.steps.import_chunk import import_chunk
from ddbload.steps.preflight import preflight
from ddbload.steps.report import report_execution
from ddbload.steps.run_end import WORKER_STOP_SECONDS, announce, conclude_stopped
from tests.fakes.stepfunctions import FakeStepFunctions, client_error
from tests.unit.steps.world import BUCKET, KEY, RUN, TABLE, World

FILE = b"id,a\n1,x\n2,y\nmarker-of-a-row\n"
ARN = "arn:aws:states:us-east-1:012345678912:execution:machine:name"
FIRST, AGAIN = ExecutionAttempt(ARN), ExecutionAttempt(f"{ARN}-2")
WORKER = WorkerProgress("aa", 1, WORKING, None, None)


def end_of(world: World, **changes: Any) -> ExecutionOutput:
    """Run everything; the output of Report."""
    for name, value in changes.items():
        setattr(world, name, value)
    preflight(PreflightTask(world.payload, RUN, execution=ARN), world.context())
    for chunk in world.manifest:
        import_chunk(ImportTask(RUN, (chunk,)), world.context())
    return report_execution(ReportTask(RUN), world.context())


def test_event_has_counts_and_places_but_no_rows():
    world = World(FILE)
    assert announce(end_of(world), FIRST, world.context()) is None
    (entry,) = world.events.entries
    assert (entry["Source"], entry["DetailType"]) == ("ddbload", "ddbload.run.completed")
    assert "EventBusName" not in entry
    assert "marker" not in entry["Detail"]
    assert world.events.details == [
        {
            "run": RUN,
            "status": "SUCCEEDED_WITH_REJECTS",
            "table": TABLE,
            "source": f"s3://{BUCKET}/{KEY}",
            "rows": {"read": 3, "written": 2, "rejected": 1, "superseded": 0, "skipped": 0},
            "uncertain": 0,
            "chunks": 1,
            "chunks_done": 1,
            "rejects": world.store.uri(f"runs/{RUN}/rejects/"),
            "error": None,
            "execution": ARN,
            "redrives": 0,
        }
    ]


def test_event_is_sent_once_for_each_attempt():
    world = World(FILE)
    outcome = end_of(world)
    redriven = ExecutionAttempt(ARN, 1)
    for attempt in (FIRST, FIRST, AGAIN, FIRST, redriven, redriven, FIRST):
        assert announce(outcome, attempt, world.context()) is None
    sent = [(each["execution"], each["redrives"]) for each in world.events.details]
    assert sent == [(ARN, 0), (f"{ARN}-2", 0), (ARN, 1)]


def test_message_of_an_error_is_not_in_the_event():
    world = World(FILE)
    failed = replace(end_of(world), status="FAILED", error=Failure("BadHeader", "marker"))
    assert announce(failed, FIRST, world.context()) is None
    (detail,) = world.events.details
    assert detail["error"] == "BadHeader"
    assert "marker" not in str(detail)


def test_refused_event_is_sent_again_and_marked_only_then():
    world = World(FILE)
    outcome = end_of(world)
    world.events.failures = ["ThrottlingException", client_error("InternalFailure", "x", 500)]
    assert announce(outcome, FIRST, world.context()) is None
    assert len(world.events.entries) == 1
    world.events.failures = [client_error("AccessDeniedException", "no")]
    error = announce(outcome, AGAIN, world.context())
    assert error is not None
    assert error.name == "AccessDenied"
    assert announce(outcome, AGAIN, world.context()) is None
    assert len(world.events.entries) == 2


# Executions that ended without Report.


class Aborted:
    """A run whose execution ended while a worker was on its only chunk."""

    def __init__(self, status: str = "ABORTED", **more: str) -> None:
        self.world = World(FILE, options={"max_wcu": 50})
        self.machine = FakeStepFunctions()
        self.executions = Executions(self.machine, self.machine.machine)  # type: ignore[arg-type]
        self.arn = self.executions.start(RUN, self.world.payload)
        preflight(PreflightTask(self.world.payload, RUN, execution=self.arn), self.world.context())
        self.machine.end(self.arn, status, **more)
        self.stopped = self.world.clock.time

    def redrive(self, status: str, **more: str) -> None:
        """Redrive the execution, and end it again."""
        described = self.machine.started[self.arn]
        described["redriveCount"] = described.get("redriveCount", 0) + 1
        self.machine.end(self.arn, status, **more)
        self.stopped = self.world.clock.time

    def conclude(self, redrives: int | None = None) -> ExecutionOutput | None:
        count = self.machine.started[self.arn].get("redriveCount", 0)
        detail = {
            "executionArn": self.arn,
            "stopDate": self.stopped * 1000,
            "redriveCount": count if redrives is None else redrives,
        }
        concluded = conclude_stopped({"detail": detail}, self.world.context(), self.executions)
        if concluded is None:
            return None
        outcome, attempt = concluded
        assert attempt == ExecutionAttempt(self.arn, count)
        announce(outcome, attempt, self.world.context())
        return outcome


def test_workers_of_an_aborted_execution_are_cancelled_first_and_reported_then():
    aborted = Aborted()
    world, ledger = aborted.world, aborted.world.ledger
    ledger.put_worker(WORKER, None)
    sleep, seen = world.clock.sleep, []

    def obey(seconds: float) -> None:
        """Import the chunk and stop, as a worker does that reads control.json."""
        sleep(seconds)
        seen.append(ledger.find_control())
        if len(seen) == 2:
            import_chunk(ImportTask(RUN, world.manifest[:1]), world.context())
            ledger.put_worker(replace(WORKER, number=2, state=IDLE), WORKER)

    context = world.context()
    context.sleep = obey
    detail = {"executionArn": aborted.arn, "stopDate": aborted.stopped * 1000}
    concluded = conclude_stopped({"detail": detail}, context, aborted.executions)
    assert concluded is not None
    assert len(seen) >= 2
    assert set(seen) == {Control(CANCELLED_CONTROL, max_wcu=50)}
    assert concluded[0].rows.written == 2
    report = ledger.find_report()
    assert report is not None
    assert report.rows == concluded[0].rows


def test_worker_that_does_not_stop_is_not_waited_for_long():
    aborted = Aborted()
    aborted.world.ledger.put_worker(WORKER, None)
    outcome = aborted.conclude()
    assert outcome is not None
    assert (outcome.status, outcome.error) == ("CANCELLED", None)
    assert aborted.world.clock.time <= aborted.stopped + WORKER_STOP_SECONDS + 2
    assert [each["status"] for each in aborted.world.events.details] == ["CANCELLED"]


def test_report_that_was_announced_is_left_alone():
    failed = Aborted("FAILED", error="BadHeader", cause="x")
    first = failed.conclude()
    assert first is not None
    assert failed.conclude() is None
    assert len(failed.world.events.entries) == 1


def test_run_that_was_resumed_since_is_not_cancelled():
    aborted = Aborted()
    aborted.world.clock.sleep(3)
    take_up(RUN, aborted.world.context(), functions=True)
    change_limits(RUN, aborted.world.context(), NewLimits(max_wcu=70))
    aborted.conclude()
    control = aborted.world.ledger.find_control()
    assert control is not None
    assert (control.cancelled, control.max_wcu) == (False, 70)


@pytest.mark.parametrize("status", ["ABORTED", "FAILED"])
@pytest.mark.parametrize("begun", [True, False])
def test_report_of_the_execution_that_took_the_run_up_is_kept(status: str, begun: bool):
    """The event of the first execution may be handled while the second writes its report."""
    ended = Aborted(status, **({"error": "Runtime"} if status == "FAILED" else {}))
    ledger = ended.world.ledger
    ended.world.clock.sleep(3)
    take_up(RUN, ended.world.context(), functions=True)
    if begun:
        ledger.put_execution(f"{ended.arn}-2")
    outcome = ended.conclude()
    assert outcome is not None
    assert outcome.status == ("CANCELLED" if status == "ABORTED" else "FAILED")
    assert (outcome.run, outcome.chunks, outcome.chunks_done) == (RUN, 1, 0)
    assert ledger.find_report() is None
    assert ended.world.store.names(f"runs/{RUN}/report.html") == []
    assert len(ended.world.events.entries) == 1


def test_redriven_execution_is_concluded_again():
    """A redrive keeps the execution's ARN: FAILED without a report, redriven, then stopped."""
    failed = Aborted("FAILED", error="States.Runtime", cause="x")
    assert failed.conclude() is not None
    failed.redrive("ABORTED")
    outcome = failed.conclude()
    assert outcome is not None
    assert outcome.status == "CANCELLED"
    control = failed.world.ledger.find_control()
    assert control is not None
    assert control.cancelled
    assert failed.conclude() is None
    sent = [(each["status"], each["redrives"]) for each in failed.world.events.details]
    assert sent == [("FAILED", 0), ("CANCELLED", 1)]


def test_run_whose_limits_were_changed_since_is_cancelled():
    """`ddbload limit` after a stop in the console is no resume: functions must still stop."""
    aborted = Aborted()
    aborted.world.clock.sleep(3)
    change_limits(RUN, aborted.world.context(), NewLimits(max_wcu=70))
    outcome = aborted.conclude()
    assert outcome is not None
    assert outcome.status == "CANCELLED"
    assert aborted.world.ledger.find_control() == Control(CANCELLED_CONTROL, max_wcu=70)


def test_event_from_before_a_redrive_cancels_nothing():
    """Events come late and out of order; the redriven attempt's own event concludes it."""
    aborted = Aborted()
    aborted.redrive("ABORTED")
    assert aborted.conclude(redrives=0) is None
    assert aborted.world.ledger.find_control() is None
    assert aborted.conclude() is not None
