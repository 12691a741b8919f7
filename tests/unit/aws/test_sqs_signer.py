"""Requests to SQS go where botocore's go, and have botocore's signatures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload.aws.boto_clients import AwsSettings
from ddbload.aws.clients import Clients
from ddbload.aws.signing.sqs_signer import SqsSigner
from tests.unit.aws.botocore_signatures import by_botocore
from tests.unit.aws.response_helpers import CREDENTIALS, isolate, parse_request_head

NOW = 1_795_300_000.25


@pytest.fixture(autouse=True)
def settings(monkeypatch) -> None:
    isolate(monkeypatch, **CREDENTIALS)


@pytest.mark.parametrize("region", ["us-east-1", "us-gov-west-1", "cn-north-1"])
@pytest.mark.parametrize("variables", [{}, {"AWS_USE_FIPS_ENDPOINT": "true"}])
def test_request_goes_to_the_same_url_as_botocores(monkeypatch, region, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    clients = Clients(AwsSettings(region=region))
    sent: list[Any] = []

    def sending(request: Any, **_: Any) -> Any:
        sent.append(request)
        raise ConnectionError

    clients.sqs.meta.events.register("before-send.sqs", sending)
    url = f"https://sqs.{region}.amazonaws.com/123456789012/orders"
    with pytest.raises(ConnectionError):
        clients.sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "0", "MessageBody": "a"}])
    signer = clients.sqs_signer
    head = parse_request_head(signer.request("SendMessageBatch", b""))
    (request,) = sent
    assert request.url == f"https://{signer.endpoint.authority}/"
    assert json.loads(request.body)["QueueUrl"] == url
    assert head["x-amz-target"] == request.headers["X-Amz-Target"].decode()
    assert head["content-type"] == request.headers["Content-Type"].decode()
    scope = [
        text.split("Credential=")[1].split(",")[0].split("/")[2:]
        for text in (head["authorization"], request.headers["Authorization"].decode())
    ]
    assert scope[0] == scope[1] == [region, "sqs", "aws4_request"]


def test_signature_is_botocores():
    signer = SqsSigner(Clients(AwsSettings(region="eu-west-1")), clock=lambda: NOW)
    body = b'{"QueueUrl":"q","Entries":[]}'
    head = parse_request_head(signer.request("SendMessageBatch", body).removesuffix(body))
    headers = {name: head[name] for name in ("content-type", "x-amz-target", "user-agent")}
    due = by_botocore(
        body,
        signer._credentials,
        NOW,
        url="https://sqs.eu-west-1.amazonaws.com/",
        region="eu-west-1",
        headers=headers,
        service="sqs",
    )
    assert head["authorization"] == due["authorization"]
