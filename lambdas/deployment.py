"""Settings of a deployed function, from its environment, and a context for each invocation."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from ddbload.aws.clients import Clients
from ddbload.contracts.payload import MAX_CONCURRENCY
from ddbload.contracts.upload_rule import (
    DEFAULT_RESERVE_SECONDS,
    RESERVE_SECONDS,
    SOURCE_BUCKETS,
    STATE_MACHINE,
    TABLES,
    UPLOADS,
    WORK_BUCKET,
    UploadRule,
)
from ddbload.errors import AwsConfiguration, DdbloadError
from ddbload.ledger.store import BucketStore
from ddbload.pipeline.context import AccessPolicy, Context, LedgerContext

if TYPE_CHECKING:
    from ddbload.pipeline.executions import Executions


@dataclass(frozen=True, slots=True)
class Deployment:
    """Settings of one function, and the clients that all its invocations share."""

    work_bucket: str
    access: AccessPolicy
    reserve_seconds: float = DEFAULT_RESERVE_SECONDS
    state_machine: str | None = None
    uploads: tuple[UploadRule, ...] = ()
    clients: Clients = field(default_factory=lambda: Clients(connections=MAX_CONCURRENCY))
    """Clients with connections for any run's `concurrency`; more would not be kept alive."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Read a function's environment variables. Raises `AwsConfiguration`."""
        try:
            return cls(
                work_bucket=environment[WORK_BUCKET],
                access=AccessPolicy(
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
        """Executions of the state machine. Raises `AwsConfiguration` if none is set."""
        from ddbload.pipeline.executions import Executions

        if self.state_machine is None:
            raise AwsConfiguration(f"the environment variable {STATE_MACHINE} is not set")
        return Executions(self.clients.stepfunctions, self.state_machine)

    def ledger_context(self, remaining_seconds: float) -> LedgerContext:
        """Make the context of an invocation that reads and writes the ledger only."""
        return LedgerContext(
            store=BucketStore(self.clients.s3, self.work_bucket),
            clients=self.clients,
            deadline=self._deadline(remaining_seconds),
        )

    def step_context(self, remaining_seconds: float) -> Context:
        """Make the context of an invocation that reads a source."""
        return Context(
            store=BucketStore(self.clients.s3, self.work_bucket),
            clients=self.clients,
            access=self.access,
            deadline=self._deadline(remaining_seconds),
        )

    def _deadline(self, remaining_seconds: float) -> float:
        # Contexts use the monotonic clock, too.
        return time.monotonic() + remaining_seconds - self.reserve_seconds


def _names(text: str) -> frozenset[str]:
    return frozenset(name for name in text.split(",") if name)
