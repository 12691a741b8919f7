"""Clients have the same configuration, and invalid AWS settings are reported."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from ddbload import __version__
from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.failures import ChecksumMismatch, LengthMissing
from ddbload.errors import AwsConfiguration
from tests.unit.aws.response_helpers import CREDENTIALS, ENDPOINT, Canned, canned_dynamodb, isolate

SERVICES = ["dynamodb", "s3"]


@pytest.fixture(autouse=True)
def settings(monkeypatch) -> None:
    isolate(monkeypatch, **CREDENTIALS, AWS_REGION="eu-central-1")


# How they are made


@pytest.mark.parametrize("service", SERVICES)
def test_botocore_does_not_retry(service, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")
    monkeypatch.setenv("AWS_RETRY_MODE", "adaptive")
    config = getattr(Clients(), service).meta.config
    assert config.retries == {"total_max_attempts": 1, "mode": "standard"}


@pytest.mark.parametrize("status", [400, 500, 503])
def test_error_response_costs_one_request(monkeypatch, status):
    client, canned = canned_dynamodb(monkeypatch)
    for _ in range(9):
        canned.say(b'{"__type": "x#ThrottlingException", "message": "slow"}', status)
    with pytest.raises(ClientError):
        client.describe_table(TableName="table")
    assert len(canned.requests) == 1


@pytest.mark.parametrize("service", SERVICES)
def test_user_agent_names_ddbload(service):
    assert getattr(Clients(), service).meta.config.user_agent_extra == f"ddbload/{__version__}"


def test_items_are_not_validated_by_botocore(monkeypatch):
    client, canned = canned_dynamodb(monkeypatch)
    canned.say(b"{}")
    client.batch_write_item(RequestItems={"table": [{"PutRequest": {"Item": {"id": {"N": 5}}}}]})
    assert b'{"N": 5}' in canned.requests[0].body
    with pytest.raises(ParamValidationError):
        Clients().s3.get_object(Bucket="bucket", Key=5)


@pytest.mark.parametrize("operation", ["describe_table", "delete_table"])
def test_dynamodb_checksum_is_checked(monkeypatch, operation):
    client, canned = canned_dynamodb(monkeypatch)
    canned.say(b"{}", crc32=1)
    with pytest.raises(ChecksumMismatch):
        getattr(client, operation)(TableName="table")


def canned_s3() -> tuple[Any, Canned]:
    client = Clients(AwsSettings(endpoint_url=ENDPOINT)).s3
    canned = Canned()
    client.meta.events.register("before-send.s3", canned.on_request)
    return client, canned


@pytest.mark.parametrize("status", [200, 206, 400, 503])
def test_response_without_length_is_refused(status):
    client, canned = canned_s3()
    canned.answers.append((status, {"Content-Type": "text/plain"}, b"body"))
    with pytest.raises(LengthMissing):
        client.get_object(Bucket="bucket", Key="key")
    canned.answers.append((status, {"Transfer-Encoding": "chunked"}, b"body"))
    if status < 300:
        assert client.get_object(Bucket="bucket", Key="key")["Body"].read() == b"body"


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("dynamodb", "list_tables"),
        ("s3", "list_buckets"),
        ("stepfunctions", "list_state_machines"),
        ("cloudformation", "list_stacks"),
    ],
)
def test_every_client_checks_lengths(service, operation):
    client = getattr(Clients(AwsSettings(endpoint_url=ENDPOINT)), service)
    canned = Canned(deque([(200, {}, b"")]))
    client.meta.events.register("before-send", canned.on_request)
    with pytest.raises(LengthMissing):
        getattr(client, operation)()


# Which settings count


def test_aws_region_overrides_aws_default_region(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-2")
    assert Clients().dynamodb.meta.region_name == "eu-central-1"


def test_options_override_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://environment.invalid")
    settings = AwsSettings(region="us-west-2", endpoint_url="http://flag.invalid")
    meta = Clients(settings).dynamodb.meta
    assert (meta.region_name, meta.endpoint_url) == ("us-west-2", "http://flag.invalid")


def test_each_service_uses_its_endpoint(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://dynamodb.invalid:8000")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3.invalid:9000")
    clients = Clients()
    assert clients.dynamodb.meta.endpoint_url == "http://dynamodb.invalid:8000"
    assert clients.s3.meta.endpoint_url == "https://s3.invalid:9000"


# What botocore cannot use


def refusal(service: str, settings: AwsSettings | None = None) -> str:
    with pytest.raises(AwsConfiguration) as raised:
        getattr(Clients(settings), service)
    assert raised.value.permanent
    assert raised.value.message.startswith("AWS settings: ")
    return raised.value.message


def test_session_is_shared_only_with_its_profile(monkeypatch):
    clients = Clients(AwsSettings(profile="work"))
    shared_early = []

    class Session:
        def set_config_variable(self, *_: str) -> None:
            # What another thread would find now.
            shared_early.append(clients._session is self)

    monkeypatch.setattr("botocore.session.get_session", Session)
    session = clients.session()
    assert shared_early == [False]
    assert clients.session() is session


def test_unknown_profile_in_the_environment_is_reported(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "(nobody)" in refusal("dynamodb")


@pytest.mark.parametrize("service", SERVICES)
def test_invalid_endpoint_in_the_environment_is_reported(monkeypatch, service):
    monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service.upper()}", "http://localhost:99999")
    refusal(service)


def test_missing_credentials_are_reported_with_the_first_request(monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert Clients().dynamodb.meta.region_name == "eu-central-1"


# Terms of buckets

OWNER = "123456789012"


def canned_clients(**settings: Any) -> tuple[Clients, Canned]:
    clients = Clients(AwsSettings(endpoint_url=ENDPOINT, **settings))
    canned = Canned()
    clients.s3.meta.events.register("before-send.s3", canned.on_request)
    return clients, canned


def sent_headers(canned: Canned) -> dict[str, str]:
    def text(value: object) -> str:
        return value.decode() if isinstance(value, bytes) else str(value)

    headers = canned.requests[-1].headers
    return {name.lower(): text(value) for name, value in headers.items()}


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("get_object", {"Key": "k"}),
        ("head_object", {"Key": "k"}),
        ("put_object", {"Key": "k", "Body": b""}),
        ("put_object_tagging", {"Key": "k", "Tagging": {"TagSet": []}}),
        ("delete_object", {"Key": "k"}),
        ("list_objects_v2", {}),
    ],
)
def test_every_request_to_a_bucket_says_who_must_own_it(operation, arguments):
    clients, canned = canned_clients()
    clients.set_terms("mine", owner=OWNER)
    for bucket in ("mine", "other"):
        canned.say(b"")
        getattr(clients.s3, operation)(Bucket=bucket, **arguments)
        expected = OWNER if bucket == "mine" else None
        assert sent_headers(canned).get("x-amz-expected-bucket-owner") == expected


def test_requester_pays_for_one_bucket_or_for_all():
    clients, canned = canned_clients()
    clients.set_terms("paid", requester_pays=True)
    clients.set_terms("paid", owner=OWNER)
    assert clients.terms("paid") == {"ExpectedBucketOwner": OWNER, "RequestPayer": "requester"}
    canned.say(b"")
    clients.s3.head_object(Bucket="paid", Key="k")
    assert sent_headers(canned)["x-amz-request-payer"] == "requester"
    # Listing buckets' versions, for example, knows no payer: botocore would refuse the parameter.
    canned.say(b"")
    clients.s3.get_bucket_versioning(Bucket="paid")
    assert "x-amz-request-payer" not in sent_headers(canned)
    clients, canned = canned_clients(requester_pays=True)
    canned.say(b"")
    clients.s3.list_objects_v2(Bucket="any")
    assert sent_headers(canned)["x-amz-request-payer"] == "requester"


def test_own_requests_have_the_terms_of_their_bucket():
    clients, _ = canned_clients()
    clients.set_terms("mine", owner=OWNER, requester_pays=True)
    signer = clients.s3_signer("mine")
    assert signer is not None
    for request, _ in (signer.get("k", {}), signer.list({})):
        assert b"\r\nx-amz-expected-bucket-owner: 123456789012\r\n" in request
        assert b"\r\nx-amz-request-payer: requester\r\n" in request


def test_own_requests_go_to_the_region_of_their_bucket():
    clients = Clients()
    canned = Canned()
    clients.s3.meta.events.register("before-send.s3", canned.on_request)
    there = {"x-amz-bucket-region": "ap-south-1", "Content-Length": "0"}
    canned.answers.extend([(301, there, b""), (200, there, b""), (200, there, b"")])
    signer = clients.s3_signer("far")
    assert signer is not None
    assert signer.endpoint.host == "far.s3.ap-south-1.amazonaws.com"
    assert signer.endpoint.region == "ap-south-1"
    count = len(canned.requests)
    clients.s3_signer("far")
    assert len(canned.requests) == count


@pytest.mark.parametrize("status", [403, 404, 503])
def test_bucket_without_a_known_region_is_asked_at_the_clients(status):
    clients = Clients()
    canned = Canned()
    clients.s3.meta.events.register("before-send.s3", canned.on_request)
    canned.answers.extend([(status, {"Content-Length": "0"}, b"")] * 3)
    signer = clients.s3_signer("near")
    assert signer is not None
    assert signer.endpoint.host == "near.s3.eu-central-1.amazonaws.com"


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        *(("127.0.0.1", True), ("127.9.8.7", True), ("localhost", True), ("LOCALHOST.", True)),
        *(("[::1]", True), ("[::ffff:127.0.0.1]", True), ("0.0.0.0", True)),
        *(
            ("s3.localhost.", True),
            ("dynamodb.test", True),
            ("host.docker.internal", True),
            ("Host.Docker.Internal.", True),
        ),
        *(("minio.local", False), ("minio.lan", False), ("minio.corp.internal", False)),
        *(("MINIO.LOCAL.", False), ("docker.internal", False), ("x.host.docker.internal", False)),
        *(("10.1.2.3", False), ("192.168.0.9", False), ("169.254.169.254", False)),
        *(("[fd00::1]", False), ("[::ffff:10.1.2.3]", False), ("dynamodb-local", False)),
        # Some resolvers take these for addresses.
        *(("2130706433", False), ("0x7f000001", False), ("127.1", False), ("8.8.8.8", False)),
        *(("dynamodb.us-east-1.amazonaws.com", False), ("evil.example.com", False)),
        *(("localhost.evil.com", False), ("127.0.0.1.evil.com", False), ("[2600::1]", False)),
        *(("127.0.0.1@evil.example.com", False), ("localhost:80@evil.example.com", False)),
    ],
)
def test_plain_http_goes_to_own_hosts_only(host, is_own):
    """The session token is in each request, and so are the rows."""
    clients = Clients(AwsSettings(endpoint_url=f"http://{host}:8000"))
    if is_own:
        assert clients.dynamodb.meta.endpoint_url
    else:
        with pytest.raises(AwsConfiguration, match="is http, so rows and session tokens"):
            clients.dynamodb  # noqa: B018


def test_http_to_another_host_can_be_allowed_and_https_always_is(monkeypatch):
    clients = Clients(AwsSettings(endpoint_url="http://minio.local:8000"))
    with pytest.raises(AwsConfiguration, match="DDBLOAD_ALLOW_HTTP=1"):
        clients.s3  # noqa: B018
    monkeypatch.setenv("DDBLOAD_ALLOW_HTTP", "1")
    assert clients.dynamodb.meta.endpoint_url
    monkeypatch.delenv("DDBLOAD_ALLOW_HTTP")
    over_tls = Clients(AwsSettings(endpoint_url="https://minio.local:8000"))
    assert over_tls.s3.meta.endpoint_url
