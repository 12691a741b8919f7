"""Laws of the ledger: whatever dies, comes twice or comes late, the run comes to the same."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from ddbload.contracts.dialect import Dialect
from ddbload.contracts.results import DONE, Report
from tests.property.rows_files import dialects
from tests.unit.pipeline.chaos import Chaos, Plan, plan
from tests.unit.pipeline.expected import (
    assert_rejects_are,
    assert_segments_tell_the_truth,
    status_for,
    table_of,
)
from tests.unit.pipeline.generated import Case, Sizes, case, closed, recipes

FEWER = settings(max_examples=max(1, settings.default.max_examples // 2))
"""A run with all that happens to it takes twenty times as long as a split."""
EVENTS = 12


@dataclass(frozen=True)
class Scene:
    """A file, how it is read and written, and what happens meanwhile."""

    case: Case
    chunk_bytes: int
    sizes: Sizes
    plan: Plan

    def survive(self) -> tuple[Chaos, Report]:
        """A run to its end, and its report."""
        world = self.case.world(self.chunk_bytes)
        chaos = Chaos(world, self.plan)
        with self.sizes():
            chaos.run()
            chaos.finish()
            return chaos, world.report()

    def undisturbed(self) -> Report:
        """The report of a run in which nothing happens."""
        with self.sizes():
            return self.case.world(self.chunk_bytes).run()


def scenes() -> st.SearchStrategy[Scene]:
    return st.builds(_scene, dialects(), recipes(8 + 4 + 1 + 3 * EVENTS))


def _scene(dialect: Dialect, recipe: bytes) -> Scene:
    chunks, block, reads, batch, recipe = *recipe[:4], recipe[4:]
    plan_bytes, recipe = recipe[: 1 + 3 * EVENTS], recipe[1 + 3 * EVENTS :]
    sizes = Sizes(
        block_bytes=(16, 3, 50, 2**20)[block % 4],
        range_bytes=(64, 2**23, 20)[reads % 3],
        batch_rows=(2, 1, 3, 1)[batch % 4],
        ready_rows=(2000, 5)[batch // 4 % 2],
        spread_rows=(2000, 1)[reads % 2],
        attempt_rows=(5_000, 1, 3)[reads // 4 % 3],
    )
    chunk_bytes = (10**6, 60, 200, 120)[chunks % 4]
    return Scene(closed(case(dialect, recipe)), chunk_bytes, sizes, plan(plan_bytes))


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
