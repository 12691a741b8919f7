"""Reads that are given up for want of time are handed on, and are no failure."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload import errors
from ddbload.rows import blocks
from ddbload.write.scheduler.scheduler import Scheduler
from tests.fakes.s3_faults import Fault, internal_error
from tests.unit.runs.local_runs import conduct
from tests.unit.steps.expected import counts, outcome
from tests.unit.steps.world import World

DATA = b"id,a\n" + b"".join(b"r%d,x\n" % n for n in range(100))


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 50)
    monkeypatch.setattr("ddbload.source.s3_object.RANGE_BYTES", 50)
    monkeypatch.setattr("ddbload.source.decoding.decoded_source.FIRST_BYTES", 50)
    # Rows are written while others are read, as in files of more than a few thousand.
    monkeypatch.setattr(Scheduler, "READY_ROWS", 5)


def stalling(world: World, seconds: float) -> Fault:
    """A read that brings nothing for so long, and then an error."""
    return Fault(before=lambda: world.clock.sleep(seconds), raises=internal_error().raises)


def test_import_returns_cursor_when_read_takes_remaining_time():
    world = World(DATA)
    world.preflight()
    (chunk,) = world.manifest
    world.s3.faults.add("get_object", None, None, stalling(world, 60.0))
    result = world.import_step(chunk, context=world.context(30.0))
    (segment,) = result.segments
    assert segment.rows.read > 0
    assert (result.chunks, segment.proven) == ((chunk,), False)
    assert world.in_ledger("failures") == []
    world.import_one(chunk)
    assert world.report().rows == counts(outcome(DATA))


def test_import_is_stalled_when_it_read_nothing():
    world = World(DATA)
    world.preflight()
    (chunk,) = world.manifest
    world.s3.faults.decide = lambda operation, _: (
        stalling(world, 60.0) if operation == "get_object" else None
    )
    result = world.import_step(chunk, stalled=1, context=world.context(30.0))
    assert (result.chunks, result.segments, result.stalled) == ((chunk,), (), 2)
    with pytest.raises(errors.NoProgress) as raised:
        world.import_step(chunk, stalled=2, context=world.context(30.0))
    assert "nothing was sent" in raised.value.message
    assert "(0 bytes of whole rows were read)" in raised.value.message
    assert "table" not in raised.value.message


def test_preflight_returns_cursor_when_read_takes_remaining_time():
    world = World(DATA, options={"chunk_bytes": 10})
    # Reads for the header, which looks for what is no text in some hundred bytes, and two for rows.
    world.s3.faults.add("get_object", *[None] * 8, stalling(world, 60.0))
    result = world.preflight_step(context=world.context(30.0))
    assert result.cursor is not None
    assert result.cursor.byte > 5
    whole = World(DATA, options={"chunk_bytes": 10})
    whole.preflight()
    world.preflight()
    assert world.manifest == whole.manifest


@pytest.mark.parametrize(
    ("operation", "before"),
    [("head_object", 0), ("describe_table", 0), *(("get_object", count) for count in range(5))],
)
def test_preflight_raises_interrupted_when_stopped_in_call(operation, before):
    world = World(DATA)
    calls: list[str] = []

    def fail(name: str, _: Any) -> Any:
        calls.append(name)
        return internal_error() if calls.count(operation) > before else None

    world.s3.faults.decide = world.dynamodb.faults.decide = fail
    with pytest.raises(errors.Interrupted):
        conduct(world, should_stop=lambda: calls.count(operation) > before)
    assert world.items == []
    world.s3.faults.decide = world.dynamodb.faults.decide = None
    assert conduct(world).report.status == "SUCCEEDED"
