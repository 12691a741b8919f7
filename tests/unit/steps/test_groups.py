"""Chunks that one worker imports side by side, with one scheduler."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from ddbload import errors
from ddbload.contracts.chunks import MOST_PLACES, Chunk, groups_of_chunks
from ddbload.steps import row_feeder
from tests.unit.steps.chaos import Killed
from tests.unit.steps.expected import assert_segments_tell_the_truth, counts, outcome, table_of
from tests.unit.steps.world import World

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
    chunks = manifest[0]["chunks"]
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
