"""Segments end before the first row without an outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ddbload.contracts.states import ImportResult
from ddbload.rows import blocks
from ddbload.steps import import_chunk
from ddbload.steps.row_feeder import RowFeeder
from ddbload.write.scheduler.scheduler import Scheduler
from tests.fakes.client import ServiceError
from tests.fakes.dynamodb_faults import Fault
from tests.unit.steps.expected import (
    assert_segments_tell_the_truth,
    counted,
    counts,
    outcome,
    status_for,
    table_of,
)
from tests.unit.steps.world import World


def rows(count: int) -> bytes:
    return b"id,a\n" + b"".join(b"r%d,x\n" % n for n in range(count))


def never_taking(key: str) -> Callable[[str, Any], Fault | None]:
    """A table that returns one item whenever it comes."""
    fault = Fault(unprocessed=lambda _, request: request["PutRequest"]["Item"]["id"]["S"] == key)
    return lambda operation, _: fault if operation == "batch_write_item" else None


def test_segment_excludes_rows_that_were_not_offered(monkeypatch):
    monkeypatch.setattr(Scheduler, "READY_ROWS", 10)
    world = World(rows(100), request_seconds=1.0)
    world.preflight()
    (chunk,) = world.manifest
    # All that the scheduler knows of is settled then, and the chunk's last byte was read.
    context = world.context(should_stop=lambda: len(world.dynamodb.writes) >= 10)
    result = world.import_step(chunk, context=context)
    assert not result.segment.proven
    assert result.cursor == result.segment.end
    assert 10 <= result.segment.rows.read < 100
    world.import_step(chunk, result.cursor)
    assert world.report().rows == counts(outcome(world.data))


@pytest.mark.parametrize("first", [0, 3, 24])
def test_segment_excludes_rows_after_first_unsettled_row(first):
    world = World(rows(200), options={"engine": "sync"}, request_seconds=1.0)
    world.preflight()
    (chunk,) = world.manifest
    world.dynamodb.faults.decide = never_taking(f"r{first}")
    result = world.import_step(chunk, context=world.context(30.0))
    if first:
        assert result.segment.rows.read == first
        assert result.cursor.byte == outcome(world.data).rows[first].byte
    else:
        assert result.segment is None
    assert len(world.items) > first + 25
    world.dynamodb.faults.decide = None
    world.import_step(chunk, result.cursor)
    expected = outcome(world.data)
    assert world.report().rows == counts(expected)
    assert table_of(world) == expected.last_of_each_key
    assert_segments_tell_the_truth(world, expected)


def test_rows_ahead_of_frontier_are_limited(monkeypatch):
    monkeypatch.setattr(Scheduler, "MAX_AHEAD", 100)
    world = World(rows(400), request_seconds=1.0)
    world.preflight()
    (chunk,) = world.manifest
    world.dynamodb.faults.decide = never_taking("r0")
    world.import_step(chunk, context=world.context(200.0))
    assert len(world.items) == 99
    assert counted(world) == []


def test_settled_rows_are_freed(monkeypatch):
    most: list[int] = []

    class Watched(RowFeeder):
        def release(self, handles: Sequence[int]) -> None:
            # The first block that is kept counts from its own first row, so freed rows are missing.
            _, freed = self.pending.position_in_block(0)
            most.append(self.pending.rows + freed)
            super().release(handles)

    monkeypatch.setattr(import_chunk, "RowFeeder", Watched)
    monkeypatch.setattr(Scheduler, "READY_ROWS", 50)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 100)
    world = World(rows(1000))
    world.run()
    assert max(most) <= 120


def test_repeated_key_does_not_block_progress_of_slow_table():
    data = b"id,a\n" + b"".join(b"k%d,%d\n" % (0 if n == 400 else n, n) for n in range(600))
    world = World(data, request_seconds=1.0)
    world.preflight()
    (chunk,) = world.manifest
    # Five requests an invocation, so that row 400 is never reached in the first one.
    world.import_one(chunk, seconds=5.0)
    assert table_of(world) == outcome(data).last_of_each_key


@pytest.mark.parametrize(("mine", "theirs"), [("r3", "r3"), ("r3", "r7"), ("r3", ""), ("", "r7")])
@pytest.mark.parametrize("moment", ["chunks/", "rejects/"])
def test_refusals_are_counted_by_segment_that_counts(mine, theirs, moment):
    world = World(rows(20), types={}, options={"max_rejects": 5})
    world.preflight()
    (chunk,) = world.manifest
    inner: list[ImportResult] = []
    entered: list[str] = []

    def other(_moment: str, name: str, data: bytes) -> None:
        if data and f"/{moment}" in name and not entered:
            entered.append(name)
            world.dynamodb.faults.decide = refusing(theirs)
            inner.append(world.import_step(chunk))
            world.dynamodb.faults.decide = None

    world.store.hook = other
    world.dynamodb.faults.decide = refusing(mine)
    outer = world.import_step(chunk)
    if inner:
        assert outer.segment == inner[0].segment
    lines = world.rejects()
    refused = theirs if inner else mine
    assert [line["raw"] for line in lines] == ([f"{refused},x"] if refused else [])
    report = world.report()
    assert (report.status, report.rows.rejected) == (status_for(report.rows), len(lines))


def refusing(key: str) -> Callable[[str, Any], Fault | None]:
    """A table that refuses one item, with whatever it comes."""
    refused = Fault(raises=ServiceError("ValidationException", 400, "one item is no item"))

    def decide(operation: str, params: Any) -> Fault | None:
        if operation != "batch_write_item":
            return None
        puts = [request["PutRequest"]["Item"] for request in params["RequestItems"]["books"]]
        return refused if {"S": key} in [put["id"] for put in puts] else None

    return decide
