"""Collect warnings about a run's table that each start of a run shows once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ddbload.contracts.payload import Options
from ddbload.dynamodb.write_modes import PLAN
from ddbload.pipeline.table_backup import recovery_if_known, turn_recovery_on
from ddbload.pipeline.table_traffic import recent_traffic

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsClients


def table_notices(clients: AwsClients, table: str, options: Options, now: float) -> Iterator[str]:
    """Yield the warnings about a table, as far as permissions allow to know them.

    `now`: seconds since the epoch.
    """
    if options.mode == PLAN:
        # Nothing is written.
        return
    if not options.require_backup and recovery_if_known(clients.dynamodb, table) is False:
        yield (
            f"table {table} has no point-in-time recovery, so what this run overwrites cannot be"
            f" restored. {turn_recovery_on(table)}"
        )
    if options.max_wcu is None and options.max_wcu_percent is None:
        traffic = recent_traffic(clients, table, now)
        if traffic is not None:
            yield traffic.warning(table)
