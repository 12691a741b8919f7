"""Uploads to one key are loaded one after another, and the newest last."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddbload.context import Context
from ddbload.contracts.payload import Payload
from ddbload.contracts.states import PreflightTask
from ddbload.contracts.upload_rule import Upload, UploadRule, sequencer_rank
from ddbload.errors import UploadSuperseded
from ddbload.steps.executions import Executions
from ddbload.steps.uploads import on_upload, wait_for_turn
from tests.fakes.stepfunctions import FakeStepFunctions
from tests.unit.steps.world import Clock, FakeClients, MemoryStore

RULES = (UploadRule("in/", "books"),)


def event(sequencer: str, version: str) -> dict[str, Any]:
    uploaded = {"key": "in/a.csv", "etag": version, "version-id": version, "sequencer": sequencer}
    return {"detail": {"bucket": {"name": "inbox"}, "object": uploaded}}


def run_of(each: dict[str, Any]) -> str:
    return Upload.of(each).run


class Inbox:
    """One key's uploads, and executions that tests move step by step."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(clock=self.clock)
        self.stepfunctions = FakeStepFunctions()
        self.executions = Executions(self.stepfunctions, self.stepfunctions.machine)
        self.context = Context(
            store=self.store,
            clients=FakeClients(None, None, self.stepfunctions),
            now=self.clock,
            sleep=self.clock.sleep,
        )
        self.loading: list[str] = []
        self.loaded: list[str] = []
        self.refused: list[str] = []
        self.busy: set[str] = set()

    def deliver(self, each: dict[str, Any]) -> str:
        return str(on_upload(each, self.context, RULES, self.executions)["outcome"])

    @property
    def running(self) -> list[str]:
        """ARNs of executions that have not ended, and are not within a step."""
        started = self.stepfunctions.started
        running = [arn for arn, each in started.items() if each["status"] == "RUNNING"]
        return [arn for arn in running if arn not in self.busy]

    def step(self, arn: str) -> PreflightTask | None:
        """Let an execution take its next step; return its task if it must wait."""
        execution = self.stepfunctions.started[arn]
        run = execution["name"]
        if run in self.loading:
            self.loading.remove(run)
            self.stepfunctions.end(arn)
            return None
        task = PreflightTask(json.loads(execution["input"]), run, execution=arn)
        self.busy.add(arn)
        try:
            waiting = wait_for_turn(task, Payload.from_json(task.input), run, self.context)
        except UploadSuperseded:
            self.refused.append(run)
            self.stepfunctions.end(arn, "FAILED")
            return None
        finally:
            self.busy.discard(arn)
        if waiting is None:
            self.loading.append(run)
            self.loaded.append(run)
        return waiting


@given(
    st.lists(st.text("0123456789ABCDEFabcdef", min_size=1, max_size=20), min_size=1, max_size=8),
    st.integers(0, 2**32),
)
@settings(max_examples=50)
def test_newest_of_100_reordered_deliveries_is_loaded_last_and_each_once(sequencers, seed):
    chance = random.Random(seed)
    uploads = {sequencer_rank(each): event(each, f"v{each}") for each in sequencers}
    deliveries = [chance.choice(list(uploads.values())) for _ in range(100)] + [*uploads.values()]
    chance.shuffle(deliveries)
    inbox = Inbox()

    def meanwhile(moment: str, name: str, _data: bytes) -> None:
        """Let others come before and after the write of a state."""
        while moment != "get" and name.startswith("uploads/") and chance.random() < 0.4:
            act()

    def act() -> None:
        inbox.clock.sleep(chance.choice([0, 1, 300]))
        if deliveries and chance.random() < 0.6:
            inbox.deliver(deliveries.pop())
        elif inbox.running:
            inbox.step(chance.choice(inbox.running))
        assert len(inbox.loading) <= 1, "two uploads of a key were loaded at once"

    inbox.store.hook = meanwhile
    while deliveries or inbox.running:
        act()
    ranks = {run_of(each): rank for rank, each in uploads.items()}
    loaded = [ranks[run] for run in inbox.loaded]
    assert loaded == sorted(set(loaded))
    assert loaded[-1] == max(uploads)
    assert len(inbox.stepfunctions.started) == len(loaded) + len(inbox.refused)


def test_sequencers_compare_as_aws_says():
    """AWS: "right pad the shorter value with zeros, and then do a lexicographical comparison"."""

    def is_later(one: str, other: str) -> bool:
        digits = max(len(one), len(other))
        return one.ljust(digits, "0") > other.ljust(digits, "0")

    texts = ["0", "00", "1", "10", "1000", "0055AED6DCD90281E5", "0055AED6DCD90281E50", "0055AED6E"]
    for one in texts:
        for other in texts:
            assert (sequencer_rank(one) > sequencer_rank(other)) == is_later(one, other)
    assert sequencer_rank("AB") == sequencer_rank("ab0")


def test_newer_upload_waits_longer_each_time_until_the_older_one_has_ended():
    inbox = Inbox()
    inbox.deliver(event("01", "v1"))
    inbox.deliver(event("02", "v2"))
    first, second = inbox.running
    inbox.step(first)
    waiting = inbox.step(second)
    assert waiting is not None
    assert waiting.wait == 5
    payload = Payload.from_json(waiting.input)
    waits = []
    for _ in range(8):
        again = PreflightTask.from_json(json.loads(json.dumps(waiting.to_json())))
        waiting = wait_for_turn(again, payload, again.run, inbox.context)
        assert waiting is not None
        waits.append(waiting.wait)
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]
    inbox.stepfunctions.end(first, "ABORTED")
    assert inbox.step(second) is None
    assert inbox.loaded[-1] == run_of(event("02", "v2"))


def test_run_of_an_older_upload_is_not_resumed_over_a_newer_one():
    inbox = Inbox()
    inbox.deliver(event("01", "v1"))
    (first,) = inbox.running
    inbox.step(first)
    given_input = json.loads(inbox.stepfunctions.started[first]["input"])
    inbox.stepfunctions.end(first, "FAILED")
    inbox.loading.clear()
    run = run_of(event("01", "v1"))
    resumed = PreflightTask(given_input, run, execution=f"{first}-r1")
    payload = Payload.from_json(given_input)
    assert wait_for_turn(resumed, payload, run, inbox.context) is None
    inbox.deliver(event("02", "v2"))
    (second,) = inbox.running
    assert inbox.step(second) is None
    with pytest.raises(UploadSuperseded, match=run_of(event("02", "v2"))):
        wait_for_turn(resumed, payload, run, inbox.context)
    forced = Payload.from_json({**given_input, "run": {"id": run, "force": True}})
    assert wait_for_turn(resumed, forced, run, inbox.context) is None
