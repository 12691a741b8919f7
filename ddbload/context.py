"""Store, clients and clocks to read with, and the buckets, tables and files that may be touched."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from ddbload.aws.retry import RetryPolicy
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.source import Source
from ddbload.contracts.source_bucket import SourceBucket
from ddbload.errors import BucketNotAllowed, TableNotAllowed
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.store import KeyReader, ListedKey, Store

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsClients


SEGMENT_READERS = 32
"""Requests in flight for the segments of a run."""


@dataclass(frozen=True, slots=True)
class AccessPolicy:
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


@dataclass(slots=True, kw_only=True)
class LedgerContext:
    """Store, clients, access and clocks: all that reading a source or a ledger takes."""

    store: Store
    clients: AwsClients
    access: AccessPolicy = field(default_factory=AccessPolicy)
    deadline: float = float("inf")
    """Time on `clock` after which a step begins no new work and returns its cursor."""
    should_stop: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    tag_loaded: bool = False
    """Tag the objects that a run has loaded."""
    notice: Callable[[str], None] | None = None
    """Called with each one-line warning about the table or the run's limits. None: nobody reads
    them, and the table's traffic and backups are not asked for."""

    def ledger(self, run: str, record: RunRecord | None = None) -> Ledger:
        """Make the ledger of a run. `record`: the run's, if the caller has read it."""
        return Ledger(self.store, run, record)

    @property
    def retry_policy(self) -> RetryPolicy:
        """Retries of AWS calls until the step must end."""
        return RetryPolicy(sleep=self.sleep, rng=self.rng, give_up=self.must_end)

    def must_end(self) -> bool:
        """Tell whether the deadline has passed or a stop was requested."""
        return self.clock() >= self.deadline or self.should_stop()

    def confined(self, source: Source) -> Self:
        """Return a context that reads no more than the source of a run allows."""
        if source.within is None:
            return self
        return replace(self, access=replace(self.access, within=source.within))


def segment_reader(clients: AwsClients) -> KeyReader:
    """Return what reads many objects of a ledger in S3, concurrently and in order."""

    def read(bucket: str, listed: Iterable[ListedKey]) -> Generator[bytes]:
        # Imported here: most functions and commands read few objects of a ledger.
        from ddbload.source.small_objects import pinned_version, read_objects

        pinned = (pinned_version(bucket, *each) for each in listed)
        objects = read_objects(
            pinned, clients.s3, signers=clients.s3_signer, concurrency=SEGMENT_READERS
        )
        with closing(objects) as found:
            for _, data in found:
                yield data

    return read
