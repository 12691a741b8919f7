"""Describe the table that a run writes to: keys, id, capacity, price, recovery and traffic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ddbload.aws.failures import UNKNOWN_OPERATION, AwsFailure, classify_failure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_if_possible, call_with_retries
from ddbload.contracts.options import Options
from ddbload.contracts.run_record import KeyAttribute, Table, WritePrice
from ddbload.dynamodb.limits import MAX_KEY_BYTES, NEW_TABLE_RATE, PARTITION_WRITE_UNITS
from ddbload.errors import (
    AccessDenied,
    BackupRequired,
    RequestRefused,
    TableNotActive,
    TableNotFound,
    TableReplaced,
    did_you_mean,
)
from ddbload.records import Record

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from ddbload.aws.clients import Clients

T = TypeVar("T")


def describe_table_with_response(
    client: DynamoDBClient,
    name: str,
    *,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
    suggest: bool = False,
) -> tuple[Table, Mapping[str, Any]]:
    """Describe a table, and return the whole answer of DescribeTable too.

    With `suggest`, the error of a missing table names the most similar one, which takes a request
    that deployed functions may not send. Raises `TableNotFound`, `TableNotActive`, and AWS's
    errors.
    """
    absent = f"there is no table {name} in {client.meta.region_name}"
    try:
        return _ask(
            client, name, lambda answer: (_table(name, answer), answer), absent, retry_policy
        )
    except TableNotFound:
        if not suggest:
            raise
        raise TableNotFound(f"{absent}{_suggestion(client, name)}") from None


def _suggestion(client: DynamoDBClient, name: str) -> str:
    """Say which table was likely meant; or else to look in another region."""
    names: list[str] = []
    # The credentials may not allow it.
    with suppress(Exception):
        names = client.list_tables()["TableNames"]
    return did_you_mean(name, names) or (
        "; ddbload import --create-table KEY:TYPE makes it, --region names another region"
    )


def require_same_table(
    clients: Clients,
    table: Table,
    *,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
) -> None:
    """Check that the table of this name still has the same id.

    DynamoDB gives each table a new id, so a table with the same id was not replaced. Raises
    `TableReplaced`, `TableNotFound`, `TableNotActive`, and AWS's errors.
    """

    def check(description: Mapping[str, Any]) -> None:
        if _id(description) != table.id:
            raise TableReplaced(
                f"table {table.name} was deleted and made again while this run wrote to it: the"
                " rows that were written before are gone, and some may be in the new table; start"
                " a new run (another run id)"
            )
        if description["TableStatus"] == "DELETING":
            raise TableNotFound(f"table {table.name} is being deleted")
        _table(table.name, description)

    absent = f"table {table.name} is not there any more"

    def ask() -> None:
        _ask(clients.dynamodb, table.name, check, absent, retry_policy)

    try:
        ask()
    except AccessDenied:
        # Credentials may have expired since the client was made; newer ones may exist.
        clients.renew()
        ask()


def _ask(
    client: DynamoDBClient,
    name: str,
    read: Callable[[Mapping[str, Any]], T],
    absent: str,
    retry_policy: RetryPolicy,
) -> T:
    """Call DescribeTable and decode the answer. Raises `TableNotFound`, and AWS's errors.

    `absent`: the message if there is no such table.
    """

    def expected(failure: AwsFailure) -> Exception | None:
        return TableNotFound(absent) if failure.code == "ResourceNotFoundException" else None

    def ask() -> T:
        try:
            answer: Any = client.describe_table(TableName=name)
            return read(answer["Table"])
        except (AttributeError, LookupError, TypeError, ValueError):
            # A damaged answer is read again.
            raise ConnectionError("the answer is not from DynamoDB; check the endpoint") from None

    return call_with_retries(
        ask, f"describing table {name}", policy=retry_policy, expected=expected
    )


def _id(table: Mapping[str, Any]) -> str:
    return str(table.get("TableId") or f"{table['TableArn']} {table['CreationDateTime']}")


def _table(name: str, table: Mapping[str, Any]) -> Table:
    status = table["TableStatus"]
    if status not in ("ACTIVE", "UPDATING"):
        raise TableNotActive(f"table {name} is {status}; wait until it is ACTIVE")
    types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    indexes = (*table.get("GlobalSecondaryIndexes", ()), *table.get("LocalSecondaryIndexes", ()))
    return Table(
        name=name,
        id=_id(table),
        keys=_keys(table["KeySchema"], types),
        index_keys=tuple(key for index in indexes for key in _keys(index["KeySchema"], types)),
    )


def _keys(
    schema: Sequence[Mapping[str, str]], types: Mapping[str, str]
) -> tuple[KeyAttribute, ...]:
    # Partition key first.
    ordered = sorted(schema, key=lambda each: each["KeyType"] != "HASH")
    return tuple(
        KeyAttribute(
            each["AttributeName"], types[each["AttributeName"]], MAX_KEY_BYTES[each["KeyType"]]
        )
        for each in ordered
    )


NEW_TABLE_READS = 12_000
"""Read units a second that a new on-demand table accepts."""
TABLE_QUOTA = 40_000
"""Write units a second of a table, by AWS's default quota."""
STANDARD_IA = "STANDARD_INFREQUENT_ACCESS"
UNITS_PER_WORKER = 4 * PARTITION_WRITE_UNITS
"""Write units a second for which `workers: auto` adds a worker.

One function of the deployed memory writes as many: those of four partitions, and as many as a new
on-demand table accepts. More functions would wait for the table, and waiting is paid.
"""


