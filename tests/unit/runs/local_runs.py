"""Imports in this process, against fakes of AWS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ddbload.context import ChunkProgress, Context
from ddbload.runs.run_import import EndedImport, run_import
from tests.unit.steps.world import RUN, World


@dataclass
class Settings:
    """Settings whose contexts have the fakes of a world."""

    world: World
    segment_seconds: float = 60.0
    concurrency: int = 1
    contexts: list[Context] = field(default_factory=list)

    def context(
        self,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        progress: Callable[[ChunkProgress], None] = lambda _: None,
        clients: Any = None,
    ) -> Context:
        assert clients is None, "a world has clients of its own"
        self.contexts.append(self.world.context(should_stop=should_stop, progress=progress))
        return self.contexts[-1]


def conduct(world: World, seconds: float = 60.0, **how: Any) -> EndedImport:
    settings: Any = Settings(world, seconds)
    return run_import(world.payload, settings, run=RUN, **how)
