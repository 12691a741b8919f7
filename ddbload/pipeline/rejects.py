"""A run's rejects, in the order of the source."""

from __future__ import annotations

from collections.abc import Iterator

from ddbload.pipeline.context import Context
from ddbload.pipeline.report import counted_segments


def rejects(run: str, context: Context) -> Iterator[bytes]:
    """JSON lines. Raises `RunNotFound` and `LedgerDamaged`."""
    ledger = context.ledger(run)
    ledger.record()
    return ledger.rejects(counted_segments(ledger))
