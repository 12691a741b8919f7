"""Several sources are one run: each object once, wherever invocations end; overlaps are refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ddbload import errors
from ddbload.context import AccessPolicy
from ddbload.contracts.source import Source
from ddbload.contracts.states import PreflightTask
from ddbload.ledger.object_listing import iter_objects
from ddbload.steps.find_objects import find_objects
from ddbload.steps.preflight import preflight
from tests.unit.steps.exports import exported_files
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
        return [Path(str(pinned["path"])).name for _, pinned in found[0] if pinned]

    assert listed("b.csv", "a.csv") == ["b.csv", "a.csv"]
    assert listed("a.csv", "folder") == ["a.csv", "c.csv", "b.csv"]
    for names in (("a.csv", "./a.csv"), ("b.csv", "folder"), ("*.csv", str(tmp_path / "b.csv"))):
        with pytest.raises(errors.InvalidPayload, match="is named twice, by"):
            listed(*names)
