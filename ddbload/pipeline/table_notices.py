"""Warn of a table without recovery, and of others that write to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ddbload.aws.failures import UNKNOWN_OPERATION, classify_failure
from ddbload.aws.retry import call_if_possible
from ddbload.contracts.options import Options
from ddbload.dynamodb.write_modes import PLAN
from ddbload.pipeline.table_backup import recovery_if_known, turn_recovery_on

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsClients

_PERIOD_SECONDS = 60
"""DynamoDB publishes the metric for each minute."""
_SPAN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class WriteTraffic:
    """Write units that a table consumed in the last hour, by whoever wrote it."""

    units: float
    highest_rate: float
    """Units a second of the busiest minute."""

    def warning(self, table: str) -> str:
        """Return the warning for a run without `max_wcu`."""
        return (
            f"table {table} consumed {self.units:,.0f} write units in the last hour (at most"
            f" {self.highest_rate:,.0f} a second), so others may be writing to it, and this run has"
            " no max_wcu: it takes all that the table accepts, and others may be throttled."
            " --max-wcu 50% leaves them half of it"
        )


def recent_traffic(clients: AwsClients, table: str, now: float) -> WriteTraffic | None:
    """Read a table's consumed write units of the last hour; None if unknown or nothing.

    The metric's dimension TableName covers the table and its global indexes: "You can retrieve
    the total consumed write capacity for a table and all of its global secondary indexes, or for
    a particular global secondary index" ("DynamoDB metrics and dimensions"). `now`: seconds since
    the epoch.
    """

    def ask() -> WriteTraffic | None:
        client = clients.advisory("cloudwatch")
        if not _same_cloud(clients.dynamodb.meta.endpoint_url, client.meta.endpoint_url):
            return None
        end = datetime.fromtimestamp(now, UTC)
        answer: Any = client.get_metric_statistics(
            Namespace="AWS/DynamoDB",
            MetricName="ConsumedWriteCapacityUnits",
            Dimensions=[{"Name": "TableName", "Value": table}],
            StartTime=end - _SPAN,
            EndTime=end,
            Period=_PERIOD_SECONDS,
            Statistics=["Sum"],
        )
        sums = [float(each["Sum"]) for each in answer["Datapoints"]]
        units = sum(sums)
        return WriteTraffic(units, max(sums) / _PERIOD_SECONDS) if units > 0 else None

    return call_if_possible(ask, f"reading the traffic of table {table}")


def is_aws_endpoint(url: str) -> bool:
    """Tell whether an endpoint is AWS's own, and not an emulator's or a proxy's."""
    host = urlsplit(url).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws"))


def has_statements(clients: AwsClients) -> bool:
    """Tell whether the endpoint can be sent BatchExecuteStatement, as AWS's can.

    Send an invalid statement, which DynamoDB refuses. dynalite does not know the
    operation, and moto fails with HTTP status 500, whatever the statement.
    """
    client = clients.dynamodb
    if is_aws_endpoint(client.meta.endpoint_url):
        return True
    try:
        answer = client.batch_execute_statement(Statements=[{"Statement": "-"}])
    except Exception as error:
        failure = classify_failure(error)
        if failure is None:
            raise
        broken = failure.status >= 500 and not failure.is_known
        return failure.code not in UNKNOWN_OPERATION and not broken
    return any("Error" in result for result in answer.get("Responses", ()))


def _same_cloud(one: str, other: str) -> bool:
    """Tell whether two endpoints are both AWS's, or one server's.

    Otherwise the metrics are those of another table of the same name.
    """
    both_aws = is_aws_endpoint(one) and is_aws_endpoint(other)
    return both_aws or urlsplit(one).netloc == urlsplit(other).netloc


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
