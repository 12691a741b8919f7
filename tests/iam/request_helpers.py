"""Capture requests exactly as botocore signs them, before they are sent."""

from __future__ import annotations

import functools
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config

from localaws.iam.actions import required_actions
from localaws.iam.requests import Call, Place, Request, parse_signature

REGION = "eu-central-1"
ACCOUNT = "123456789012"
PLACE = Place(REGION, ACCOUNT)
ROLE = f"arn:aws:iam::{ACCOUNT}:role/worker"
KEY = "ASIAEXAMPLE"


class _CaughtError(Exception):
    """Error that stops a call before it is sent."""


def _catch(request, **_):
    raise _CaughtError(request)


@functools.cache
def _client(service: str, endpoint: str | None):
    made = boto3.client(
        service,
        region_name=REGION,
        endpoint_url=endpoint,
        aws_access_key_id=KEY,
        aws_secret_access_key="secret",
        aws_session_token="token",
        config=Config(parameter_validation=False, retries={"total_max_attempts": 1}),
    )
    made.meta.events.register("before-send", _catch)
    return made


def capture_request(
    service: str, operation: str, *, endpoint: str | None = None, **parameters
) -> Request:
    """Return the request of `client.operation(**parameters)`, sent to `endpoint` if given."""
    with pytest.raises(_CaughtError) as caught:
        getattr(_client(service, endpoint), operation)(**parameters)
    (request,) = caught.value.args
    url = urlsplit(request.url)
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    headers.setdefault("host", url.netloc)
    body = request.body or b""
    content = body if isinstance(body, bytes | str) else body.read()
    content = content.encode() if isinstance(content, str) else content
    return Request(request.method, url.path, url.query, headers, lambda: content)


def required_pairs(
    service: str, operation: str, *, endpoint: str | None = None, **parameters
) -> list:
    """Return the permissions that the operation needs, as (action, resource) pairs."""
    request = capture_request(service, operation, endpoint=endpoint, **parameters)
    signature = parse_signature(request)
    assert signature is not None
    assert (signature.access_key, signature.region) == (KEY, REGION)
    return pairs(required_actions(signature.service, request, PLACE))


def pairs(calls: list[Call]) -> list[tuple[str, str]]:
    return [(call.action, call.resource) for call in calls]


def _text(value) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
