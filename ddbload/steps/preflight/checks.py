"""Checks of a run before its first write, and the limits that follow from its table.

Each check is a function that raises a named error. The checks of the request run before the source
is looked at, those of the table once it is described. `upload_turns` and `load_history` hold back a
run whose turn has not come, and one whose objects another run is loading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import call_if_possible
from ddbload.contracts.column_mapping import check_column_names, column_changes
from ddbload.contracts.dialect import check_dialect
from ddbload.contracts.options import Options
from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import Table
from ddbload.contracts.write_price import NOT_BILLED, WritePrice
from ddbload.errors import Cancelled, InvalidPayload
from ddbload.ledger.ledger import Ledger
from ddbload.reading.row_blocks import hmac_key
from ddbload.steps.context import Context
from ddbload.steps.table_description import (
    WriteCapacity,
    choose_workers,
    describe_table_with_response,
    require_recovery,
    write_capacity,
    write_price,
)

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsClients

SHARE_OF_ACCOUNT = 2
"""A run takes at most one part in this many: other functions of the account need the rest."""


# The request.


def require_not_cancelled(ledger: Ledger) -> None:
    """Raise `Cancelled` if the run's workers were told to stop."""
    control = ledger.find_control()
    if control is not None and control.cancelled:
        raise Cancelled.of(ledger.run)


def check_settings(payload: Payload) -> None:
    """Raise the named error of a dialect, columns or mapping that no source has."""
    check_dialect(payload.source)
    if payload.source.columns is not None:
        check_column_names(payload.source.columns)
    column_changes(payload.mapping)
    hmac_key(payload)


REQUEST_CHECKS: tuple[Callable[[Payload, Ledger, Context], None], ...] = (
    lambda _, ledger, __: require_not_cancelled(ledger),
    lambda payload, _, context: context.access.check_table(payload.table),
    lambda payload, _, __: check_settings(payload),
)
"""Cancellation, permission and settings."""


def check_request(payload: Payload, ledger: Ledger, context: Context) -> None:
    """Run `REQUEST_CHECKS` in order."""
    for check in REQUEST_CHECKS:
        check(payload, ledger, context)


# The table.


def describe(payload: Payload, context: Context) -> tuple[Table, Mapping[str, Any]]:
    """Describe the payload's table; the second value is the answer of DescribeTable."""
    return describe_table_with_response(
        context.clients.dynamodb,
        payload.table,
        retry_policy=context.retry_policy,
        suggest=context.access.paths,
    )


@dataclass(frozen=True, slots=True)
class _AskedTable:
    """Table that a run shall write to, and how."""

    name: str
    options: Options
    price: WritePrice
    context: Context


def check_backup(asked: _AskedTable) -> None:
    """Raise `BackupRequired` for a table without the recovery that is required."""
    context = asked.context
    if asked.options.require_backup or context.require_backup:
        dynamodb = context.clients.dynamodb
        require_recovery(dynamodb, asked.name, retry_policy=context.retry_policy)


def check_budget(asked: _AskedTable) -> None:
    """Raise `InvalidPayload` for a `max_cost` on a table whose write units have no price."""
    if asked.options.max_cost is not None and asked.price.source == NOT_BILLED:
        raise InvalidPayload(
            "'options.max_cost' limits the price of write units, but the table has provisioned"
            " capacity, which is billed by the hour: leave it out, or give 'options.unit_price'"
        )


TABLE_CHECKS = (check_backup, check_budget)


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
    """Run `TABLE_CHECKS` in order, and resolve the run's limits.

    `described`: the `Table` of DescribeTable; None without a table.
    """
    if described is None:
        return RunLimits(options, options.workers or 1, None)
    region = context.clients.dynamodb.meta.region_name
    price = write_price(described, region, given=options.unit_price)
    for check in TABLE_CHECKS:
        check(_AskedTable(table, options, price, context))
    capacity = write_capacity(described)
    if options.max_wcu_percent is not None:
        share = capacity.share(options.max_wcu_percent)
        options = replace(options, max_wcu=share, max_wcu_percent=None)
    return RunLimits(options, _count_workers(options, capacity, context), price)


def _count_workers(options: Options, capacity: WriteCapacity, context: Context) -> int:
    """Return the given number of workers, or choose one; the reserved concurrency limits both."""
    reserved = context.import_concurrency
    if options.workers is None:
        concurrency = reserved
        if reserved is None and context.in_account:
            concurrency = _account_concurrency(context.clients)
        return choose_workers(capacity.units, options.max_wcu, concurrency)
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
