"""Requests that ddbload signs and sends itself, over real sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.failures import AwsFailure, failure_of_response
from ddbload.aws.http_client.event_loop import HttpLoop
from ddbload.aws.http_client.http1 import Response
from ddbload.aws.signing.signers import RENEWALS, DynamoDBSigner
from tests.faults.http_loop_helpers import looping, outcomes
from tests.faults.request_helpers import batch, fail, written


@pytest.fixture
def signer(server, monkeypatch) -> DynamoDBSigner:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    settings = AwsSettings(region="us-east-1", endpoint_url=server.endpoint)
    return Clients(settings).dynamodb_signer


@pytest.fixture
def loop(server, signer) -> Iterator[HttpLoop]:
    assert signer.endpoint.port == server.port
    with looping(server.port, tls=signer.tls()) as made:
        yield made


def ask(loop: HttpLoop, signer: DynamoDBSigner, *keys: str) -> Response:
    loop.send("only", signer.request("BatchWriteItem", json.dumps(batch(*keys)).encode()))
    answer = outcomes(loop, 1)["only"]
    assert isinstance(answer, Response)
    return answer


def meant(answer: Response) -> AwsFailure:
    found = failure_of_response(answer)
    assert found is not None
    return found


def test_raw_request_writes_items(server, loop, signer):
    answer = ask(loop, signer, "a", "b")
    assert failure_of_response(answer) is None
    assert json.loads(answer.body)["UnprocessedItems"] == {}
    assert written(server) == ["a", "b"]


def test_late_signature_is_renewed_a_few_times(server, loop, signer):
    server.fail_at_random(1, ["InvalidSignatureException"], 1.0)
    passed = []
    for _ in range(10):
        answer = ask(loop, signer, "a")
        passed.append(signer.may_pass(meant(answer), answer.headers, signer.generation))
    assert passed == [True] * RENEWALS + [False] * (10 - RENEWALS)


def test_newer_credentials_continue_the_run(server, loop, signer, monkeypatch):
    fail(server, "ExpiredTokenException", "ExpiredTokenException", None)
    generation = signer.generation
    refused = ask(loop, signer, "a")
    assert not signer.may_pass(meant(refused), refused.headers, generation)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "newer")
    refused = ask(loop, signer, "a")
    assert signer.may_pass(meant(refused), refused.headers, generation)
    assert failure_of_response(ask(loop, signer, "a")) is None
    assert b"Credential=newer/" in signer.request("BatchWriteItem", b"")
