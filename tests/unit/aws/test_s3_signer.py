"""Requests for a bucket use botocore's address, and S3's errors are classified."""

from __future__ import annotations

import threading

import pytest

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.failures import FailureKind, failure_of_s3_response, redirected_region
from ddbload.aws.http_client.connection import Endpoint
from ddbload.aws.http_client.http1 import Response
from ddbload.aws.signing.signers import S3Signer, s3_signer_for
from tests.unit.aws.response_helpers import CREDENTIALS, Canned, isolate


@pytest.fixture(autouse=True)
def settings(monkeypatch) -> None:
    isolate(monkeypatch, **CREDENTIALS, AWS_REGION="eu-central-1")


@pytest.fixture(scope="module")
def known() -> dict[str | None, Clients]:
    """Make the clients once, because that is slow."""
    return {}


def signer_of(clients: Clients, bucket: str) -> S3Signer | None:
    return s3_signer_for(clients.s3, clients.session, bucket, clients.terms(bucket))


def of(bucket: str, known: dict[str | None, Clients], endpoint: str | None) -> S3Signer | None:
    if endpoint not in known:
        known[endpoint] = Clients(AwsSettings(endpoint_url=endpoint))
    return signer_of(known[endpoint], bucket)


REGIONAL = "s3.eu-central-1.amazonaws.com"
POINT = "arn:aws:s3:eu-west-1:123456789012:accesspoint/mine"


@pytest.mark.parametrize(
    ("bucket", "endpoint", "host", "port", "path"),
    [
        ("bucket", None, f"bucket.{REGIONAL}", 443, "/in/a%20b"),
        ("dotted.bucket", None, REGIONAL, 443, "/dotted.bucket/in/a%20b"),
        ("bucket", "http://127.0.0.1:9000", "127.0.0.1", 9000, "/bucket/in/a%20b"),
        ("bucket", "https://store.example/s3/", "store.example", 443, "/s3/bucket/in/a%20b"),
    ],
)
def test_request_goes_to_the_same_url_as_botocores(known, bucket, endpoint, host, port, path):
    identity = of(bucket, known, endpoint)
    assert identity is not None
    scheme = "http" if port == 9000 else "https"
    assert identity.endpoint == Endpoint(scheme, host, port, "eu-central-1")
    request, generation = identity.get("in/a b", {})
    assert request.startswith(f"GET {path} HTTP/1.1\r\nhost: {host}".encode())
    assert b"/eu-central-1/s3/aws4_request," in request
    assert generation == 0
    request, _ = identity.get("k", {"if-match": '"e"'}, "v/1")
    assert b"/k?versionId=v%2F1 HTTP/1.1\r\n" in request
    request, _ = identity.list({"prefix": "a/", "list-type": "2"})
    there = path.removesuffix("/in/a%20b") or "/"
    assert request.startswith(f"GET {there}?list-type=2&prefix=a%2F HTTP/1.1\r\n".encode())


def test_access_point_request_is_signed_for_its_region(known, monkeypatch):
    monkeypatch.setenv("AWS_S3_USE_ARN_REGION", "true")
    clients = Clients(AwsSettings())
    identity = signer_of(clients, POINT)
    assert identity is not None
    assert identity.endpoint.host == "mine-123456789012.s3-accesspoint.eu-west-1.amazonaws.com"
    assert identity.endpoint.region == "eu-west-1"


def test_unsupported_buckets_are_left_to_botocore(known, monkeypatch):
    assert of("b--euc1-az1--x-s3", known, None) is None
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.example:3128")
    assert of("bucket", known, None) is None
    monkeypatch.setenv("NO_PROXY", REGIONAL)
    assert of("bucket", known, None) is not None


def answer(status: int, body: str = "", **headers: str) -> Response:
    return Response(
        status, {k.replace("_", "-"): v for k, v in headers.items()}, body.encode(), True
    )


def error(code: str, message: str = "", more: str = "") -> str:
    return (
        f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>"
    )


@pytest.mark.parametrize(
    ("response", "kind", "code", "text"),
    [
        (answer(503, error("SlowDown", "Reduce.")), FailureKind.THROTTLED, "SlowDown", "Reduce."),
        (answer(500, error("InternalError")), FailureKind.UNSURE, "InternalError", "InternalError"),
        (answer(400, error("RequestTimeout", "x")), FailureKind.UNSURE, "RequestTimeout", "x"),
        (answer(404, error("NoSuchKey", "a &lt;&quot;")), FailureKind.FATAL, "NoSuchKey", 'a <"'),
        (answer(403, "<html>no</html>"), FailureKind.FATAL, "403", "HTTP status 403"),
        (answer(429, ""), FailureKind.THROTTLED, "429", "HTTP status 429"),
        (answer(502, "\xff"), FailureKind.UNSURE, "502", "HTTP status 502"),
        (answer(400, error("a b c")), FailureKind.UNSURE, "400", "HTTP status 400"),
    ],
)
def test_s3_response_is_classified(response, kind, code, text):
    meant = failure_of_s3_response(response)
    assert meant is not None
    assert (meant.kind, meant.code, meant.text, meant.status) == (kind, code, text, response.status)


REGION = "<Region>eu-west-1</Region>"


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (
            answer(301, error("PermanentRedirect"), x_amz_bucket_region="eu-west-1"),
            "--region eu-west",
        ),
        (
            answer(307, error("TemporaryRedirect"), x_amz_bucket_region="us-east-1"),
            "--endpoint-url",
        ),
        (answer(301, ""), "--endpoint-url"),
        (answer(301, "", x_amz_bucket_region="a\r\nb"), "--endpoint-url"),
        (answer(400, error("AuthorizationHeaderMalformed", more=REGION)), "--region eu-west-1"),
        (answer(400, error("AuthorizationHeaderMalformed")), None),
        (answer(403, error("AccessDenied"), x_amz_bucket_region="eu-west-1"), None),
        (answer(200, REGION, x_amz_bucket_region="eu-west-1"), None),
    ],
)
def test_redirect_names_the_buckets_region(response, said):
    found = redirected_region(response, "b", "us-east-1")
    assert (found is None) == (said is None)
    if found is not None:
        assert said in found.message
        assert "bucket b " in found.message


def test_signer_does_not_capture_other_threads_requests(monkeypatch):
    clients = Clients(AwsSettings(endpoint_url="http://canned.invalid:8000"))
    canned = Canned()
    clients.s3.meta.events.register("before-send.s3", canned.on_request)
    found: list[bytes] = []

    def other() -> None:
        canned.say(b"body")
        found.append(clients.s3.get_object(Bucket="bucket", Key="other")["Body"].read())

    def meanwhile(**_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

    clients.s3.meta.events.register("before-parameter-build.s3.GetObject", meanwhile)
    assert signer_of(clients, "bucket") is not None
    assert found == [b"body"]
    assert len(canned.requests) == 1
