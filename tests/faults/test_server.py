"""The fault server without faults, its random faults, its command and its end."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from tests.faults.catalogue import Chance
from tests.faults.request_helpers import (
    DEFINITION,
    KEYS,
    TABLE,
    ask,
    batch,
    client_of,
    fail,
    written,
)
from tests.faults.server import FaultServer

# Without faults


def test_server_answers_a_request(server, connection):
    response = ask(connection)
    body = response.read()
    assert response.status == 200
    assert json.loads(body) == {"UnprocessedItems": {}}
    assert response.headers["x-amz-crc32"] == str(zlib.crc32(body))
    assert len(response.headers["x-amzn-RequestId"]) == 52
    assert response.headers["Content-Type"] == "application/x-amz-json-1.0"
    assert response.headers["Content-Length"] == str(len(body))
    assert written(server) == KEYS


def test_server_keeps_connections(server, connection):
    for _ in range(3):
        ask(connection).read()
    assert server.connections == 1
    assert [r.connection for r in server.requests] == [1, 1, 1]


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


@pytest.mark.parametrize(
    ("body", "operation", "code"),
    [
        (b"", "BatchWriteItem", "SerializationException"),
        (b"{", "BatchWriteItem", "SerializationException"),
        (b"[]", "BatchWriteItem", "SerializationException"),
        (b'{"RequestItems": 1}', "BatchWriteItem", "SerializationException"),
        (b'{"Other": 1}', "BatchWriteItem", "SerializationException"),
        (batch("a", b={"B": "=="}), "BatchWriteItem", "SerializationException"),
        (batch("a", "a"), "BatchWriteItem", "ValidationException"),
        (batch(""), "BatchWriteItem", "ValidationException"),
        (batch("a", n={"N": 1}), "BatchWriteItem", "ValidationException"),
        ({"RequestItems": {TABLE: []}}, "BatchWriteItem", "ValidationException"),
        ({"RequestItems": {"no-table": batch()["RequestItems"][TABLE]}}, "BatchWriteItem", "Resou"),
        ({}, "Other", "UnknownOperationException"),
    ],
)
@pytest.mark.parametrize("fault", [None, "html_200", "unprocessed_all"])
def test_server_refuses_bad_requests(server, connection, body, operation, code, fault):
    fail(server, fault)
    response = ask(connection, body, operation)
    answer = json.loads(response.read())
    assert response.status == 400
    assert answer["__type"].partition("#")[2].startswith(code)
    assert "message" in answer or "Message" in answer
    assert written(server) == []


def test_server_refuses_unsigned_requests(connection):
    response = ask(connection, Authorization="")
    assert response.status == 400
    assert b"MissingAuthenticationTokenException" in response.read()


def test_server_refuses_too_large_a_request(connection):
    response = ask(connection, b" " * (16 * 1024 * 1024 + 1))
    assert (response.status, response.read()) == (413, b"")


def test_server_expects_binary_in_base64(server, connection):
    text = base64.b64encode(b"\x00\xff").decode()
    fail(server, "unprocessed_all")
    response = ask(connection, batch("a", b={"B": text}))
    (back,) = json.loads(response.read())["UnprocessedItems"][TABLE]
    assert back["PutRequest"]["Item"]["b"] == {"B": text}


def test_faults_apply_to_batches_only(server, client):
    server.fail_at_random(1, ["InternalServerError"], 1.0)
    client.put_item(TableName=TABLE, Item={"id": {"S": "a"}})
    with pytest.raises(client.exceptions.InternalServerError):
        client.batch_write_item(**batch())
    server.fail_at_random(1, ["InternalServerError"], 1.0, ["PutItem"])
    client.batch_write_item(**batch())
    with pytest.raises(client.exceptions.InternalServerError):
        client.put_item(TableName=TABLE, Item={"id": {"S": "a"}})


# Chance, the command, the whole catalogue


def test_fault_probability_is_seeded():
    def draws(seed: int, rate: float = 0.5) -> list[str | None]:
        chance = Chance(seed, ["closed", "html_502"], rate)
        return [chance("BatchWriteItem", {}) for _ in range(200)]

    assert draws(1) == draws(1) != draws(2)
    assert set(draws(1)) == {None, "closed", "html_502"}
    assert set(draws(1, 0.0)) == {None}
    assert None not in draws(1, 1.0)
    with pytest.raises(ValueError, match="no such fault: nonsense"):
        Chance(1, ["nonsense"], 0.5)


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


def test_command_lists_its_faults():
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.server", "--faults", "nonsense"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 2
    assert "no such fault: nonsense" in done.stderr
