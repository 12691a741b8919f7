"""Following a run by the names in its ledger: figures, chunks' states, and number of requests."""

from __future__ import annotations

import gzip
from collections.abc import Collection
from dataclasses import replace

import pytest

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.results import Failure, Segment
from ddbload.contracts.row_counts import RowCounts, WriteStats
from ddbload.contracts.run_record import Cursor
from ddbload.run_worker import RunWorker
from ddbload.runs.follow_progress import ProgressReader, RequestPace
from ddbload.runs.progress import (
    DONE_CHUNK,
    FAILED_CHUNK,
    IMPORTING,
    REPORTING,
    RUNNING_CHUNK,
    WAITING,
    RunProgress,
)
from tests.unit.runs.hand_written import HandWritten
from tests.unit.steps.world import World

FILE = b"id\n" + b"".join(b"k%03d\n" % n for n in range(40))
TURNS = 8
"""Reads after which every kind of request was made, more than once."""


@pytest.fixture
def world() -> World:
    made = World(FILE, options={"chunk_bytes": 50, "workers": 2})
    made.preflight()
    return made


@pytest.fixture
def reader(world: World) -> ProgressReader:
    return ProgressReader(world.ledger, world.clock)


def look(reader: ProgressReader) -> RunProgress:
    for _ in range(TURNS):
        for what in ("record", "workers", "chunks"):
            reader.read(what)
    return reader.progress()


def segment_of(chunk: Chunk, start: int | None = None, end: int | None = None) -> Segment:
    first, last = chunk.start if start is None else start, chunk.end if end is None else end
    return Segment(
        *(chunk.chunk, Cursor(first, 1), Cursor(last, 2), last == chunk.end),
        *(RowCounts(1, 1), WriteStats(), None),
    )


def test_current_work_of_live_workers_counts_and_of_dead_ones_does_not(world, reader):
    first, second, *_ = world.manifest
    living, killed = HandWritten(world.ledger, "a1"), HandWritten(world.ledger, "b2")
    killed.finished(second, rows=7)
    killed.works_on(world.manifest[2], read=20)
    world.clock.sleep(100)
    living.works_on(first, read=10)
    now = look(reader)
    assert now.totals.rows.written == 17
    assert now.chunks[first.chunk] == RUNNING_CHUNK
    assert now.chunks[world.manifest[2].chunk] == WAITING


def test_rates_begin_with_the_first_complete_totals(world, reader):
    worker = HandWritten(world.ledger)
    worker.works_on(world.manifest[0], read=30)
    reader.read("record")
    reader.read("record")
    assert reader.progress().totals.rows.read == 0
    world.clock.sleep(2)
    reader.read("workers")
    assert reader.progress().rows_per_second is None
    world.clock.sleep(2)
    worker.works_on(world.manifest[0], read=40)
    reader.read("workers")
    now = reader.progress()
    assert (now.rows_per_second, now.wcu_per_second) == (5.0, 5.0)
    assert now.seconds_left is None
    # Time that passes between two looks says nothing about the rate.
    world.clock.sleep(2)
    assert reader.progress().rows_per_second == 5.0
    worker.works_on(world.manifest[0], read=40)
    reader.read("workers")
    assert reader.progress().seconds_left == 4 * (now.size - now.totals.bytes) / 10


def test_states_of_chunks(world, reader):
    done, failed, begun, left, *_ = world.manifest
    world.ledger.put_segment(segment_of(done))
    world.ledger.put_segment(segment_of(failed, end=failed.start + 5))
    world.clock.sleep(1)
    world.ledger.put_failure(Failure("RowTooLong", "a row", failed.chunk))
    world.ledger.put_failure(Failure("ServiceUnavailable", "for a while", begun.chunk))
    worker, other = HandWritten(world.ledger, "a1"), HandWritten(world.ledger, "b2")
    worker.finished(done)
    worker.works_on(begun, read=25)
    other.works_on(left, read=10)
    states = look(reader).chunks
    assert [states[each.chunk] for each in (done, failed, begun, left)] == [
        DONE_CHUNK,
        FAILED_CHUNK,
        RUNNING_CHUNK,
        RUNNING_CHUNK,
    ]
    assert states.count(WAITING) == len(world.manifest) - 4


