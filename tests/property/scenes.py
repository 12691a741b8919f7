"""Whole runs that are interrupted: a file, how it is read and written, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.results import Report
from tests.property.rows_files import dialects
from tests.unit.steps.chaos import Chaos, Plan, plan
from tests.unit.steps.generated import Case, Sizes, case, closed, recipes

FEWER = settings(max_examples=max(1, settings.default.max_examples // 2))
"""Fewer examples: an interrupted run takes twenty times as long as a split."""
EVENTS = 12


@dataclass(frozen=True)
class Scene:
    """A file, how it is read and written, and what happens meanwhile."""

    case: Case
    chunk_bytes: int
    sizes: Sizes
    plan: Plan

    def survive(self) -> tuple[Chaos, Report]:
        """Run to the end with all interruptions, and return the report."""
        world = self.case.world(self.chunk_bytes)
        chaos = Chaos(world, self.plan)
        with self.sizes():
            return chaos, chaos.conclude()

    def undisturbed(self) -> Report:
        """Return the report of a run without interruptions."""
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
