"""A real boto3 client, made as ddbload makes it, whose answers are made up: no socket is opened."""

from __future__ import annotations

import io
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse, HeadersDict

from ddbload.aws.boto_clients import AwsSettings
from ddbload.aws.clients import Clients

ENDPOINT = "http://canned.invalid:8000"


class _Raw(io.BytesIO):
    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()


@dataclass
class Canned:
    """Answers that wait for requests; the requests as they would have gone."""

    answers: deque[tuple[int, dict[str, str], bytes]] = field(default_factory=deque)
    requests: list[Any] = field(default_factory=list)

    def say(self, body: bytes, status: int = 200, crc32: int | None = None) -> None:
        """Answer the next request so; the checksum is the right one unless it is given."""
        checksum = zlib.crc32(body) if crc32 is None else crc32
        headers = {"x-amz-crc32": str(checksum), "Content-Length": str(len(body))}
        self.answers.append((status, headers, body))

    def on_request(self, request: Any, **_: Any) -> AWSResponse:
        self.requests.append(request)
        status, headers, body = self.answers.popleft()
        return AWSResponse(request.url, status, HeadersDict(headers), _Raw(body))


def isolate(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Let no AWS setting of this machine be seen, but for these variables."""
    for name in _SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "no-such-file")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "no-such-file")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


CREDENTIALS = {"AWS_ACCESS_KEY_ID": "made-up", "AWS_SECRET_ACCESS_KEY": "made-up"}
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
    """A client, and what it will be answered."""
    isolate(monkeypatch, **CREDENTIALS)
    client = Clients(AwsSettings(region="us-east-1", endpoint_url=ENDPOINT)).dynamodb
    canned = Canned()
    client.meta.events.register("before-send.dynamodb", canned.on_request)
    return client, canned
