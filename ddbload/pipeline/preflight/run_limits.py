"""Settle the limits of a run that depend on its table: workers, write units, price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import call_if_possible
from ddbload.contracts.options import Options
from ddbload.contracts.write_price import NOT_BILLED, WritePrice
from ddbload.errors import InvalidPayload
from ddbload.pipeline.context import Context
from ddbload.pipeline.table_backup import require_recovery
from ddbload.pipeline.table_capacity import choose_workers, write_capacity, write_price

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsClients

SHARE_OF_ACCOUNT = 2
"""A run takes at most one part in this many: other functions of the account need the rest."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Options without shares of the table, and what follows from them and the table."""

    options: Options
    most_workers: int
    """Workers, if there are as many chunks."""
    write_price: WritePrice | None
    """Price of the run's write units; None for work without a table."""


def settle_limits(
    options: Options, table: str, described: Mapping[str, Any] | None, context: Context
) -> RunLimits:
    """Settle a run's limits. `described`: the `Table` of DescribeTable; None without a table.

    Raises `InvalidPayload` for a `max_cost` on a table whose write units have no price, and
    `BackupRequired` for a table without the recovery that is required.
    """
    if described is None:
        return RunLimits(options, options.workers or 1, None)
    client = context.clients.dynamodb
    if options.require_backup or context.require_backup:
        require_recovery(client, table, retry_policy=context.retry_policy)
    capacity = write_capacity(described)
    if options.max_wcu_percent is not None:
        share = capacity.share(options.max_wcu_percent)
        options = replace(options, max_wcu=share, max_wcu_percent=None)
    price = write_price(described, client.meta.region_name, given=options.unit_price)
    if options.max_cost is not None and price.source == NOT_BILLED:
        raise InvalidPayload(
            "'options.max_cost' limits the price of write units, but the table has provisioned"
            " capacity, which is billed by the hour: leave it out, or give 'options.unit_price'"
        )
    return RunLimits(options, _count_workers(options, capacity.units, context), price)


def _count_workers(options: Options, capacity: float, context: Context) -> int:
    """Return the given number of workers, or choose one; the reserved concurrency limits both."""
    reserved = context.import_concurrency
    if options.workers is None:
        concurrency = reserved
        if reserved is None and context.in_account:
            concurrency = _account_concurrency(context.clients)
        return choose_workers(capacity, options.max_wcu, concurrency)
    if reserved is not None and reserved < options.workers:
        if context.notice is not None:
            context.notice(
                f"workers is {options.workers}, and import_concurrency of the stack lets"
                f" {reserved} import at once: {reserved} are used"
            )
        return reserved
    return options.workers


def _account_concurrency(clients: AwsClients) -> int | None:
    """Return how many import functions a run may use in this account; None if unknown.

    That is half of UnreservedConcurrentExecutions: "The maximum number of simultaneous function
    executions, minus the capacity that's reserved for individual functions" (AccountLimit). New
    accounts start with 10.
    """

    def ask() -> int:
        answer: Any = clients.advisory("lambda").get_account_settings()
        unreserved = int(answer["AccountLimit"]["UnreservedConcurrentExecutions"])
        return max(1, unreserved // SHARE_OF_ACCOUNT)

    return call_if_possible(ask, "reading the account's concurrency")
