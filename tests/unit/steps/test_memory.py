"""Memory that an import leaves behind."""

from __future__ import annotations

import gc
import weakref

import pytest

from ddbload.steps import import_chunk
from ddbload.steps.row_feeder import RowFeeder
from tests.unit.steps.world import World
from tests.unit.steps.worlds import only_chunk


@pytest.mark.parametrize("ends", ["whole", "cut"])
def test_import_frees_its_rows_when_it_ends(monkeypatch, ends):
    """Rows take megabytes, and reference cycles would keep them while collections are rare."""
    made: list[weakref.ref[RowFeeder]] = []

    class Watched(RowFeeder):
        def __init__(self, *args, **more):
            super().__init__(*args, **more)
            made.append(weakref.ref(self))

    monkeypatch.setattr(import_chunk, "RowFeeder", Watched)
    world = World(b"id,a\n" + b"".join(b"r%d,x\n" % n for n in range(200)), request_seconds=1.0)
    chunk = only_chunk(world)
    context = world.context(3.0 if ends == "cut" else 99.0)
    gc.collect()
    gc.disable()
    try:
        world.import_step(chunk, context=context)
        assert [each() for each in made] == [None]
    finally:
        gc.enable()
