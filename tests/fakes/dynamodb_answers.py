"""Longer responses of FakeDynamoDB."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

from tests.fakes.client import Refused, ServiceError
from tests.fakes.dynamodb_tables import Table
from tests.fakes.dynamodb_values import Item


def description(table: Table, region: str, status: str) -> dict[str, Any]:
    """Make DescribeTable's response; ``status`` is CREATING, ACTIVE or DELETING."""
    arn = f"arn:aws:dynamodb:{region}:123456789012:table/{table.name}"
    given = table.definition
    units = given.get("ProvisionedThroughput", {"ReadCapacityUnits": 0, "WriteCapacityUnits": 0})
    # The service counts items about every six hours: no test may lean on its counts.
    counts = {"ItemCount": 0}
    described = {
        "TableName": table.name,
        "TableId": table.table_id,
        "TableArn": arn,
        "TableStatus": status,
        "TableSizeBytes": 0,
        "CreationDateTime": datetime(2024, 1, 1, tzinfo=UTC),
        "KeySchema": given["KeySchema"],
        "AttributeDefinitions": given["AttributeDefinitions"],
        "ProvisionedThroughput": units | {"NumberOfDecreasesToday": 0},
        **counts,
    }
    if given.get("BillingMode") == "PAY_PER_REQUEST":
        described["BillingModeSummary"] = {"BillingMode": "PAY_PER_REQUEST"}
    for name in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
        if name in given:
            extra = {"IndexStatus": status} if name.startswith("Global") else {}
            described[name] = [
                index | counts | extra | {"IndexArn": f"{arn}/index/{index['IndexName']}"}
                for index in given[name]
            ]
    return copy.deepcopy(described)


def consumed(table: Table, cost: dict[str | None, float], how: str) -> dict[str, Any]:
    """Make ConsumedCapacity of ``cost`` (see Table.cost); ``how`` is TOTAL or INDEXES."""
    consumed: dict[str, Any] = {"TableName": table.name, "CapacityUnits": sum(cost.values())}
    if how == "INDEXES":
        consumed["Table"] = {"CapacityUnits": cost[None]}
        for index in table.indexes:
            if index.name in cost:
                kind = "Global" if index.is_global else "Local"
                group = consumed.setdefault(f"{kind}SecondaryIndexes", {})
                group[index.name] = {"CapacityUnits": cost[index.name]}
    return consumed


def condition_failed(params: dict[str, Any], old: Item | None) -> Refused:
    """Make the error of a put whose condition does not hold for ``old``."""
    shows_old = params.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
    members = {"Item": copy.deepcopy(old)} if shows_old and old is not None else {}
    message = "The conditional request failed"
    return Refused(ServiceError("ConditionalCheckFailedException", 400, message, members))