class WriteCapacity(Record):
    """Write units a second that a table or an index accepts at once."""

    units: float
    how: str
    """Origin of the number, for people."""

    def share(self, percent: float) -> float:
        """Return a percentage of the capacity, and at least one unit a second."""
        return max(1.0, self.units * percent / 100)


def is_on_demand(described: Mapping[str, Any]) -> bool:
    """Return whether a table bills requests. `described`: the `Table` of DescribeTable."""
    billing = described.get("BillingModeSummary", {}).get("BillingMode")
    return billing == "PAY_PER_REQUEST" or (billing is None and not provisioned_writes(described))


def table_class_of(described: Mapping[str, Any]) -> str:
    """Return the class of a described table."""
    return str(described.get("TableClassSummary", {}).get("TableClass") or "STANDARD")


def other_regions(described: Mapping[str, Any], region: str) -> tuple[str, ...]:
    """List the regions of a global table's other replicas."""
    replicas = described.get("Replicas") or ()
    names = (str(each["RegionName"]) for each in replicas if each.get("RegionName"))
    return tuple(name for name in names if name != region)


def _units(described: Mapping[str, Any], setting: str, name: str) -> int | None:
    """Return a number of units above 0; None if it is not set, or -1, which means no limit."""
    found = int((described.get(setting) or {}).get(name) or 0)
    return found if found > 0 else None


def provisioned_writes(described: Mapping[str, Any]) -> int:
    """Return the provisioned write units a second of a described table or index."""
    return _units(described, "ProvisionedThroughput", "WriteCapacityUnits") or 0


def warm_writes(described: Mapping[str, Any]) -> int | None:
    """Return the write units of a table's or index's warm throughput; None if unknown."""
    return _units(described, "WarmThroughput", "WriteUnitsPerSecond")


def on_demand_maximum(described: Mapping[str, Any]) -> int | None:
    """Return the on-demand maximum of a table or index in write units; None without one."""
    return _units(described, "OnDemandThroughput", "MaxWriteRequestUnits")


def read_capacity(described: Mapping[str, Any]) -> int:
    """Return the read units a second that a described table accepts at once."""
    if not is_on_demand(described):
        return _units(described, "ProvisionedThroughput", "ReadCapacityUnits") or 0
    warm = _units(described, "WarmThroughput", "ReadUnitsPerSecond") or NEW_TABLE_READS
    most = _units(described, "OnDemandThroughput", "MaxReadRequestUnits")
    return warm if most is None else min(warm, most)


def write_capacity(
    described: Mapping[str, Any], what: str = "the table", *, on_demand: bool | None = None
) -> WriteCapacity:
    """Determine the write capacity of a described table or index.

    `on_demand`: how the table of an index is billed.
    """
    if not (is_on_demand(described) if on_demand is None else on_demand):
        return WriteCapacity(float(provisioned_writes(described)), f"provisioned for {what}")
    warm, most = warm_writes(described), on_demand_maximum(described)
    found = WriteCapacity(float(NEW_TABLE_RATE), "assumed, as for a new on-demand table")
    if warm is not None:
        found = WriteCapacity(float(warm), f"warm throughput of {what}")
    if most is not None and most < found.units:
        return WriteCapacity(float(most), f"on-demand maximum of {what}")
    return found


def table_write_capacity(
    client: DynamoDBClient, name: str, *, retry_policy: RetryPolicy = DEFAULT_POLICY
) -> WriteCapacity:
    """Describe a table and determine its write capacity. Raises its errors."""
    _, described = describe_table_with_response(client, name, retry_policy=retry_policy)
    return write_capacity(described)


def write_price(
    described: Mapping[str, Any], region: str, *, given: float | None = None
) -> WritePrice:
    """Choose the price of a described table's write units, as `WritePrice.of`."""
    return WritePrice.of(
        region,
        on_demand=is_on_demand(described),
        infrequent=table_class_of(described) == STANDARD_IA,
        regions=1 + len(other_regions(described, region)),
        given=given,
    )


