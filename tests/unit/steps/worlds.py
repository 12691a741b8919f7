"""Variants of the world, and steps that many tests begin with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.states import PreflightTask
from ddbload.errors import DdbloadError
from ddbload.steps.preflight import preflight
from tests.unit.steps.machine import over_the_wire
from tests.unit.steps.world import BUCKET, RUN, World

HEADER = b"id\n"
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
    """Assert that preflight raises this error before it writes more than the request."""
    payload = {**world.payload, **changes}
    payload = {name: value for name, value in payload.items() if value is not ...}
    before = world.beyond_request
    with pytest.raises(error, match=words) as raised:
        preflight(PreflightTask(payload, RUN), world.context())
    assert type(raised.value) is error
    assert world.beyond_request == before
    assert not [call for call in world.dynamodb.calls if call.operation == "batch_write_item"]
    assert not [call for call in world.s3.calls[2:] if call.operation == "put_object"]


def many(count: int, **more: Any) -> ManyObjects:
    files = {f"{number:05d}.csv": HEADER + b"%d\n" % number for number in range(count)}
    return ManyObjects(files=files, **more)


def slow(world: World) -> World:
    """Have each page of S3's listing and each object of the ledger take a second."""

    def tick(operation: str, _: Any) -> None:
        if operation in ("list_objects_v2", "head_object"):
            world.clock.sleep(1.0)

    def write(moment: str, *_: Any) -> None:
        if moment == "put_new":
            world.clock.sleep(1.0)

    world.s3.faults.decide = tick
    world.store.hook = write
    return world


def list_all(world: World, seconds: float) -> int:
    """Run preflight until the objects are listed; return the number of invocations."""
    task = PreflightTask(world.payload, RUN)
    count = 1
    while isinstance(result := preflight(task, world.context(seconds)), PreflightTask):
        task = PreflightTask.from_json(over_the_wire(result.to_json()))
        count += 1
    return count
