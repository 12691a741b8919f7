"""Check that a table can be restored: point-in-time recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_if_possible, call_with_retries
from ddbload.errors import AccessDenied, BackupRequired, RequestRefused

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

RECOVERY_PERMISSION = "dynamodb:DescribeContinuousBackups"


def has_recovery(
    client: DynamoDBClient, table: str, *, retry_policy: RetryPolicy = DEFAULT_POLICY
) -> bool:
    """Tell whether point-in-time recovery of a table is on. Raises AWS's errors."""

    def ask() -> bool:
        answer: Any = client.describe_continuous_backups(TableName=table)
        described = answer["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        return bool(described.get("PointInTimeRecoveryStatus") == "ENABLED")

    return call_with_retries(
        ask, f"reading point-in-time recovery of table {table}", policy=retry_policy
    )


def recovery_if_known(client: DynamoDBClient, table: str) -> bool | None:
    """Tell whether recovery is on; None if that cannot be read. Asks once."""
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
