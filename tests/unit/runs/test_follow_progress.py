"""Following a run by the names in its ledger: figures, chunks' states, and number of requests."""

from __future__ import annotations

import pytest

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.results import Failure, Segment
from ddbload.contracts.row_counts import RowCounts, WriteStats
from ddbload.contracts.run_record import Cursor
from ddbload.runs.follow_progress import ProgressReader, RequestPace
from ddbload.runs.progress import DONE_CHUNK, FAILED_CHUNK, RUNNING_CHUNK, WAITING, RunProgress
from tests.unit.runs.hand_written import HandWritten
from tests.unit.steps.world import World

FILE = b"id\n" + b"".join(b"k%03d\n" % n for n in range(40))
TURNS = 8
"""Reads after which every kind of request was made, more than once."""


@pytest.fixture
def world() -> World:
    made = World(FILE, options={"chunk_bytes": 50})
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
