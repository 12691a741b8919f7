"""Chunks that one worker imports side by side, with one scheduler."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from ddbload import errors
from ddbload.contracts.chunks import MOST_PLACES, Chunk, groups_of_chunks
from ddbload.contracts.results import Failure
from ddbload.contracts.states import ImportTask
from ddbload.steps import row_feeder
from ddbload.steps.import_chunk import import_chunk
from ddbload.steps.places import Place
from tests.unit.steps.chaos import Killed
from tests.unit.steps.expected import assert_segments_tell_the_truth, counts, outcome, table_of
from tests.unit.steps.world import RUN, World

DATA = b"id,a\n" + b"".join(b"r%03d,%s\n" % (n, b"x" * (n % 23)) for n in range(300))
EXPECTED = outcome(DATA)


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch):
    """Take a few rows from a place at a time."""
    monkeypatch.setattr(row_feeder, "TURN_ROWS", 3)


def test_groups_have_each_chunk_once_far_apart_and_end_small():
    for workers in (1, 2, 4, 10):
        for count in (1, 2, 31, 32, 33, 500):
            chunks = [Chunk(number, number, number + 1, 1) for number in range(count)]
            groups = groups_of_chunks(chunks, workers)
            assert sorted(each.chunk for group in groups for each in group) == [*range(count)]
            sizes = [len(group) for group in groups]
            assert sizes == sorted(sizes, reverse=True)
            assert sizes[0] <= MOST_PLACES
            assert workers == 1 or sizes[-1] == 1
            for group in groups:
                span = group[-1].chunk - group[0].chunk
                assert len(group) == 1 or span >= count // 3
    assert groups_of_chunks([], 3) == []


def group_of(world: World) -> tuple[Chunk, ...]:
    world.preflight()
    groups = world.ledger.find_groups()
    assert groups is not None
    assert 3 < len(groups[0]) <= MOST_PLACES
    return groups[0]


@pytest.mark.parametrize("seconds", [1.5, 2.5, 4.5])
@pytest.mark.parametrize("moment", ["put_new", "done"])
def test_group_killed_between_its_segments_loses_and_doubles_no_row(moment, seconds):
    """The places stand at different rows then, and some of their segments exist."""
    stood: set[int] = set()
    killed = 0
    for number in range(8):
        world = World(DATA, options={"chunk_bytes": 300, "workers": 1}, request_seconds=1.0)
        group = group_of(world)
        seen: list[str] = []

        def kill(at: str, name: str, _: bytes, number=number, seen=seen) -> None:
            if at == moment and "/chunks/" in name:
                seen.append(name)
                if len(seen) == number + 1:
                    raise Killed

        world.store.hook = kill
        with suppress(Killed):
            world.import_step(*group, context=world.context(seconds))
        world.store.hook = lambda *_: None
        killed += len(seen) > number
        stood.add(len(world.in_ledger("chunks/")))
        for segment in world.ledger.iter_segments():
            assert segment.rows.conserved
        world.import_all(3.5)
        assert_segments_tell_the_truth(world, EXPECTED)
        report = world.report()
        assert (report.status, report.rows) == ("SUCCEEDED", counts(EXPECTED))
        assert table_of(world) == EXPECTED.last_of_each_key
    assert killed > 0
    assert max(stood) > 0


@pytest.mark.parametrize(("first", "then", "groups"), [(1, 8, 16), (2, 1, 2)])
def test_chunks_of_a_run_are_grouped_for_the_workers_that_resume_it(first, then, groups):
    options = {"chunk_bytes": 300, "workers": first}
    world = World(DATA, options=options, request_seconds=1.0)
    world.import_step(*group_of(world), context=world.context(2.5))
    world.options["workers"] = then
    assert world.preflight().workers == then
    found = world.ledger.find_groups()
    assert found is not None
    assert len(found) == groups
    world.import_all()
    report = world.report()
    assert (report.status, report.rows) == ("SUCCEEDED", counts(EXPECTED))
    assert_segments_tell_the_truth(world, EXPECTED)


def test_requests_of_a_group_are_counted_once():
    world = World(DATA, options={"chunk_bytes": 300, "workers": 1}, request_seconds=1.0)
    group_of(world)
    world.import_all(2.5)
    report = world.report()
    sent = [each for each in world.dynamodb.calls if each.operation == "batch_write_item"]
    assert report.work.requests == len(sent)
    assert report.work.consumed_wcu == sum(
        len(each.params["RequestItems"]["books"]) for each in sent
    )


def test_error_of_one_chunk_stops_no_other_of_its_group():
    world = World(DATA, options={"chunk_bytes": 300, "workers": 1})
    group = group_of(world)
    manifest = world.read_json("manifest.json")
    chunks = {each["chunk"]: each for group in manifest for each in group["chunks"]}
    # One byte less: then it does not end with a row.
    chunks[1]["end"] = chunks[2]["start"] = chunks[1]["end"] - 1
    world.write_json("manifest.json", manifest)
    with pytest.raises(errors.SplitMismatch) as raised:
        world.import_step(*world.manifest)
    assert raised.value.chunk == 1
    assert {each["chunk"] for each in map(world.read_json, world.in_ledger("failures/"))} == {1}
    proven = {each.chunk for each in world.ledger.iter_segments() if each.proven}
    assert proven >= {each.chunk for each in group} - {1, 2}


def test_rows_that_cannot_be_encoded_are_rejected_in_turn():
    data = b"id,a\n" + b"".join(b"r%d,x\nq%d,x,y\n" % (n, n) for n in range(60))
    world = World(data, options={"chunk_bytes": 100, "workers": 1})
    group_of(world)
    world.import_all()
    report = world.report()
    assert (report.rows.read, report.rows.written, report.rows.rejected) == (120, 60, 60)


def test_last_row_of_the_source_wins_in_mode_last_wins():
    """Rows of later chunks are sent before others of earlier ones."""
    rng = random.Random(1)
    keys = [rng.randrange(40) for _ in range(400)]
    data = b"id,a\n" + b"".join(b"k%02d,%d\n" % (key, n) for n, key in enumerate(keys))
    world = World(
        data,
        options={"chunk_bytes": 200, "workers": 1, "mode": "last-wins", "position_attribute": "p"},
    )
    group_of(world)
    world.import_all()
    report = world.report()
    assert report.status == "SUCCEEDED"
    assert report.rows.conserved
    found = {item["id"]["S"]: item["a"]["S"] for item in world.items}
    assert found == {f"k{key:02}": str(n) for n, key in enumerate(keys)}


def test_ledger_is_read_as_often_in_late_invocations_as_in_early_ones():
    world = World(DATA, options={"chunk_bytes": 300, "workers": 1}, request_seconds=1.0)
    group = group_of(world)
    read: list[int] = []

    def count(moment: str, *_: object) -> None:
        read[-1] += moment == "get"

    while group:
        read.append(0)
        world.store.hook = count
        group = world.import_step(*group, context=world.context(1.5)).chunks
    assert len(read) > 2
    assert max(read) <= MOST_PLACES + 4


@pytest.mark.parametrize(
    "options", [{"mode": "insert"}, {"mode": "update"}, {"condition": "attribute_exists(a)"}]
)
def test_modes_that_need_order_or_attempts_read_one_place(options):
    world = World(DATA, options={"chunk_bytes": 300, "workers": 1, **options})
    world.preflight()
    assert {len(group) for group in world.ledger.find_groups() or ()} == {1}


def test_chunks_of_edges_are_not_cut_for_places():
    data = b"id,a\n" + b"".join(b"r%05d,%s\n" % (n, b"x" * 40) for n in range(6000))
    for scan, fewest, most in (("whole", 4, 5), ("edges", 1, 1)):
        world = World(data, options={"workers": 1, "scan": scan, "max_row_bytes": 100_000})
        world.preflight()
        assert fewest <= len(world.manifest) <= most


def damaged(world: World, chunk: Chunk, **changes: object) -> None:
    world.import_step(chunk)
    (name,) = world.in_ledger("chunks/")
    world.write_json(name, world.read_json(name) | changes)


def test_segment_that_does_not_fit_its_chunk_is_refused():
    world = World(DATA, options={"chunk_bytes": 300, "workers": 1})
    first, second, *_ = group_of(world)
    damaged(world, first, end={"byte": second.end, "line": 60}, proven=False)
    with pytest.raises(errors.LedgerDamaged, match="is not of chunk 0, byte 5 to"):
        world.import_step(first, second)
    assert world.in_ledger("failures/") == ["failures/00000.json"]


def test_segment_at_the_end_of_its_chunk_that_is_not_proven_is_refused():
    world = World(DATA, options={"chunk_bytes": 300, "workers": 1})
    first, *_ = group_of(world)
    damaged(world, first, proven=False)
    with pytest.raises(errors.LedgerDamaged, match="is not of chunk 0, byte 5 to"):
        world.import_step(first)


def test_killed_function_fails_the_chunks_that_are_not_imported():
    world = World(DATA, options={"chunk_bytes": 300, "workers": 1})
    group = group_of(world)
    world.import_step(group[0])
    killed = Failure("Lambda.Unknown", "killed")
    import_chunk(ImportTask(RUN, group, error=killed), world.context())
    found = {each.chunk: each.name for each in world.ledger.failures()}
    assert found == {each.chunk: "Lambda.Unknown" for each in group[1:]}


def test_too_many_rejects_of_several_chunks_are_counted_together():
    lines = (b"r%d,x,y\n" % n if n % 50 == 0 else b"r%d,%s\n" % (n, b"x" * 10) for n in range(600))
    data = b"id,a\n" + b"".join(lines)
    world = World(data, options={"chunk_bytes": 600, "workers": 1, "max_rejects": 3})
    group = group_of(world)
    with pytest.raises(errors.TooManyRejects, match=r"^more rejects .* in chunk \d+:"):
        world.import_one(*group)


def test_task_without_chunks_is_refused():
    with pytest.raises(errors.InvalidPayload, match="chunks"):
        ImportTask.from_json({"run": RUN, "chunks": [], "stalled": 0})


def test_waiting_rows_of_all_places_together_are_few():
    """Places take turns only while the blocks that they read are small together."""
    data = b"id,a\n" + b"".join(b"r%d,%s\n" % (n // 40, b"x" * 45) for n in range(640))
    world = World(data, options={"chunk_bytes": 2000, "workers": 1})
    seen = []
    taken = Place.take

    def take(place: Place, most: int, first: int):
        seen.append(sum(each.waiting_bytes for each in places))
        return taken(place, most, first)

    places: list[Place] = []
    made = Place.__init__

    def make(place: Place, *args: object, **given: object) -> None:
        made(place, *args, **given)
        places.append(place)

    most = 8000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_feeder, "MOST_WAITING_BYTES", most)
        patch.setattr(Place, "take", take)
        patch.setattr(Place, "__init__", make)
        world.preflight()
        world.import_all()
    assert len(world.items) == 16
    assert most <= max(seen) <= most + 2 * 2100
