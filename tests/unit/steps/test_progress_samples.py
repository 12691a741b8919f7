"""Samples of an invocation's progress: few however long it takes, in order, up to its end."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ddbload.contracts.results import MAX_SAMPLES, ProgressSamples, SegmentTimes
from tests.fakes.dynamodb_faults import Fault
from tests.unit.steps.world import World

DATA = b"id\n" + b"".join(b"r%d\n" % number for number in range(400))


def times_after(seconds: float) -> SegmentTimes:
    """Sample an invocation that polls ten times a second and settles ten rows each time."""
    samples = ProgressSamples("ab", began=1e9, now=50.0)
    polls = round(seconds * 10)
    for poll in range(polls + 1):
        samples.add(50.0 + poll / 10, 10 * poll, 12.5 * poll, poll)
    return samples.times(50.0 + seconds)


@pytest.mark.parametrize("seconds", [0.5, 1, 20, 33, 60, 840, 10_000])
def test_samples_are_few_and_even(seconds):
    times = times_after(seconds)
    assert (times.began, times.ended) == (1e9, 1e9 + seconds)
    found = list(times.iter_samples())
    assert min(seconds, MAX_SAMPLES) // 2 <= len(found) <= MAX_SAMPLES
    for sample in found:
        assert sample.rows == pytest.approx(sample.seconds * 100)
        assert sample.throttled == pytest.approx(sample.seconds * 10)
    steps = [b.seconds - a.seconds for a, b in pairwise(found)]
    assert not steps or max(steps) <= min(steps) * 2 + 0.3


def test_rows_are_sampled_when_they_are_accepted_although_an_earlier_one_is_not():
    """Otherwise rows per second would be 0 while DynamoDB accepts rows, and write units go on."""
    world = World(DATA, options={"engine": "sync"}, request_seconds=1.0)
    world.preflight()
    (chunk,) = world.manifest
    late = Fault(unprocessed=lambda _, request: request["PutRequest"]["Item"]["id"]["S"] == "r3")
    world.dynamodb.faults.decide = lambda operation, _: (
        late if operation == "batch_write_item" and len(world.dynamodb.writes) < 399 else None
    )
    segment = world.import_step(chunk, context=world.context(500.0)).segment
    assert segment is not None
    assert segment.times is not None
    samples = list(segment.times.iter_samples())
    assert len([each for each in samples if 100 < each.rows < 399]) >= 3
    assert all(each.rows == each.units for each in samples)
