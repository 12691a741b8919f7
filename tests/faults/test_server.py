"""Each fault is what it says, seen with http.client and with botocore without retries."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    HTTPClientError,
    ReadTimeoutError,
)

from tests.faults.catalogue import FATAL, FAULTS, LIES, SURVIVABLE, THROTTLES, Chance
from tests.faults.server import FaultServer

TABLE = "table"
KEYS = ["a", "b", "c"]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer(drip_seconds=0.2, stall_seconds=0.3) as running:
        running.dynamodb.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield running


@pytest.fixture
def connection(server) -> Iterator[http.client.HTTPConnection]:
    made = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    yield made
    made.close()


def client_of(port: int, **config: Any) -> Any:
    return boto3.client(
        "dynamodb",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="made-up",
        aws_secret_access_key="made-up",
        config=Config(retries={"total_max_attempts": 1}, **config),
    )


@pytest.fixture
def client(server) -> Iterator[Any]:
    made = client_of(server.port)
    yield made
    made.close()


def batch(*keys: str, **more: Any) -> dict[str, Any]:
    puts = [{"PutRequest": {"Item": {"id": {"S": key}, **more}}} for key in keys or KEYS]
    return {"RequestItems": {TABLE: puts}}


def ask(
    connection: http.client.HTTPConnection,
    body: bytes | dict[str, Any] | None = None,
    operation: str = "BatchWriteItem",
    **headers: str,
) -> http.client.HTTPResponse:
    if body is None or isinstance(body, dict):
        body = json.dumps(batch() if body is None else body).encode()
    connection.request(
        "POST",
        "/",
        body,
        {
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": "AWS4-HMAC-SHA256 Credential=made-up",
            **headers,
        },
    )
    return connection.getresponse()


def written(server: FaultServer) -> list[str]:
    return sorted(item["id"]["S"] for item in server.dynamodb.items(TABLE))


def fail(server: FaultServer, *names: str | None) -> None:
    server.faults.add("BatchWriteItem", *names)


# Without faults


def test_an_answer(server, connection):
    response = ask(connection)
    body = response.read()
    assert response.status == 200
    assert json.loads(body) == {"UnprocessedItems": {}}
    assert response.headers["x-amz-crc32"] == str(zlib.crc32(body))
    assert len(response.headers["x-amzn-RequestId"]) == 52
    assert response.headers["Content-Type"] == "application/x-amz-json-1.0"
    assert response.headers["Content-Length"] == str(len(body))
    assert written(server) == KEYS


def test_connections_are_kept(server, connection):
    for _ in range(3):
        ask(connection).read()
    assert server.connections == 1
    assert [r.connection for r in server.requests] == [1, 1, 1]


def test_botocore_sees_a_table(client, server):
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
def test_bad_requests_are_refused(server, connection, body, operation, code, fault):
    fail(server, fault)
    response = ask(connection, body, operation)
    answer = json.loads(response.read())
    assert response.status == 400
    assert answer["__type"].partition("#")[2].startswith(code)
    assert "message" in answer or "Message" in answer
    assert written(server) == []


def test_unsigned_requests_are_refused(connection):
    response = ask(connection, Authorization="")
    assert response.status == 400
    assert b"MissingAuthenticationTokenException" in response.read()


def test_too_large_a_request(connection):
    response = ask(connection, b" " * (16 * 1024 * 1024 + 1))
    assert (response.status, response.read()) == (413, b"")


def test_binary_is_base64_on_the_wire(server, connection):
    text = base64.b64encode(b"\x00\xff").decode()
    fail(server, "unprocessed_all")
    response = ask(connection, batch("a", b={"B": text}))
    (back,) = json.loads(response.read())["UnprocessedItems"][TABLE]
    assert back["PutRequest"]["Item"]["b"] == {"B": text}


def test_faults_are_for_batches_only(server, client):
    server.fail_at_random(1, ["InternalServerError"], 1.0)
    client.put_item(TableName=TABLE, Item={"id": {"S": "a"}})
    with pytest.raises(client.exceptions.InternalServerError):
        client.batch_write_item(**batch())
    server.fail_at_random(1, ["InternalServerError"], 1.0, ["PutItem"])
    client.batch_write_item(**batch())
    with pytest.raises(client.exceptions.InternalServerError):
        client.put_item(TableName=TABLE, Item={"id": {"S": "a"}})


# Answers that DynamoDB gives


def test_unprocessed_all(server, client):
    fail(server, "unprocessed_all")
    answer = client.batch_write_item(**batch())
    assert answer["UnprocessedItems"] == {TABLE: batch()["RequestItems"][TABLE][::-1]}
    assert written(server) == []


def test_unprocessed_some(server, client):
    fail(server, "unprocessed_some")
    answer = client.batch_write_item(**batch(*"abcd", n={"N": "1.0"}))
    back = [r["PutRequest"]["Item"] for r in answer["UnprocessedItems"][TABLE]]
    assert back == [{"id": {"S": key}, "n": {"N": "1"}} for key in "db"]
    assert written(server) == ["a", "c"]


@pytest.mark.parametrize("code", THROTTLES)
def test_throttles(server, connection, client, code):
    fail(server, code, code)
    response = ask(connection)
    answer = json.loads(response.read())
    assert response.status == 400
    assert answer["__type"].endswith("#" + code)
    ((_, reasons),) = [item for item in answer.items() if item[0].endswith("Reasons")]
    assert reasons == [{"reason": THROTTLES[code][0], "resource": THROTTLES[code][1]}]
    assert "message" in answer
    with pytest.raises(ClientError) as raised:
        client.batch_write_item(**batch())
    assert raised.value.response["Error"]["Code"] == code
    assert raised.value.response["Error"]["Message"]
    assert written(server) == []


@pytest.mark.parametrize(
    ("code", "status"), [("InternalServerError", 500), ("ServiceUnavailable", 503)]
)
def test_failures_of_the_service(server, connection, client, code, status):
    fail(server, code, code)
    response = ask(connection)
    assert response.status == status
    assert json.loads(response.read())["__type"].endswith("#" + code)
    with pytest.raises(ClientError) as raised:
        client.batch_write_item(**batch())
    assert raised.value.response["Error"]["Code"] == code
    assert written(server) == []


@pytest.mark.parametrize("code", FATAL)
def test_fatal_errors(server, client, code):
    fail(server, code)
    with pytest.raises(ClientError) as raised:
        client.batch_write_item(**batch())
    assert raised.value.response["Error"]["Code"] == code
    assert raised.value.response["Error"]["Message"]
    assert written(server) == []


# Broken connections


@pytest.mark.parametrize(("fault", "keys"), [("reset_before", []), ("reset_landed", KEYS)])
def test_resets(server, connection, client, fault, keys):
    fail(server, fault, fault, None)
    with pytest.raises((ConnectionResetError, BrokenPipeError)) as raised:
        ask(connection)
    # A reset in earnest: the end of a stream is RemoteDisconnected, which is a subclass.
    assert raised.type is not http.client.RemoteDisconnected
    assert written(server) == keys
    with pytest.raises((ConnectionClosedError, HTTPClientError)):
        client.batch_write_item(**batch())
    assert written(server) == keys
    connection.close()
    assert ask(connection).status == 200


def test_a_reset_comes_before_a_large_body_is_read(server, connection):
    fail(server, "reset_before")
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        ask(connection, b" " * (8 << 20))
    assert server.requests[0].fault == "reset_before"


def test_reset_mid_response(server, connection):
    fail(server, "reset_mid_response")
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        ask(connection).read()
    assert written(server) == KEYS


@pytest.mark.parametrize(("fault", "keys"), [("closed", []), ("closed_landed", KEYS)])
def test_closed_without_an_answer(server, connection, client, fault, keys):
    fail(server, fault, fault)
    with pytest.raises(http.client.RemoteDisconnected):
        ask(connection)
    with pytest.raises(ConnectionClosedError):
        client.batch_write_item(**batch())
    assert written(server) == keys


def test_truncated(server, connection):
    fail(server, "truncated")
    response = ask(connection)
    announced = int(response.headers["Content-Length"])
    with pytest.raises(http.client.IncompleteRead) as raised:
        response.read()
    assert raised.value.partial == b'{"UnprocessedItems":{}}'[: announced // 2]
    assert written(server) == KEYS


# Answers that are none


def test_wrong_crc(server, connection):
    fail(server, "wrong_crc")
    response = ask(connection)
    body = response.read()
    assert json.loads(body) == {"UnprocessedItems": {}}
    assert response.headers["x-amz-crc32"] != str(zlib.crc32(body))
    assert written(server) == KEYS


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize(
    ("fault", "status", "content_type", "body"),
    [
        ("garbage_200", 200, "application/x-amz-json-1.0", b"\x00\xff{]garbage"),
        ("html_200", 200, "text/html", None),
        ("html_502", 502, "text/html", None),
        ("empty_200", 200, "application/x-amz-json-1.0", b""),
        ("braces_200", 200, "application/x-amz-json-1.0", b"{}"),
    ],
)
def test_no_answer_with_a_status(server, connection, fault, status, content_type, body, landed):
    fail(server, fault + "_landed" * landed)
    response = ask(connection)
    got = response.read()
    assert (response.status, response.headers["Content-Type"]) == (status, content_type)
    # The checksum is right: it is not what gives these away.
    assert response.headers["x-amz-crc32"] == str(zlib.crc32(got))
    assert got == body or (body is None and got.startswith(b"<html>"))
    assert written(server) == (KEYS if landed else [])
    assert ask(connection).status == 200


# Answers in another form


def test_slow_drip(server, connection):
    fail(server, "slow_drip")
    start = time.monotonic()
    response = ask(connection)
    assert json.loads(response.read()) == {"UnprocessedItems": {}}
    assert 0.1 < time.monotonic() - start < 3
    assert written(server) == KEYS


def test_connection_close(server, connection):
    fail(server, "connection_close")
    response = ask(connection)
    assert response.headers["Connection"] == "close"
    assert json.loads(response.read()) == {"UnprocessedItems": {}}
    ask(connection).read()
    assert server.connections == 2


def test_closes_after(server, connection):
    fail(server, "closes_after")
    response = ask(connection)
    assert response.headers["Connection"] is None
    assert json.loads(response.read()) == {"UnprocessedItems": {}}
    assert connection.sock.recv(1) == b""
    with pytest.raises((http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)):
        ask(connection)


def test_chunked(server, connection):
    fail(server, "chunked")
    response = ask(connection)
    assert response.headers["Transfer-Encoding"] == "chunked"
    assert response.headers["Content-Length"] is None
    body = response.read()
    assert json.loads(body) == {"UnprocessedItems": {}}
    assert response.headers["x-amz-crc32"] == str(zlib.crc32(body))
    ask(connection).read()
    assert server.connections == 1


def test_interim_100(server):
    fail(server, "interim_100")
    body = json.dumps(batch()).encode()
    head = (
        "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: AWS4-HMAC-SHA256 x\r\n"
        f"X-Amz-Target: DynamoDB_20120810.BatchWriteItem\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as raw:
        raw.sendall(head.encode() + body)
        received = b""
        while not received.endswith(b'{"UnprocessedItems":{}}'):
            received += raw.recv(65536)
    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(("fault", "keys"), [("stall", []), ("stall_landed", KEYS)])
def test_stalls(server, connection, fault, keys):
    fail(server, fault, fault)
    impatient = client_of(server.port, read_timeout=0.1)
    with pytest.raises(ReadTimeoutError):
        impatient.batch_write_item(**batch())
    with pytest.raises(http.client.RemoteDisconnected):
        ask(connection)
    assert written(server) == keys


def test_late(server, connection):
    fail(server, "late")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, connection)
        time.sleep(0.1)
        assert written(server) == []
        assert json.loads(answer.result().read()) == {"UnprocessedItems": {}}
    assert written(server) == KEYS


def test_a_write_beside_a_late_one_is_seen(server, connection):
    fail(server, "late", None)
    impatient = client_of(server.port, read_timeout=0.1)
    with pytest.raises(ReadTimeoutError):
        impatient.batch_write_item(**batch("a"))
    ask(connection, batch("a", "b")).read()
    assert [overlap.key for overlap in server.dynamodb.overlaps] == [(TABLE, (("S", "a"),))]


# Lies


def test_never_sent(server, client):
    fail(server, "never_sent")
    answer = client.batch_write_item(**batch(n={"N": "1"}))
    (back,) = answer["UnprocessedItems"][TABLE]
    assert back["PutRequest"]["Item"]["id"]["S"] not in KEYS
    assert written(server) == KEYS


def test_other_table(server, client):
    fail(server, "other_table")
    answer = client.batch_write_item(**batch())
    assert list(answer["UnprocessedItems"]) == [TABLE + "-other"]
    assert len(answer["UnprocessedItems"][TABLE + "-other"]) == 3
    assert written(server) == []


# Chance, the command, the whole catalogue


def test_chance_is_seeded():
    def draws(seed: int, rate: float = 0.5) -> list[str | None]:
        chance = Chance(seed, ["closed", "html_502"], rate)
        return [chance("BatchWriteItem", {}) for _ in range(200)]

    assert draws(1) == draws(1) != draws(2)
    assert set(draws(1)) == {None, "closed", "html_502"}
    assert set(draws(1, 0.0)) == {None}
    assert None not in draws(1, 1.0)
    with pytest.raises(ValueError, match="no such fault: nonsense"):
        Chance(1, ["nonsense"], 0.5)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_call_is_answered_or_broken_in_time(server, fault):
    fail(server, fault)
    client = client_of(server.port, read_timeout=5)
    start = time.monotonic()
    try:
        client.batch_write_item(**batch())
    except (ClientError, HTTPClientError, ValueError):
        pass
    assert time.monotonic() - start < 4
    assert server.requests[0].fault == fault
    # A new client: the connection of the first may be half dead, as after closes_after.
    assert client_of(server.port).batch_write_item(**batch())["UnprocessedItems"] == {}
    assert written(server) == KEYS


def test_every_fault_is_in_one_group():
    assert len(FAULTS) == len(SURVIVABLE) + len(FATAL) + len(LIES)


def test_the_block_ends_while_calls_are_under_way():
    with FaultServer(stall_seconds=60) as server, ThreadPoolExecutor(4) as pool:
        server.faults.add("BatchWriteItem", "stall", "late", "slow_drip")
        client = client_of(server.port, read_timeout=30)
        server.dynamodb.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        for _ in range(3):
            pool.submit(client.batch_write_item, **batch())
        while len(server.requests) < 3:
            time.sleep(0.01)
        start = time.monotonic()
        server.__exit__()
        assert time.monotonic() - start < 5


def test_the_command():
    command = [sys.executable, "-m", "tests.faults.server", "--seed", "7"]
    command += ["--faults", "unprocessed_all,html_502", "--rate", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        client = client_of(int(process.stdout.readline()))
        client.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        outcomes = set()
        for _ in range(20):
            try:
                outcomes.add(len(client.batch_write_item(**batch())["UnprocessedItems"][TABLE]))
            except ClientError as error:
                outcomes.add(error.response["ResponseMetadata"]["HTTPStatusCode"])
        assert outcomes == {3, 502}
        process.communicate("", timeout=10)
        assert process.returncode == 0


def test_the_command_knows_its_faults():
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.server", "--faults", "nonsense"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 2
    assert "no such fault: nonsense" in done.stderr
