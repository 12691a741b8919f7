"""Imports in this process, against fakes of AWS."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.payload import check_run_id
from ddbload.contracts.results import Heartbeat
from ddbload.contracts.row_counts import RowCounts
from ddbload.runs.progress import FAILED_CHUNK, RunProgress
from ddbload.runs.run_import import new_run_id, run_import
from ddbload.steps import places
from ddbload.steps.report import machine, read_run
from tests.fakes.dynamodb_faults import fails
from tests.unit.runs.local_runs import Settings, conduct
from tests.unit.steps.expected import (
    assert_segments_tell_the_truth,
    counted,
    counts,
    outcome,
    table_of,
)
from tests.unit.steps.world import RUN, World

DATA = b"id,n\n" + b"".join(b"r%d,%d\n" % (n, n) for n in range(300))


@pytest.mark.parametrize("engine", ["sync", "threads"])
@pytest.mark.parametrize("chunk_bytes", [1, 500, 10**6])
def test_run_import_writes_all_rows_and_report(engine, chunk_bytes):
    world = World(DATA, options={"engine": engine, "chunk_bytes": chunk_bytes})
    ended = conduct(world)
    expected = outcome(DATA)
    assert ended.report.status == "SUCCEEDED"
    assert ended.report.rows == counts(expected)
    assert ended.adopted_rows == 0
    assert table_of(world) == expected.last_of_each_key
    assert_segments_tell_the_truth(world, expected)
    assert world.ledger.find_report() == ended.report


def test_each_step_has_a_new_deadline():
    world = World(DATA, options={"chunk_bytes": 1500}, request_seconds=1.0)
    ended = conduct(world, seconds=2.5)
    assert ended.report.rows == counts(outcome(DATA))
    # Three requests of 25 rows a step.
    rows_of_step = Counter[float]()
    for segment in counted(world):
        rows_of_step[segment.times.began] += segment.rows.read
    assert max(rows_of_step.values()) == 75
    assert ended.report.chunks == 2


@pytest.mark.parametrize(
    ("changes", "run"), [({"target": {}}, RUN), ({}, "../up"), ({"source": None}, RUN)]
)
def test_run_import_touches_nothing_when_payload_is_invalid(changes, run):
    world = World(DATA)
    settings: Any = Settings(world)
    with pytest.raises(errors.InvalidPayload):
        run_import({**world.payload, **changes}, settings, run=run)
    assert settings.contexts == []


# Interrupted, and continued.
def stops_after(world: World, operation: str, count: int) -> Callable[[], bool]:
    def should_stop() -> bool:
        return sum(call.operation == operation for call in world.dynamodb.calls) >= count

    return should_stop


@pytest.mark.parametrize("count", [1, 3, 7, 11])
def test_run_import_resumes_interrupted_run(count):
    world = World(DATA, options={"chunk_bytes": 700}, request_seconds=1.0)
    first = conduct(world, should_stop=stops_after(world, "batch_write_item", count))
    assert (first.report.status, first.report.error) == ("INTERRUPTED", None)
    assert first.report.rows.written == len(world.dynamodb.writes) <= count * 25
    second = conduct(world)
    assert second.report.status == "SUCCEEDED"
    assert second.report.rows == counts(outcome(DATA))
    assert second.adopted_rows == first.report.rows.read > 0
    # What was settled is not sent again.
    assert len(world.dynamodb.writes) == 300


def test_run_import_changes_nothing_when_run_is_done():
    world = World(DATA, options={"chunk_bytes": 700}, request_seconds=1.0)
    first = conduct(world)
    writes, names = len(world.dynamodb.writes), set(world.store.objects)
    world.clock.sleep(1000.0)
    again = conduct(world)
    assert (again.already_done, again.report) == (True, first.report)
    assert again.report.seconds < 100
    assert again.adopted_rows == 300
    assert len(world.dynamodb.writes) == writes
    assert set(world.store.objects) == names
    assert world.ledger.find_report() == first.report
    assert not first.already_done


def test_run_import_resumes_run_when_ledger_does_not_prove_it():
    world = World(DATA, options={"chunk_bytes": 700})
    conduct(world)
    del world.store.objects[min(name for name in world.store.objects if "/chunks/" in name)]
    again = conduct(world)
    assert (again.already_done, again.report.status) == (False, "SUCCEEDED")
    assert 0 < again.adopted_rows < again.report.rows.read == 300


def test_run_import_does_not_report_success_when_rejects_are_lost():
    world = World(BAD + b"good,1\n", types={"n": "N"})
    assert conduct(world).report.rows.rejected == 300
    (name,) = (name for name in world.store.objects if "/rejects/" in name)
    del world.store.objects[name]
    again = conduct(world)
    assert (again.already_done, again.report.error.name) == (False, "LedgerDamaged")


# Refused by preflight after the record was written.
LONG_ROW = DATA + b"long," + b"x" * 300 + b"\n"


def test_run_that_preflight_refuses_has_failed():
    world = World(LONG_ROW, options={"max_row_bytes": 200})
    for _ in range(2):
        with pytest.raises(errors.RowTooLong) as refused:
            conduct(world)
        seen = read_run(RUN, world.context())
        assert (seen.state.status, seen.report.chunks) == ("FAILED", 0)
        assert (seen.state.error.name, seen.state.error.message) == (
            "RowTooLong",
            refused.value.message,
        )
    assert world.dynamodb.writes == []


def test_attempt_that_is_interrupted_in_preflight_replaces_a_refusal():
    world = World(LONG_ROW, options={"max_row_bytes": 200})
    with pytest.raises(errors.RowTooLong):
        conduct(world)
    with pytest.raises(errors.Interrupted):
        conduct(world, should_stop=lambda: True)
    state = read_run(RUN, world.context()).state
    assert (state.status, state.error) == ("INTERRUPTED", None)


def test_refusal_of_an_overtaken_process_leaves_the_report_alone():
    world = World(LONG_ROW, options={"max_row_bytes": 200})
    overtaken = []

    def take_over(moment: str, name: str, data: bytes) -> None:
        if moment == "done" and name.endswith("progress.json") and not overtaken:
            overtaken.append(name)
            found = world.ledger.find_heartbeat()
            world.ledger.put_heartbeat(replace(found, pid=1))

    world.store.hook = take_over
    with pytest.raises(errors.RunUnderWay):
        conduct(world)
    assert world.ledger.find_report() is None


def test_transform_that_is_not_deterministic_has_failed():
    results = iter(range(10**6))
    world = World(DATA)
    with pytest.raises(errors.TransformNotDeterministic):
        conduct(world, transform=lambda row: {**row, "n": next(results)})
    state = read_run(RUN, world.context()).state
    assert (state.status, state.error.name) == ("FAILED", "TransformNotDeterministic")


def test_refusal_of_another_payload_is_not_the_failure_of_the_run():
    world = World(DATA, options={"chunk_bytes": 700}, request_seconds=1.0)
    stopped = conduct(world, should_stop=stops_after(world, "batch_write_item", 1)).report
    world.types = {"n": "N"}
    with pytest.raises(errors.RunMismatch):
        conduct(world)
    assert world.ledger.find_report() == stopped
    assert read_run(RUN, world.context()).state.status == "INTERRUPTED"


# Signs of life.
def heartbeats_of(world: World) -> list[dict[str, Any]]:
    """Collect the heartbeats that the run writes from now on."""
    found: list[dict[str, Any]] = []

    def hook(moment: str, name: str, data: bytes) -> None:
        if moment == "done" and name.endswith("/progress.json"):
            found.append(json.loads(data))

    world.store.hook = hook
    return found


def living(world: World, **changes: Any) -> None:
    """Write a fresh heartbeat of another live process, the parent of this one."""
    world.preflight()
    host, boot = machine()
    beat = Heartbeat(
        *("running", "import", host, boot, os.getppid(), world.clock.time, 2.0),
        *(RowCounts(5, 5), 100, len(DATA)),
    )
    world.ledger.put_heartbeat(replace(beat, **changes))


def test_run_import_is_refused_when_another_process_works_on_run():
    world = World(DATA)
    living(world)
    found = heartbeats_of(world)
    with pytest.raises(
        errors.RunUnderWay, match=f"run {RUN} is still running: process {os.getppid()}"
    ):
        conduct(world)
    assert (world.items, found) == ([], [])


@pytest.mark.parametrize(
    "changes",
    [
        {"at": 1000.0 - 6.1},
        {"pid": 2**22 + 1},
        {"pid": os.getpid()},
        {"state": "ended"},
        {"host": "elsewhere", "at": 1000.0 - 6.1},
    ],
)
def test_run_import_resumes_run_when_its_process_is_gone(changes):
    world = World(DATA)
    living(world, **changes)
    assert conduct(world).report.status == "SUCCEEDED"


@pytest.mark.parametrize("changes", [{"host": "elsewhere"}, {"boot": "another"}])
def test_run_import_trusts_fresh_heartbeat_of_another_machine(changes):
    world = World(DATA)
    living(world, pid=2**22 + 1, **changes)
    with pytest.raises(errors.RunUnderWay):
        conduct(world)
    world.clock.sleep(6.1)
    assert conduct(world).report.status == "SUCCEEDED"


# Failures.
@pytest.mark.parametrize("stops", [False, True])
def test_run_import_continues_other_chunks_when_one_fails(stops):
    world = World(DATA, options={"chunk_bytes": 700})
    world.preflight()
    chunks = [chunk.to_json() for chunk in world.manifest]
    # One byte less: then it does not end with a row.
    chunks[1]["end"] = chunks[2]["start"] = chunks[1]["end"] - 1
    (part,) = world.in_ledger("manifest/")
    world.write_json(part, {**world.read_json(part), "chunks": chunks})
    groups = [{"chunks": [chunk]} for chunk in chunks]
    world.write_json("manifest.json", groups)
    told: list[RunProgress] = []
    # That the user stops the run then does not hide the failure.
    stop = (
        {"should_stop": lambda: bool(told) and told[-1].chunks.count(FAILED_CHUNK) > 0}
        if stops
        else {}
    )
    ended = conduct(world, watch=told.append, **stop)
    assert (ended.report.status, ended.report.error.name) == ("FAILED", "SplitMismatch")
    assert (told[-1].chunks[1], told[-1].chunks.count(FAILED_CHUNK)) == (FAILED_CHUNK, 1)
    assert [each.chunk for each in ended.report.failures] == [1]
    assert stops or ended.report.chunks_done == ended.report.chunks - 1


def test_run_import_stops_all_chunks_when_table_fails():
    world = World(DATA, options={"chunk_bytes": 700})
    world.dynamodb.faults.add("batch_write_item", None, fails("AccessDeniedException"))
    ended = conduct(world)
    assert (ended.report.status, ended.report.error.name) == ("FAILED", "AccessDenied")
    assert len(ended.report.failures) == 1
    assert ended.report.chunks_done < ended.report.chunks - 1
    assert conduct(world).report.status == "SUCCEEDED"


def test_unexpected_error_is_recorded_for_each_chunk_of_its_group(monkeypatch):
    def fail(*_: object) -> None:
        raise ValueError("the third row is secret")

    monkeypatch.setattr(places.Place, "cursor", fail)
    world = World(DATA, options={"chunk_bytes": 700, "workers": 1})
    ended = conduct(world)
    groups = world.ledger.find_groups()
    assert groups is not None
    first, *others = groups[0]
    assert [each.chunk for each in ended.report.failures] == [each.chunk for each in groups[0]]
    assert f"importing chunk {first.chunk} and {len(others)} beside it: " in str(ended.report.error)
    assert "secret" not in str(ended.report.error)


BAD = b"id,n\n" + b"".join(b"r%d,x\n" % n for n in range(300))


@pytest.mark.parametrize("limit", [0, 5, 100])
def test_run_import_stops_all_chunks_when_rejects_exceed_limit(limit):
    options = {"chunk_bytes": 60, "max_rejects": limit}
    world = World(BAD, types={"n": "N"}, options=options)
    ended = conduct(world)
    assert (ended.report.status, ended.report.error.name) == ("FAILED", "TooManyRejects")
    # Only what is offered together comes on top.
    assert limit < ended.report.rows.rejected <= limit + 160
    world.options["max_rejects"] = 300
    # Then all of them are known, and there was no other row.
    ended = conduct(world)
    assert (ended.report.status, ended.report.error.name) == ("FAILED", "NothingWritten")


# Workers.
def test_run_ids_sort_by_time():
    early = new_run_id(datetime(2026, 11, 21, 7, 30, tzinfo=UTC))
    late = new_run_id(datetime(2026, 11, 21, 7, 30, 1, tzinfo=UTC))
    assert re.fullmatch(r"20261121T073000Z-[0-9a-f]{6}", early)
    assert early < late
    assert new_run_id() != new_run_id()
    assert check_run_id(early) == early


def test_overtaken_import_stops_and_writes_no_report():
    """Another process took up the run while this one was suspended in the middle."""
    world = World(DATA, options={"chunk_bytes": 500})
    others: list[Heartbeat] = []

    def watch(progress: RunProgress) -> None:
        found = world.ledger.find_heartbeat()
        if progress.totals.rows.read and found is not None and not others:
            others.append(replace(found, pid=1))
            world.ledger.put_heartbeat(others[0])

    with pytest.raises(errors.RunUnderWay, match="has taken up run"):
        conduct(world, watch=watch)
    assert world.ledger.find_heartbeat() == others[0]
    assert world.ledger.find_report() is None
