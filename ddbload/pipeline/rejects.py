"""A run's rejects, in the order of the source."""

from __future__ import annotations

from collections.abc import Iterator

from ddbload.pipeline.context import Context
from ddbload.pipeline.report import chunk_segments


def rejects(run: str, context: Context) -> Iterator[bytes]:
    """JSON lines. Raises `RunNotFound` and `LedgerDamaged`."""
    ledger = context.ledger(run)
    ledger.record()
    chains = chunk_segments(ledger, ledger.find_manifest() or ())
    return ledger.rejects([segment for chain in chains for segment in chain])
