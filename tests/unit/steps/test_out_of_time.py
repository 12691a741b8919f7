"""Reads that are given up for want of time are handed on, and are no failure."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload import errors
from ddbload.items.row_encoder import RowEncoder
from ddbload.rows import blocks
from ddbload.rows.blocks import Block
from ddbload.steps.row_feeder import PendingRows
from ddbload.write.scheduler.scheduler import Scheduler
from tests.fakes.dynamodb_faults import fails
from tests.fakes.s3_faults import Fault, internal_error, slow_down
from tests.unit.runs.local_runs import conduct
from tests.unit.steps.expected import counts, outcome
from tests.unit.steps.world import World

DATA = b"id,a\n" + b"".join(b"r%d,x\n" % n for n in range(100))


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 50)
    monkeypatch.setattr("ddbload.source.s3_object.RANGE_BYTES", 50)
    monkeypatch.setattr("ddbload.source.byte_source.FIRST_BYTES", 50)
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
    assert result.segment.rows.read > 0
    assert result.cursor == result.segment.end
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
    result = world.import_step(chunk, None, 1, world.context(30.0))
    assert (result.cursor.byte, result.stalled) == (chunk.start, 2)
    with pytest.raises(errors.NoProgress) as raised:
        world.import_step(chunk, None, 2, world.context(30.0))
    assert "nothing was sent" in raised.value.message
    assert "(0 bytes of whole rows were read)" in raised.value.message
    assert "table" not in raised.value.message


def slow_to_read(world: World, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each block's rows take so long to be parsed and encoded."""
    add = PendingRows.add

    def slowly(held: PendingRows, block: Block, since: int, encoder: RowEncoder) -> None:
        world.clock.sleep(seconds)
        add(held, block, since, encoder)

    monkeypatch.setattr(PendingRows, "add", slowly)


def wide(rows: int, columns: int) -> bytes:
    names = b",".join(b"c%d" % number for number in range(1, columns))
    cells = b"," * (columns - 2)
    return b"id," + names + b"\n" + b"".join(b"r%d,x%s\n" % (row, cells) for row in range(rows))


def test_rows_of_100000_columns_are_sent_one_by_one(monkeypatch):
    monkeypatch.undo()
    world = World(wide(3, 100_000), more={"nulls": {"policy": "omit"}})
    world.preflight()
    (chunk,) = world.manifest
    slow_to_read(world, 40.0, monkeypatch)
    assert world.import_one(chunk, 30.0) == 3
    report = world.report()
    assert report.status == "SUCCEEDED"
    assert (report.rows.written, report.work.requests) == (3, 3)


def test_rows_that_take_long_to_read_are_sent_at_once(monkeypatch):
    world = World(DATA)
    world.preflight()
    (chunk,) = world.manifest
    monkeypatch.setattr(Scheduler, "READY_ROWS", 2000)
    slow_to_read(world, 1.0, monkeypatch)
    told: list[tuple[float, int]] = []
    world.dynamodb.faults.decide = lambda operation, params: (
        told.append((world.clock.time, len(params["RequestItems"]["books"])))
        if operation == "batch_write_item"
        else None
    )
    began = world.clock.time
    assert world.import_one(chunk) == 1
    # A block has some nine rows: three make a full request and more.
    assert told[0] == (began + 3.0, 25)
    assert told[-1][0] > began + 10.0


def test_stall_blames_table_only_when_requests_were_sent(monkeypatch):
    world = World(DATA)
    world.preflight()
    (chunk,) = world.manifest
    world.dynamodb.faults.decide = lambda operation, _: (
        fails("ThrottlingException") if operation == "batch_write_item" else None
    )
    slow_to_read(world, 40.0, monkeypatch)
    with pytest.raises(errors.NoProgress, match="the table takes no writes") as raised:
        world.import_step(chunk, None, 2, world.context(30.0))
    assert "ThrottlingException" in raised.value.message


def test_read_that_keeps_failing_before_deadline_is_error():
    world = World(DATA)
    world.preflight()
    world.s3.faults.add("get_object", slow_down(), times=6)
    with pytest.raises(errors.ServiceUnavailable):
        world.import_step(world.manifest[0], context=world.context(1000.0))


def test_changed_source_is_error_after_deadline():
    world = World(DATA)
    world.preflight()

    def change() -> None:
        world.clock.sleep(60.0)
        world.overwrite(DATA[::-1])

    world.s3.faults.add("get_object", None, Fault(before=change))
    with pytest.raises(errors.SourceChanged):
        world.import_step(world.manifest[0], context=world.context(30.0))


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


def test_preflight_raises_when_it_read_nothing():
    world = World(DATA)
    world.s3.faults.add("get_object", None, stalling(world, 60.0))
    with pytest.raises(errors.ServiceUnavailable):
        world.preflight_step(context=world.context(30.0))


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


@pytest.mark.parametrize("seconds", [10.0, 50.0])
def test_run_continues_after_one_failed_read(seconds):
    world = World(DATA, options={"chunk_bytes": 100}, request_seconds=1.0)
    stalls = [None, None, None, stalling(world, 40.0)] * 3
    world.s3.faults.add("get_object", *[None] * 20, *stalls)
    assert conduct(world, seconds=seconds).report.status == "SUCCEEDED"
