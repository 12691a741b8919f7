"""Create the three on-demand tables, and wait until they are active.

python -m lab.published.writers.create_tables
"""

from __future__ import annotations

import boto3

TABLES = ("SyncBooks", "ThreadedBooks", "AsyncBooks")


def main() -> None:
    """Create the tables."""
    client = boto3.client("dynamodb")
    for table in TABLES:
        client.create_table(
            TableName=table,
            AttributeDefinitions=[{"AttributeName": "isbn", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "isbn", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
    for table in TABLES:
        client.get_waiter("table_exists").wait(TableName=table)


if __name__ == "__main__":
    main()
