"""Ledgers that earlier versions wrote: reported, and taken up, as they are.

tests/golden/ledgers/version_1.json has two, written by the code as it was before segments said
whose they are: of a run that is done, and of one with two of its four chunks.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddbload import errors
from ddbload.contracts.results import RowCounts
from ddbload.pipeline.read_run import read_run
from tests.unit.pipeline.world import RUN, World

LEDGERS = Path(__file__).parents[2] / "golden" / "ledgers"
DATA = b"id,n\n" + b"".join(b"r%d,%s\n" % (n, b"x" if n == 17 else b"1") for n in range(40))


def world_of(name: str) -> World:
    world = World(DATA, types={"n": "N"}, options={"chunk_bytes": 60})
    for path, value in json.loads((LEDGERS / "version_1.json").read_text("utf-8"))[name].items():
        text = value if path.endswith(".jsonl") else json.dumps(value)
        world.store.objects[path] = text.encode()
    return world


def test_version_1_run_keeps_status_when_done():
    world = world_of("finished")
    found = read_run(RUN, world.context()).report
    assert (found.status, found.rows) == ("SUCCEEDED", RowCounts(40, 39, 1))


def test_version_1_run_finishes_without_stamps():
    world = world_of("half_done")
    report = world.run()
    assert (report.status, report.rows) == ("SUCCEEDED_WITH_REJECTS", RowCounts(40, 39, 1))
    assert len(world.items) == 18
    assert world.read_json("run.json").get("ledger_version", 1) == 1
    for name in world.in_ledger("chunks/"):
        assert not {"run", "configuration"} & world.read_json(name).keys()


def test_version_1_run_refuses_segment_of_later_version():
    world = world_of("half_done")
    other = World(DATA, types={"n": "N"}, options={"chunk_bytes": 60})
    other.preflight()
    other.import_one(other.manifest[3])
    (name,) = other.in_ledger("chunks/")
    world.store.objects[f"runs/{RUN}/{name}"] = other.store.objects[f"runs/{RUN}/{name}"]
    with pytest.raises(errors.LedgerDamaged, match="was not written by this run"):
        world.report()


def test_later_run_refuses_segment_of_version_1():
    world = World(DATA, types={"n": "N"}, options={"chunk_bytes": 60})
    world.preflight()
    earlier = world_of("finished").store.objects
    for name in [name for name in earlier if "/chunks/" in name]:
        world.store.objects[name] = earlier[name]
    with pytest.raises(errors.LedgerDamaged, match="was not written by this run"):
        world.report()
    assert world.items == []
