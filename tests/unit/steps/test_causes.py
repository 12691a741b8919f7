"""Rejects counted by cause, in segments and reports."""

from __future__ import annotations

import json

import pytest

from ddbload.contracts.results import Report, Segment
from ddbload.errors import InvalidPayload, TooManyRejects
from tests.unit.contracts.message_samples import REPORT, SEGMENT
from tests.unit.steps.world import World

ROWS = b"id,n\n" + b"".join(
    (b"k%d,x\n", b"k%d\n", b"k%d,1\n", b",%d\n")[number % 4] % number for number in range(60)
)
CAUSES = {"empty_key": 15, "field_count": 15, "not_a_number": 15}


@pytest.mark.parametrize("mode", ["put", "plan"])
@pytest.mark.parametrize("seconds", [1.5, float("inf")])
def test_segments_count_their_rejects_by_cause(mode, seconds):
    world = World(
        ROWS, types={"n": "N"}, options={"chunk_bytes": 100, "mode": mode}, request_seconds=1.0
    )
    report = world.run(seconds)
    assert report.causes == CAUSES
    assert world.read_json("report.json")["causes"] == CAUSES
    for segment in world.ledger.iter_segments():
        assert sum((segment.causes or {}).values()) == segment.rows.rejected


def test_rows_after_the_segment_are_not_counted():
    world = World(ROWS, types={"n": "N"}, options={"max_rejects": 3})
    world.preflight()
    with pytest.raises(TooManyRejects):
        world.import_one(world.manifest[0])
    (segment,) = world.ledger.iter_segments()
    assert sum((segment.causes or {}).values()) == segment.rows.rejected > 0


def test_report_counts_what_segments_of_earlier_versions_leave():
    world = World(ROWS, types={"n": "N"}, options={"chunk_bytes": 100})
    world.run()
    name = world.in_ledger("chunks/")[0]
    segment = world.read_json(name)
    missing = segment.pop("causes")
    world.write_json(name, segment)
    report = world.report()
    assert report.rows.rejected == 45
    assert report.causes == {
        cause: count - missing.get(cause, 0)
        for cause, count in CAUSES.items()
        if count > missing.get(cause, 0)
    }


@pytest.mark.parametrize("message", [SEGMENT, REPORT])
def test_causes_are_optional_and_counts(message: Segment | Report):
    value = json.loads(json.dumps(message.to_json()))
    assert "causes" not in value
    kind = type(message)
    assert kind.from_json(value) == message
    assert kind.from_json({**value, "causes": {"a": 1}}).causes == {"a": 1}
    for wrong in ({"a": 0}, {"a": "1"}, ["a"]):
        with pytest.raises(InvalidPayload, match="causes"):
            kind.from_json({**value, "causes": wrong})
