"""The target as the import of a chunk sees it: requests, their limits, and what sends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ddbload.pipeline.importing.merged_updates import MergedUpdates
from ddbload.write.scheduler.key_ordering import RowOrder
from ddbload.write.scheduler.request_limits import BATCH_WRITE, RequestLimits


@dataclass(frozen=True, slots=True)
class ChunkTarget:
    """A target as the rows of one chunk are written to it."""

    items: Callable[[Sequence[int]], Sequence[Any]]
    """Makes the rows with these handles, as the transport's answers need them."""
    body: Callable[[Sequence[int]], Any]
    """Makes what the event loop's transport takes for a request that writes these rows."""
    transport: Callable[[], Any]
    """Makes the transport of the run's engine."""
    order: RowOrder
    """Order in which rows of one key are written."""
    is_proven: Callable[[], bool] = lambda: True
    """Until it returns true, one request is in flight at a time."""
    batch_rows: int | None = None
    """Most rows of a request; None: as many as the service takes."""
    request_limits: RequestLimits = BATCH_WRITE
    keeps_duplicates: bool = False
    """A row that is sent twice is there twice."""
    merged: MergedUpdates | None = None
    """Merges rows of one key; None where each goes by itself."""
    follow_ups: Callable[[], int] = lambda: 0
    """Counts the requests that were sent beside those of the scheduler."""
