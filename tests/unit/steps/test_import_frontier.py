"""Segments end before the first row without an outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ddbload.write.scheduler.scheduler import Scheduler
from tests.fakes.dynamodb_faults import Fault
from tests.unit.steps.expected import (
    assert_segments_tell_the_truth,
    counted,
    counts,
    outcome,
    table_of,
)
from tests.unit.steps.world import World


def rows(count: int) -> bytes:
    return b"id,a\n" + b"".join(b"r%d,x\n" % n for n in range(count))


def never_taking(key: str) -> Callable[[str, Any], Fault | None]:
    """A table that returns one item whenever it comes."""
    fault = Fault(unprocessed=lambda _, request: request["PutRequest"]["Item"]["id"]["S"] == key)
    return lambda operation, _: fault if operation == "batch_write_item" else None


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
