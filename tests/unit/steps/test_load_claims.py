"""Of runs that shall load an object once one begins, whenever the others do."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from ddbload.contracts.states import PreflightTask
from ddbload.errors import AlreadyLoading
from ddbload.steps.preflight import preflight
from tests.unit.steps.world import BUCKET, World
from tests.unit.steps.worlds import ManyObjects

OBJECTS = {"one": [1], "same": [1], "several": [0, 1], "others": [1, 2], "apart": [3]}
"""Objects of each run."""


def begins(world: World, run: str) -> bool:
    keys = [f"many/{number}.csv" for number in OBJECTS[run]]
    source: dict[str, Any] = {"bucket": BUCKET, "key": keys[0]}
    if len(keys) > 1:
        source = {"sources": [f"s3://{BUCKET}/{key}" for key in keys]}
    payload = {**world.payload, "run": {"id": run, "once": True}, "source": source}
    try:
        preflight(PreflightTask(payload, run), world.context())
    except AlreadyLoading:
        return False
    return True


def begin_within(outer: str, inner: str, step: int) -> dict[str, bool]:
    """Begin a run before a step of another one's accesses to the store, from its claim on."""
    world = ManyObjects(files={f"{n}.csv": b"id,n\n%d,1\n" % n for n in range(4)})
    outcomes: dict[str, bool] = {}
    steps, seen = count(), []

    def hook(_: str, name: str, __: bytes) -> None:
        is_claim = name.startswith("once/")
        if (is_claim or any(seen)) and next(steps) == step:
            world.store.hook = lambda *_: None
            outcomes[inner] = begins(world, inner)
        seen.append(is_claim)

    world.store.hook = hook
    outcomes[outer] = begins(world, outer)
    world.store.hook = lambda *_: None
    return outcomes


@pytest.mark.parametrize(
    ("outer", "inner", "begun"),
    [
        ("one", "same", 1),
        ("one", "several", 1),
        ("several", "one", 1),
        ("several", "others", 1),
        ("several", "apart", 2),
    ],
)
def test_one_of_two_runs_begins_whenever_the_other_does(outer, inner, begun):
    for step in count():
        outcomes = begin_within(outer, inner, step)
        if inner not in outcomes:
            break
        assert sum(outcomes.values()) == begun, (step, outcomes)
    assert step > 10
