"""One byte range: its rows become items or rejects, once each, however often it is cut."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.chunks import Chunk
from ddbload.contracts.row_counts import RowCounts
from ddbload.write.pacing.pacing import Pacing
from ddbload.write.scheduler.answers import OutcomeTracker
from ddbload.write.scheduler.scheduler import Scheduler
from tests.fakes.client import ServiceError, read_timeout
from tests.fakes.dynamodb_faults import Fault, fails, nothing_processed
from tests.fakes.s3_faults import Fault as S3Fault
from tests.unit.steps.expected import (
    assert_rejects_are,
    assert_segments_tell_the_truth,
    counted,
    counts,
    outcome,
    table_of,
)
from tests.unit.steps.world import RUN, TABLE, World
from tests.unit.steps.worlds import only_chunk


def rows(count: int, first: int = 0, wide: int = 1) -> bytes:
    return b"id,a\n" + b"".join(b"r%d,%s\n" % (n, b"x" * wide) for n in range(first, first + count))


# What a file becomes.


def test_equal_numbers_are_one_key():
    world = World(b"id,a\n1,first\n1.0,second\n1e0,third\n+01,last\n", keys=[("id", "N")])
    report = world.run()
    assert (report.rows.written, report.rows.superseded) == (1, 3)
    assert world.items == [{"id": {"N": "1"}, "a": {"S": "last"}}]


def test_import_writes_no_segment_when_counts_do_not_add_up(monkeypatch):
    world = World(rows(3))
    chunk = only_chunk(world)
    monkeypatch.setattr(OutcomeTracker, "counts_of", lambda *_: RowCounts(3, 1))
    with pytest.raises(errors.ConservationViolated, match="chunk 0 from byte 5"):
        world.import_step(chunk)
    assert world.in_ledger("chunks/") == []


# Cuts.


def test_import_adopts_existing_segments():
    world = World(rows(30))
    chunk = only_chunk(world)
    first = world.import_step(chunk)
    calls = len(world.dynamodb.calls), len(world.s3.calls)
    again = world.import_step(chunk)
    assert first.segments
    assert (again.chunks, again.segments) == ((), ())
    assert (len(world.dynamodb.calls), len(world.s3.calls)) == calls


def test_first_segment_counts_of_two_from_one_byte():
    world = World(rows(60), request_seconds=1.0)
    chunk = only_chunk(world)
    inner: list[Any] = []

    def other(moment: str, name: str, _data: bytes) -> None:
        if moment == "put_new" and "chunks/" in name and not inner:
            inner.append(None)
            inner[0] = world.import_step(chunk, context=world.context(1.5))

    world.store.hook = other
    late = world.import_step(chunk)
    assert inner[0].segments[0].rows.read == 50
    assert late.segments == inner[0].segments
    assert late.chunks == inner[0].chunks == (chunk,)
    world.import_step(chunk)
    assert world.report().rows.written == 60


def test_import_raises_run_not_found_without_record():
    world = World(rows(1))
    with pytest.raises(errors.RunNotFound, match="there is no run run-1 in the ledger at memory"):
        world.import_step(Chunk(0, 5, 10, 2))
    with pytest.raises(errors.RunNotFound):
        world.report()


# A table that takes little.


@pytest.mark.parametrize(
    "fault",
    [
        nothing_processed(),
        fails("ProvisionedThroughputExceededException"),
        fails("InternalServerError"),
        Fault(raises=read_timeout()),
        Fault(raises=read_timeout(), landed=True),
    ],
)
def test_import_raises_no_progress_after_three_stalls(fault):
    world = World(rows(30), request_seconds=0.1)
    chunk = only_chunk(world)
    world.dynamodb.faults.decide = lambda operation, _: (
        fault if operation == "batch_write_item" else None
    )
    stalled = 0
    for number in (1, 2):
        result = world.import_step(chunk, stalled=stalled, context=world.context(30.0))
        stalled = result.stalled
        assert (result.chunks, stalled, result.segments) == ((chunk,), number, ())
    with pytest.raises(errors.NoProgress, match=r"chunk 0 settled no row in 3 .*line 2, byte 5"):
        world.import_step(chunk, stalled=stalled, context=world.context(30.0))
    assert world.in_ledger("chunks") == []
    report = world.report()
    assert (report.status, report.error.name, report.error.chunk) == ("FAILED", "NoProgress", 0)
    world.dynamodb.faults.decide = None
    assert world.run().rows.written == 30
    assert world.report().status == "SUCCEEDED"


def test_waiting_for_wcu_budget_is_no_stall():
    """A row may take minutes of what a run is given."""
    data = b"id,a\n" + b"".join(b"r%d,%s\n" % (n, b"x" * 100_000) for n in range(3))
    world = World(data, options={"max_wcu": 1.0})
    world.preflight()
    pacing = Pacing(random.Random(1), 1.0, world.clock())
    stalled = waited = 0
    while (
        result := world.import_step(
            *world.manifest, stalled=stalled, context=replace(world.context(20.0), pacing=pacing)
        )
    ).chunks:
        stalled = result.stalled
        waited += not result.segments
    assert waited > 2 * 3
    assert len(world.items) == 3


@pytest.mark.parametrize("chunks", [1, 4])
def test_max_wcu_is_shared_by_all_workers(chunks):
    data = rows(800)
    world = World(
        data,
        options={"chunk_bytes": len(data) // chunks + 1, "max_wcu": 100.0, "workers": chunks},
    )
    world.preflight()
    for chunk in world.manifest:
        begun = world.clock.time
        world.import_one(chunk)
        # 100 units a second for all; what a bucket holds at first comes on top.
        assert world.clock.time - begun == pytest.approx(8.0, abs=1.5)
    assert len(world.manifest) == chunks


# What DynamoDB refuses.


def refusing(world: World, *ids: str) -> Callable[[str, dict[str, Any]], Fault | None]:
    def decide(operation: str, params: dict[str, Any]) -> Fault | None:
        if operation != "batch_write_item":
            return None
        for request in params["RequestItems"]["books"]:
            key = request["PutRequest"]["Item"]["id"]["S"]
            if key in ids:
                return Fault(raises=ServiceError("ValidationException", 400, f"bad item {key}"))
        return None

    return decide


@pytest.mark.parametrize("seconds", [1.0, 1000.0])
def test_row_refused_by_dynamodb_is_reject_with_position(seconds):
    world = World(rows(100), request_seconds=0.1)
    world.dynamodb.faults.decide = refusing(world, "r0", "r41", "r42", "r99")
    report = world.run(seconds)
    assert (report.rows.written, report.rows.rejected) == (96, 4)
    expected = [outcome(world.data).rows[number] for number in (0, 41, 42, 99)]
    lines = world.rejects()
    assert [(line["line"], line["byte"], line["raw"]) for line in lines] == [
        (row.line, row.byte, row.raw) for row in expected
    ]
    assert {line["cause"] for line in lines} == {"refused_by_dynamodb"}
    assert lines[1]["detail"] == "bad item r41"
    assert lines[1]["column"] is None
    assert len(table_of(world)) == 96


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (fails("AccessDeniedException"), errors.AccessDenied),
        (fails("ResourceNotFoundException"), errors.TableNotFound),
        (Fault(raises=ServiceError("Strange", 400, "odd")), errors.RequestRefused),
    ],
)
def test_segment_is_written_when_fatal_error_ends_import(fault, error):
    world = World(rows(100))
    chunk = only_chunk(world)
    world.dynamodb.faults.add("batch_write_item", None, None, fault)
    with pytest.raises(error, match="books"):
        world.import_step(chunk)
    assert [segment.rows.read for segment in counted(world)] == [50]
    report = world.report()
    assert (report.error.name, report.error.chunk) == (error.__name__, 0)
    assert report.rows.written == 50
    assert_segments_tell_the_truth(world, outcome(world.data))
    assert world.run().rows.written == 100
    assert world.report().failures == ()


# Rejects.


def bad_rows(count: int, *bad: int) -> bytes:
    return b"id,n\n" + b"".join(b"r%d,%s\n" % (n, b"x" if n in bad else b"1") for n in range(count))


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_import_stops_at_max_rejects_and_continues_with_higher_limit(limit, monkeypatch):
    # Rows are told of some at a time, and the rejects among those may go over the limit.
    monkeypatch.setattr(Scheduler, "READY_ROWS", 3)
    bad = (3, 10, 11, 30, 31, 32, 45)
    data = bad_rows(50, *bad)
    world = World(data, types={"n": "N"}, options={"max_rejects": limit})
    chunk = only_chunk(world)
    told = rf"more rejects than max_rejects allows \({limit}\)"
    with pytest.raises(errors.TooManyRejects, match=told):
        world.import_step(chunk)
    (segment,) = counted(world)
    assert limit < segment.rows.rejected <= limit + 3
    assert not segment.proven
    report = world.report()
    assert (report.status, report.error.name) == ("FAILED", "TooManyRejects")
    assert report.rows == segment.rows
    world.options["max_rejects"] = 7
    report = world.run()
    assert report.status == "SUCCEEDED_WITH_REJECTS"
    assert report.rows == counts(outcome(data, types={"n": "N"}))
    assert_rejects_are(outcome(data, types={"n": "N"}).rejects, world.rejects())


# A source that is not what it was.


@pytest.mark.parametrize("gone", [True, False])
def test_import_raises_source_changed_when_overwritten_within_chunk(gone, monkeypatch):
    monkeypatch.setattr("ddbload.source.s3_object.RANGE_BYTES", 100)
    world = World(rows(100))
    chunk = only_chunk(world)

    def change() -> None:
        if gone:
            world.s3.delete_object(Bucket="bucket", Key="in/file.csv")
        else:
            world.overwrite(rows(100, first=500))

    world.s3.faults.add("get_object", None, None, S3Fault(before=change))
    with pytest.raises(errors.SourceChanged, match="start a new run"):
        world.import_step(chunk)
    (segment,) = counted(world)
    expected = outcome(world.data)
    # Two reads came whole, and the rows in them are imported.
    assert 198 < segment.end.byte <= 205
    assert_segments_tell_the_truth(world, expected)
    assert set(table_of(world)) == {row.key for row in expected.rows[: segment.rows.read]}
    assert world.report().error.name == "SourceChanged"


# Cuts that are not where rows end.


def tampered(data: bytes, cut: int) -> World:
    """A run whose manifest is cut in two at a byte."""
    world = World(data)
    chunk = only_chunk(world)
    line = 1 + data[:cut].count(b"\n")
    parts = [Chunk(0, chunk.start, cut, 2), Chunk(1, cut, chunk.end, line)]
    world.write_json("manifest.json", [{"chunks": [part.to_json()]} for part in parts])
    return world


QUOTED = b"id,a\n" + b"".join(b'r%d,"x,\ny""z"\n' % n for n in range(20))


@pytest.mark.parametrize(
    ("data", "cut"),
    [
        (rows(20), 44),
        (rows(20), 46),
        (rows(20), len(rows(20)) - 1),
        *((QUOTED, 5 + 13 * 5 + offset) for offset in range(1, 13)),
    ],
)
def test_chunk_that_ends_within_row_is_refused(data, cut):
    world = tampered(data, cut)
    with pytest.raises(errors.SplitMismatch, match=f"chunk 0 should end with a row at byte {cut}"):
        world.import_step(world.manifest[0])
    world.import_one(world.manifest[1])
    report = world.report()
    assert (report.status, report.error.name, report.error.chunk) == ("FAILED", "SplitMismatch", 0)
    for segment in counted(world):
        if segment.chunk == 0:
            assert not segment.proven
            assert segment.rows.read == len(outcome(data).within(5, segment.end.byte))


def test_row_that_is_too_long_keeps_rows_before_it():
    data = rows(30) + b"long," + b"x" * 500 + b"\n" + rows(5, first=30)[5:]
    world = World(data)
    world.preflight()
    world.options["max_row_bytes"] = 100
    world.preflight()
    with pytest.raises(errors.RowTooLong, match=r"the row at line 32, byte \d+ is longer than 100"):
        world.import_one(world.manifest[0])
    assert 0 < counted(world)[-1].rows.written <= 30
    assert_segments_tell_the_truth(world, outcome(data))
    world.options["max_row_bytes"] = 1000
    assert world.run().rows.written == 36


# Progress.


def test_rejects_of_two_invocations_that_differ_are_both_kept():
    world = World(b"")
    names = [world.ledger.put_rejects(0, 5, 9, [line]) for line in (b"1\n", b"2\n", b"1\n")]
    assert [world.read_json(name) for name in names] == [1, 2, 1]


def test_reject_lines_are_ascii_json():
    world = World(b'id,n\n\xc3\xa9,"\xe2\x80\xa8\n"\n', types={"n": "N"})
    world.run()
    (name,) = world.in_ledger("rejects")
    data = world.store.objects[f"runs/{RUN}/{name}"]
    assert data.isascii()
    assert data.count(b"\n") == 1
    assert json.loads(data)["raw"] == 'é,"\u2028\n"'


# The table.


def made_anew(world: World) -> None:
    world.dynamodb.delete_table(TableName=TABLE)
    world.create_table()


def test_import_writes_no_segment_when_table_was_replaced_meanwhile():
    world = World(bad_rows(60), types={"n": "N"})
    chunk = only_chunk(world)
    sent = 0

    def swap_before_the_second() -> None:
        nonlocal sent
        sent += 1
        if sent == 2:
            made_anew(world)

    for _ in range(3):
        world.dynamodb.faults.add("batch_write_item", Fault(before=swap_before_the_second))
    with pytest.raises(errors.TableReplaced):
        world.import_step(chunk)
    assert 0 < len(world.items) < 60
    assert world.in_ledger("chunks/") == []
    assert world.report().error.name == "TableReplaced"


def test_segment_is_written_when_table_cannot_be_described_at_end():
    """Its rows are settled, and Report asks again."""
    world = World(bad_rows(60), types={"n": "N"})
    chunk = only_chunk(world)
    world.dynamodb.faults.add("describe_table", None)
    world.dynamodb.faults.add("describe_table", fails("ExpiredTokenException"), times=1)
    assert not world.import_step(chunk).chunks
    assert world.report().status == "SUCCEEDED"
