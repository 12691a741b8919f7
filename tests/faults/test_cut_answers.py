"""Responses without a length, which botocore alone would accept even when cut short."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.retry import RetryPolicy, call_with_retries
from ddbload.errors import ServiceUnavailable
from tests.faults.certificates import make
from tests.faults.scripted import Scripted

HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


@pytest.fixture
def wire(tmp_path, monkeypatch) -> Any:
    """Make the server's TLS context, and let botocore's clients trust it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    made = make(tmp_path, "127.0.0.1")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(made.chain))
    return made.server()


def clients(server: Scripted) -> Clients:
    return Clients(AwsSettings(region="us-east-1", endpoint_url=f"https://127.0.0.1:{server.port}"))


def says(answer: bytes, *, announced: bool) -> Any:
    """Script that sends these bytes and closes."""

    def script(server: Scripted, connection: Any) -> None:
        # With the body: closing a connection with unread bytes would reset it.
        server.read(connection)
        connection.sendall(answer)
        if announced:
            connection.unwrap()
        else:
            # Below TLS.
            socket.socket.shutdown(connection, socket.SHUT_WR)
            server.ended.wait()

    return script


@pytest.mark.parametrize("announced", [True, False])
def test_object_without_length_is_refused(wire, announced):
    with Scripted(says(HEAD + b"\r\n1,a\n2", announced=announced), tls=wire) as server:
        client = clients(server).s3
        with pytest.raises(ServiceUnavailable, match="LengthMissing: the answer does not say"):
            call_with_retries(
                lambda: client.get_object(Bucket="b", Key="k"),
                "reading",
                policy=RetryPolicy(sleep=lambda _: None),
            )
        client.close()
    assert server.accepted == 6


@pytest.mark.parametrize("announced", [True, False])
def test_batch_response_without_body_is_refused(wire, announced):
    """botocore reads an empty body as a response without unprocessed items."""
    items = {"table": [{"PutRequest": {"Item": {"id": {"S": "a"}}}}]}
    with Scripted(says(HEAD + b"\r\n", announced=announced), tls=wire) as server:
        client = clients(server).dynamodb
        with pytest.raises(ServiceUnavailable, match="LengthMissing"):
            call_with_retries(
                lambda: client.batch_write_item(RequestItems=items),
                "writing",
                policy=RetryPolicy(sleep=lambda _: None),
            )
        client.close()


@pytest.mark.parametrize("sent", [0, 20])
def test_error_that_is_cut_short_is_refused(wire, sent):
    """botocore takes such an error for one without a code, which is not worth another attempt."""
    body = b'{"__type": "x#ConditionalCheckFailedException", "message": "The request failed"}'
    # The client must not send its next attempt over the connection that the server is closing.
    status = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n"
    head = status + b"Content-Length: %d\r\n\r\n" % len(body)
    with Scripted(says(head + body[:sent], announced=True), tls=wire) as server:
        client = clients(server).dynamodb
        with pytest.raises(ServiceUnavailable, match=f"BodyCutShort: {sent} of the answer's 80"):
            call_with_retries(
                lambda: client.put_item(TableName="table", Item={"id": {"S": "a"}}),
                "writing",
                policy=RetryPolicy(sleep=lambda _: None),
            )
        client.close()
