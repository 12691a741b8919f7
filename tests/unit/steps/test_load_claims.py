"""Many runs that shall load their objects once begin at the same time."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.states import PreflightTask
from ddbload.ledger.bucket_store import BucketStore
from ddbload.ledger.store import FolderStore
from ddbload.steps.preflight import preflight
from tests.unit.steps.world import BUCKET, World
from tests.unit.steps.worlds import ManyObjects

BEGUN = "begun"


class OneAtATime:
    """A fake for many threads: each call for itself, and after it another thread's turn."""

    def __init__(self, fake: Any) -> None:
        self._fake = fake
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if not callable(getattr(self._fake, name)) or name == "meta":
            return getattr(self._fake, name)

        def call(*positional: Any, **named: Any) -> Any:
            with self._lock:
                answer = getattr(self._fake, name)(*positional, **named)
            time.sleep(random.random() / 1000)
            return answer

        return call


def world_of(store: str, objects: int, folder: Path) -> World:
    world = ManyObjects(files={f"{n}.csv": b"id,n\n%d,1\n" % n for n in range(objects)})
    world.s3.create_bucket(Bucket="work")
    s3 = world.s3
    world.s3 = OneAtATime(s3)
    world.dynamodb = OneAtATime(world.dynamodb)
    if store == "folder":
        world.store = FolderStore(folder)
    elif store == "bucket":
        world.store = BucketStore(world.s3, "work")
    else:
        world.store = OneAtATime(world.store)
    return world


def payload_of(world: World, run: str, objects: Sequence[int]) -> dict[str, Any]:
    keys = [f"many/{number}.csv" for number in objects]
    source: dict[str, Any] = {"bucket": BUCKET, "key": keys[0]}
    if len(keys) > 1:
        source = {"sources": [f"s3://{BUCKET}/{key}" for key in keys]}
    return {**world.payload, "run": {"id": run, "once": True}, "source": source}


def begin_all(world: World, runs: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Begin runs over objects all at once, in threads; say of each how it began."""
    together = threading.Barrier(len(runs))

    def begin(run: str) -> str:
        context = replace(world.context(), now=lambda: 1000.0, sleep=time.sleep)
        task = PreflightTask(payload_of(world, run, runs[run]), run)
        together.wait()
        try:
            preflight(task, context)
        except errors.DdbloadError as error:
            return error.name
        return BEGUN

    with ThreadPoolExecutor(len(runs)) as pool:
        return dict(zip(runs, pool.map(begin, runs), strict=True))


def begun(outcomes: Mapping[str, str]) -> set[str]:
    assert set(outcomes.values()) <= {BEGUN, "AlreadyLoading"}
    return {run for run, outcome in outcomes.items() if outcome == BEGUN}


@pytest.mark.parametrize("store", ["memory", "folder", "bucket"])
def test_one_of_many_runs_of_the_same_object_begins(store, tmp_path):
    outcomes = begin_all(world_of(store, 1, tmp_path), {f"r{n}": [0] for n in range(20)})
    assert len(begun(outcomes)) == 1


@pytest.mark.parametrize("store", ["memory", "folder", "bucket"])
def test_run_of_several_objects_begins_or_those_of_one_do(store, tmp_path):
    world = world_of(store, 12, tmp_path)
    single = {f"r{number}": [number] for number in range(10)}
    outcomes = begin_all(world, {"several": range(10), **single, "r10": [10], "r11": [11]})
    assert begun(outcomes) - {"r10", "r11"} in ({"several"}, set(single))
    assert {"r10", "r11"} <= begun(outcomes)


def begin_within(world: World, outer: str, inner: str, step: int) -> dict[str, str]:
    """Begin a run before a step of another one's accesses to the store, from its claim on."""
    objects = {"one": [1], "several": [0, 1]}
    outcomes: dict[str, str] = {}
    steps = count()

    def begin(run: str) -> None:
        try:
            preflight(PreflightTask(payload_of(world, run, objects[run]), run), world.context())
        except errors.AlreadyLoading as error:
            outcomes[run] = error.name
        else:
            outcomes[run] = BEGUN

    def hook(_: str, name: str, __: bytes) -> None:
        is_claim = name.startswith("once/")
        if (is_claim or any(seen)) and next(steps) == step:
            world.store.hook = lambda *_: None
            begin(inner)
        seen.append(is_claim)

    seen: list[bool] = []
    world.store.hook = hook
    begin(outer)
    world.store.hook = lambda *_: None
    return outcomes


@pytest.mark.parametrize(("outer", "inner"), [("one", "several"), ("several", "one")])
def test_one_of_two_runs_begins_whenever_the_other_does(outer, inner, tmp_path):
    for step in count():
        world = world_of("memory", 2, tmp_path)
        world.store = world.store._fake
        outcomes = begin_within(world, outer, inner, step)
        if inner not in outcomes:
            break
        assert len(begun(outcomes)) == 1, (step, outcomes)
    assert step > 10
