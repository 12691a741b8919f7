"""Judge what rows that a table returned say about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ddbload.write.pacing.pacing import ReturnedUnits
from ddbload.write.scheduler.hot_keys import HotKeys
from ddbload.write.scheduler.key_ordering import QueuedRow

STUBBORN_ATTEMPTS = 2
"""A row returned more often than this is no evidence for others: the table may refuse it alone."""


def returned_units(
    hot_keys: HotKeys,
    rows: Sequence[QueuedRow],
    returned: set[int],
    sent_at: float,
    now: float,
    *,
    key_range: bool = False,
) -> ReturnedUnits:
    """Sum up the returned units that are due to the table, and not to a hot key.

    `returned`: indexes of the rows that came back. `key_range`: the reasons name a partition.
    """
    explained = hot_keys.answered(rows, returned, sent_at, now, key_range=key_range)
    units = sum(rows[index].units for index in returned)
    stubborn = sum(
        rows[index].units for index in returned if rows[index].attempts > STUBBORN_ATTEMPTS
    )
    evidence = max(0, units - explained - stubborn)
    return ReturnedUnits(units - explained, evidence, units - evidence)
