"""Samples of an invocation's progress."""

from __future__ import annotations

from tests.fakes.dynamodb_faults import Fault
from tests.unit.steps.world import World

DATA = b"id\n" + b"".join(b"r%d\n" % number for number in range(400))


def test_rows_are_sampled_when_they_are_accepted_although_an_earlier_one_is_not():
    """Otherwise rows per second would be 0 while DynamoDB accepts rows, and write units go on."""
    world = World(DATA, options={"engine": "sync"}, request_seconds=1.0)
    world.preflight()
    (chunk,) = world.manifest
    late = Fault(unprocessed=lambda _, request: request["PutRequest"]["Item"]["id"]["S"] == "r3")
    world.dynamodb.faults.decide = lambda operation, _: (
        late if operation == "batch_write_item" and len(world.dynamodb.writes) < 399 else None
    )
    segment = world.import_step(chunk, context=world.context(500.0)).segments[0]
    assert segment is not None
    assert segment.times is not None
    samples = list(segment.times.iter_samples())
    assert len([each for each in samples if 100 < each.rows < 399]) >= 3
    assert all(each.rows == each.units for each in samples)
