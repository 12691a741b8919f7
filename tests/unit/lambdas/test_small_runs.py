"""Tests of sources that preflight imports and reports: requests, kills, and doubled invocations."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest

from ddbload.contracts.control import Control
from ddbload.errors import ServiceUnavailable
from ddbload.steps.import_chunk import import_chunk
from lambdas import preflight
from tests.unit.lambdas.small_runs import Killed, Stack
from tests.unit.steps.world import KEY

ROWS = 30
FEW_ROWS = 8
"""Rows of a run that sends each in a request of its own."""


def data_of(rows: int) -> bytes:
    """Return a file of this many rows that are written, and of two that are rejected."""
    return b"id,n\n" + b"".join(b"k%d,%d\n" % (n, n) for n in range(rows)) + b",7\nz,x\n"


DATA = data_of(ROWS)
S3_REQUESTS = ("get_object", "put_object", "delete_object", "list_objects_v2")
MODES = [{}, {"mode": "insert"}, {"mode": "last-wins", "position_attribute": "at"}]


@pytest.fixture
def stack(monkeypatch) -> Stack:
    return Stack(monkeypatch, DATA)


def whole(stack: Stack, output: dict, rows: int = ROWS) -> None:
    """Require that each row of the file is written or rejected, and that the run says so."""
    assert (output["status"], output["error"]) == ("SUCCEEDED_WITH_REJECTS", None)
    counts = {"read": rows + 2, "written": rows, "rejected": 2, "superseded": 0, "skipped": 0}
    assert output["rows"] == counts
    items = {item["id"]["S"]: item["n"]["N"] for item in stack.world.items}
    assert items == {f"k{n}": str(n) for n in range(rows)}
    report = stack.world_ledger(output["run"]).find_report()
    assert report.rows.to_json() == counts
    statuses = {detail["status"] for detail in stack.world.events.details}
    assert statuses == {"SUCCEEDED_WITH_REJECTS"}


def test_tiny_upload_takes_26_requests_and_6_transitions(monkeypatch):
    stack = Stack(monkeypatch, b"id,n\n" + b"".join(b"k%d,%d\n" % (n, n) for n in range(60)))
    output = stack.execute(stack.upload())
    assert output["status"] == "SUCCEEDED"
    assert len(stack.requests) <= 26, "\n".join(map(str, stack.requests))
    assert len(stack.states) <= 6, stack.states
    assert [each for each, _ in stack.requests].count("describe_table") == 2
    assert "list_objects_v2" not in {each for each, _ in stack.requests}


def test_chunk_takes_3_ledger_requests(monkeypatch):
    """Each group in an environment of its own; with what the run takes for itself left out."""

    def requests(chunks: int) -> int:
        rows = b"".join(b"k%03d,1\n" % n for n in range(2 * chunks))
        stack = Stack(monkeypatch, b"id,n\n" + rows, small_bytes=0, chunk_bytes=8)
        assert stack.execute(stack.upload())["status"] == "SUCCEEDED"
        assert stack.states.count("ImportChunk") == -(-chunks // 16)
        own = [key for what, key in stack.requests if what in S3_REQUESTS and key != KEY]
        return len(own)

    assert requests(160) - requests(16) <= 3 * 144 - 72


@pytest.mark.parametrize("options", MODES, ids=str)
def test_small_run_is_exact_wherever_it_is_killed(monkeypatch, options):
    """After each request, which is before the next one: only requests leave anything."""

    def kill(stack: Stack, _: str) -> None:
        stack.dead = True
        raise Killed

    assert try_all_requests(monkeypatch, options, "after", kill) > 20


@pytest.mark.parametrize("options", MODES, ids=str)
def test_small_run_is_exact_if_it_is_invoked_twice(monkeypatch, options):
    """Another invocation of the same state runs from beginning to end, at each request."""

    def double(stack: Stack, arn: str) -> None:
        whole(stack, stack.execute(arn), rows_in(options))

    assert try_all_requests(monkeypatch, options, "before", double) > 20


def rows_in(options: dict) -> int:
    return FEW_ROWS if options.get("mode") == "last-wins" else ROWS


def try_all_requests(monkeypatch, options, moment, disturb) -> int:
    """Disturb a small run at each of its requests, and require that it is exact; count these."""
    rows = rows_in(options)
    data = data_of(rows)
    clean = Stack(monkeypatch, data, **options)
    arn = clean.upload()
    first = len(clean.requests)
    whole(clean, clean.execute(arn), rows)
    assert "ImportChunks" not in clean.states
    for number in range(first, len(clean.requests)):
        stack = Stack(monkeypatch, data, **options)
        arn = stack.upload()

        def hook(at: int, stack=stack, arn=arn, number=number) -> None:
            if at == number:
                setattr(stack, moment, lambda _: None)
                disturb(stack, arn)

        setattr(stack, moment, hook)
        output = stack.execute(arn)
        setattr(stack, moment, lambda _: None)
        whole(stack, output, rows)
    return len(clean.requests) - first


def test_items_of_a_doubled_invocation_that_was_killed_count_as_written(monkeypatch):
    """Its rows are in the table, and no segment counts them."""
    for last in range(1, 30):
        stack = Stack(monkeypatch, DATA, mode="insert")
        arn = stack.upload()
        begun: list[int] = []

        def kill(at: int, stack=stack, arn=arn, begun=begun, last=last) -> None:
            if not begun and stack.requests[-1][0] == "batch_execute_statement":
                begun.append(at)
                with suppress(Killed):
                    stack.invoke(preflight, stack.begin(arn))
                stack.dead = False
            elif begun and at == begun[0] + last:
                stack.dead = True
                raise Killed

        stack.before = kill
        output = stack.execute(arn)
        stack.before = lambda _: None
        whole(stack, output)


@pytest.mark.parametrize("how", ["cursor", "error"])
def test_import_that_does_not_end_is_continued_by_the_map(monkeypatch, stack, how):
    def ends_early(task, context):
        if how == "error":
            raise ServiceUnavailable("S3 does not answer")
        result = import_chunk(task, context)
        return replace(result, chunks=task.chunks)

    monkeypatch.setattr("ddbload.steps.import_chunk.import_chunk", ends_early)
    whole(stack, stack.execute(stack.upload()))
    assert "ImportChunks" in stack.states


@pytest.mark.parametrize(
    ("small_bytes", "options"),
    [(0, {}), (len(DATA) - 6, {}), (1 << 20, {"max_wcu": 50}), (1 << 20, {"max_cost": 1.0})],
)
def test_other_source_is_left_to_the_map(monkeypatch, small_bytes, options):
    stack = Stack(monkeypatch, DATA, small_bytes, **options)
    whole(stack, stack.execute(stack.upload()))
    assert "ImportChunks" in stack.states


def test_slow_table_is_left_to_the_map(monkeypatch):
    stack = Stack(monkeypatch, b"id,n\n" + b"k,1\n" * 9000)
    described = stack.world.dynamodb.describe_table

    def slow(**params):
        answer = described(**params)
        answer["Table"]["BillingModeSummary"] = {"BillingMode": "PROVISIONED"}
        answer["Table"]["ProvisionedThroughput"] = {
            "WriteCapacityUnits": 5,
            "ReadCapacityUnits": 5,
        }
        return answer

    monkeypatch.setattr(stack.world.dynamodb, "describe_table", slow)
    assert stack.execute(stack.upload())["status"] == "SUCCEEDED"
    assert "ImportChunks" in stack.states


def test_failed_chunk_of_a_small_run_fails_it(monkeypatch):
    stack = Stack(monkeypatch, DATA, max_rejects=1)
    output = stack.execute(stack.upload())
    assert (output["status"], output["error"]["name"]) == ("FAILED", "TooManyRejects")
    assert stack.states[-2:] == ["Outcome?", "Failed"]


def test_cancelled_small_run_writes_nothing(stack):
    arn = stack.upload()
    run = json.loads(stack.machine.started[arn]["input"])["run"]["id"]
    with suppress(Killed):
        # Cancelled between the record and the import.
        stack.after = lambda _: (
            stack.requests[-1][1].endswith("manifest.json")
            and stack.world.store.put(
                f"runs/{run}/control.json",
                json.dumps(Control().cancel().to_json()).encode(),
            )
        )
        output = stack.execute(arn)
    assert output["status"] == "CANCELLED"
    assert stack.world.items == []
