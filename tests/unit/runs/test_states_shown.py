"""Every command shows the same state of a run, for a ledger and its executions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ddbload.cli.commands import run as command
from ddbload.contracts.results import Failure, Heartbeat
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.states import ImportTask, PreflightTask, ReportTask
from ddbload.errors import DdbloadError
from ddbload.runs.deployed import Stack, attempt_report
from ddbload.runs.run_control import cancel_run
from ddbload.runs.run_location import Deployed, RunLocation
from ddbload.steps.executions import Executions
from ddbload.steps.import_chunk import import_chunk
from ddbload.steps.preflight import preflight
from ddbload.steps.report import machine, report_execution
from ddbload.steps.run_end import conclude_stopped
from tests.fakes.stepfunctions import MACHINE, FakeStepFunctions
from tests.unit.runs.local_runs import conduct
from tests.unit.steps.world import RUN, TABLE, World

DATA = b"id,n\n" + b"".join(b"r%d,1\n" % n for n in range(40))
REJECT = b",7\n"
ARN = f"{MACHINE.replace(':stateMachine:', ':execution:')}:{RUN}"
STACK = Stack("s", MACHINE, "work", "inbox")


@dataclass
class Shown:
    """A run, and the executions of its stack if it is a deployed one."""

    world: World
    stepfunctions: FakeStepFunctions | None = None

    def start(self, name: str = RUN, run: Any = None) -> str:
        assert self.stepfunctions is not None
        payload = {**self.world.payload, "run": run or {"id": RUN}}
        return Executions(self.stepfunctions, MACHINE).start(name, payload)

    def end(self, status: str, error: str | None = None, arn: str = ARN) -> None:
        assert self.stepfunctions is not None
        more = {} if error is None else {"error": error, "cause": "words"}
        self.stepfunctions.end(arn, status, **more)

    def preflight(self, payload: Any = None, execution: str | None = ARN) -> Failure | None:
        task = PreflightTask(payload or self.world.payload, RUN, execution=execution)
        try:
            preflight(task, self.world.context())
        except DdbloadError as error:
            return Failure.of(error)
        return None

    def load(self, chunks: int | None = None) -> None:
        for chunk in self.world.manifest[:chunks]:
            import_chunk(ImportTask(RUN, (chunk,)), self.world.context())

    def report(self, failure: Failure | None = None, execution: str = ARN) -> None:
        task = ReportTask(
            RUN, self.world.payload, failure, planned=failure is None, execution=execution
        )
        report_execution(task, self.world.context())

    def on_stopped(self, status: str, arn: str = ARN) -> str:
        """Conclude an execution that ended without Report; return the status of its event."""
        detail = {"executionArn": arn, "status": status, "redriveCount": 0}
        event = {"detail-type": "Step Functions Execution Status Change", "detail": detail}
        executions = Executions(self.stepfunctions, MACHINE)
        made = conclude_stopped(event, self.world.context(), executions)
        assert made is not None
        return made[0].status

    @property
    def location(self) -> RunLocation:
        context = self.world.context()
        if self.stepfunctions is None:
            return RunLocation(context)
        executions = Executions(self.stepfunctions, MACHINE)
        return Deployed(context, STACK, executions)


def local(data: bytes = DATA, **more: Any) -> Shown:
    return Shown(World(data, options={"chunk_bytes": 100}, **more))


def deployed(data: bytes = DATA, **more: Any) -> Shown:
    shown = Shown(World(data, options={"chunk_bytes": 100}, **more), FakeStepFunctions())
    shown.start()
    return shown


def heartbeat_of_a_dead_process(shown: Shown) -> None:
    host, boot = machine()
    beat = Heartbeat("running", "import", host, boot, 2**22 + 1, 1000.0, 2.0, RowCounts(), 0, 0)
    shown.world.ledger.put_heartbeat(beat)


# Runs of a machine.


def imported(rejects: bool = False) -> Shown:
    shown = local(DATA + REJECT if rejects else DATA)
    conduct(shown.world)
    return shown


def begun(shown: Shown, chunks: int | None = 1) -> Shown:
    """Import some chunks of a run, or all."""
    shown.preflight(execution=None if shown.stepfunctions is None else ARN)
    shown.load(chunks)
    return shown


def killed() -> Shown:
    shown = begun(local())
    heartbeat_of_a_dead_process(shown)
    return shown


def failed() -> Shown:
    shown = begun(local())
    shown.world.report()
    return shown


def interrupted() -> Shown:
    shown = begun(local())
    shown.world.report(interrupted=True)
    return shown


def cancelled() -> Shown:
    shown = begun(local())
    cancel_run(RUN, shown.world.context())
    return shown


def refused() -> Shown:
    shown = local(make_table=False)
    with pytest.raises(DdbloadError):
        conduct(shown.world)
    return shown


def killed_in_preflight() -> Shown:
    shown = local(make_table=False)
    shown.preflight(execution=None)
    return shown


def table_replaced() -> Shown:
    shown = begun(local(), None)
    shown.world.dynamodb.delete_table(TableName=TABLE)
    shown.world.create_table()
    shown.world.report()
    return shown


# Runs of a stack.


def executed() -> Shown:
    shown = begun(deployed(), None)
    shown.report()
    shown.end("SUCCEEDED")
    return shown


def complete_and_failed() -> Shown:
    """The run is done, and then its last execution failed."""
    shown = begun(deployed(), None)
    shown.report()
    shown.end("FAILED", "States.Runtime")
    return shown


def unreported(status: str, error: str | None = None, chunks: int | None = 1) -> Any:
    """The execution ended when some or all was imported, and nobody has reported it yet."""

    def make() -> Shown:
        shown = begun(deployed(), chunks)
        shown.end(status, error)
        return shown

    make.__name__ = f"unreported_{status.lower()}_after_{chunks or 'all'}"
    return make


def refused_execution() -> Shown:
    shown = deployed(make_table=False)
    failure = shown.preflight()
    assert failure is not None
    shown.report(failure)
    shown.end("FAILED", failure.name)
    return shown


def aborted_in_preflight() -> Shown:
    shown = deployed(make_table=False)
    shown.preflight()
    shown.end("ABORTED")
    return shown


def running() -> Shown:
    return begun(deployed())


SCENES: list[tuple[Callable[[], Shown], str, str | None]] = [
    (imported, "SUCCEEDED", None),
    (lambda: imported(rejects=True), "SUCCEEDED_WITH_REJECTS", None),
    (killed, "INTERRUPTED", None),
    (failed, "FAILED", "IncompleteRun"),
    (interrupted, "INTERRUPTED", None),
    (cancelled, "CANCELLED", None),
    (refused, "FAILED", "TableNotFound"),
    (killed_in_preflight, "INTERRUPTED", None),
    (table_replaced, "FAILED", "TableReplaced"),
    (executed, "SUCCEEDED", None),
    (complete_and_failed, "SUCCEEDED", None),
    (unreported("FAILED", "States.Runtime", None), "SUCCEEDED", None),
    (unreported("FAILED", "States.Runtime"), "FAILED", "States.Runtime"),
    (unreported("ABORTED"), "CANCELLED", None),
    (refused_execution, "FAILED", "TableNotFound"),
    (aborted_in_preflight, "CANCELLED", None),
    (running, "RUNNING", None),
]
EXIT = {"SUCCEEDED": 0, "SUCCEEDED_WITH_REJECTS": 3, "INTERRUPTED": 130, "CANCELLED": 130}


@pytest.fixture
def ddbload(monkeypatch, capsys):
    """Run a command on a run; return its exit status, and what it printed."""

    def invoke(shown: Shown, *words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("ddbload.cli.run_location.NamedRun.find", lambda _: shown.location)
        monkeypatch.setattr("ddbload.cli.listing_commands.find_runs", lambda *_: shown.location)
        code = command(list(words), lambda: False)
        out, err = capsys.readouterr()
        return code, out, err

    return invoke


def names(error: Any) -> str | None:
    return error["name"] if isinstance(error, dict) else error


@pytest.mark.parametrize(
    ("make", "status", "error"), SCENES, ids=[each.__name__ for each, _, _ in SCENES]
)
def test_all_commands_show_the_same_state(make, status, error, ddbload):
    shown = make()
    before = dict(shown.world.store.objects)
    is_reported = shown.world.ledger.find_report() is not None
    _, out, _ = ddbload(shown, "status", RUN, "--json")
    found = json.loads(out)
    assert (found["status"], names(found["error"])) == (status, error)
    assert found["source"] == "s3://bucket/in/file.csv"
    code, out, _ = ddbload(shown, "report", RUN, "--json")
    found = json.loads(out)
    assert (found["status"], names(found["error"]), code) == (status, error, EXIT.get(status, 1))
    _, out, _ = ddbload(shown, "runs", "--json")
    (found,) = json.loads(out)["runs"]
    assert (found["run"], found["status"], found["error"]) == (RUN, status, error)
    assert (found["source"], found["table"]) == ("s3://bucket/in/file.csv", TABLE)
    _, out, _ = ddbload(shown, "status", RUN)
    assert out.startswith(f"run {RUN}: {status}\n")
    assert (" resume " in out) == (status in ("FAILED", "INTERRUPTED", "CANCELLED"))
    code, out, _ = ddbload(shown, "rejects", RUN, "--summary")
    assert (code, out.splitlines()[0]) == (
        *(0, f"run {RUN}: {int(status == 'SUCCEEDED_WITH_REJECTS')} rejected"),
    )
    if shown.stepfunctions is not None and status != "RUNNING":
        # A followed `start`.
        execution = Executions(shown.stepfunctions, MACHINE).describe(
            shown.world.ledger.find_execution() or ARN
        )
        attempt = attempt_report(RUN, execution, shown.world.context())
        assert (attempt.status, names(attempt.error and attempt.error.to_json())) == (status, error)
    if status in ("SUCCEEDED", "SUCCEEDED_WITH_REJECTS") and is_reported:
        code, out, _ = ddbload(shown, "cancel", RUN)
        assert (code, out) == (
            *(0, f"run {RUN} has ended before: {status}; there is nothing to cancel\n"),
        )
        code, _, err = ddbload(shown, "limit", RUN, "--max-wcu", "5")
        assert (code, f"run {RUN} has ended ({status}): there is nothing to limit" in err) == (
            *(2, True),
        )
        _, _, err = ddbload(shown, "resume", RUN)
        assert f"run {RUN} is already done" in err
    assert shown.world.store.objects == before


@pytest.mark.parametrize("make", [refused, refused_execution])
def test_run_that_failed_before_its_record_is_not_cancelled(make, ddbload):
    shown = make()
    code, out, _ = ddbload(shown, "cancel", RUN)
    assert (code, out) == (
        *(0, f"run {RUN} has ended before: FAILED; there is nothing to cancel\n"),
    )
    code, _, err = ddbload(shown, "limit", RUN, "--max-wcu", "5")
    assert code == 2
    assert f"run {RUN} has ended (FAILED) before it began to write" in err
    assert json.loads(ddbload(shown, "status", RUN, "--json")[1])["status"] == "FAILED"


def test_run_without_a_record_is_started_over(ddbload):
    """By its id, with other options, or by `resume` with changed limits."""
    for make in (refused, killed_in_preflight):
        shown = make()
        shown.world.create_table()
        assert conduct(shown.world).report.status == "SUCCEEDED"
        assert json.loads(ddbload(shown, "status", RUN, "--json")[1])["status"] == "SUCCEEDED"


@pytest.mark.parametrize("make", [refused_execution, aborted_in_preflight])
def test_deployed_run_without_a_record_is_started_over(make, ddbload):
    shown = make()
    shown.world.create_table()
    code, out, _ = ddbload(shown, "resume", RUN, "--detach", "--json", "--max-rejects", "7")
    again = json.loads(out)["execution"]
    assert (code, again.startswith(f"{ARN}-r")) == (0, True)
    given = json.loads(shown.stepfunctions.started[again]["input"])
    assert given == {"run": {"resume_of": RUN}, "options": {"max_rejects": 7}}
    shown.preflight(given, again)
    shown.load()
    shown.report(execution=again)
    shown.end("SUCCEEDED", arn=again)
    assert shown.world.ledger.record().payload.options.reject_limit.rows == 7
    assert json.loads(ddbload(shown, "status", RUN, "--json")[1])["status"] == "SUCCEEDED"
