"""Following a run by the names in its ledger: figures, chunks' states, and number of requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.results import Failure, Segment
from ddbload.contracts.row_counts import RowCounts, WriteStats
from ddbload.contracts.run_record import Cursor
from ddbload.runs.follow_progress import ProgressReader, RequestPace, follow_progress
from ddbload.runs.progress import DONE_PERCENT, FAILED_CHUNK, WAITING, RunProgress
from tests.unit.runs.hand_written import HandWritten
from tests.unit.steps.world import RUN, World

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
    assert now.chunks[first.chunk] == 20
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


def test_current_work_does_not_count_once_its_segment_exists(world, reader):
    """It is in the settled totals of the worker, or soon will be."""
    chunk = world.manifest[0]
    worker = HandWritten(world.ledger)
    world.ledger.put_segment(segment_of(chunk))
    other = HandWritten(world.ledger, "b2")
    other.finished(chunk, rows=10)
    worker.works_on(chunk, read=30)
    assert look(reader).totals.rows.written == 10


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
        DONE_PERCENT,
        FAILED_CHUNK,
        50,
        20,
    ]
    assert (states.done, states.failed, states.running) == (1, 1, 2)
    assert states.waiting == len(world.manifest) - 4


class CountingStore:
    """Store of a huge run that is never written anywhere: names are made up for each page."""

    def __init__(self, world: World, chunks: int, workers: int) -> None:
        self.world, self.requests = world, Counter[str]()
        self.times: list[float] = []
        size = 1000
        self.manifest = [Chunk(n, n * size, (n + 1) * size, n + 1) for n in range(chunks)]
        record = replace(world.ledger.record(), size=chunks * size, data_start=Cursor(0, 1))
        world.ledger.put_record(record)
        world.ledger.put_manifest(self.manifest)
        for number in range(workers):
            worker = HandWritten(world.ledger, f"{number:04x}")
            worker.works_on(self.manifest[number], read=500)
        for chunk in self.manifest[workers:]:
            name = f"runs/{RUN}/chunks/{chunk.chunk:05d}/{chunk.start}.json"
            world.store.objects[name] = b""
        world.store.hook = self._count

    def _count(self, moment: str, name: str, _: bytes) -> None:
        if moment in ("get", "names", "page"):
            self.request(f"{moment} {name.removeprefix(f'runs/{RUN}/').partition('/')[0]}")

    def request(self, what: str) -> None:
        self.requests[what] += 1
        self.times.append(self.world.clock.time)


def ends_after(store: CountingStore, seconds: float) -> Iterator[bool | None]:
    until = store.world.clock.time + seconds
    while store.world.clock.time < until:
        store.request("end")
        yield None
    yield True


def test_following_a_huge_run_makes_at_most_twenty_requests_a_minute(world):
    store = CountingStore(world, chunks=20_000, workers=1_000)
    ends = ends_after(store, 170)
    last: list[RunProgress] = []
    pace = RequestPace(world.clock, world.clock.sleep)

    def watch(progress: RunProgress) -> None:
        last[:] = [progress]
        # The names would be renewed meanwhile.
        world.store.written = dict.fromkeys(world.store.written, world.clock.time)

    follow_progress(world.ledger, lambda: next(ends), watch=watch, pace=pace, clock=world.clock)
    times = store.times
    assert all(late - early > 60 for early, late in zip(times, times[20:], strict=False))
    assert {what for what in store.requests if what.startswith("get")} == {
        "get run.json",
        "get manifest.json",
    }
    assert store.requests["get run.json"] == store.requests["get manifest.json"] == 1
    (now,) = last
    assert (now.chunks.done, now.chunks.running, now.chunks.waiting) == (19_000, 1_000, 0)
    assert now.totals.rows.written == 1_000 * 500


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
