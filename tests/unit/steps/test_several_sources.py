"""Several sources are one run: each object once, wherever invocations end; overlaps are refused."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from ddbload import errors
from ddbload.context import AccessPolicy
from ddbload.contracts.payload import Payload
from ddbload.contracts.source import MAX_SOURCES, Source
from ddbload.contracts.states import PreflightTask
from ddbload.ledger.object_listing import iter_objects
from ddbload.steps.find_objects import find_objects
from ddbload.steps.preflight import preflight
from tests.unit.steps.chaos import Chaos, plan
from tests.unit.steps.exports import exported_files
from tests.unit.steps.many_files import assert_imported, files_of
from tests.unit.steps.world import BUCKET
from tests.unit.steps.worlds import ManyObjects, list_all, many, slow

HERE = f"s3://{BUCKET}/many/"


def several(*names: str) -> dict[str, Any]:
    return {"bucket": None, "key": None, "prefix": None, "sources": list(names)}


@pytest.fixture
def few(monkeypatch):
    """Make pages of three objects, and open two objects at once."""
    monkeypatch.setattr("ddbload.ledger.object_listing.PAGE_OBJECTS", 3)
    monkeypatch.setattr("ddbload.steps.find_objects._PARALLEL_OPENS", 1)


NAMES = (
    *(f"{HERE}00003.csv", f"{HERE}0001?.csv", f"{HERE}00001.csv", f"{HERE}00030.csv"),
    *(f"{HERE}00029.csv", f"{HERE}0002[0-4].csv", f"{HERE}00002.csv"),
)
WANTED = [3, *range(10, 20), 1, 30, 29, *range(20, 25), 2]


@pytest.mark.parametrize("seconds", [float("inf"), 1.0, 2.0, 5.0])
def test_objects_are_listed_in_the_order_of_their_sources(few, seconds):
    world = slow(many(31, source=several(*NAMES)))
    invocations = list_all(world, seconds)
    assert (invocations > 1) == (seconds < 10)
    found = [str(each["key"]) for each in iter_objects(world.ledger.record(), world.ledger, 0)]
    assert found == [f"many/{number:05d}.csv" for number in WANTED]


def test_each_position_continues_with_the_object_behind_it(few):
    world = many(31, source=several(*NAMES))
    source = Payload.from_json(world.payload).source
    whole = find_objects(source, world.context())
    assert whole is not None
    objects = list(whole.objects)
    assert len([pinned for _, pinned in objects if pinned]) == len(WANTED)
    for number, (position, _) in enumerate(objects, 1):
        rest = find_objects(source, world.context(), position)
        assert rest is not None
        assert list(rest.objects) == objects[number:], position


def test_position_in_other_sources_is_refused():
    world = many(31, source=several(*NAMES))
    source = Payload.from_json(world.payload).source
    found = find_objects(source, world.context())
    assert found is not None
    position, _ = next(found.objects)
    other = Source.from_json({"format": "csv", "sources": list(NAMES[:3])})
    again = find_objects(other, world.context(), position)
    assert again is not None
    with pytest.raises(errors.SourceChanged, match="names other sources"):
        next(again.objects)


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_counted_once_when_functions_die_or_run_twice(seed, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr("ddbload.rows.blocks.BLOCK_BYTES", 32)
    monkeypatch.setattr("ddbload.steps.chunker._WRITES_AHEAD", 0)
    monkeypatch.setattr("ddbload.ledger.object_listing.PAGE_OBJECTS", rng.choice((2, 1000)))
    files = files_of(seed, 8, compressed=rng.random() < 0.5)
    names = [f"{HERE}{name}" for name in sorted(files)]
    names[2:6] = [f"{HERE}00[2-5].csv"]
    world = ManyObjects(
        files=files, source=several(*names), options={"chunk_bytes": rng.choice((20, 10**6))}
    )
    chaos = Chaos(world, plan(rng.randbytes(1 + 3 * 16)))
    chaos.run()
    chaos.finish()
    assert_imported(files, world, world.report())


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        (("00001.csv", "00002.csv", "00001.csv"), errors.InvalidPayload, "given twice"),
        (("00001.csv", "0000?.csv"), errors.InvalidPayload, "00001.csv is named twice, by "),
        (("0000?.csv", "00001.csv"), errors.InvalidPayload, "00001.csv is named twice, by "),
        (("0000[12].csv", "0000[23].csv"), errors.InvalidPayload, "00002.csv is named twice"),
        (("", "00001.csv"), errors.InvalidPayload, "named twice"),
        (("00001.csv", "no.csv", "00002.csv"), errors.SourceNotFound, "many/no.csv"),
        (("00001.csv", "../../x"), errors.SourceNotFound, "x"),
    ],
)
def test_wrong_sources_are_refused_by_name(names, error, words):
    world = many(4, source=several(*[HERE + name for name in names]))
    with pytest.raises(error, match=words):
        preflight(PreflightTask(world.payload, "run"), world.context())


def test_export_of_a_table_is_imported_by_itself():
    world = ManyObjects(files={"a.csv": b"id\n1\n", **exported_files([{"Item": {}}])})
    for name in (f"{HERE}2020-Nov/", "manifest-files.json"):
        found = name if name.startswith("s3:") else next(HERE + n for n in world.files if name in n)
        source = {**several(f"{HERE}a.csv", found), "format": "auto"}
        with pytest.raises(errors.InvalidPayload, match="is the export of a table"):
            preflight(PreflightTask({**world.payload, "source": source}, "run"), world.context())


def test_deployment_reads_no_file_of_a_machine():
    world = many(2, source=several(f"{HERE}00001.csv", "/etc/passwd"))
    context = world.context()
    context.access = AccessPolicy(paths=False)
    with pytest.raises(errors.BucketNotAllowed, match=r"/etc/passwd is a file of another machine"):
        preflight(PreflightTask(world.payload, "run"), context)


def test_files_are_compared_by_what_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("id\n1\n")
    Path("folder").mkdir()
    os.link("a.csv", "folder/c.csv")
    Path("folder/d.csv").symlink_to("../b.csv")
    context = many(1).context()
    context.access = AccessPolicy(paths=True)

    def listed(*names: str) -> list[str]:
        found = find_objects(Source.from_json({"sources": list(names)}), context)
        assert found is not None
        return [Path(str(pinned["path"])).name for _, pinned in found.objects if pinned]

    assert listed("b.csv", "a.csv") == ["b.csv", "a.csv"]
    assert listed("a.csv", "folder") == ["a.csv", "c.csv", "b.csv"]
    for names in (("a.csv", "./a.csv"), ("b.csv", "folder"), ("*.csv", str(tmp_path / "b.csv"))):
        with pytest.raises(errors.InvalidPayload, match="is named twice, by"):
            listed(*names)


@pytest.mark.parametrize(
    "sources", [[], "a.csv", [1], [""], ["s3://"], ["s3://b"], ["a"] * 2, ["a"] * (MAX_SOURCES + 1)]
)
def test_payload_refuses_wrong_lists(sources):
    with pytest.raises(errors.InvalidPayload):
        Source.from_json({"sources": sources})
    with pytest.raises(errors.InvalidPayload, match="are two sources"):
        Source.from_json({"sources": ["a"], "path": "b"})
    with pytest.raises(errors.InvalidPayload, match="are two sources"):
        Source.from_json({"sources": ["a"], "bucket": "b"})


def test_sources_survive_a_message_and_are_shown_shortened():
    names = [f"{number}.csv" for number in range(5)]
    source = Source.from_json({"sources": names})
    assert Source.from_json(source.to_json()) == source
    assert source.to_json()["sources"] == names
    assert source.uri == "0.csv, 1.csv, 2.csv and 2 more"
    assert "sources" not in Source.from_json({"path": "a"}).to_json()
