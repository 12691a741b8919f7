"""Laws of the ledger: interruptions change nothing in a run's outcome."""

from __future__ import annotations

from hypothesis import given

from ddbload.contracts.results import DONE
from tests.property.scenes import FEWER, Scene, scenes
from tests.unit.steps.expected import (
    assert_rejects_are,
    assert_segments_tell_the_truth,
    status_for,
    table_of,
)


@FEWER
@given(scenes())
def test_report_is_the_same_after_interruptions(scene: Scene) -> None:
    _, report = scene.survive()
    fair = scene.undisturbed()
    assert report.status == status_for(report.rows)
    assert report.rows.read == fair.rows.read
    assert report.rows.rejected == fair.rows.rejected
    assert report.rows.conserved
    assert report.bytes == report.size == fair.size
    assert report.chunks_done == report.chunks
    if scene.case.has_unique_keys:
        assert report.rows == fair.rows


@FEWER
@given(scenes())
def test_each_key_holds_one_of_its_rows(scene: Scene) -> None:
    chaos, _ = scene.survive()
    table, expected = table_of(chaos.world), scene.case.outcome.all_of_each_key
    assert table.keys() == expected.keys()
    assert all(item in expected[key] for key, item in table.items())


@FEWER
@given(scenes())
def test_segments_and_rejects_match_the_file(scene: Scene) -> None:
    chaos, _ = scene.survive()
    assert_segments_tell_the_truth(chaos.world, scene.case.outcome)
    assert_rejects_are(scene.case.outcome.rejects, chaos.world.rejects())


@FEWER
@given(scenes())
def test_report_in_between_is_no_false_success(scene: Scene) -> None:
    chaos, report = scene.survive()
    for early in chaos.reports:
        assert early.rows.read <= report.rows.read
        if early.status in DONE:
            assert early.rows == report.rows
