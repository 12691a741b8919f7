"""Uploads, and the function that starts runs for them, over fakes."""

from __future__ import annotations

import json
from typing import Any

from ddbload.aws.retry import RetryPolicy
from ddbload.contracts.upload_rule import UploadRule
from ddbload.steps.executions import Executions
from ddbload.steps.uploads import on_upload
from tests.fakes.stepfunctions import FakeStepFunctions
from tests.unit.steps.world import BUCKET, KEY, TABLE, World

# Functions here have fakes of boto3 clients.
RULES = (UploadRule("in/", TABLE, options={"engine": "threads"}),)


def event(bucket: str = BUCKET, key: str = KEY, **more: Any) -> dict[str, Any]:
    return {
        "version": "0",
        "detail-type": "Object Created",
        "source": "aws.s3",
        "detail": {
            "version": "0",
            "bucket": {"name": bucket},
            "object": {"key": key, "size": 3, "etag": "e1", "sequencer": "00", **more},
            "reason": "PutObject",
        },
    }


class Trigger:
    """The function's world."""

    def __init__(self, data: bytes = b"id,n\na,1\n") -> None:
        self.world = World(data)
        self.stepfunctions = FakeStepFunctions()
        self.rules: tuple[UploadRule, ...] = RULES

    def __call__(self, given: object) -> dict[str, Any]:
        executions = Executions(
            self.stepfunctions,
            self.stepfunctions.machine,
            retry_policy=RetryPolicy(sleep=lambda _: None),
        )
        return on_upload(given, self.world.context(), self.rules, executions)

    def inputs(self) -> list[dict[str, Any]]:
        return [json.loads(each["input"]) for each in self.stepfunctions.started.values()]
