"""A listing that takes several invocations of preflight has the objects of one, in its order."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ddbload import errors
from ddbload.context import AccessPolicy
from ddbload.contracts.chunks import ListingCursor
from ddbload.contracts.states import PreflightTask
from ddbload.ledger.object_listing import iter_objects
from ddbload.steps.preflight import preflight
from tests.unit.steps.exports import exported_files
from tests.unit.steps.machine import execute, over_the_wire
from tests.unit.steps.world import BUCKET, RUN, World
from tests.unit.steps.worlds import HEADER, ManyObjects, list_all, many, slow


@pytest.fixture
def small_pages(monkeypatch):
    """Make pages of ten objects, in S3's answers and in the ledger."""
    monkeypatch.setattr("ddbload.ledger.object_listing.PAGE_OBJECTS", 10)


def listed(world: World) -> list[str]:
    record = world.ledger.record()
    return [each.get("key") or each["path"] for each in iter_objects(record, world.ledger, 0)]


@pytest.mark.usefixtures("small_pages")
def test_execution_continues_to_list_until_rows_are_written():
    world = slow(many(47))
    outcome = execute(world, world.payload, RUN, seconds=2.0)
    assert outcome["status"] == "SUCCEEDED"
    assert sorted(int(item["id"]["S"]) for item in world.items) == list(range(47))


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("seed", range(8))
def test_listing_is_the_same_wherever_invocations_die_and_objects_come_and_go(seed):
    rng = random.Random(seed)
    world = many(rng.choice((9, 10, 11, 60)))
    slow(world)
    task = PreflightTask(world.payload, RUN)
    before: dict[int, Any] = {}
    while True:
        # An attempt that dies leaves what it wrote; the objects change until the next one.
        attempts = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            for _ in range(rng.randrange(4)):
                name = f"{rng.randrange(70):05d}{rng.choice(('', '-new'))}.csv"
                if rng.random() < 0.5:
                    world.put(name, HEADER + b"%d\n" % rng.randrange(9))
                else:
                    world.s3.delete_object(Bucket=BUCKET, Key=f"many/{name}")
            try:
                attempts.append(preflight(task, world.context(rng.choice((1.0, 2.0, 5.0)))))
            except (errors.SourceChanged, errors.SourceNotFound):
                # The first objects are read, in the version that is listed.
                return
        if not isinstance(attempts[-1], PreflightTask):
            break
        cursor = attempts[0].cursor
        assert isinstance(cursor, ListingCursor)
        for number, page in before.items():
            assert world.ledger.find_listing(cursor.listing, number) == page
        task = PreflightTask.from_json(over_the_wire(attempts[0].to_json()))
        number = 0
        while (page := world.ledger.find_listing(cursor.listing, number)) is not None:
            before[number] = page
            number += 1
    keys = listed(world)
    assert keys == sorted(set(keys))


@pytest.mark.usefixtures("small_pages")
def test_object_that_changes_after_it_was_listed_raises_source_changed():
    world = many(30)
    slow(world)
    task = preflight(PreflightTask(world.payload, RUN), world.context(1.0))
    world.put("00000.csv", HEADER + b"changed\n")
    assert isinstance(task, PreflightTask)
    with pytest.raises(errors.SourceChanged, match=r"00000\.csv was overwritten"):
        preflight(task, world.context())


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("kind", ["manifest", "export", "folder"])
def test_manifests_exports_and_folders_continue_too(kind, tmp_path):
    world = listed_source(kind, tmp_path)
    at_once = listed_source(kind, tmp_path)
    list_all(at_once, float("inf"))
    slow(world)
    assert list_all(world, 1.0) > 2
    assert listed(world) == listed(at_once)
    assert len(listed(world)) == 35
    assert world.ledger.record().payload == at_once.ledger.record().payload


def manifest(names: list[str]) -> bytes:
    return json.dumps({"entries": [{"url": name} for name in names]}).encode()


def listed_source(kind: str, folder: Any) -> World:
    names = [f"{number:03d}.csv" for number in range(35)]
    if kind == "folder":
        for name in names:
            (folder / name).write_bytes(HEADER + b"1\n")
        source = {"bucket": None, "key": None, "path": str(folder)}
        world = World(b"", source=source)
        world.access = AccessPolicy(paths=True)
        return world
    if kind == "export":
        lines = [[{"Item": {"id": {"N": str(number)}}}] for number in range(35)]
        source = {"key": None, "prefix": "2020-Nov/", "format": "auto"}
        world = World(b"", keys=(("id", "N"),), source=source)
        for name, content in exported_files(*lines).items():
            world.s3.put_object(Bucket=BUCKET, Key=name, Body=content)
        return world
    world = ManyObjects(files=dict.fromkeys(names, HEADER + b"1\n"))
    uris = [f"s3://{BUCKET}/many/{name}" for name in names]
    world.s3.put_object(Bucket=BUCKET, Key="list.json", Body=manifest(uris))
    world.source = {
        "bucket": None,
        "key": None,
        "prefix": None,
        "manifest": f"s3://{BUCKET}/list.json",
    }
    return world


@pytest.mark.parametrize("name", ["../other", "", "ABC", 7, None])
def test_listing_cursor_with_a_foreign_name_is_refused(name):
    state = {"input": {}, "run": RUN, "cursor": {"listing": name, "part": 1}}
    with pytest.raises(errors.InvalidPayload, match=r"cursor\.listing"):
        PreflightTask.from_json(state)
