from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request

import boto3
import pytest

from tests.fakes.dynamodb_tables import keyed
from tests.servers.dynalite import ROOT

OWNER = """
import time
from tests.servers.dynalite import dynalite
with dynalite() as endpoint:
    print(endpoint, flush=True)
    time.sleep(600)
"""


def answers(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(endpoint, timeout=2) as response:
            return response.read().startswith(b"healthy")
    except OSError:
        return False


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_dynalite_ends_with_its_parent(signal_number):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert owner.stdout is not None
        endpoint = owner.stdout.readline().strip()
        assert answers(endpoint)
        os.kill(owner.pid, signal_number)
        owner.wait(10)
        deadline = time.monotonic() + 10
        while answers(endpoint) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not answers(endpoint)
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()


def test_failed_condition_returns_the_item_on_request(dynalite_endpoint):
    client = boto3.client(
        "dynamodb",
        endpoint_url=dynalite_endpoint,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    client.create_table(**keyed("shown", id="S"))
    client.get_waiter("table_exists").wait(TableName="shown", WaiterConfig={"Delay": 1})
    item = {"id": {"S": "k"}, "n": {"N": "1.50"}, "b": {"B": b"\xff"}}
    put = {
        "TableName": "shown",
        "Item": item,
        "ConditionExpression": "attribute_not_exists(id)",
    }
    client.put_item(**put)
    for asked, shown in (({}, None), ({"ReturnValuesOnConditionCheckFailure": "NONE"}, None)):
        with pytest.raises(client.exceptions.ConditionalCheckFailedException) as failed:
            client.put_item(**put, **asked)
        assert failed.value.response.get("Item") == shown
    with pytest.raises(client.exceptions.ConditionalCheckFailedException) as failed:
        client.put_item(**put, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    assert failed.value.response["Item"] == {**item, "n": {"N": "1.5"}}
