"""Settings of a local run: its ledger, AWS settings and time limits."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.context import AccessPolicy, ChunkProgress, Context, segment_reader
from ddbload.contracts.options import DEFAULT_CONCURRENCY
from ddbload.errors import InvalidUsage
from ddbload.ledger.bucket_store import BucketStore
from ddbload.ledger.store import FolderStore, Store
from ddbload.run_worker import RunWorker

SEGMENT_SECONDS = 60.0
"""Seconds that one step may work; a crash loses at most this much work."""
_SKIPPED_BYTES_PER_SECOND = 20e6
"""Bytes a second that any machine decodes when it only skips them."""


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Settings of a local run, as plain data that worker processes receive."""

    ledger: str
    """Location of the ledger: a folder, or s3://bucket/prefix."""
    aws: AwsSettings = field(default_factory=AwsSettings)
    concurrency: int = DEFAULT_CONCURRENCY
    segment_seconds: float = SEGMENT_SECONDS

    def clients(self) -> Clients:
        """Make clients for the settings."""
        return Clients(self.aws, connections=self.concurrency)

    def context(
        self,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        progress: Callable[[ChunkProgress], None] = lambda _: None,
        clients: Clients | None = None,
    ) -> Context:
        """Make a context with a new store, and new clients unless some are given."""
        clients = clients or self.clients()
        control = RunWorker(secrets.token_hex(8), lingers=True)
        return Context(
            store=open_store(self.ledger, clients),
            worker=control.worker,
            control=control,
            clients=clients,
            access=AccessPolicy(paths=True),
            should_stop=should_stop,
            progress=progress,
        )


def step_seconds(segment_seconds: float, skipped: int) -> float:
    """Return the time limit in seconds of a step that first skips this many bytes.

    A compressed source is decoded from its beginning up to the cursor. Without extra time a step
    could use up its limit before it reaches a new row.
    """
    return segment_seconds + skipped / _SKIPPED_BYTES_PER_SECOND


def default_ledger() -> str:
    """Return the default ledger: $DDBLOAD_LEDGER, or `ddbload` in XDG's folder for state.

    Raises `InvalidUsage` if there is no home folder.
    """
    return os.environ.get("DDBLOAD_LEDGER") or str(_state_folder())


def local_folder(ledger: str) -> Path:
    """Return the folder of a ledger; for one in S3 the folder that ddbload has on this machine.

    Raises `InvalidUsage` if there is no home folder.
    """
    return _state_folder() if ledger.startswith("s3://") else Path(ledger)


def _state_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    try:
        folder = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError:
        raise InvalidUsage("there is no home folder to keep runs in; give --ledger") from None
    return folder / "ddbload"


def open_store(location: str, clients: Clients) -> Store:
    """Open the store at a folder or an s3:// URI. Raises `InvalidUsage`."""
    if not location.startswith("s3://"):
        if Path(location).is_file():
            raise InvalidUsage(f"the ledger {location} is a file: name a folder (--ledger)")
        return FolderStore(Path(location))
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    if not bucket:
        raise InvalidUsage(f"the ledger {location!r} names no bucket")
    return BucketStore(clients.s3, bucket, prefix, read_many=segment_reader(clients))
