"""Following an execution, and finding a stack."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ddbload.aws.retry import RetryPolicy
from ddbload.contracts.states import PreflightTask
from ddbload.errors import AccessDenied, RunNotFound, StackNotFound
from ddbload.runs.deployed import Stack, attempt_report, find_stack, follow
from ddbload.runs.progress import RunProgress
from ddbload.steps.executions import Executions
from ddbload.steps.preflight import preflight
from tests.fakes.stepfunctions import FakeStepFunctions, client_error
from tests.unit.runs.hand_written import HandWritten
from tests.unit.steps.machine import execute
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
        return follow(
            self.executions,
            self.arn,
            self.world.ledger,
            watch=self.seen.append,
            sleep=sleep or self.sleep,
            clock=self.world.clock,
        )


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


def test_follow_reads_no_segment():
    watched = Watched()
    reads: list[str] = []
    watched.world.store.hook = lambda moment, name, _: (
        reads.append(name) if moment.startswith("get") else None
    )
    during: list[str] = []

    def sleep(seconds: float) -> None:
        during.extend(reads)
        watched.sleep(seconds)
        reads.clear()

    watched.follow(sleep)
    assert {name.rpartition("/")[2] for name in during} == {"run.json", "manifest.json"}


def test_follow_counts_rows_of_earlier_execution_as_adopted():
    watched = Watched()
    world = watched.world
    world.preflight()
    worker = HandWritten(world.ledger)
    world.import_one(world.manifest[0])
    worker.finished(world.manifest[0])
    (segment,) = world.ledger.iter_segments()
    watched.steps = itertools.chain([None] * 20, watched.happenings())
    watched.follow()
    assert watched.seen[-1].adopted_rows == segment.rows.read > 0
    assert watched.seen[-1].totals.rows.read == 40


@pytest.mark.parametrize("seconds", [1, 5, 55])
def test_follow_waits_when_execution_is_unknown_at_first(seconds):
    """DescribeExecution is eventually consistent."""
    watched = Watched()
    watched.fake.is_known = lambda: watched.slept >= seconds
    assert watched.follow().status == "SUCCEEDED"
    assert watched.seen[-1].totals.rows.written == 40


def test_follow_waits_when_execution_becomes_unknown():
    watched = Watched()
    answers = iter([True, False, True, False])
    watched.fake.is_known = lambda: next(answers, True)
    assert watched.follow().status == "SUCCEEDED"


def test_follow_raises_when_execution_stays_unknown():
    watched = Watched()
    watched.steps = itertools.repeat(None)
    watched.fake.is_known = lambda: False
    with pytest.raises(RunNotFound, match=f"does not know execution {watched.arn} 60 s after"):
        watched.follow()
    assert 60 <= watched.slept < 80


def test_follow_raises_at_once_when_arn_is_invalid():
    watched = Watched()
    watched.arn = "none"
    with pytest.raises(RunNotFound, match="there is no execution none"):
        watched.follow()
    assert watched.slept == 0


def test_attempt_report_has_error_of_failed_execution():
    world = World(FILE, options={"chunk_bytes": 50})
    fake: Any = FakeStepFunctions()
    executions = Executions(fake, fake.machine)
    execute(world, world.payload, RUN)
    arn = executions.start("again", {})
    fake.end(arn, "FAILED", error="RunMismatch", cause=json.dumps({"errorMessage": "words"}))
    found = attempt_report(RUN, executions.describe(arn), world.context())
    assert (found.status, found.error.name, found.error.message) == (
        "FAILED",
        "RunMismatch",
        "words",
    )
    assert found.rows.written == 40


def test_attempt_report_is_cancelled_when_execution_was_stopped():
    world = World(FILE, options={"chunk_bytes": 50})
    fake: Any = FakeStepFunctions()
    executions = Executions(fake, fake.machine)
    world.preflight()
    world.import_one(world.manifest[0])
    arn = executions.start(RUN, {})
    fake.end(arn, "ABORTED")
    found = attempt_report(RUN, executions.describe(arn), world.context())
    assert (found.status, found.error, found.chunks_done) == ("CANCELLED", None, 1)
    # Its last function went on, and came to the end.
    for chunk in world.manifest[1:]:
        world.import_one(chunk)
    found = attempt_report(RUN, executions.describe(arn), world.context())
    assert found.status == "SUCCEEDED"
    report = world.report()
    found = attempt_report(RUN, executions.describe(arn), world.context())
    assert replace(found, seconds=report.seconds) == report
    assert report.status == "SUCCEEDED"


def test_attempt_report_has_the_error_when_there_is_no_record():
    world = World(FILE)
    fake: Any = FakeStepFunctions()
    executions = Executions(fake, fake.machine)
    arn = executions.start(RUN, {})
    fake.end(arn, "FAILED", error="TableNotFound")
    found = attempt_report(RUN, executions.describe(arn), world.context())
    assert (found.status, found.error.name) == ("FAILED", "TableNotFound")


class FakeCloudFormation:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.meta = SimpleNamespace(region_name="eu-west-1")

    def describe_stacks(self, StackName: str) -> Any:  # noqa: N803 - botocore's own name
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def outputs(**values: str) -> dict[str, Any]:
    found = [{"OutputKey": name, "OutputValue": value} for name, value in values.items()]
    return {"Stacks": [{"Outputs": found}]}


def test_find_stack_reads_outputs():
    client: Any = FakeCloudFormation(
        outputs(StateMachineArn="arn:m", WorkBucketName="w", InboxBucketName="i", Other="o")
    )
    assert find_stack(client, "ddbload") == Stack("ddbload", "arn:m", "w", "i")


@pytest.mark.parametrize(
    "answer",
    [outputs(), outputs(StateMachineArn="arn:m"), {"Stacks": []}, {"Stacks": [{}]}],
)
def test_find_stack_refuses_stack_without_outputs(answer):
    client: Any = FakeCloudFormation(answer)
    with pytest.raises(StackNotFound, match="stack other in eu-west-1 is not a ddbload stack"):
        find_stack(client, "other")


def test_find_stack_raises_when_stack_is_missing():
    absent = client_error("ValidationError", "Stack with id nope does not exist")
    client: Any = FakeCloudFormation(absent)
    with pytest.raises(StackNotFound, match="no stack nope in eu-west-1"):
        find_stack(client, "nope")


def test_find_stack_raises_when_access_is_denied():
    client: Any = FakeCloudFormation(client_error("AccessDenied", "not authorized", 403))
    with pytest.raises(AccessDenied):
        find_stack(client, "ddbload")
