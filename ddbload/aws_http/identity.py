"""Where requests to DynamoDB go, and who signs them: all as botocore would have it.

One thread uses it. Looking credentials up may ask the network, and blocks while it does.
"""

from __future__ import annotations

import os
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ddbload import __version__
from ddbload.aws_http import failures
from ddbload.aws_http.clients import Clients
from ddbload.aws_http.endpoint import Endpoint
from ddbload.aws_http.failures import CLOCK, OUTDATED, Meaning
from ddbload.aws_http.sigv4 import Credentials, RequestSigner
from ddbload.errors import AccessDenied, AwsConfiguration

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LOOK_SECONDS = 1.0
"""How often credentials are asked for at most: whether they are near their end is botocore's."""
RENEWALS = 5
RENEWALS_SECONDS = 60.0
"""So many times in this time may a refused signature be made anew; more would go on for ever."""
_OFF_SECONDS = 240.0
"""A clock that differs by less is not why AWS refuses a signature; it allows five minutes."""
_LATE = ("Signature expired: ", "Signature not yet current: ")
"""How AWS's words begin where it is the time that is wrong; two times follow."""
_DOING = "signing requests to DynamoDB"


class Identity:
    """Signs requests with the credentials of now, by the clock of AWS."""

    def __init__(
        self,
        clients: Clients,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises `AwsConfiguration` and `AccessDenied`."""
        self._clients, self._clock, self._monotonic = clients, clock, monotonic
        self.endpoint = _endpoint(*_where(clients.dynamodb))
        self.generation = 0
        """Grows when a request that is signed now is signed otherwise than those before."""
        self._skew = 0.0
        self._signers: dict[str, RequestSigner] = {}
        self._renewals: deque[float] = deque()
        self._session = clients.session()
        self._source = self._look_for_source()
        self._looked_at = monotonic()
        self._credentials = _frozen(self._source)

    def tls(self) -> ssl.SSLContext | None:
        """Whom to trust, for https: botocore's authorities, or those of `AWS_CA_BUNDLE`.

        Raises `AwsConfiguration`.
        """
        if self.endpoint.scheme != "https":
            return None
        from botocore.httpsession import get_cert_path

        told = self._session.get_config_variable("ca_bundle")
        if told is None:
            told = os.environ.get("REQUESTS_CA_BUNDLE")
        path = str(get_cert_path(True) if told is None else told)
        try:
            if os.path.isdir(path):  # noqa: PTH112 - an empty path is none, and not "."
                context = ssl.create_default_context(capath=path)
            else:
                context = ssl.create_default_context(cafile=path or "no path")
        except OSError as error:
            raise AwsConfiguration(
                f"AWS settings: the CA bundle {path!r} cannot be used"
                f" ({error.strerror or type(error).__name__}); see AWS_CA_BUNDLE and ca_bundle"
            ) from None
        context.set_alpn_protocols(["http/1.1"])
        return context

    def request(self, operation: str, body: bytes) -> bytes:
        """A whole request. `operation`: `BatchWriteItem`. Raises `AwsConfiguration`."""
        now = self._monotonic()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._look()
        signer = self._signers.get(operation)
        if signer is None:
            signer = self._signers[operation] = self._signer(operation)
        return signer.head(body, self._credentials, self._clock() + self._skew) + body

    def may_pass(self, meant: Meaning, headers: Mapping[str, str], generation: int) -> bool:
        """Whether a request that AWS refused so may pass when it is signed anew.

        `headers`: the answer's. `generation`: that of this when the request was signed.
        """
        if meant.code not in OUTDATED and meant.code not in CLOCK:
            return False
        if generation != self.generation:
            return True
        now = self._monotonic()
        while self._renewals and now - self._renewals[0] >= RENEWALS_SECONDS:
            self._renewals.popleft()
        if len(self._renewals) >= RENEWALS:
            return False
        self._renewals.append(now)
        if meant.code in OUTDATED:
            return self._look_anew()
        return self._set_clock(meant, headers)

    # Credentials

    def _look(self) -> None:
        try:
            credentials = _frozen(self._source)
        except AccessDenied:
            # They are renewed long before they end, and may be renewed with the next try. AWS
            # says when they have ended.
            return
        self._take(credentials)

    def _look_anew(self) -> bool:
        try:
            self._session = self._clients.session(anew=True)
            source = self._look_for_source()
            credentials = _frozen(source)
        except (AccessDenied, AwsConfiguration):
            return False
        self._source = source
        self._looked_at = self._monotonic()
        return self._take(credentials)

    def _take(self, credentials: Credentials) -> bool:
        """Whether they are others."""
        if credentials == self._credentials:
            return False
        self._credentials = credentials
        self.generation += 1
        return True

    def _look_for_source(self) -> Any:
        try:
            source = self._session.get_credentials()
        except Exception as error:  # noqa: BLE001 - providers raise what they like
            raise _refusal(error) from None
        if source is None:
            raise AccessDenied(
                f"{_DOING}: no AWS credentials were found; check the credentials"
                " (aws sts get-caller-identity)"
            )
        return source

    # The clock

    def _set_clock(self, meant: Meaning, headers: Mapping[str, str]) -> bool:
        try:
            told = parsedate_to_datetime(headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError, OverflowError):
            return False
        skew = told - self._clock()
        off = abs(skew - self._skew)
        is_late = meant.code != "InvalidSignatureException" or meant.text.startswith(_LATE)
        if off < 1.0 or not (is_late or off >= _OFF_SECONDS):
            # A right clock and a late signature: this process was stopped in between.
            return is_late
        self._skew = skew
        self.generation += 1
        return True

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


def _frozen(source: Any) -> Credentials:
    """The credentials of now. Raises `AccessDenied`."""
    try:
        frozen = source.get_frozen_credentials()
    except Exception as error:  # noqa: BLE001 - as above
        raise _refusal(error) from None
    return Credentials(frozen.access_key, frozen.secret_key, frozen.token or None)


def _refusal(error: Exception) -> AccessDenied:
    """Providers raise what they like, and their texts may tell secrets; botocore's own do not."""
    from botocore.exceptions import BotoCoreError

    meant = failures.meaning(error)
    if meant is not None and meant.code == "NoCredentials":
        said = meant.text
    elif isinstance(error, BotoCoreError):
        said = f"AWS credentials could not be fetched: {str(error).splitlines()[0]}"
    else:
        said = f"AWS credentials could not be fetched ({type(error).__name__})"
    return AccessDenied(f"{_DOING}: {said}; check the credentials (aws sts get-caller-identity)")


def _where(client: DynamoDBClient) -> tuple[str, str]:
    """The URL and the region that botocore itself would send a request to, and sign it for.

    It knows that for each request only: the account's own endpoint, FIPS and dual-stack ones.
    """
    from botocore.exceptions import BotoCoreError

    found: list[Any] = []

    def instead_of_sending(params: Mapping[str, Any], **_: object) -> tuple[Any, dict[str, Any]]:
        found.append(params)
        return SimpleNamespace(status_code=200, headers={}), {}

    # What such a hook returns is taken for the answer.
    hook: Any = instead_of_sending
    event = "before-call.dynamodb.BatchWriteItem"
    client.meta.events.register_first(event, hook)
    try:
        client.batch_write_item(RequestItems={})
    except BotoCoreError as error:
        raise failures.configuration(error) from None
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
    """A proxy's own address may hold a password, so it is not told."""
    from botocore.httpsession import ProxyConfiguration
    from botocore.utils import get_environ_proxies

    if ProxyConfiguration(get_environ_proxies(url)).proxy_url_for(url) is None:
        return
    parts = urlsplit(url)
    raise AwsConfiguration(
        f"AWS settings: a proxy is set for {parts.hostname} ({parts.scheme.upper()}_PROXY), and"
        " --engine async does not know proxies: use --engine threads, which does, or name the"
        " host in NO_PROXY"
    )
