"""Store, clients, clocks and limits that a step works with, and what it may touch.

Handlers and the command line make a context; a step takes it and its message, and nothing else.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ddbload.aws.retry import RetryPolicy
from ddbload.contracts.row_counts import WorkTotals
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.source import Source
from ddbload.errors import BucketNotAllowed, TableNotAllowed
from ddbload.ledger.ledger import Ledger, ManifestCache
from ddbload.ledger.store import FolderStore, KeyReader, ListedKey, Store
from ddbload.records import MutableRecord, Record

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsSettings, Clients
    from ddbload.contracts.upload_rule import SourceBucket
    from ddbload.run_worker import RunWorker
    from ddbload.source.decoding.decoded_source import ByteSource
    from ddbload.write.drivers import Driver
    from ddbload.write.pacing.pacing import Pacing
    from ddbload.write.requests import EndpointFeatures

SEGMENT_READERS = 32
"""Requests in flight for the segments of a run."""


class AccessPolicy(Record):
    """Buckets, tables and files that a deployment may touch. None: any that credentials allow."""

    sources: tuple[SourceBucket, ...] | None = None
    tables: frozenset[str] | None = None
    paths: bool = False
    """True if local files may be read."""
    within: str | None = None
    """`bucket/prefix` that one run is confined to: `Source.within`."""

    def check_table(self, table: str) -> None:
        """Raise `TableNotAllowed` for a table that may not be written."""
        if self.tables is not None and table not in self.tables:
            allowed = ", ".join(sorted(self.tables)) or "none"
            raise TableNotAllowed(
                f"table {table} is not among those this deployment writes: {allowed}; to add it:"
                f" ddbload deploy --table {table}"
            )

    def check_location(self, location: str) -> None:
        """Raise `BucketNotAllowed` for a path or an s3:// URI that may not be read."""
        if location.startswith("s3://"):
            bucket, _, key = location.removeprefix("s3://").partition("/")
            self.check_object(bucket, key)
        elif not self.paths or self.within is not None:
            raise BucketNotAllowed(f"{location} is a file of another machine; name an object")

    def check_object(self, bucket: str, key: str) -> None:
        """Raise `BucketNotAllowed` for an object that may not be read.

        `key` may also be the prefix of a listing.
        """
        if self.within is not None and not f"{bucket}/{key}".startswith(self.within):
            raise BucketNotAllowed(
                f"s3://{bucket}/{key} is outside of s3://{self.within}, which the run is confined"
                " to: an upload loads nothing from outside of its rule's prefix"
            )
        sources = self.sources
        if sources is None or any(each.covers(bucket, key) for each in sources):
            return
        of_bucket = [each.location for each in sources if each.bucket == bucket]
        if of_bucket:
            raise BucketNotAllowed(
                f"s3://{bucket}/{key} is outside of what this deployment reads of the bucket:"
                f" {', '.join(sorted(of_bucket))}"
            )
        allowed = ", ".join(sorted({each.location for each in sources})) or "none"
        raise BucketNotAllowed(
            f"bucket {bucket} is not among those this deployment reads: {allowed}; to add it:"
            f" ddbload deploy --source-bucket {bucket}"
        )


ChunkProgress = tuple[tuple[int, ...], WorkTotals]
"""Numbers of chunks, and the totals of one invocation on them since that began."""


class Context(MutableRecord):
    """Store, clients, access, clocks and limits of an invocation or a command."""

    store: Store
    clients: Clients
    access: AccessPolicy = field(default_factory=AccessPolicy)
    deadline: float = float("inf")
    """Time on `clock` after which a step begins no new work and returns its cursor."""
    should_stop: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    notice: Callable[[str], None] | None = None
    """Called with each one-line warning about the table or the run's limits. Without it, the
    table's traffic and backups are not asked for."""
    progress: Callable[[ChunkProgress], None] = lambda _: None
    measure: Callable[[Mapping[str, float]], None] = lambda _: None
    """Called with metrics to count, by name."""
    transform: Callable[[Any], Any] | None = None
    """Function that changes rows; see `items.transformed_rows`."""
    begun: Callable[[], None] = lambda: None
    """Called once the run's record is in the ledger."""
    in_account: bool = False
    """True in a deployment, whose account limits the functions that import at once."""
    import_concurrency: int | None = None
    """Concurrency that the deployment reserves for import functions; None without one."""
    small_bytes: int = 0
    """Size up to which preflight imports a source itself; 0 to leave that to other functions."""
    is_whole_run: bool = False
    """True if the invocation also begins and reports the run that it imports. Then it checks by
    itself that the table was not replaced, and is the run's only worker."""
    opened: dict[str, ByteSource] = field(default_factory=dict)
    """Objects of up to `small_bytes`, by their version, that the invocation has read whole."""
    require_backup: bool = False
    """Refuse tables without point-in-time recovery, whatever the payload says."""
    worker: str = field(default_factory=lambda: secrets.token_hex(4))
    """Identity of this process, or of the function's environment: random hexadecimal digits."""
    control: RunWorker | None = None
    """Controls this process in the run; None if nothing does."""
    manifests: ManifestCache = field(default_factory=ManifestCache)
    """Shared by all invocations of an environment."""
    driver: Driver | None = None
    """Driver shared by all chunks; without it each invocation makes one."""
    pacing: Pacing | None = None
    """Pacing shared by all chunks: the known capacity of the table."""
    endpoint: EndpointFeatures | None = None
    """Known features of DynamoDB's endpoint, shared by all chunks; by default each asks."""

    def ledger(self, run: str, record: RunRecord | None = None) -> Ledger:
        """Make the ledger of a run. `record`: the run's, if the caller has read it."""
        return Ledger(self.store, run, record)

    @property
    def retry_policy(self) -> RetryPolicy:
        """Retries of AWS calls until the step must end."""
        return RetryPolicy(sleep=self.sleep, rng=self.rng, give_up=self.must_end)

    def must_end(self) -> bool:
        """Return whether the deadline has passed or a stop was requested."""
        return self.clock() >= self.deadline or self.should_stop()

    def confined(self, source: Source) -> Self:
        """Return a context that reads no more than the source of a run allows."""
        if source.within is None:
            return self
        return replace(self, access=replace(self.access, within=source.within))


def reading_context(aws: AwsSettings) -> Context:
    """Make a context for reading sources alone, local files included; it stores nothing."""
    from ddbload.aws.clients import Clients

    return Context(
        store=FolderStore(Path(os.devnull)), clients=Clients(aws), access=AccessPolicy(paths=True)
    )


def segment_reader(clients: Clients) -> KeyReader:
    """Return what reads many objects of a ledger in S3, concurrently and in order."""

    def read(bucket: str, listed: Iterable[ListedKey]) -> Generator[bytes]:
        # Imported here: most functions and commands read few objects of a ledger.
        from ddbload.source.s3_requests import pinned_version, read_ranges, whole_object

        objects = (whole_object(pinned_version(bucket, *each)) for each in listed)
        return read_ranges(
            objects, clients.s3, signers=clients.s3_signer, concurrency=SEGMENT_READERS
        )

    return read
