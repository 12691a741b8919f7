"""What a step stands on: store, clients, limits, clocks. Handlers and the command line make it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ddbload.contracts import Counts, Payload, RunRecord, Source, Work
from ddbload.errors import BucketNotAllowed, TableNotAllowed
from ddbload.pipeline.ledger import Ledger
from ddbload.pipeline.store import Store
from ddbload.source.base import ByteSource
from ddbload.source.local import open_local
from ddbload.source.s3 import S3Object, open_s3
from ddbload.write.driver import Driver
from ddbload.write.pacing import Pacing

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

    from ddbload.aws_http.identity import Identity


class ClientSet(Protocol):
    """The AWS clients that steps use."""

    @property
    def dynamodb(self) -> DynamoDBClient:
        """DynamoDB."""

    @property
    def identity(self) -> Identity:
        """DynamoDB, by requests of one's own."""

    @property
    def s3(self) -> S3Client:
        """S3."""


@dataclass(frozen=True, slots=True)
class Permitted:
    """What a deployment may touch. None: whatever the credentials allow."""

    buckets: frozenset[str] | None = None
    tables: frozenset[str] | None = None
    paths: bool = False
    """Whether files of this machine may be read."""

    def check(self, payload: Payload) -> None:
        """Raise `BucketNotAllowed` or `TableNotAllowed`."""
        source = payload.source
        if source.path is not None:
            if not self.paths:
                raise BucketNotAllowed("'source.path' is a file of another machine; name an object")
        elif self.buckets is not None and source.bucket not in self.buckets:
            allowed = ", ".join(sorted(self.buckets)) or "none"
            raise BucketNotAllowed(
                f"bucket {source.bucket} is not among those this deployment reads: {allowed}"
            )
        if self.tables is not None and payload.table not in self.tables:
            allowed = ", ".join(sorted(self.tables)) or "none"
            raise TableNotAllowed(
                f"table {payload.table} is not among those this deployment writes: {allowed}"
            )


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an invocation has come with its chunk. Cumulative within the invocation."""

    chunk: int
    rows: Counts
    work: Work
    bytes: int


@dataclass(slots=True)
class Context:
    """Everything a step needs besides its message."""

    store: Store
    clients: ClientSet
    permitted: Permitted = field(default_factory=Permitted)
    deadline: float = float("inf")
    """By `clock`: from then on a step begins nothing, and hands its cursor on."""
    should_stop: Callable[[], bool] = lambda: False
    progress: Callable[[Progress], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    driver: Driver | None = None
    """One to use for all chunks; without it each invocation makes its own."""
    pacing: Pacing | None = None
    """The same for what it knows of the table's capacity."""

    def ledger(self, run: str) -> Ledger:
        """A run's ledger in this store."""
        return Ledger(self.store, run)

    def open(self, source: Source) -> ByteSource:
        """Open and pin what a payload names."""
        if source.path is not None:
            return open_local(source.path)
        return open_s3(
            self.clients.s3,
            source.bucket or "",
            source.key or "",
            version_id=source.version_id,
            etag=source.etag,
            sleep=self.sleep,
            rng=self.rng,
            give_up=self.must_end,
        )

    def must_end(self) -> bool:
        """Whether the deadline is reached, or somebody asked to stop."""
        return self.clock() >= self.deadline or self.should_stop()

    def reopen(self, record: RunRecord) -> ByteSource:
        """Open the version that a run is pinned to. Raises `SourceChanged`."""
        pinned = record.pinned
        if record.payload.source.path is not None:
            # As it was pinned: a later attempt may run in another folder.
            return open_local(str(pinned["path"]), pinned)
        return S3Object(
            self.clients.s3, pinned, sleep=self.sleep, rng=self.rng, give_up=self.must_end
        )
