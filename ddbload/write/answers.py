"""What DynamoDB's answers to writes mean, as far as all kinds of writes share it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ddbload.aws_http.failures import Kind, Meaning, named
from ddbload.errors import TableNotFound
from ddbload.write.steps import Answer, Fatal, Refused, Throttled, Unsure

_KEY_RANGE = "KeyRangeThroughputExceeded"
"""How the names of those throttling reasons end that are of a partition, and not of the table."""


def failed(meant: Meaning, table: str) -> Answer:
    """What a failure comes to."""
    match meant.kind:
        case Kind.THROTTLED:
            ranges = [reason.endswith(_KEY_RANGE) for reason in meant.reasons]
            return Throttled(meant.code, key_range=bool(ranges) and all(ranges))
        case Kind.UNSURE:
            return Unsure(meant.code)
        case Kind.INVALID:
            return Refused(meant.text)
        case _ if meant.code == "ResourceNotFoundException":
            return Fatal(TableNotFound(f"table {table} is not there any more"))
        case _:
            if not meant.is_known:
                # Whoever says that was sent rows, and may repeat them.
                meant = replace(meant, text=f"HTTP status {meant.status}")
            # Only DynamoDB's own refusal says that nothing was written.
            unsure = not meant.is_known
            return Fatal(named(meant, f"writing to table {table}"), unsure=unsure)


def consumed(response: Mapping[str, Any]) -> float:
    """Write units in an answer: one entry, or one for each table; 0 where it does not say."""
    total = 0.0
    told = response.get("ConsumedCapacity")
    for each in told if isinstance(told, list) else (told,):
        units = each.get("CapacityUnits") if isinstance(each, Mapping) else None
        if isinstance(units, int | float) and math.isfinite(units) and units > 0:
            total += units
    return total
