"""Signer of requests to DynamoDB."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ddbload import __version__
from ddbload.aws import failures
from ddbload.aws.boto_clients import BotoClients
from ddbload.aws.http_client.connection import Endpoint
from ddbload.aws.signing.credentials import SigningCredentials, captured_request, has_proxy
from ddbload.aws.signing.sigv4 import RequestSigner
from ddbload.errors import AwsConfiguration

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoDBSigner(SigningCredentials):
    """Signer of requests to DynamoDB, with current credentials and AWS's clock."""

    def __init__(
        self,
        clients: BotoClients,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take endpoint and region of botocore's client.

        Raises `AwsConfiguration` and `AccessDenied`.
        """
        endpoint = _endpoint(*_url_and_region(clients.dynamodb))
        doing = "signing requests to DynamoDB"
        super().__init__(clients, endpoint, doing, clock=clock, monotonic=monotonic)
        self._signers: dict[str, RequestSigner] = {}

    def request(self, operation: str, body: bytes) -> bytes:
        """Sign a request of an operation such as `BatchWriteItem`. Raises `AwsConfiguration`."""
        self._refresh()
        signer = self._signers.get(operation)
        if signer is None:
            signer = self._signers[operation] = self._signer(operation)
        return signer.head(body, self._credentials, self._now()) + body

    def _signer(self, operation: str) -> RequestSigner:
        return RequestSigner(
            service="dynamodb",
            region=self.endpoint.region,
            host=self.endpoint.authority,
            headers={
                "content-type": "application/x-amz-json-1.0",
                "x-amz-target": f"DynamoDB_20120810.{operation}",
                "user-agent": f"ddbload/{__version__}",
            },
        )


def _url_and_region(client: DynamoDBClient) -> tuple[str, str]:
    """Find the URL that botocore would send a request to, and the region it would sign it for."""
    from botocore.exceptions import BotoCoreError

    try:
        request = captured_request(
            client, "dynamodb.BatchWriteItem", lambda: client.batch_write_item(RequestItems={})
        )
    except BotoCoreError as error:
        raise failures.configuration_error(error) from None
    signing = request["context"].get("signing") or {}
    return request["url"], signing.get("region") or client.meta.region_name


def _endpoint(url: str, region: str) -> Endpoint:
    parts = urlsplit(url)
    if parts.path not in ("", "/") or parts.query or parts.hostname is None:
        raise AwsConfiguration(
            f"AWS settings: the endpoint {parts.hostname} has a path, which --engine async does"
            " not know; use --engine threads"
        )
    _refuse_proxy(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Endpoint(parts.scheme, parts.hostname, port, region)


def _refuse_proxy(url: str) -> None:
    if not has_proxy(url):
        return
    # The proxy's address is not shown, because it may contain a password.
    parts = urlsplit(url)
    raise AwsConfiguration(
        f"AWS settings: a proxy is set for {parts.hostname} ({parts.scheme.upper()}_PROXY), and"
        " --engine async does not know proxies: use --engine threads, which does, or name the"
        " host in NO_PROXY"
    )
