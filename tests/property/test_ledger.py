"""Laws of the ledger: interruptions change nothing in a run's outcome."""

from __future__ import annotations

from hypothesis import given

from ddbload.contracts.results import DONE
from tests.property.scenes import Scene, scenes
from tests.unit.steps.expected import (
    assert_rejects_are,
    assert_segments_tell_the_truth,
    status_for,
    table_of,
)


@given(scenes())
def test_interruptions_change_nothing(scene: Scene) -> None:
    """Neither the report nor table, segments and rejects; none in between is a false success."""
    chaos, report = scene.survive()
    fair, expected = scene.undisturbed(), scene.case.outcome
    assert report.status == status_for(report.rows)
    assert report.rows.read == fair.rows.read
    assert report.rows.rejected == fair.rows.rejected
    assert report.rows.conserved
    assert report.bytes == report.size == fair.size
    assert report.chunks_done == report.chunks
    if scene.case.has_unique_keys:
        assert report.rows == fair.rows
    table, rows = table_of(chaos.world), expected.all_of_each_key
    assert table.keys() == rows.keys()
    assert all(item in rows[key] for key, item in table.items())
    assert_segments_tell_the_truth(chaos.world, expected)
    assert_rejects_are(expected.rejects, chaos.world.rejects())
    for early in chaos.reports:
        assert early.rows.read <= report.rows.read
        assert early.status not in DONE or early.rows == report.rows
