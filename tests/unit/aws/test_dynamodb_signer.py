"""Requests use botocore's endpoint and credentials, and AWS's clock."""

from __future__ import annotations

import re
import ssl
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import CredentialRetrievalError, EndpointResolutionError

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.failures import AwsFailure, FailureKind
from ddbload.aws.signing import signers as module
from ddbload.aws.signing.signers import DynamoDBSigner
from ddbload.errors import AccessDenied, AwsConfiguration
from tests.unit.aws.response_helpers import CREDENTIALS, isolate, parse_request_head


@pytest.fixture(autouse=True)
def settings(monkeypatch) -> None:
    isolate(monkeypatch, **CREDENTIALS, AWS_REGION="eu-central-1")


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class World:
    """A signer with a fake clock and fake credentials."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.monotonic = Clock(1_795_300_000.0), Clock(0.0)
        self.found: Any = self.credentials("first")
        self.sessions = self.looks = 0
        world = self

        class Source:
            def get_frozen_credentials(self) -> Any:
                world.looks += 1
                if isinstance(world.found, Exception):
                    raise world.found
                return world.found

        class Session:
            def get_credentials(self) -> Any:
                world.sessions += 1
                return None if world.found is None else Source()

        monkeypatch.setattr(Clients, "session", lambda _, **__: Session())
        settings = AwsSettings(endpoint_url="http://canned.invalid:8000")
        # The client has a session of its own.
        self.clients = clients = Clients(settings)
        clients.dynamodb = dynamodb_of(settings)
        clocks = SimpleNamespace(time=self.clock, monotonic=self.monotonic)
        monkeypatch.setattr(module, "time", clocks)
        self.signer = DynamoDBSigner(clients.dynamodb, clients.session)

    @staticmethod
    def credentials(name: str, token: str | None = None) -> ReadOnlyCredentials:
        return ReadOnlyCredentials(name, "secret", token)

    def signed(self) -> tuple[str, str]:
        """Sign a request; returns access key and time of the signature."""
        headers = parse_request_head(
            self.signer.request("BatchWriteItem", b"{}").removesuffix(b"{}")
        )
        key = headers["authorization"].partition("Credential=")[2].partition("/")[0]
        return key, headers["x-amz-date"]

    def may_pass(self, code: str, text: str = "words", **more: Any) -> bool:
        generation = more.pop("generation", self.signer.generation)
        headers = {} if "ahead" not in more else {"date": self.date(more["ahead"])}
        return self.signer.may_pass(
            AwsFailure(FailureKind.FATAL, code, text, 400), headers, generation
        )

    def date(self, ahead: float) -> str:
        return formatdate(self.clock.now + ahead, usegmt=True)


def dynamodb_of(settings: AwsSettings) -> Any:
    import boto3

    return boto3.client("dynamodb", "eu-central-1", endpoint_url=settings.endpoint_url)


@pytest.fixture
def world(monkeypatch) -> World:
    return World(monkeypatch)


# Where to


def scope(authorization: str) -> str:
    """`us-east-1/dynamodb`."""
    return "/".join(authorization.split("/")[2:4])


@pytest.mark.parametrize("region", ["us-east-1", "us-gov-west-1", "cn-north-1", "local"])
@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"AWS_USE_FIPS_ENDPOINT": "true"},
        {"AWS_USE_DUALSTACK_ENDPOINT": "true"},
        {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_USE_DUALSTACK_ENDPOINT": "true"},
        {"AWS_ACCOUNT_ID": "123456789012"},
        {"AWS_ACCOUNT_ID": "123456789012", "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled"},
        {"AWS_ACCOUNT_ID_ENDPOINT_MODE": "required"},
    ],
)
def test_request_goes_to_the_same_url_as_botocores(monkeypatch, region, variables):
    # botocore's region `local` has endpoints over http.
    monkeypatch.setenv("DDBLOAD_ALLOW_HTTP", "1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    clients = Clients(AwsSettings(region=region))
    sent: list[tuple[str, str]] = []

    def sending(request: Any, **_: Any) -> Any:
        sent.append((request.url, scope(request.headers["Authorization"].decode())))
        raise ConnectionError

    client = clients.dynamodb
    client.meta.events.register("before-send.dynamodb", sending)
    with pytest.raises((ConnectionError, EndpointResolutionError)) as ended:
        client.batch_write_item(RequestItems={"t": [{"PutRequest": {"Item": {"a": {"S": "a"}}}}]})
    if not sent:
        with pytest.raises(AwsConfiguration, match=re.escape(str(ended.value))):
            assert clients.dynamodb_signer
        return
    endpoint = clients.dynamodb_signer.endpoint
    headers = parse_request_head(clients.dynamodb_signer.request("BatchWriteItem", b""))
    url = f"{endpoint.scheme}://{endpoint.authority}/"
    assert sent == [(url, scope(headers["authorization"]))]


@pytest.mark.parametrize(
    ("scheme", "variables", "is_refused"),
    [
        ("https", {"HTTPS_PROXY": "http://user:secret@proxy:1"}, True),
        ("https", {"https_proxy": "http://user:secret@proxy:1"}, True),
        ("http", {"HTTP_PROXY": "http://user:secret@proxy:1"}, True),
        ("http", {"HTTPS_PROXY": "http://user:secret@proxy:1"}, False),
        ("https", {"HTTP_PROXY": "http://user:secret@proxy:1"}, False),
        ("https", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "other"}, True),
        ("https", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "canned.invalid"}, False),
        ("https", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".invalid"}, False),
        ("https", {"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, False),
        ("https", {"HTTPS_PROXY": ""}, False),
    ],
)
def test_proxy_is_refused(monkeypatch, scheme, variables, is_refused):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    clients = Clients(AwsSettings(endpoint_url=f"{scheme}://canned.invalid:8000"))
    if not is_refused:
        assert clients.dynamodb_signer.endpoint.scheme == scheme
        return
    with pytest.raises(AwsConfiguration) as raised:
        _ = clients.dynamodb_signer
    assert "canned.invalid" in raised.value.message
    assert "--engine threads" in raised.value.message
    assert "secret" not in raised.value.message


# Whom to trust


@pytest.fixture
def bundle(tmp_path) -> Any:
    from tests.faults.certificates import make

    return make(tmp_path / "certificate", "localhost").chain


def https() -> DynamoDBSigner:
    return Clients(AwsSettings(endpoint_url="https://canned.invalid")).dynamodb_signer


def test_tls_context_checks_certificates_and_names():
    context = https().tls()
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) > 20


def test_ca_bundle_is_read_from_the_configuration(monkeypatch, bundle, tmp_path):
    config = tmp_path / "config"
    config.write_text(f"[profile mine]\nca_bundle = {bundle}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    settings = AwsSettings(endpoint_url="https://canned.invalid", profile="mine")
    # A profile has credentials of its own.
    shared = tmp_path / "credentials"
    shared.write_text("[mine]\naws_access_key_id = a\naws_secret_access_key = b\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    context = Clients(settings).dynamodb_signer.tls()
    assert context is not None
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize("kind", ["missing", "garbage"])
def test_invalid_ca_bundle_is_reported(monkeypatch, tmp_path, kind):
    path = tmp_path / "bundle.pem"
    if kind == "garbage":
        path.write_text("secret")
    signer = https()
    monkeypatch.setenv("AWS_CA_BUNDLE", str(path))
    with pytest.raises(AwsConfiguration) as raised:
        signer.tls()
    assert "bundle.pem" in raised.value.message


# Who signs


@pytest.mark.parametrize("missing", ["none", "half"])
def test_missing_credentials_are_reported(monkeypatch, missing):
    clients = Clients()
    assert clients.dynamodb
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    if missing == "none":
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    clients.session(anew=True)
    with pytest.raises(AccessDenied, match="no AWS credentials were found"):
        _ = clients.dynamodb_signer


def test_credentials_are_read_once_a_second(world):
    looks = world.looks
    for now in (0.0, 0.5, 0.99, 1.0, 1.5, 1.9, 2.0):
        world.monotonic.now = now
        world.signed()
    assert world.looks == looks + 2


def test_refreshed_credentials_sign_the_next_request(world):
    assert world.signed()[0] == "first"
    world.found = world.credentials("second")
    assert world.signed()[0] == "first"
    world.monotonic.now += 1
    assert world.signed()[0] == "second"
    assert world.signer.generation == 1


def test_failed_refresh_is_repeated_later(world):
    world.found = CredentialRetrievalError(provider="x", error_msg="secret")
    for _ in range(3):
        world.monotonic.now += 1
        assert world.signed()[0] == "first"
    world.found = world.credentials("second")
    world.monotonic.now += 1
    assert world.signed()[0] == "second"


@pytest.mark.parametrize("code", ["ExpiredTokenException", "UnrecognizedClientException"])
def test_expired_credentials_are_loaded_again(world, code):
    world.found = world.credentials("second", "token")
    assert world.may_pass(code)
    assert world.sessions == 2
    assert world.signed()[0] == "second"


def test_request_signed_before_the_change_may_pass(world):
    world.found = world.credentials("second")
    assert world.may_pass("ExpiredTokenException", generation=0)
    sessions = world.sessions
    assert world.may_pass("ExpiredTokenException", generation=0)
    assert world.sessions == sessions
    assert not world.may_pass("ExpiredTokenException", generation=1)


def test_renewals_are_limited(world):
    passed = 0
    for number in range(20):
        world.found = world.credentials(f"key {number}")
        passed += world.may_pass("ExpiredTokenException")
    assert passed == module.RENEWALS
    world.monotonic.now += module.RENEWALS_SECONDS
    world.found = world.credentials("last")
    assert world.may_pass("ExpiredTokenException")


def test_credentials_file_is_read_again_after_a_refusal(monkeypatch, tmp_path):
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    shared = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))

    def write(name: str) -> None:
        shared.write_text(f"[default]\naws_access_key_id = {name}\naws_secret_access_key = b\n")

    write("first")
    signer = Clients().dynamodb_signer
    refused = AwsFailure(FailureKind.FATAL, "ExpiredTokenException", "words", 400)
    assert not signer.may_pass(refused, {}, 0)
    write("second")
    assert signer.may_pass(refused, {}, 0)
    assert b"Credential=second/" in signer.request("BatchWriteItem", b"")


# By which clock

EXPIRED = "Signature expired: 20261121T000000Z is now earlier than 20261121T000500Z"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("InvalidSignatureException", EXPIRED),
        ("InvalidSignatureException", "Signature not yet current: a is still later than b"),
        ("InvalidSignatureException", "does not match"),
        ("RequestTimeTooSkewed", "words"),
        ("RequestExpired", "words"),
    ],
)
@pytest.mark.parametrize("ahead", [3600, -3600, 86_400 * 400])
def test_wrong_clock_is_corrected(world, code, text, ahead):
    before = world.signed()[1]
    assert world.may_pass(code, text, ahead=ahead)
    after = world.signed()[1]
    world.clock.now += ahead
    world.signer._skew = 0
    assert after == world.signed()[1] != before
    assert world.may_pass(code, text, generation=0)
