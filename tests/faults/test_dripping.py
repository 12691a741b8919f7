"""Answers that never end do not hold a request: it ends with a named error."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddbload.aws import boto_clients
from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.failures import FailureKind, classify_failure
from ddbload.aws.http_client.event_loop import Timeouts
from tests.faults.certificates import Certificate, make
from tests.faults.dripping import PLACES, drips
from tests.faults.http_loop_helpers import looping, said
from tests.faults.scripted import Scripted

SHORT = 0.3
DRIP = 0.02
# A body of the announced length, or of small chunks, is an answer.
FLOODS = sorted(set(PLACES) - {"body", "chunks"})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Certificate:
    return make(Path(tmp_path_factory.mktemp("certificate")), "127.0.0.1", "localhost")


@pytest.fixture(params=["plain", "TLS"])
def tls(request, certificate):
    """TLS contexts of server and client; None for plain connections."""
    is_plain = request.param == "plain"
    return (None, None) if is_plain else (certificate.server(), certificate.client())


@pytest.mark.parametrize("place", PLACES)
def test_loop_ends_a_request_whose_answer_drips(place, tls):
    timeouts = Timeouts(first_byte=SHORT, whole=SHORT)
    with (
        Scripted(drips(place, DRIP), tls=tls[0]) as server,
        looping(server.port, tls=tls[1], timeouts=timeouts) as loop,
    ):
        # A length beyond the limit is refused before the body.
        assert said(loop) == ("BadResponse" if place == "error body" else "ReadTimeout")


@pytest.mark.parametrize("place", FLOODS)
def test_loop_ends_a_request_whose_answer_floods(place, tls):
    with Scripted(drips(place, 0), tls=tls[0]) as server, looping(server.port, tls=tls[1]) as loop:
        assert said(loop) == "BadResponse"


def test_loop_ends_a_handshake_that_drips(certificate):
    timeouts = Timeouts(connect=SHORT)
    with (
        Scripted(drips("handshake", DRIP)) as server,
        looping(server.port, tls=certificate.client(), timeouts=timeouts) as loop,
    ):
        assert said(loop) == "ConnectTimeout"


@pytest.fixture
def clients(tls, certificate, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "made-up")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate.chain))
    monkeypatch.setattr(boto_clients, "READ_SECONDS", SHORT)

    def clients_of(port: int) -> Clients:
        scheme = "http" if tls[0] is None else "https"
        return Clients(AwsSettings(endpoint_url=f"{scheme}://127.0.0.1:{port}"))

    return clients_of


def call(clients: Clients, way: str) -> None:
    if way == "control":
        clients.dynamodb.describe_table(TableName="books")
    else:
        body = clients.s3.get_object(Bucket="books", Key="k", Range="bytes=0-9999999")["Body"]
        while body.read(1000):
            pass


@pytest.mark.parametrize("way", ["control", "object"])
@pytest.mark.parametrize("place", PLACES)
def test_botocore_ends_a_request_whose_answer_drips(place, way, tls, clients):
    with Scripted(drips(place, DRIP), tls=tls[0]) as server, pytest.raises(Exception) as caught:
        call(clients(server.port), way)
    failure = classify_failure(caught.value)
    assert failure is not None
    assert failure.kind is FailureKind.UNSURE


@pytest.mark.parametrize("place", FLOODS)
def test_botocore_ends_a_request_whose_answer_floods(place, tls, clients):
    with Scripted(drips(place, 0), tls=tls[0]) as server, pytest.raises(Exception) as caught:
        call(clients(server.port), "control")
    failure = classify_failure(caught.value)
    assert failure is not None
    assert failure.kind is FailureKind.UNSURE


def test_botocore_ends_a_handshake_that_drips(clients, tls, monkeypatch):
    if tls[0] is None:
        pytest.skip("a plain connection has no handshake")
    monkeypatch.setattr(boto_clients, "CONNECT_SECONDS", SHORT)
    with Scripted(drips("handshake", DRIP)) as server, pytest.raises(Exception) as caught:
        call(clients(server.port), "control")
    failure = classify_failure(caught.value)
    assert failure is not None
    assert failure.kind is FailureKind.UNSURE
