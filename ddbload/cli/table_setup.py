"""Look at the table before a run starts: price, warnings, and `--prewarm`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ddbload.aws.clients import AwsClients
from ddbload.aws.retry import DEFAULT_POLICY
from ddbload.aws.signing.credentials import has_proxy
from ddbload.aws.table_description import describe_table_with_response, table_notices
from ddbload.cli.output import ask_to_agree, print_notice, print_stderr
from ddbload.contracts.options import ASYNC, THREADS
from ddbload.contracts.payload import Payload
from ddbload.errors import DdbloadError
from ddbload.plan.warm_up import plan_warm_up, warm_up


def settle_engine(payload: dict[str, Any], clients: AwsClients, *, quiet: bool) -> None:
    """Use threads instead of the default engine behind a proxy, which only botocore uses."""
    options = payload["options"]
    if options.get("engine", ASYNC) != ASYNC:
        return
    try:
        url = clients.dynamodb.meta.endpoint_url
    except DdbloadError:
        # The import raises this error again, and reports it.
        return
    if not has_proxy(url):
        return
    options["engine"] = THREADS
    if not quiet:
        print_stderr(
            f"ddbload: {url.partition(':')[0].upper()}_PROXY names a proxy, so this run uses"
            " --engine threads, which needs more CPU; NO_PROXY names hosts that are reached without"
            " a proxy"
        )


def print_table_notices(payload: Mapping[str, Any], clients: AwsClients) -> None:
    """Print the warnings about a payload's table, as far as permissions allow to know them."""
    checked = Payload.from_json(payload)
    for notice in table_notices(clients, checked.table, checked.options, time.time()):
        print_notice(notice)


def prewarm(table: str, wanted: int, clients: AwsClients, *, yes: bool, quiet: bool) -> None:
    """Raise a table's warm throughput, after showing the price and asking, and wait for it.

    Raises `InvalidUsage` for a table that it cannot help, and without a terminal to ask on unless
    `yes`, or if the user declines; `PrewarmUnfinished` and AWS's errors.
    """
    client = clients.dynamodb
    _, described = describe_table_with_response(client, table)
    change = plan_warm_up(table, described, client.meta.region_name, wanted)
    if not change.more:
        if not quiet:
            print_stderr(f"ddbload: table {table} is warm for {wanted:,} write units a second")
        return
    if not yes:
        ask_to_agree(
            change.question,
            unasked=f"--prewarm {wanted} costs about ${change.dollars:,.2f} ({change.how}): without"
            " a terminal to ask on, give --yes to agree",
            declined="--prewarm was declined: nothing was changed or written",
        )
    if not quiet:
        print_stderr(f"ddbload: warming table {table} to {wanted:,} write units a second ...")
    warm_up(client, change, policy=DEFAULT_POLICY, clock=time.monotonic, sleep=time.sleep)
    if not quiet:
        print_stderr(f"ddbload: table {table} is warm")
