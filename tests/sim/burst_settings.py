"""Settings of the deployment that decide what becomes of a burst, read from where they are set.

Queues and functions: tests/infra/template.json, which a test keeps equal to the synthesized
template. Retries of tasks and of the Map: the state machine's definition. Retries inside on_upload:
the code's own policy.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

from infra import DEFINITION, ROOT

TEMPLATE = ROOT / "tests" / "infra" / "template.json"
HISTORY_EVENTS_OF_A_RETRY = 3
"""TaskScheduled, TaskStarted and TaskFailed."""


@dataclass(frozen=True)
class Retrier:
    """One entry of a state's Retry field."""

    errors: tuple[str, ...]
    interval: float
    attempts: int
    rate: float
    most: float

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Self:
        # Step Functions' defaults. Entries without attempts wait for nothing.
        assert entry["MaxAttempts"] == 0 or entry["JitterStrategy"] == "FULL"
        return cls(
            tuple(entry["ErrorEquals"]),
            entry.get("IntervalSeconds", 1),
            entry.get("MaxAttempts", 3),
            entry.get("BackoffRate", 2.0),
            entry.get("MaxDelaySeconds", float("inf")),
        )

    def longest(self, retry: int) -> float:
        """Return the upper limit of the wait before a retry, counted from 0."""
        if retry > 60:
            return self.most
        return min(self.most, self.interval * self.rate**retry)


@dataclass(frozen=True)
class BurstSettings:
    """Queue, mapping and function of uploads, and the retriers of each state."""

    visibility: float
    receives: int
    batch: int
    concurrency: int
    timeout: float
    retriers: dict[str, list[Retrier]]

    @classmethod
    def read(cls) -> Self:
        resources = json.loads(TEMPLATE.read_text("utf-8"))["Resources"].values()
        by_type: dict[str, list[Any]] = {}
        for resource in resources:
            by_type.setdefault(resource["Type"], []).append(resource["Properties"])
        (queue,) = (each for each in by_type["AWS::SQS::Queue"] if "RedrivePolicy" in each)
        (mapping,) = by_type["AWS::Lambda::EventSourceMapping"]
        (function,) = (
            each
            for each in by_type["AWS::Lambda::Function"]
            if each["Handler"] == "lambdas.on_upload.handler"
        )
        states = json.loads(DEFINITION.read_text("utf-8"))["States"]
        children = states["ImportChunks"]["ItemProcessor"]["States"]
        return cls(
            visibility=queue["VisibilityTimeout"],
            receives=queue["RedrivePolicy"]["maxReceiveCount"],
            batch=mapping["BatchSize"],
            concurrency=mapping["ScalingConfig"]["MaximumConcurrency"],
            timeout=function["Timeout"],
            retriers={
                name: [Retrier.of(entry) for entry in state.get("Retry", [])]
                for name, state in {**states, **children}.items()
            },
        )

    def retrier(self, state: str, error: str) -> Retrier | None:
        """Return the first entry that names the error, as Step Functions looks for it."""
        for retrier in self.retriers[state]:
            if error in retrier.errors or retrier.errors == ("States.ALL",):
                return retrier
        return None
