"""Load a file with boto3's `Table.batch_writer()`, which sends one request at a time."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import boto3
from botocore.config import Config

from bench.rivals.rows import Task


def main() -> None:
    """Write all items."""
    task = Task.from_command_line()
    # boto3 validates parameters by default; items built by a program do not need it.
    dynamodb = boto3.resource("dynamodb", config=Config(parameter_validation=task.checks))
    makers: dict[str, Callable[[str], Any]] = {
        "S": str,
        "N": Decimal,
        "BOOL": lambda text: text == "true",
    }
    with dynamodb.Table(task.table).batch_writer() as writer:
        for item in task.items(makers):
            writer.put_item(Item=item)


if __name__ == "__main__":
    main()
