"""The pipeline on this machine: where its ledger lies, and a context for each step."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ddbload.aws.boto_clients import AwsSettings
from ddbload.aws.clients import Clients
from ddbload.contracts.payload import DEFAULT_CONCURRENCY
from ddbload.errors import InvalidUsage
from ddbload.ledger.store import BucketStore, FolderStore, Store
from ddbload.pipeline.context import AccessPolicy, ChunkProgress, Context

SEGMENT_SECONDS = 60.0
"""How long one step may work: so much is done again, at most, after a crash."""
_SKIPPED_BYTES = 20e6
"""Bytes a second that are surely decoded where they are only skipped, and time to do more."""


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """What makes a context: plain data, so that worker processes get it."""

    ledger: str
    """A folder, or s3://bucket/prefix."""
    aws: AwsSettings = field(default_factory=AwsSettings)
    concurrency: int = DEFAULT_CONCURRENCY
    segment_seconds: float = SEGMENT_SECONDS

    def context(
        self,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        progress: Callable[[ChunkProgress], None] = lambda _: None,
    ) -> Context:
        """A context whose clients and store are its own."""
        clients = Clients(self.aws, connections=self.concurrency)
        return Context(
            store=open_store(self.ledger, clients),
            clients=clients,
            access=AccessPolicy(paths=True),
            should_stop=should_stop,
            progress=progress,
        )


def step_seconds(segment_seconds: float, skipped: int) -> float:
    """How long a step may work that reads so many bytes for nothing before it goes on.

    What is compressed is read from its beginning, however far that is: the step would else end
    where it began.
    """
    return segment_seconds + skipped / _SKIPPED_BYTES


def default_ledger() -> str:
    """The folder that ledgers lie in unless told otherwise: DDBLOAD_LEDGER, or XDG's for state.

    Raises `InvalidUsage`.
    """
    named = os.environ.get("DDBLOAD_LEDGER")
    if named:
        return named
    state = os.environ.get("XDG_STATE_HOME")
    try:
        folder = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError:
        raise InvalidUsage("there is no home folder to keep runs in; give --ledger") from None
    return str(folder / "ddbload")


def open_store(location: str, clients: Clients) -> Store:
    """The store at a folder or an s3:// URI."""
    if not location.startswith("s3://"):
        return FolderStore(Path(location))
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    if not bucket:
        raise InvalidUsage(f"the ledger {location!r} names no bucket")
    return BucketStore(clients.s3, bucket, prefix)
