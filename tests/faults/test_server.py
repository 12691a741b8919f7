"""The fault server without faults, its random faults, its command and its end."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from tests.faults.request_helpers import DEFINITION, TABLE, batch, client_of
from tests.faults.server import FaultServer

# Without faults


def test_server_looks_like_a_table_to_botocore(client, server):
    client.put_item(TableName=TABLE, Item={"id": {"S": "é"}, "b": {"B": b"\x00\xff"}})
    found = client.get_item(TableName=TABLE, Key={"id": {"S": "é"}})
    assert found["Item"] == {"id": {"S": "é"}, "b": {"B": b"\x00\xff"}}
    client.batch_write_item(**batch(b={"BS": [b"1", b"2"]}, m={"M": {"B": {"B": b"3"}}}))
    assert client.scan(TableName=TABLE)["Count"] == 4
    described = client.describe_table(TableName=TABLE)["Table"]
    assert described["CreationDateTime"].year == 2024
    client.delete_table(TableName=TABLE)
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.describe_table(TableName=TABLE)


# Chance, the command, the whole catalogue


def test_server_ends_while_calls_are_in_flight():
    with FaultServer(stall_seconds=60) as server, ThreadPoolExecutor(4) as pool:
        server.faults.add("BatchWriteItem", "stall", "late", "slow_drip")
        client = client_of(server.port, read_timeout=30)
        server.dynamodb.create_table(**DEFINITION)
        for _ in range(3):
            pool.submit(client.batch_write_item, **batch())
        while len(server.requests) < 3:
            time.sleep(0.01)
        start = time.monotonic()
        server.__exit__()
        assert time.monotonic() - start < 5


def test_command_serves_a_table():
    command = [sys.executable, "-m", "tests.faults.server", "--seed", "7"]
    command += ["--faults", "unprocessed_all,html_502", "--rate", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        client = client_of(int(process.stdout.readline()))
        client.create_table(**DEFINITION)
        outcomes = set()
        for _ in range(20):
            try:
                outcomes.add(len(client.batch_write_item(**batch())["UnprocessedItems"][TABLE]))
            except ClientError as error:
                outcomes.add(error.response["ResponseMetadata"]["HTTPStatusCode"])
        assert outcomes == {3, 502}
        process.communicate("", timeout=10)
        assert process.returncode == 0
