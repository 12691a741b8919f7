"""Reads that are given up for want of time are handed on, and are no failure."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload import errors
from ddbload.pipeline.importing.row_window import PendingRows
from ddbload.rows import block_splitter
from ddbload.rows.block_splitter import Block
from ddbload.write.scheduler.scheduler import Scheduler
from tests.fakes.dynamodb_faults import fails
from tests.fakes.s3_faults import Fault, internal_error, slow_down
from tests.unit.pipeline.expected import counts, outcome
from tests.unit.pipeline.world import World
from tests.unit.runs.test_run_import import conduct

DATA = b"id,a\n" + b"".join(b"r%d,x\n" % n for n in range(100))


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch):
    monkeypatch.setattr(block_splitter, "BLOCK_BYTES", 50)
    monkeypatch.setattr("ddbload.source.s3_object.RANGE_BYTES", 50)
    monkeypatch.setattr("ddbload.source.byte_source.FIRST_BYTES", 50)
    # Rows are written while others are read, as in files of more than a few thousand.
    monkeypatch.setattr(Scheduler, "READY_ROWS", 5)


def stalling(world: World, seconds: float) -> Fault:
    """A read that brings nothing for so long, and then an error."""
    return Fault(before=lambda: world.clock.sleep(seconds), raises=internal_error().raises)


def test_an_import_hands_on_where_a_read_took_the_rest_of_its_time():
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


def test_an_import_that_read_nothing_in_its_time_is_stalled():
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

    def slowly(held: PendingRows, block: Block, since: int) -> None:
        world.clock.sleep(seconds)
        add(held, block, since)

    monkeypatch.setattr(PendingRows, "add", slowly)


def wide(rows: int, columns: int) -> bytes:
    names = b",".join(b"c%d" % number for number in range(1, columns))
    cells = b"," * (columns - 2)
    return b"id," + names + b"\n" + b"".join(b"r%d,x%s\n" % (row, cells) for row in range(rows))


def test_rows_of_a_hundred_thousand_columns_go_one_by_one(monkeypatch):
    monkeypatch.undo()
    world = World(wide(3, 100_000), more={"nulls": {"policy": "omit"}})
    world.preflight()
    (chunk,) = world.manifest
    slow_to_read(world, 40.0, monkeypatch)
    assert world.import_one(chunk, 30.0) == 3
    report = world.report()
    assert report.status == "SUCCEEDED"
    assert (report.rows.written, report.work.requests) == (3, 3)


def test_rows_that_take_long_to_read_do_not_wait_for_others(monkeypatch):
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


def test_a_stall_is_the_table_s_only_where_something_was_sent(monkeypatch):
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


def test_a_read_that_fails_again_and_again_in_good_time_is_an_error():
    world = World(DATA)
    world.preflight()
    world.s3.faults.add("get_object", slow_down(), times=6)
    with pytest.raises(errors.ServiceUnavailable):
        world.import_step(world.manifest[0], context=world.context(1000.0))


def test_a_source_that_changed_is_an_error_however_late_it_is():
    world = World(DATA)
    world.preflight()

    def change() -> None:
        world.clock.sleep(60.0)
        world.overwrite(DATA[::-1])

    world.s3.faults.add("get_object", None, Fault(before=change))
    with pytest.raises(errors.SourceChanged):
        world.import_step(world.manifest[0], context=world.context(30.0))


def test_preflight_hands_on_where_a_read_took_the_rest_of_its_time():
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


def test_preflight_that_read_nothing_in_its_time_says_why():
    world = World(DATA)
    world.s3.faults.add("get_object", None, stalling(world, 60.0))
    with pytest.raises(errors.ServiceUnavailable):
        world.preflight_step(context=world.context(30.0))


@pytest.mark.parametrize(
    ("operation", "before"),
    [("head_object", 0), ("describe_table", 0), *(("get_object", count) for count in range(5))],
)
def test_stopped_in_a_call_of_preflight_is_interrupted(operation, before):
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
def test_one_read_that_comes_to_nothing_does_not_end_a_run(seconds):
    world = World(DATA, options={"chunk_bytes": 100}, request_seconds=1.0)
    stalls = [None, None, None, stalling(world, 40.0)] * 3
    world.s3.faults.add("get_object", *[None] * 20, *stalls)
    assert conduct(world, seconds=seconds).report.status == "SUCCEEDED"
