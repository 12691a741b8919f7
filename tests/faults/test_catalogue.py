"""Each fault has its documented effect on http.client and on botocore."""

from __future__ import annotations

import http.client
import json
import socket
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    HTTPClientError,
    ReadTimeoutError,
)

from tests.faults.catalogue import FATAL, FAULTS, LIES, SURVIVABLE, THROTTLES
from tests.faults.request_helpers import KEYS, TABLE, ask, batch, client_of, fail, written

# Answers that DynamoDB gives


def test_unprocessed_all_returns_every_item(server, client):
    fail(server, "unprocessed_all")
    answer = client.batch_write_item(**batch())
    assert answer["UnprocessedItems"] == {TABLE: batch()["RequestItems"][TABLE][::-1]}
    assert written(server) == []


def test_unprocessed_some_returns_a_part(server, client):
    fail(server, "unprocessed_some")
    answer = client.batch_write_item(**batch(*"abcd", n={"N": "1.0"}))
    back = [r["PutRequest"]["Item"] for r in answer["UnprocessedItems"][TABLE]]
    assert back == [{"id": {"S": key}, "n": {"N": "1"}} for key in "db"]
    assert written(server) == ["a", "c"]


@pytest.mark.parametrize("code", THROTTLES)
def test_throttles_have_their_error_codes(server, connection, client, code):
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
def test_service_failures_have_their_statuses(server, connection, client, code, status):
    fail(server, code, code)
    response = ask(connection)
    assert response.status == status
    assert json.loads(response.read())["__type"].endswith("#" + code)
    with pytest.raises(ClientError) as raised:
        client.batch_write_item(**batch())
    assert raised.value.response["Error"]["Code"] == code
    assert written(server) == []


@pytest.mark.parametrize("code", FATAL)
def test_fatal_errors_have_their_error_codes(server, client, code):
    fail(server, code)
    with pytest.raises(ClientError) as raised:
        client.batch_write_item(**batch())
    assert raised.value.response["Error"]["Code"] == code
    assert raised.value.response["Error"]["Message"]
    assert written(server) == []


# Broken connections


@pytest.mark.parametrize(("fault", "keys"), [("reset_before", []), ("reset_landed", KEYS)])
def test_reset_ends_the_connection(server, connection, client, fault, keys):
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


def test_reset_comes_before_a_large_body_is_read(server, connection):
    fail(server, "reset_before")
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        ask(connection, b" " * (8 << 20))
    assert server.requests[0].fault == "reset_before"


def test_reset_mid_response_ends_the_connection_in_the_body(server, connection):
    fail(server, "reset_mid_response")
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        ask(connection).read()
    assert written(server) == KEYS


@pytest.mark.parametrize(("fault", "keys"), [("closed", []), ("closed_landed", KEYS)])
def test_closed_connection_has_no_response(server, connection, client, fault, keys):
    fail(server, fault, fault)
    with pytest.raises(http.client.RemoteDisconnected):
        ask(connection)
    with pytest.raises(ConnectionClosedError):
        client.batch_write_item(**batch())
    assert written(server) == keys


def test_truncated_response_is_shorter_than_its_length(server, connection):
    fail(server, "truncated")
    response = ask(connection)
    announced = int(response.headers["Content-Length"])
    with pytest.raises(http.client.IncompleteRead) as raised:
        response.read()
    assert raised.value.partial == b'{"UnprocessedItems":{}}'[: announced // 2]
    assert written(server) == KEYS


# Answers that are none


def test_wrong_crc_does_not_match_the_body(server, connection):
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
def test_foreign_response_has_its_status_and_content_type(
    server, connection, fault, status, content_type, body, landed
):
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


def test_slow_drip_sends_byte_by_byte(server, connection):
    fail(server, "slow_drip")
    start = time.monotonic()
    response = ask(connection)
    assert json.loads(response.read()) == {"UnprocessedItems": {}}
    assert 0.1 < time.monotonic() - start < 3
    assert written(server) == KEYS


def test_connection_close_is_announced(server, connection):
    fail(server, "connection_close")
    response = ask(connection)
    assert response.headers["Connection"] == "close"
    assert json.loads(response.read()) == {"UnprocessedItems": {}}
    ask(connection).read()
    assert server.connections == 2


def test_connection_closes_after_the_response(server, connection):
    fail(server, "closes_after")
    response = ask(connection)
    assert response.headers["Connection"] is None
    assert json.loads(response.read()) == {"UnprocessedItems": {}}
    assert connection.sock.recv(1) == b""
    with pytest.raises((http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)):
        ask(connection)


def test_chunked_response_is_whole(server, connection):
    fail(server, "chunked")
    response = ask(connection)
    assert response.headers["Transfer-Encoding"] == "chunked"
    assert response.headers["Content-Length"] is None
    body = response.read()
    assert json.loads(body) == {"UnprocessedItems": {}}
    assert response.headers["x-amz-crc32"] == str(zlib.crc32(body))
    ask(connection).read()
    assert server.connections == 1


def test_interim_response_comes_before_the_final_one(server):
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
def test_stalled_response_does_not_end(server, connection, fault, keys):
    fail(server, fault, fault)
    impatient = client_of(server.port, read_timeout=0.1)
    with pytest.raises(ReadTimeoutError):
        impatient.batch_write_item(**batch())
    with pytest.raises(http.client.RemoteDisconnected):
        ask(connection)
    assert written(server) == keys


def test_late_response_comes_with_a_late_write(server, connection):
    fail(server, "late")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, connection)
        time.sleep(0.1)
        assert written(server) == []
        assert json.loads(answer.result().read()) == {"UnprocessedItems": {}}
    assert written(server) == KEYS


def test_write_during_a_late_write_is_seen(server, connection):
    fail(server, "late", None)
    impatient = client_of(server.port, read_timeout=0.1)
    with pytest.raises(ReadTimeoutError):
        impatient.batch_write_item(**batch("a"))
    ask(connection, batch("a", "b")).read()
    assert [overlap.key for overlap in server.dynamodb.overlaps] == [(TABLE, (("S", "a"),))]


# Lies


def test_item_that_was_never_sent_is_returned_as_unprocessed(server, client):
    fail(server, "never_sent")
    answer = client.batch_write_item(**batch(n={"N": "1"}))
    (back,) = answer["UnprocessedItems"][TABLE]
    assert back["PutRequest"]["Item"]["id"]["S"] not in KEYS
    assert written(server) == KEYS


def test_other_table_is_returned_as_unprocessed(server, client):
    fail(server, "other_table")
    answer = client.batch_write_item(**batch())
    assert list(answer["UnprocessedItems"]) == [TABLE + "-other"]
    assert len(answer["UnprocessedItems"][TABLE + "-other"]) == 3
    assert written(server) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_each_call_is_answered_or_broken_in_time(server, fault):
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


def test_each_fault_is_in_one_group():
    assert len(FAULTS) == len(SURVIVABLE) + len(FATAL) + len(LIES)
