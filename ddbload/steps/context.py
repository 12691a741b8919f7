"""Store, clients, limits and clocks that a step works with, and the progress it reports.

Handlers and the command line make a context; a step takes it and its message, and nothing else.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ddbload.context import AccessPolicy, LedgerContext
from ddbload.contracts.row_counts import RowCounts, WriteStats
from ddbload.ledger.ledger import ManifestCache
from ddbload.ledger.store import FolderStore

if TYPE_CHECKING:
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.steps.run_worker import RunWorker
    from ddbload.write.drivers import Driver
    from ddbload.write.pacing.pacing import Pacing
    from ddbload.write.requests import EndpointFeatures


@dataclass(frozen=True, slots=True)
class ChunkProgress:
    """Progress of one invocation on its chunk, cumulative since the invocation began."""

    chunk: int
    rows: RowCounts
    work: WriteStats
    bytes: int
    """Bytes of the settled rows."""


@dataclass(slots=True, kw_only=True)
class Context(LedgerContext):
    """Store, clients, clocks and limits for a step that reads a source."""

    progress: Callable[[ChunkProgress], None] = lambda _: None
    in_account: bool = False
    """True in a deployment, whose account limits the functions that import at once."""
    import_concurrency: int | None = None
    """Concurrency that the deployment reserves for import functions; None without one."""
    require_backup: bool = False
    """Refuse tables without point-in-time recovery, whatever the payload says."""
    begun: Callable[[], None] = lambda: None
    """Called once the run's record is in the ledger."""
    driver: Driver | None = None
    """Driver shared by all chunks; without it each invocation makes one."""
    pacing: Pacing | None = None
    """Pacing shared by all chunks: what is known of the table's capacity."""
    worker: str = field(default_factory=lambda: secrets.token_hex(4))
    """Identity of this process, or of the function's environment: random hexadecimal digits."""
    manifests: ManifestCache = field(default_factory=ManifestCache)
    """Shared by all invocations of an environment."""
    endpoint: EndpointFeatures | None = None
    """Shared by all chunks: what is known of DynamoDB's endpoint.

    Without it each invocation asks.
    """
    control: RunWorker | None = None
    """Part of this process in the run, by which it is controlled; None: nobody controls it."""


def reading_context(aws: AwsSettings) -> Context:
    """Make a context for reading sources alone, local files included; it stores nothing."""
    from ddbload.aws.clients import Clients

    return Context(
        store=FolderStore(Path(os.devnull)), clients=Clients(aws), access=AccessPolicy(paths=True)
    )
