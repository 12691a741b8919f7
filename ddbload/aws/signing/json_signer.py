"""Signer of requests to a service with a JSON protocol: DynamoDB, SQS."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from ddbload import __version__
from ddbload.aws import failures
from ddbload.aws.boto_clients import BotoClients
from ddbload.aws.http_client.connection import Endpoint
from ddbload.aws.signing.credentials import SigningCredentials, has_proxy
from ddbload.aws.signing.sigv4 import RequestSigner
from ddbload.errors import AwsConfiguration


@dataclass(frozen=True, slots=True)
class JsonService:
    """A service that takes `POST /` requests with the operation in the header x-amz-target."""

    name: str
    """As in signatures."""
    title: str
    """As in messages."""
    target: str
    """Beginning of x-amz-target, before the operation."""
    sample: Callable[[Any], object]
    """Calls the operation named `sample_operation` of a botocore client."""
    sample_operation: str


class JsonSigner(SigningCredentials):
    """Signer of requests to one service, with current credentials and AWS's clock."""

    def __init__(
        self,
        clients: BotoClients,
        client: Any,
        service: JsonService,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take endpoint and region of botocore's client.

        Raises `AwsConfiguration` and `AccessDenied`.
        """
        endpoint = _endpoint(*_url_and_region(client, service))
        doing = f"signing requests to {service.title}"
        super().__init__(clients, endpoint, doing, clock=clock, monotonic=monotonic)
        self._service = service
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
            service=self._service.name,
            region=self.endpoint.region,
            host=self.endpoint.authority,
            headers={
                "content-type": "application/x-amz-json-1.0",
                "x-amz-target": f"{self._service.target}.{operation}",
                "user-agent": f"ddbload/{__version__}",
            },
        )


def _url_and_region(client: Any, service: JsonService) -> tuple[str, str]:
    """Find the URL that botocore would send a request to, and the region it would sign it for.

    botocore decides that for each request, because of account-based, FIPS and dual-stack
    endpoints. So a request is made, and stopped before it is sent.
    """
    from botocore.exceptions import BotoCoreError

    found: list[Any] = []

    def capture(params: Mapping[str, Any], **_: object) -> tuple[Any, dict[str, Any]]:
        found.append(params)
        return SimpleNamespace(status_code=200, headers={}), {}

    # botocore takes the return value of a before-call handler for the response.
    hook: Any = capture
    event = f"before-call.{service.name}.{service.sample_operation}"
    client.meta.events.register_first(event, hook)
    try:
        service.sample(client)
    except BotoCoreError as error:
        raise failures.configuration_error(error) from None
    finally:
        client.meta.events.unregister(event, hook)
    (request,) = found
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