def choose_workers(
    capacity: float, max_wcu: float | None = None, *, each: int = UNITS_PER_WORKER
) -> int:
    """Choose the number of workers of `workers: auto`, before the chunks are counted.

    One worker for `each` write units a second that the run may use: the table's capacity or the
    lower `max_wcu`.
    """
    units = capacity if max_wcu is None else min(capacity, max_wcu)
    return max(1, math.ceil(units / each))


RECOVERY_PERMISSION = "dynamodb:DescribeContinuousBackups"


def has_recovery(
    client: DynamoDBClient, table: str, *, retry_policy: RetryPolicy = DEFAULT_POLICY
) -> bool:
    """Return whether point-in-time recovery of a table is on. Raises AWS's errors."""

    def ask() -> bool:
        answer: Any = client.describe_continuous_backups(TableName=table)
        described = answer["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        return bool(described.get("PointInTimeRecoveryStatus") == "ENABLED")

    return call_with_retries(
        ask, f"reading point-in-time recovery of table {table}", policy=retry_policy
    )


def recovery_if_known(client: DynamoDBClient, table: str) -> bool | None:
    """Return whether recovery is on; None if that cannot be read. Asks once."""
    once = RetryPolicy(attempts=1)
    return call_if_possible(
        lambda: has_recovery(client, table, retry_policy=once),
        f"reading point-in-time recovery of table {table}",
    )


def require_recovery(
    client: DynamoDBClient, table: str, *, retry_policy: RetryPolicy = DEFAULT_POLICY
) -> None:
    """Raise `BackupRequired` unless point-in-time recovery of a table is known to be on."""
    try:
        if has_recovery(client, table, retry_policy=retry_policy):
            return
    except (AccessDenied, RequestRefused) as error:
        raise BackupRequired(
            f"table {table} must have point-in-time recovery (require_backup), and whether it has"
            f" cannot be read: allow {RECOVERY_PERMISSION}, or leave require_backup out"
            f" ({error.message})"
        ) from None
    raise BackupRequired(
        f"table {table} has no point-in-time recovery, and require_backup asks for it; nothing was"
        f" written. {turn_recovery_on(table)}"
    )


def turn_recovery_on(table: str) -> str:
    """Return the sentence that says how to turn a table's recovery on."""
    return (
        f"To turn it on: aws dynamodb update-continuous-backups --table-name {table}"
        " --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true"
    )


_PERIOD_SECONDS = 60
"""DynamoDB publishes the metric for each minute."""
_SPAN = timedelta(hours=1)


class WriteTraffic(Record):
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


def recent_traffic(clients: Clients, table: str, now: float) -> WriteTraffic | None:
    """Read a table's consumed write units of the last hour; None if unknown or nothing.

    The metric's dimension TableName covers the table and its global indexes: "You can retrieve
    the total consumed write capacity for a table and all of its global secondary indexes, or for
    a particular global secondary index" ("DynamoDB metrics and dimensions"). `now`: seconds since
    the epoch.
    """

    def ask() -> WriteTraffic | None:
        client = clients.advisory("cloudwatch")
        urls = clients.dynamodb.meta.endpoint_url, client.meta.endpoint_url
        # Otherwise the metrics are those of another table of the same name.
        if not all(map(is_aws_endpoint, urls)) and len({urlsplit(url).netloc for url in urls}) > 1:
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
    """Return whether an endpoint is AWS's own, and not an emulator's or a proxy's."""
    host = urlsplit(url).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws"))


def has_statements(clients: Clients) -> bool:
    """Return whether the endpoint can be sent BatchExecuteStatement, as AWS's can.

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


def table_notices(
    clients: Clients, table: str, options: Options, now: float, *, units: float = math.inf
) -> Iterator[str]:
    """Yield the warnings about a table, as far as permissions allow to know them.

    `now`: seconds since the epoch. `units`: write units of the run. As few as a partition accepts
    in a second leave others enough, so the table's traffic is not asked for.
    """
    if not options.write_mode.writes:
        # Nothing is written.
        return
    if not options.require_backup and recovery_if_known(clients.dynamodb, table) is False:
        yield (
            f"table {table} has no point-in-time recovery, so what this run overwrites cannot be"
            f" restored. {turn_recovery_on(table)}"
        )
    is_limited = options.max_wcu is not None or options.max_wcu_percent is not None
    if not is_limited and units > PARTITION_WRITE_UNITS:
        traffic = recent_traffic(clients, table, now)
        if traffic is not None:
            yield traffic.warning(table)
