"""An upload, the functions and the state machine over fakes, whose requests can be watched."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ddbload.context import AccessPolicy
from ddbload.contracts.upload_rule import SourceBucket, UploadRule
from ddbload.ledger.bucket_store import BucketStore
from ddbload.ledger.ledger import ManifestCache
from lambdas import deployment, entry, import_chunk, on_upload, preflight, report
from lambdas.deployment import Deployment
from tests.fakes.stepfunctions import FakeStepFunctions
from tests.unit.steps.world import BUCKET, KEY, TABLE, World

WORK = "work"


class Killed(BaseException):
    """The function's process ended."""


class Stack:
    """The deployed functions, in one environment after another."""

    def __init__(self, monkeypatch, data: bytes, small_bytes: int = 1 << 20, **options: Any):
        self.world = world = World(data, types={"n": "N"})
        world.s3.create_bucket(Bucket=WORK)
        world.store = BucketStore(world.s3, WORK)
        self.machine = FakeStepFunctions()
        rule = {"prefix": "in/", "table": TABLE, "types": {"n": "N"}}
        clients: Any = SimpleNamespace(
            s3=world.s3,
            dynamodb=world.dynamodb,
            stepfunctions=self.machine,
            events=world.events,
            s3_signer=lambda _: None,
            renew=lambda: None,
        )
        self.settings = Deployment(
            work_bucket=WORK,
            access=AccessPolicy((SourceBucket(BUCKET),), frozenset([TABLE])),
            state_machine=self.machine.machine,
            uploads=(UploadRule.from_json({**rule, "options": {"engine": "sync", **options}}),),
            small_bytes=small_bytes,
            clients=clients,
        )
        for module in (entry, on_upload):
            monkeypatch.setattr(module, "deployment", lambda: self.settings)
        self.requests: list[tuple[str, str]] = []
        self.states: list[str] = []
        self.before: Callable[[int], None] = lambda _: None
        self.after: Callable[[int], None] = lambda _: None
        self.dead = False
        for client in (world.s3, world.dynamodb):
            monkeypatch.setattr(client, "_call", self._watched(client._call))
        for client, call in ((self.machine, "start_execution"), (world.events, "put_events")):
            monkeypatch.setattr(client, call, self._watched(getattr(client, call)))

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            if self.dead:
                raise Killed
            number = len(self.requests)
            what = str(arguments[0] if arguments else call.__name__)
            params = arguments[1] if len(arguments) > 1 else named
            self.requests.append((what, str(params.get("Key", ""))))
            self.before(number)
            answer = call(*arguments, **named)
            self.after(number)
            return answer

        return watched

    def call(self, function: Any, event: Any) -> Any:
        """Invoke a function, in new environments until it is not killed."""
        while True:
            try:
                return self.invoke(function, event)
            except Killed:
                self.dead = False

    def invoke(self, function: Any, event: Any) -> Any:
        """Invoke a function once, in a new environment."""
        deployment._run_worker.cache_clear()
        self.settings = replace(self.settings, manifests=ManifestCache())
        context = SimpleNamespace(aws_request_id="r", get_remaining_time_in_millis=lambda: 900_000)
        return function.handler(event, context)

    def begin(self, arn: str) -> dict[str, Any]:
        """Make the first event of preflight."""
        begun = self.machine.started[arn]
        given = {"input": json.loads(begun["input"]), "run": begun["name"], "execution": arn}
        return {"state": {**given, "cursor": None}, "redrives": 0}

    def upload(self, sequencer: str = "0A") -> str:
        """Deliver the upload's event; return the ARN of the execution."""
        detail = {
            "bucket": {"name": BUCKET},
            "object": {"key": KEY, "etag": "", "size": 1, "sequencer": sequencer},
        }
        detail["object"]["etag"] = self.world.s3.head_object(Bucket=BUCKET, Key=KEY)["ETag"]
        self.requests.clear()
        body = json.dumps({"detail": detail})
        done = self.call(on_upload, {"Records": [{"messageId": "m", "body": body}]})
        assert done == {"batchItemFailures": []}
        return next(iter(self.machine.started))

    def execute(self, arn: str) -> dict[str, Any]:
        """Run the state machine; return its output."""
        self.states += ["Begin", "Preflight", "MorePreflight?"]
        state = self.call(preflight, self.begin(arn))
        if "status" not in state:
            if "error" not in state:
                for group in self.world_ledger(state["run"]).find_groups() or ():
                    chunks = [chunk.to_json() for chunk in group]
                    child = {"run": state["run"], "chunks": chunks}
                    self.states += ["ImportChunks", "ImportChunk", "MoreToImport?", "Done"]
                    self.call(import_chunk, {**child, "stalled": 0})
            self.states.append("Report")
            state = self.call(report, {"state": state, "redrives": 0})
        self.states += ["Outcome?", "Succeeded" if state["error"] is None else "Failed"]
        return state

    def world_ledger(self, run: str) -> Any:
        return entry.deployment().ledger_context(900.0).ledger(run)
