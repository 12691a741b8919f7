"""Signatures that botocore makes, for comparison."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials

from ddbload.aws.signing.sigv4 import Credentials

DYNAMODB_HEADERS = {
    "content-type": "application/x-amz-json-1.0",
    "x-amz-target": "DynamoDB_20120810.BatchWriteItem",
}


def by_botocore(
    body: bytes,
    credentials: Credentials,
    now: float,
    url: str = "https://dynamodb.us-east-1.amazonaws.com/",
    region: str = "us-east-1",
    headers: Any = DYNAMODB_HEADERS,
    service: str = "dynamodb",
) -> dict[str, str]:
    """Sign a request with botocore; returns its headers by lower-case name."""
    request = AWSRequest("POST", url, headers=dict(headers), data=body)
    return signed(request, auth.SigV4Auth, credentials, service, region, now)


def signed(
    request: AWSRequest,
    kind: type[auth.SigV4Auth],
    credentials: Credentials,
    service: str,
    region: str,
    now: float,
) -> dict[str, str]:
    """Sign a request by a class of botocore; return its headers by lower-case name."""
    stamp = dt.datetime.fromtimestamp(int(now), dt.UTC).replace(tzinfo=None)
    keys = BotocoreCredentials(credentials.access_key, credentials.secret_key, credentials.token)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auth, "get_current_datetime", lambda: stamp)
        kind(keys, service, region).add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}
