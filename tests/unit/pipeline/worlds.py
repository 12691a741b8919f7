"""Variants of the world, and steps that many tests begin with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.states import PreflightTask
from ddbload.errors import DdbloadError
from ddbload.pipeline.preflight.preflight import preflight
from tests.unit.pipeline.world import BUCKET, RUN, World

PREFIX = {"key": None, "prefix": "many/"}


@dataclass
class ManyObjects(World):
    """Files under a prefix; each read takes `ticks` seconds."""

    data: bytes = b""
    files: dict[str, bytes] = field(default_factory=dict)
    ticks: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.source = {**PREFIX, **self.source}
        for name, content in self.files.items():
            self.put(name, content)
        self.s3.faults.decide = self._tick

    def put(self, name: str, content: bytes) -> None:
        """Add an object to the source."""
        self.s3.put_object(Bucket=BUCKET, Key=f"many/{name}", Body=content)

    def _tick(self, operation: str, _: Any) -> None:
        if operation == "get_object":
            self.clock.sleep(self.ticks)


class SlowReads(World):
    """World in which every read takes a second."""

    def __post_init__(self) -> None:
        super().__post_init__()
        real = self.s3.get_object

        def get(**params):
            self.clock.sleep(1.0)
            return real(**params)

        self.s3.get_object = get


def only_chunk(world: World) -> Chunk:
    """Run preflight, and return the only chunk of the manifest."""
    world.preflight()
    (chunk,) = world.manifest
    return chunk


def assert_refused(world: World, error: type[DdbloadError], words: str, **changes: Any) -> None:
    """Assert that preflight raises this error before it writes anything."""
    payload = {**world.payload, **changes}
    payload = {name: value for name, value in payload.items() if value is not ...}
    before = dict(world.store.objects)
    with pytest.raises(error, match=words) as raised:
        preflight(PreflightTask(payload, RUN), world.context())
    assert type(raised.value) is error
    assert world.store.objects == before
    assert not [call for call in world.dynamodb.calls if call.operation == "batch_write_item"]
    assert not [call for call in world.s3.calls[2:] if call.operation == "put_object"]
