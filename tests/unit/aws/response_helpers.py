"""Made-up responses and errors of AWS, and botocore clients that receive them without a socket."""

from __future__ import annotations

import io
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse, HeadersDict
from botocore.exceptions import ClientError

from ddbload.aws.clients import AwsSettings, Clients

ENDPOINT = "http://canned.invalid:8000"


def client_error(code: str = "", status: int = 400, text: str = "words") -> ClientError:
    """Make botocore's exception for an error response of AWS."""
    response: Any = {
        "Error": {"Code": code, "Message": text},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(response, "Operation")


def parse_request_head(head: bytes) -> dict[str, str]:
    """Check the form of a `POST /` request's head, and return its headers."""
    text = head.decode()
    assert text.endswith("\r\n\r\n")
    first, *lines = text[:-4].split("\r\n")
    assert first == "POST / HTTP/1.1"
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        assert name == name.lower()
        assert name not in headers
        headers[name] = value
    return headers


class _Raw(io.BytesIO):
    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()


@dataclass
class Canned:
    """Queue of made-up responses, and the requests that received them."""

    answers: deque[tuple[int, dict[str, str], bytes]] = field(default_factory=deque)
    requests: list[Any] = field(default_factory=list)

    def say(self, body: bytes, status: int = 200, crc32: int | None = None) -> None:
        """Queue a response; its checksum is right unless `crc32` is given."""
        checksum = zlib.crc32(body) if crc32 is None else crc32
        headers = {"x-amz-crc32": str(checksum), "Content-Length": str(len(body))}
        self.answers.append((status, headers, body))

    def on_request(self, request: Any, **_: Any) -> AWSResponse:
        self.requests.append(request)
        status, headers, body = self.answers.popleft()
        return AWSResponse(request.url, status, HeadersDict(headers), _Raw(body))


def isolate(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Hide the AWS settings and the proxies of this machine, and set these variables."""
    for name in (*_SETTINGS, *_PROXIES, *map(str.lower, _PROXIES)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "no-such-file")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "no-such-file")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


CREDENTIALS = {"AWS_ACCESS_KEY_ID": "made-up", "AWS_SECRET_ACCESS_KEY": "made-up"}
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE")
_SETTINGS = (
    *CREDENTIALS,
    "AWS_CA_BUNDLE",
    "AWS_DEFAULT_PROFILE",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_S3",
    "AWS_MAX_ATTEMPTS",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_RETRY_MODE",
    "AWS_SESSION_TOKEN",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)


def canned_dynamodb(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Canned]:
    """Make a DynamoDB client, and the queue of its responses."""
    isolate(monkeypatch, **CREDENTIALS)
    client = Clients(AwsSettings(region="us-east-1", endpoint_url=ENDPOINT)).dynamodb
    canned = Canned()
    client.meta.events.register("before-send.dynamodb", canned.on_request)
    return client, canned
