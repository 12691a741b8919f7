"""Each fault has its documented effect on http.client and on botocore."""

from __future__ import annotations

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError, HTTPClientError, ReadTimeoutError

from tests.faults.catalogue import FAULTS
from tests.faults.request_helpers import KEYS, TABLE, ask, batch, client_of, fail, written

# Answers that DynamoDB gives


# Broken connections


def test_reset_mid_response_ends_the_connection_in_the_body(server, connection):
    fail(server, "reset_mid_response")
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        ask(connection).read()
    assert written(server) == KEYS


def test_truncated_response_is_shorter_than_its_length(server, connection):
    fail(server, "truncated")
    response = ask(connection)
    announced = int(response.headers["Content-Length"])
    with pytest.raises(http.client.IncompleteRead) as raised:
        response.read()
    assert raised.value.partial == b'{"UnprocessedItems":{}}'[: announced // 2]
    assert written(server) == KEYS


# Answers that are none


# Answers in another form


def test_late_response_comes_with_a_late_write(server, connection):
    fail(server, "late")
    # Time enough to look at the table on a busy machine.
    server.stall_seconds = 1.0
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, connection)
        while not server.requests:
            time.sleep(0.01)
        assert written(server) == []
        assert json.loads(answer.result().read()) == {"UnprocessedItems": {}}
    assert written(server) == KEYS


def test_write_during_a_late_write_is_seen(server, connection):
    fail(server, "late", None)
    server.stall_seconds = 1.0
    impatient = client_of(server.port, read_timeout=0.1)
    with pytest.raises(ReadTimeoutError):
        impatient.batch_write_item(**batch("a"))
    ask(connection, batch("a", "b")).read()
    assert [overlap.key for overlap in server.dynamodb.overlaps] == [(TABLE, (("S", "a"),))]


# Lies


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
