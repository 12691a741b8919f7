"""Of runs that shall load an object once one begins, whenever the others do."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from ddbload.contracts.states import PreflightTask
from ddbload.errors import AlreadyLoading
from ddbload.ledger.remembering_store import RememberingStore
from ddbload.steps.preflight import preflight
from tests.unit.steps.world import BUCKET, World
from tests.unit.steps.worlds import ManyObjects

OBJECTS = {"one": [1], "same": [1], "several": [0, 1], "others": [1, 2], "apart": [3]}
"""Objects of each run."""


def begins(world: World, run: str, wrap: Any = RememberingStore, **context: Any) -> bool:
    keys = [f"many/{number}.csv" for number in OBJECTS[run]]
    source: dict[str, Any] = {"bucket": BUCKET, "key": keys[0]}
    if len(keys) > 1:
        source = {"sources": [f"s3://{BUCKET}/{key}" for key in keys]}
    payload = {**world.payload, "run": {"id": run, "once": True}, "source": source}
    try:
        preflight(
            PreflightTask(payload, run),
            replace(world.context(), store=wrap(world.store), **context),
        )
    except AlreadyLoading:
        return False
    return True


def begin_within(outer: str, inner: str, step: int, wrap: Any) -> dict[str, bool]:
    """Begin a run before a step of another one's accesses to the store, from its claim on."""
    world = ManyObjects(files={f"{n}.csv": b"id,n\n%d,1\n" % n for n in range(4)})
    outcomes: dict[str, bool] = {}
    steps, seen = count(), []

    def hook(_: str, name: str, __: bytes) -> None:
        is_claim = name.startswith("once/")
        if (is_claim or any(seen)) and next(steps) == step:
            world.store.hook = lambda *_: None
            outcomes[inner] = begins(world, inner, wrap)
        seen.append(is_claim)

    world.store.hook = hook
    outcomes[outer] = begins(world, outer, wrap)
    world.store.hook = lambda *_: None
    return outcomes


@pytest.mark.parametrize(
    "wrap", [lambda store: store, RememberingStore], ids=["plain", "remembers"]
)
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
def test_one_of_two_runs_begins_whenever_the_other_does(outer, inner, begun, wrap):
    for step in count():
        outcomes = begin_within(outer, inner, step, wrap)
        if inner not in outcomes:
            break
        assert sum(outcomes.values()) == begun, (step, outcomes)
    assert step > 10


def test_run_of_one_object_sees_that_one_of_several_yields():
    world = ManyObjects(files={f"{n}.csv": b"id,n\n%d,1\n" % n for n in range(2)})

    def interrupt(moment: str, name: str, _: bytes) -> None:
        if (moment, name.rpartition("/")[2]) == ("done", "several.json"):
            claimed.append(name)
            raise AlreadyLoading("it has found the claim of the other, and has not yielded yet")

    claimed: list[str] = []
    world.store.hook = interrupt
    assert not begins(world, "several")
    world.store.hook = lambda *_: None
    assert begins(world, "one", sleep=lambda _: world.store.put(claimed[0], b'{"claims":[]}'))
