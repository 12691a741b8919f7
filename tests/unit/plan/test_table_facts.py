"""Settings of a table, known and unknown."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.plan.table_facts import table_facts, with_other_settings

TABLE = Table("t", "id", (KeyAttribute("id", "S", 2048),))
FACTS = table_facts(TABLE, {}, "us-east-1")


def refused(code: str) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "x"
    )


class Client:
    """Fake client with given answers or errors."""

    def __init__(self, recovery: Any, time_to_live: Any) -> None:
        self._recovery, self._time_to_live = recovery, time_to_live

    def describe_continuous_backups(self, TableName: str) -> Any:  # noqa: N803
        return self._answer(self._recovery)

    def describe_time_to_live(self, TableName: str) -> Any:  # noqa: N803
        return self._answer(self._time_to_live)

    def _answer(self, answer: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer


def recovery(status: str) -> dict[str, Any]:
    described = {"PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": status}}
    return {"ContinuousBackupsDescription": described}


def time_to_live(**described: str) -> dict[str, Any]:
    return {"TimeToLiveDescription": described}


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ((recovery("ENABLED"), time_to_live(TimeToLiveStatus="DISABLED")), (True, None)),
        (
            (
                recovery("DISABLED"),
                time_to_live(TimeToLiveStatus="ENABLED", AttributeName="expires"),
            ),
            (False, "expires"),
        ),
    ],
)
def test_with_other_settings_reads_recovery_and_time_to_live(answers, found):
    asked = with_other_settings(FACTS, Client(*answers))
    assert (asked.recovery, asked.time_to_live, asked.unknown) == (*found, ())


@pytest.mark.parametrize(
    "trouble",
    [
        refused("AccessDeniedException"),
        refused("UnknownOperationException"),
        refused("ThrottlingException"),
        EndpointConnectionError(endpoint_url="http://127.0.0.1:1"),
        {},
        None,
    ],
)
def test_with_other_settings_marks_failed_calls_unknown(trouble):
    asked = with_other_settings(FACTS, Client(trouble, trouble))
    assert (asked.recovery, asked.time_to_live) == (None, None)
    assert asked.unknown == ("recovery", "time_to_live")
    asked = with_other_settings(FACTS, Client(trouble, time_to_live(TimeToLiveStatus="DISABLED")))
    assert asked.unknown == ("recovery",)


def test_table_facts_of_on_demand_table():
    facts = table_facts(
        TABLE,
        {
            "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
            "ProvisionedThroughput": {"ReadCapacityUnits": 0, "WriteCapacityUnits": 0},
            "WarmThroughput": {"ReadUnitsPerSecond": 12000, "WriteUnitsPerSecond": 9000},
            "OnDemandThroughput": {"MaxReadRequestUnits": -1, "MaxWriteRequestUnits": -1},
            "TableClassSummary": {"TableClass": "STANDARD_INFREQUENT_ACCESS"},
            "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
            "Replicas": [{"RegionName": "us-east-1"}, {"RegionName": "eu-west-1"}],
            "DeletionProtectionEnabled": True,
            "ItemCount": 5,
            "TableSizeBytes": 99,
        },
        "us-east-1",
    )
    told = facts.to_json()
    assert (told["billing"], told["write_capacity"]) == ("on-demand", None)
    assert (told["warm_writes"], told["most_writes"]) == (9000, None)
    assert facts.infrequent
    assert (told["stream"], told["replicas"]) == ("NEW_IMAGE", ["eu-west-1"])
    assert (told["items"], told["bytes"], told["deletion_protection"]) == (5, 99, True)
    assert told["keys"] == [{"name": "id", "type": "S", "role": "partition"}]


def test_table_facts_of_provisioned_table_with_indexes():
    schema = [
        {"AttributeName": "day", "KeyType": "HASH"},
        {"AttributeName": "hour", "KeyType": "HASH"},
        {"AttributeName": "at", "KeyType": "RANGE"},
    ]
    facts = table_facts(
        TABLE,
        {
            "ProvisionedThroughput": {"ReadCapacityUnits": 3, "WriteCapacityUnits": 7},
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "g",
                    "KeySchema": schema,
                    "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["x"]},
                    "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 2},
                }
            ],
            "LocalSecondaryIndexes": [
                {
                    "IndexName": "l",
                    "KeySchema": [
                        {"AttributeName": "id", "KeyType": "HASH"},
                        {"AttributeName": "at", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ],
        },
        "eu-west-1",
    )
    assert (facts.on_demand, facts.write_capacity) == (False, 7)
    one, other = facts.indexes
    assert (one.partition, one.sort) == (("day", "hour"), ("at",))
    assert one.projected == {"id", "day", "hour", "at", "x"}
    assert one.write_capacity == 2
    assert (other.is_global, other.projected, other.write_capacity) == (False, {"id", "at"}, None)
