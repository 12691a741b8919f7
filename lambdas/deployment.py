"""The pipeline in AWS Lambda: what a function's environment says, and a context for each call."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from ddbload.aws.clients import Clients
from ddbload.contracts.environment import (
    RESERVE_SECONDS,
    SOURCE_BUCKETS,
    STATE_MACHINE,
    TABLES,
    UPLOADS,
    WORK_BUCKET,
)
from ddbload.contracts.payload import MAX_CONCURRENCY
from ddbload.errors import AwsConfiguration, DdbloadError
from ddbload.ledger.store import BucketStore
from ddbload.pipeline.context import AccessPolicy, Context
from ddbload.pipeline.executions import Executions
from ddbload.pipeline.on_upload import UploadRule

DEFAULT_RESERVE_SECONDS = 30.0
"""Before its timeout a function hands its cursor on: for answers that are under way, and the
ledger."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One function's settings, and its clients, which all its invocations share."""

    work_bucket: str
    permitted: AccessPolicy
    reserve_seconds: float = DEFAULT_RESERVE_SECONDS
    state_machine: str | None = None
    uploads: tuple[UploadRule, ...] = ()
    clients: Clients = field(default_factory=lambda: Clients(connections=MAX_CONCURRENCY))
    """For any run's `concurrency`: what does not fit the pool is connected anew each time."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """From a function's environment variables. Raises `AwsConfiguration`."""
        try:
            return cls(
                work_bucket=environment[WORK_BUCKET],
                permitted=AccessPolicy(
                    buckets=_names(environment[SOURCE_BUCKETS]),
                    tables=_names(environment[TABLES]),
                ),
                reserve_seconds=float(environment.get(RESERVE_SECONDS, DEFAULT_RESERVE_SECONDS)),
                state_machine=environment.get(STATE_MACHINE),
                uploads=tuple(
                    UploadRule.from_json(rule)
                    for rule in json.loads(environment.get(UPLOADS, "[]"))
                ),
            )
        except KeyError as missing:
            raise AwsConfiguration(f"the environment variable {missing} is not set") from None
        except (ValueError, DdbloadError) as error:
            raise AwsConfiguration(f"the function's environment: {error}") from None

    @property
    def executions(self) -> Executions:
        """The state machine's. Raises `AwsConfiguration` where none is set."""
        if self.state_machine is None:
            raise AwsConfiguration(f"the environment variable {STATE_MACHINE} is not set")
        return Executions(self.clients.stepfunctions, self.state_machine)

    def context(self, remaining_seconds: float) -> Context:
        """A context for one invocation that may still take so long."""
        clock = time.monotonic
        return Context(
            store=BucketStore(self.clients.s3, self.work_bucket),
            clients=self.clients,
            permitted=self.permitted,
            deadline=clock() + remaining_seconds - self.reserve_seconds,
            clock=clock,
        )


def _names(text: str) -> frozenset[str]:
    return frozenset(name for name in text.split(",") if name)
