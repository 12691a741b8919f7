"""Settings of a deployed function, from its environment, and a context for each invocation."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Self

from ddbload.aws.clients import Clients
from ddbload.context import AccessPolicy, Context, segment_reader
from ddbload.contracts.options import MAX_CONCURRENCY
from ddbload.contracts.upload_rule import (
    ACCOUNT,
    DEFAULT_RESERVE_SECONDS,
    IMPORT_CONCURRENCY,
    INBOX,
    REQUIRE_BACKUP,
    RESERVE_SECONDS,
    SMALL_BYTES,
    SOURCE_BUCKETS,
    STATE_MACHINE,
    TABLES,
    UPLOADS,
    WORK_BUCKET,
    SourceBucket,
    UploadRule,
)
from ddbload.errors import AwsConfiguration, DdbloadError
from ddbload.ledger.bucket_store import BucketStore
from ddbload.ledger.ledger import ManifestCache
from ddbload.steps.executions import Executions

if TYPE_CHECKING:
    from ddbload.run_worker import RunWorker


def _make_clients() -> Clients:
    # Connections for any run's `concurrency`; more would not be kept alive.
    return Clients(connections=MAX_CONCURRENCY)


@dataclass(frozen=True, slots=True)
class Deployment:
    """Settings of one function, and the clients that all its invocations share."""

    work_bucket: str
    access: AccessPolicy
    reserve_seconds: float = DEFAULT_RESERVE_SECONDS
    state_machine: str | None = None
    uploads: tuple[UploadRule, ...] = ()
    import_concurrency: int | None = None
    small_bytes: int = 0
    require_backup: bool = False
    clients: Clients = field(default_factory=_make_clients)
    manifests: ManifestCache = field(default_factory=ManifestCache)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Read a function's environment variables. Raises `AwsConfiguration`."""
        limit = environment.get(IMPORT_CONCURRENCY)
        try:
            sources = [SourceBucket.from_text(each) for each in _split(environment[SOURCE_BUCKETS])]
            work = environment[WORK_BUCKET]
            own = [
                SourceBucket(bucket, owner=environment[ACCOUNT])
                for bucket in (work, environment[INBOX])
            ]
            return cls(
                work_bucket=work,
                access=AccessPolicy(
                    sources=tuple(sources), tables=frozenset(_split(environment[TABLES]))
                ),
                clients=_clients([*sources, *own]),
                reserve_seconds=float(environment.get(RESERVE_SECONDS, DEFAULT_RESERVE_SECONDS)),
                state_machine=environment.get(STATE_MACHINE),
                uploads=tuple(
                    UploadRule.from_json(rule)
                    for rule in json.loads(environment.get(UPLOADS, "[]"))
                ),
                import_concurrency=None if limit is None else int(limit),
                small_bytes=int(environment.get(SMALL_BYTES, 0)),
                require_backup=environment.get(REQUIRE_BACKUP) == "true",
            )
        except KeyError as missing:
            raise AwsConfiguration(f"the environment variable {missing} is not set") from None
        except (ValueError, DdbloadError) as error:
            raise AwsConfiguration(f"the function's environment: {error}") from None

    @property
    def executions(self) -> Executions:
        """Executions of the state machine. Raises `AwsConfiguration` if none is set."""
        if self.state_machine is None:
            raise AwsConfiguration(f"the environment variable {STATE_MACHINE} is not set")
        return Executions(self.clients.stepfunctions, self.state_machine)

    def ledger_context(self, remaining_seconds: float) -> Context:
        """Make the context of an invocation that reads and writes the ledger only."""
        return Context(
            store=self._store,
            clients=self.clients,
            deadline=self._deadline(remaining_seconds),
        )

    def step_context(self, remaining_seconds: float) -> Context:
        """Make the context of an invocation that reads a source."""
        return Context(
            store=self._store,
            clients=self.clients,
            access=self.access,
            import_concurrency=self.import_concurrency,
            in_account=True,
            small_bytes=self.small_bytes,
            require_backup=self.require_backup,
            deadline=self._deadline(remaining_seconds),
            manifests=self.manifests,
            worker=_run_worker().worker,
            control=_run_worker(),
        )

    @property
    def _store(self) -> BucketStore:
        reader = segment_reader(self.clients)
        return BucketStore(self.clients.s3, self.work_bucket, read_many=reader)

    def _deadline(self, remaining_seconds: float) -> float:
        # Contexts use the monotonic clock, too.
        return time.monotonic() + remaining_seconds - self.reserve_seconds


def _clients(buckets: Iterable[SourceBucket]) -> Clients:
    clients = _make_clients()
    for each in buckets:
        clients.set_terms(each.bucket, owner=each.owner, requester_pays=each.requester_pays)
    return clients


def _split(text: str) -> list[str]:
    return [entry for entry in text.split(",") if entry]


@cache
def _run_worker() -> RunWorker:
    """Make this environment's worker. Not imported by functions that import no rows."""
    from ddbload.run_worker import RunWorker

    return RunWorker(secrets.token_hex(8), lingers=False)