def rows_of(keys: int) -> bytes:
    """Make 3000 rows: with few keys, they are taken from the chunks of a group in turn."""
    rows = (b"k%04d,%04d,%s\n" % (n * keys // 3000, n, b"x" * 20) for n in range(3000))
    return b"id,s,a\n" + b"".join(rows)


@pytest.mark.parametrize(
    ("keys", "seconds"), [(15, 6.0), (3000, 25.0)], ids=["in turn", "one after the other"]
)
def test_chunks_of_a_group_are_done_when_they_are_proven(keys, seconds):
    world = World(
        rows_of(keys),
        keys=(("id", "S"), ("s", "S")),
        options={"chunk_bytes": 6000, "workers": 1},
        request_seconds=1.0,
    )
    world.preflight()
    reader, chunks = ProgressReader(world.ledger, world.clock), world.ledger.find_groups()[0]
    worker = RunWorker("aa", lingers=False, clock=world.clock)
    assert len(chunks) == len(world.manifest) == 16

    def states(at_work: Collection[Chunk] = ()) -> list[int]:
        now = look(reader)
        proven = {each.chunk for each in world.ledger.iter_segments() if each.proven}
        begun = {each.chunk for each in world.ledger.iter_segments()}
        assert {n for n, state in enumerate(now.chunks) if state == DONE_CHUNK} <= proven
        assert WAITING not in [now.chunks[number] for number in begun]
        assert all(now.chunks[each.chunk] in (RUNNING_CHUNK, DONE_CHUNK) for each in at_work)
        assert now.step == (IMPORTING if at_work or len(proven) < 16 else REPORTING)
        return [*now.chunks]

    assert states() == [WAITING] * 16
    while chunks:
        seen: list[list[int]] = []

        def watch(_: object, at_work=chunks, seen=seen) -> None:
            seen.append([])
            # The first report comes before the session knows of the chunks.
            if len(seen) in (2, 4):
                session = worker.session(world.ledger, world.ledger.record())
                session._renew_at = 0.0
                session.tick()
                seen[-1] = states(at_work)

        context = replace(world.context(seconds, progress=watch), control=worker, worker="aa")
        before = {each.chunk for each in world.ledger.iter_segments() if each.proven}
        chunks = world.import_step(*chunks, context=context).chunks
        shown = [number for number, state in enumerate(max(seen)) if state == DONE_CHUNK]
        assert keys == 15 or {*shown} == before
        states()
    assert states() == [DONE_CHUNK] * 16


def test_chunks_that_an_earlier_attempt_left_unproven_are_not_done():
    world = World(rows_of(15), options={"chunk_bytes": 2750, "workers": 1})
    world.preflight()
    segments = [segment_of(each, end=each.end - 1000) for each in world.manifest]
    earlier = HandWritten(world.ledger)
    for chunk, segment in zip(world.manifest, segments, strict=True):
        world.ledger.put_segment(segment)
        earlier.finished(replace(chunk, end=segment.end.byte), rows=1)
    assert len(world.ledger.find_groups()) > 1
    now = look(ProgressReader(world.ledger, world.clock))
    assert now.chunks.count(RUNNING_CHUNK) == len(segments)
    assert now.totals.rows.read == len(segments)


def test_all_chunks_are_done_when_all_bytes_are_settled(world, reader):
    """Whichever segments were listed, and whoever settled them."""
    (first, *others), *groups = world.ledger.find_groups()
    worker, unseen = HandWritten(world.ledger, "a1"), HandWritten(world.ledger, "b2")
    worker.works_on(first, read=10)
    look(reader)
    middle = first.start + 20
    worker.finished(replace(first, end=middle), rows=1)
    world.ledger.put_segment(segment_of(first, end=middle))
    assert look(reader).chunks[first.chunk] == RUNNING_CHUNK
    for chunk in (replace(first, start=middle), *others, *sum(groups, ())):
        unseen.finished(chunk, rows=1)
    reader.read("workers")
    now = reader.progress()
    assert ([*now.chunks], now.step) == ([DONE_CHUNK] * len(world.manifest), REPORTING)


def test_chunk_of_a_source_that_preflight_did_not_read_is_done_by_its_segment():
    world = World(gzip.compress(FILE), options={"scan": "edges"})
    world.preflight()
    (chunk,) = world.manifest
    worker = RunWorker("aa", lingers=False, clock=world.clock)
    world.import_step(chunk, context=replace(world.context(5.0), control=worker, worker="aa"))
    now = look(ProgressReader(world.ledger, world.clock))
    assert (world.ledger.record().padded, now.totals.bytes < chunk.end) == (True, True)
    assert (now.chunks[0], now.step) == (DONE_CHUNK, REPORTING)


def test_groups_of_a_resumed_run_are_read_again_when_its_first_worker_appears():
    world = World(FILE, options={"chunk_bytes": 20, "workers": 1})
    world.preflight()
    reader = ProgressReader(world.ledger, world.clock)
    look(reader)
    world.options["workers"] = 4
    world.preflight()
    group = world.ledger.find_groups()[1]
    HandWritten(world.ledger, "a1").works_on(group[0], read=5)
    expected = [WAITING] * len(world.manifest)
    for chunk in group:
        expected[chunk.chunk] = RUNNING_CHUNK
    for _ in range(TURNS):
        reader.read("workers")
        reader.read("chunks")
    assert [*reader.progress().chunks] == expected


@pytest.mark.parametrize("seconds", [0.0, 0.3, 2.0])
def test_pace_never_exceeds_twenty_requests_in_any_minute(world, seconds):
    """Also when each request takes a while."""
    pace, times = RequestPace(world.clock, world.clock.sleep), []
    for _ in range(100):
        pace.wait()
        times.append(world.clock.time)
        world.clock.sleep(seconds)
    assert all(late - early >= 60 for early, late in zip(times, times[20:], strict=False))
    assert times[4] - times[0] <= 8 + 4 * seconds
