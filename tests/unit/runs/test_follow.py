"""Following an execution, and finding a stack."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ddbload.aws.retry import RetryPolicy
from ddbload.contracts.states import PreflightTask
from ddbload.errors import AccessDenied, RunNotFound, StackNotFound
from ddbload.pipeline.context import RunTotals
from ddbload.pipeline.executions import Executions
from ddbload.pipeline.preflight.preflight import preflight
from ddbload.runs.deployed import Stack, final_report, find_stack, follow
from tests.fakes.stepfunctions import FakeStepFunctions, client_error
from tests.unit.pipeline.machine import execute
from tests.unit.pipeline.world import RUN, World

FILE = b"id\n" + b"".join(b"k%03d\n" % n for n in range(40))


class Watched:
    """Execution whose steps run while the follower sleeps."""

    def __init__(self) -> None:
        self.world = World(FILE, options={"chunk_bytes": 50})
        self.fake: Any = FakeStepFunctions()
        self.executions = Executions(
            self.fake, self.fake.machine, retry_policy=RetryPolicy(sleep=lambda _: None)
        )
        self.arn = self.executions.start(RUN, self.world.payload)
        self.seen: list[RunTotals] = []
        self.steps = iter(self.happenings())
        self.slept = 0.0

    def happenings(self) -> Any:
        yield
        preflight(PreflightTask(self.world.payload, RUN), self.world.context())
        yield
        for chunk in self.world.manifest:
            self.world.import_one(chunk)
            yield
        self.world.report()
        self.fake.end(self.arn)
        yield

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        next(self.steps)

    def follow(self, sleep: Callable[[float], None] | None = None) -> Any:
        return follow(
            self.executions,
            self.arn,
            self.world.ledger,
            watch=self.seen.append,
            sleep=sleep or self.sleep,
            clock=lambda: self.slept,
        )


def test_follow_passes_on_totals_until_end():
    watched = Watched()
    assert watched.follow().status == "SUCCEEDED"
    rows = [totals.rows.written for totals in watched.seen]
    assert rows == sorted(rows)
    assert (rows[0], rows[-1]) == (0, 40)
    assert len(set(rows)) > 3
    last = watched.seen[-1]
    assert (last.bytes, last.size, last.adopted_rows) == (len(FILE), len(FILE), 0)


def test_follow_reads_each_segment_once():
    watched = Watched()
    reads: list[str] = []
    watched.world.store.hook = lambda moment, name, _: (
        reads.append(name) if moment == "get" else None
    )
    follow_reads = []

    def sleep(_: float) -> None:
        follow_reads.extend(name for name in reads if "/chunks/" in name)
        next(watched.steps)
        reads.clear()

    watched.follow(sleep)
    assert sorted(set(follow_reads)) == sorted(follow_reads)
    assert follow_reads


def test_follow_counts_rows_as_fresh_when_record_appears_later():
    watched = Watched()

    def sleep(_: float) -> None:
        execute(watched.world, watched.world.payload, RUN)
        watched.fake.end(watched.arn)

    watched.follow(sleep)
    assert [(each.rows.written, each.adopted_rows) for each in watched.seen] == [(40, 0)]


def test_follow_counts_rows_of_earlier_execution_as_adopted():
    watched = Watched()
    execute(watched.world, watched.world.payload, RUN, lost=frozenset({1}))
    before = watched.world.ledger.segments()
    watched.follow()
    adopted = sum(segment.rows.read for segment in before)
    assert {totals.adopted_rows for totals in watched.seen} == {adopted}
    assert 0 < adopted < 40


@pytest.mark.parametrize("seconds", [1, 5, 60])
def test_follow_waits_when_execution_is_unknown_at_first(seconds):
    """DescribeExecution is eventually consistent."""
    watched = Watched()
    watched.steps = itertools.chain([None] * seconds, watched.happenings())
    watched.fake.is_known = lambda: watched.slept >= seconds
    assert watched.follow().status == "SUCCEEDED"
    assert watched.seen[-1].rows.written == 40


def test_follow_passes_on_totals_while_execution_is_unknown():
    watched = Watched()
    # All has happened by then.
    watched.fake.is_known = lambda: watched.slept >= 50
    watched.steps = itertools.chain(watched.steps, itertools.repeat(None))
    assert watched.follow().status == "SUCCEEDED"
    rows = [totals.rows.written for totals in watched.seen]
    assert (rows[0], rows[-1]) == (0, 40)
    assert len(set(rows)) > 3


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
    assert watched.slept == 60


def test_follow_raises_at_once_when_arn_is_invalid():
    watched = Watched()
    watched.arn = "none"
    with pytest.raises(RunNotFound, match="there is no execution none"):
        watched.follow()
    assert watched.slept == 0


def test_final_report_has_error_of_failed_execution():
    world = World(FILE, options={"chunk_bytes": 50})
    fake: Any = FakeStepFunctions()
    executions = Executions(fake, fake.machine)
    execute(world, world.payload, RUN)
    arn = executions.start("again", {})
    fake.end(arn, "FAILED", error="RunMismatch", cause=json.dumps({"errorMessage": "words"}))
    found = final_report(RUN, executions.describe(arn), world.context())
    assert (found.status, found.error.name, found.error.message) == (
        "FAILED",
        "RunMismatch",
        "words",
    )
    assert found.rows.written == 40


def test_final_report_is_cancelled_when_execution_was_stopped():
    world = World(FILE, options={"chunk_bytes": 50})
    fake: Any = FakeStepFunctions()
    executions = Executions(fake, fake.machine)
    world.preflight()
    world.import_one(world.manifest[0])
    arn = executions.start(RUN, {})
    fake.end(arn, "ABORTED")
    found = final_report(RUN, executions.describe(arn), world.context())
    assert (found.status, found.error.name, found.chunks_done) == ("CANCELLED", "Aborted", 1)
    # Its last function went on, and came to the end.
    for chunk in world.manifest[1:]:
        world.import_one(chunk)
    found = final_report(RUN, executions.describe(arn), world.context())
    assert found.status == "CANCELLED"
    report = world.report()
    assert final_report(RUN, executions.describe(arn), world.context()) == report
    assert report.status == "SUCCEEDED"


def test_final_report_is_none_when_there_is_no_record():
    world = World(FILE)
    fake: Any = FakeStepFunctions()
    executions = Executions(fake, fake.machine)
    arn = executions.start(RUN, {})
    fake.end(arn, "FAILED", error="TableNotFound")
    assert final_report(RUN, executions.describe(arn), world.context()) is None


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
