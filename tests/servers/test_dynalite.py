from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import boto3
import pytest

from tests.servers import dynalite as module
from tests.servers.dynalite import ROOT, DynaliteError, dynalite

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


def test_dynalite_answers_boto3(dynalite_endpoint):
    client = boto3.client(
        "dynamodb",
        endpoint_url=dynalite_endpoint,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    assert client.list_tables()["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_dynalite_ends_with_the_block():
    with dynalite() as endpoint:
        assert endpoint.startswith("http://127.0.0.1:")
        assert answers(endpoint)
    assert not answers(endpoint)


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


def test_dynalite_survives_killed_clients():
    with dynalite() as endpoint:
        port = int(endpoint.rpartition(":")[2])
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
                # Close with a reset, as the system may do for a killed process.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        time.sleep(0.2)
        assert answers(endpoint)


def test_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module, "PROGRAM", ROOT / "node_modules" / ".bin" / "missing")
    with pytest.raises(DynaliteError, match="npm ci"), dynalite():
        pass


def test_error_quotes_dynalites_output(monkeypatch, tmp_path: Path):
    broken = tmp_path / "broken.js"
    broken.write_text("console.error('cannot start'); process.exit(3)")
    monkeypatch.setattr(module, "PROGRAM", broken)
    with pytest.raises(DynaliteError, match="cannot start"), dynalite():
        pass


def test_failed_condition_returns_the_item_on_request(dynalite_endpoint):
    client = boto3.client(
        "dynamodb",
        endpoint_url=dynalite_endpoint,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    client.create_table(
        TableName="shown",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
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
