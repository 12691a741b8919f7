"""What a step stands on: store, clients, limits, clocks. Handlers and the command line make it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import RetryPolicy
from ddbload.contracts.payload import Payload, Source
from ddbload.contracts.run_record import RunRecord
from ddbload.errors import BucketNotAllowed, SourceNotFound, SourceUnreadable, TableNotAllowed
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.store import Store
from ddbload.pipeline.progress import ChunkProgress
from ddbload.source.byte_source import ByteSource
from ddbload.source.local_file import open_local
from ddbload.source.s3_object import S3Object, open_s3
from ddbload.write.drivers.driver import Driver
from ddbload.write.pacing.pacing import Pacing

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsClients


EXTRA_LISTING_FIELDS = ("items", "row_groups", "bytes")
"""What a listing says of an object besides its version: how many items an export has there, which
row groups of a Parquet file are meant, and how many bytes these are, about."""


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """What a deployment may touch. None: whatever the credentials allow."""

    buckets: frozenset[str] | None = None
    tables: frozenset[str] | None = None
    paths: bool = False
    """Whether files of this machine may be read."""

    def check(self, payload: Payload) -> None:
        """Raise `BucketNotAllowed` or `TableNotAllowed`."""
        source = payload.source
        self.check_place(source.manifest or source.path or source.uri)
        if self.tables is not None and payload.table not in self.tables:
            allowed = ", ".join(sorted(self.tables)) or "none"
            raise TableNotAllowed(
                f"table {payload.table} is not among those this deployment writes: {allowed}"
            )

    def check_place(self, place: str) -> None:
        """Raise `BucketNotAllowed` for a path or an s3:// URI that may not be read."""
        if not place.startswith("s3://"):
            if not self.paths:
                raise BucketNotAllowed(f"{place} is a file of another machine; name an object")
            return
        bucket = place.removeprefix("s3://").partition("/")[0]
        if self.buckets is not None and bucket not in self.buckets:
            allowed = ", ".join(sorted(self.buckets)) or "none"
            raise BucketNotAllowed(
                f"bucket {bucket} is not among those this deployment reads: {allowed}"
            )


@dataclass(slots=True)
class Context:
    """Everything a step needs besides its message."""

    store: Store
    clients: AwsClients
    permitted: AccessPolicy = field(default_factory=AccessPolicy)
    deadline: float = float("inf")
    """By `clock`: from then on a step begins nothing, and hands its cursor on."""
    should_stop: Callable[[], bool] = lambda: False
    progress: Callable[[ChunkProgress], None] = lambda _: None
    begun: Callable[[], None] = lambda: None
    """Called when the ledger has the run's record."""
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    driver: Driver | None = None
    """One to use for all chunks; without it each invocation makes its own."""
    pacing: Pacing | None = None
    """The same for what it knows of the table's capacity."""

    @property
    def retry_policy(self) -> RetryPolicy:
        """Retries of AWS calls until the step must end."""
        return RetryPolicy(sleep=self.sleep, rng=self.rng, give_up=self.must_end)

    def ledger(self, run: str, record: RunRecord | None = None) -> Ledger:
        """A run's ledger in this store. `record`: the run's, where it is known already."""
        return Ledger(self.store, run, record)

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
            retry_policy=self.retry_policy,
        )

    def open_place(self, place: str) -> ByteSource:
        """Open and pin a path or an s3:// URI. Raises `BucketNotAllowed`, `SourceUnreadable`."""
        # Whoever names it, a payload or a file that names files.
        self.permitted.check_place(place)
        if not place.startswith("s3://"):
            return open_local(place)
        bucket, _, key = place.removeprefix("s3://").partition("/")
        if not bucket or not key:
            raise SourceUnreadable(f"{place} names no object: write s3://bucket/key")
        return self.open(Source(bucket=bucket, key=key))

    def read(self, place: str, most_bytes: int = 256 * 1024 * 1024) -> bytes | None:
        """All that a small file has, or None where there is none.

        Raises `SourceUnreadable` and `BucketNotAllowed`.
        """
        try:
            raw = self.open_place(place)
        except SourceNotFound:
            return None
        with closing(raw):
            if raw.size > most_bytes:
                raise SourceUnreadable(
                    f"{place} has {raw.size} bytes, more than is taken as a list"
                )
            return b"".join(raw.stream(0, raw.size, 1024 * 1024))

    def must_end(self) -> bool:
        """Whether the deadline is reached, or somebody asked to stop."""
        return self.clock() >= self.deadline or self.should_stop()

    def reopen(self, pinned: Mapping[str, Any]) -> ByteSource:
        """Open the version that a run is pinned to. Raises `SourceChanged`."""
        if "path" in pinned:
            # As it was pinned: a later attempt may run in another folder.
            return open_local(str(pinned["path"]), _version(pinned))
        return S3Object(self.clients.s3, pinned, self.retry_policy)


def _version(pinned: Mapping[str, Any]) -> Mapping[str, Any]:
    # What else is known of an object is no part of its version.
    return {name: value for name, value in pinned.items() if name not in EXTRA_LISTING_FIELDS}
