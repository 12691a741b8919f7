"""Limits of a request of the service that rows are sent to."""

from __future__ import annotations

from dataclasses import dataclass

from ddbload.dynamodb.limits import MAX_BATCH_BYTES, MAX_BATCH_ROWS


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Most rows and bytes of a request; by default those of BatchWriteItem."""

    rows: int = MAX_BATCH_ROWS
    bytes: int = MAX_BATCH_BYTES
    """Sum of the rows' JSON. A single row may have more."""


BATCH_WRITE = RequestLimits()
