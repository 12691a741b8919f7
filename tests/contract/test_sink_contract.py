"""The benchmarks' sink creates and describes tables, and takes items, as dynalite does."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from bench.rounds import SinkProcess
from tests.contract.conftest import ACCOUNT, NAMES, ONCE


@pytest.fixture(scope="module")
def sink_client(tmp_path_factory) -> Any:
    """Client of a sink without tables."""
    process = SinkProcess(tmp_path_factory.mktemp("sink"))
    process.reset_without_tables(0.0)
    yield boto3.client("dynamodb", endpoint_url=process.ready["http"], config=ONCE, **ACCOUNT)
    process.close()


@pytest.fixture(params=["sink_client", "dynalite_client"])
def dynamodb(request) -> Any:
    """Client of the sink, and of dynalite."""
    return request.getfixturevalue(request.param)


def create_books(dynamodb, table, range_key=False):
    names = ["isbn", "year"] if range_key else ["isbn"]
    return dynamodb.create_table(
        TableName=table,
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
        KeySchema=[
            {"AttributeName": name, "KeyType": kind}
            for name, kind in zip(names, ("HASH", "RANGE"), strict=False)
        ],
        BillingMode="PAY_PER_REQUEST",
    )["TableDescription"]


def wait(dynamodb, table):
    dynamodb.get_waiter("table_exists").wait(
        TableName=table, WaiterConfig={"Delay": 0.05, "MaxAttempts": 200}
    )


@pytest.mark.parametrize("range_key", [False, True])
def test_a_table_is_created_and_described(dynamodb, range_key):
    table = next(NAMES)
    created = create_books(dynamodb, table, range_key)
    wait(dynamodb, table)
    described = dynamodb.describe_table(TableName=table)["Table"]
    names = ["isbn", "year"][: 1 + range_key]
    for description, status in ((created, "CREATING"), (described, "ACTIVE")):
        assert description["TableName"] == table
        assert description["TableStatus"] == status
        assert [key["AttributeName"] for key in description["KeySchema"]] == names
        assert [key["KeyType"] for key in description["KeySchema"]] == ["HASH", "RANGE"][
            : 1 + range_key
        ]
        assert sorted(
            (each["AttributeName"], each["AttributeType"])
            for each in description["AttributeDefinitions"]
        ) == [(name, "S") for name in names]
        assert description["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_a_table_that_is_there_is_not_created_again(dynamodb):
    table = next(NAMES)
    create_books(dynamodb, table)
    wait(dynamodb, table)
    with pytest.raises(ClientError) as refused:
        create_books(dynamodb, table)
    assert refused.value.response["Error"]["Code"] == "ResourceInUseException"


def test_a_table_that_is_not_there_is_not_described(dynamodb):
    with pytest.raises(ClientError) as refused:
        dynamodb.describe_table(TableName=next(NAMES))
    assert refused.value.response["Error"]["Code"] == "ResourceNotFoundException"


@pytest.mark.parametrize("asked", [False, True])
def test_put_item_states_capacity_if_it_is_asked_for(dynamodb, asked):
    table = next(NAMES)
    create_books(dynamodb, table)
    wait(dynamodb, table)
    more = {"ReturnConsumedCapacity": "TOTAL"} if asked else {}
    answer = dynamodb.put_item(TableName=table, Item={"isbn": {"S": "1"}}, **more)
    del answer["ResponseMetadata"]
    capacity = {"ConsumedCapacity": {"TableName": table, "CapacityUnits": 1.0}}
    assert answer == (capacity if asked else {})
