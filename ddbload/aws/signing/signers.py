"""Signers of requests to DynamoDB and S3, at the endpoint and region that botocore would use.

They keep credentials, AWS's clock and trusted certificates current.

To be used by one thread. Loading credentials may call the network, and blocks meanwhile.
"""

from __future__ import annotations

import os
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from threading import get_ident
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ParamValidationError
from botocore.httpsession import ProxyConfiguration, get_cert_path
from botocore.utils import get_environ_proxies

from ddbload import __version__
from ddbload.aws import boto_clients
from ddbload.aws.boto_clients import configuration_error
from ddbload.aws.failures import (
    CLOCK,
    OUTDATED,
    AwsFailure,
    FailureKind,
    classify_failure,
    to_ddbload_error,
)
from ddbload.aws.http_client.connection import Endpoint
from ddbload.aws.http_client.event_loop import FIRST_BYTE_SECONDS, HttpLoop, Timeouts
from ddbload.aws.signing.sigv4 import (
    EMPTY_HASH,
    Credentials,
    RequestSigner,
    encoded_path,
    encoded_query,
)
from ddbload.errors import AccessDenied, AwsConfiguration, DdbloadError, SourceNotFound

if TYPE_CHECKING:
    from botocore.session import Session
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

LOOK_SECONDS = 1.0
"""Shortest time between two reads of the credentials; botocore refreshes them before they end."""
RENEWALS = 5
RENEWALS_SECONDS = 60.0
"""Limit: at most `RENEWALS` refused signatures are made anew in this time, to prevent a loop."""
# AWS allows a clock to differ by five minutes, so a smaller skew is not why it refuses.
_OFF_SECONDS = 240.0
# AWS's messages about a wrong time begin like this; two times follow.
_LATE = ("Signature expired: ", "Signature not yet current: ")


def _captured_request(
    client: Any, event: str, send: Callable[[], object]
) -> tuple[str, Endpoint, Mapping[str, Any]]:
    """Return URL, endpoint and context of the request that botocore would send, and do not send it.

    botocore decides endpoint and region for each request, because of virtual hosts, account-based,
    FIPS and dual-stack endpoints. `event` names the request, such as `s3.GetObject`.
    """
    found: list[Mapping[str, Any]] = []
    here = get_ident()

    def capture(params: Mapping[str, Any], **_: object) -> Any:
        if get_ident() != here:
            # Another thread's request with the same client.
            return None
        found.append(params)
        return SimpleNamespace(status_code=200, headers={}), {}

    # botocore takes the return value of a before-call handler for the response.
    client.meta.events.register_first(f"before-call.{event}", capture)
    try:
        send()
    except ParamValidationError:
        raise
    except BotoCoreError as error:
        raise configuration_error(error) from None
    finally:
        client.meta.events.unregister(f"before-call.{event}", capture)
    (request,) = found
    url, context = str(request["url"]), request["context"]
    parts = urlsplit(url)
    if parts.hostname is None:
        raise AwsConfiguration(f"AWS settings: the endpoint {parts.netloc!r} names no host")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    region = (context.get("signing") or {}).get("region") or client.meta.region_name
    return url, Endpoint(parts.scheme, parts.hostname, port, region), context


class SigningCredentials:
    """Current credentials and the offset of AWS's clock, for requests to one endpoint."""

    def __init__(self, session: Callable[..., Session], endpoint: Endpoint, doing: str) -> None:
        """Load the credentials. Raises `AccessDenied`.

        `session` returns botocore's session; with `anew=True`, one with new credentials. `doing`
        begins error messages.
        """
        self._session_of, self._doing = session, doing
        self.endpoint = endpoint
        self.generation = 0
        """Number that grows when the credentials or the clock's offset change."""
        self._skew = 0.0
        self._renewals: deque[float] = deque()
        self._session = session()
        self._source = self._find_source()
        self._read_at = time.monotonic()
        self._credentials = self._frozen(self._source)

    def connect(self, connections: int) -> HttpLoop:
        """Make an event loop, which the caller closes. Raises `AwsConfiguration`."""
        whole = float(boto_clients.READ_SECONDS)
        timeouts = Timeouts(
            connect=boto_clients.CONNECT_SECONDS,
            first_byte=min(FIRST_BYTE_SECONDS, whole),
            whole=whole,
        )
        return HttpLoop(self.endpoint, connections, self.tls(), timeouts=timeouts)

    def tls(self) -> ssl.SSLContext | None:
        """Make a TLS context that trusts botocore's CA bundle or `AWS_CA_BUNDLE`; None for http.

        Raises `AwsConfiguration`.
        """
        if self.endpoint.scheme != "https":
            return None
        bundle = self._session.get_config_variable("ca_bundle")
        if bundle is None:
            bundle = os.environ.get("REQUESTS_CA_BUNDLE")
        path = str(get_cert_path(True) if bundle is None else bundle)
        try:
            if os.path.isdir(path):  # noqa: PTH112 - Path("") would be "."
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

    def _refresh(self) -> None:
        """Read the credentials again, unless that was done a moment ago."""
        now = time.monotonic()
        if now - self._read_at < LOOK_SECONDS:
            return
        self._read_at = now
        # botocore refreshes credentials long before they expire, so the next refresh may work.
        # If they do expire, AWS refuses the signature.
        with suppress(AccessDenied):
            self._replace(self._frozen(self._source))

    def _now(self) -> float:
        """Read AWS's time in seconds since 1970."""
        return time.time() + self._skew

    def may_pass(self, failure: AwsFailure, headers: Mapping[str, str], generation: int) -> bool:
        """Return whether a refused request may pass with a new signature, and prepare for it.

        `headers`: of the response. `generation`: the one that the request was signed with.
        """
        if failure.code not in OUTDATED and failure.code not in CLOCK:
            return False
        if generation != self.generation:
            return True
        now = time.monotonic()
        while self._renewals and now - self._renewals[0] >= RENEWALS_SECONDS:
            self._renewals.popleft()
        if len(self._renewals) >= RENEWALS:
            return False
        self._renewals.append(now)
        if failure.code in OUTDATED:
            return self._load_credentials()
        return self._set_clock(failure, headers)

    # Credentials

    def _load_credentials(self) -> bool:
        try:
            self._session = self._session_of(anew=True)
            source = self._find_source()
            credentials = self._frozen(source)
        except (AccessDenied, AwsConfiguration):
            return False
        self._source = source
        self._read_at = time.monotonic()
        return self._replace(credentials)

    def _replace(self, credentials: Credentials) -> bool:
        """Use these credentials from now on; false if they are the present ones."""
        if credentials == self._credentials:
            return False
        self._credentials = credentials
        self.generation += 1
        return True

    def _find_source(self) -> Any:
        try:
            source = self._session.get_credentials()
        except Exception as error:  # noqa: BLE001 - providers raise any exception
            raise self._refusal(_reason_of(error)) from None
        if source is None:
            raise self._refusal("no AWS credentials were found")
        return source

    # The clock

    def _set_clock(self, failure: AwsFailure, headers: Mapping[str, str]) -> bool:
        try:
            server_time = parsedate_to_datetime(headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError, OverflowError):
            return False
        skew = server_time - time.time()
        off = abs(skew - self._skew)
        is_late = failure.code != "InvalidSignatureException" or failure.text.startswith(_LATE)
        if off < 1.0 or not (is_late or off >= _OFF_SECONDS):
            # The clock is right but the signature was late: the process was suspended in between.
            return is_late
        self._skew = skew
        self.generation += 1
        return True

    def _frozen(self, source: Any) -> Credentials:
        """Copy the current credentials. Raises `AccessDenied`."""
        try:
            frozen = source.get_frozen_credentials()
        except Exception as error:  # noqa: BLE001 - as above
            raise self._refusal(_reason_of(error)) from None
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token or None)

    def _refusal(self, reason: str) -> DdbloadError:
        return to_ddbload_error(AwsFailure(FailureKind.FATAL, "NoCredentials", reason), self._doing)


def _reason_of(error: Exception) -> str:
    """Describe an error of a provider of credentials; only botocore's texts are free of secrets."""
    failure = classify_failure(error) if isinstance(error, BotoCoreError) else None
    if failure is None:
        return f"AWS credentials could not be fetched ({type(error).__name__})"
    return failure.text


def has_proxy(url: str) -> bool:
    """Return whether botocore would use a proxy for this URL."""
    return ProxyConfiguration(get_environ_proxies(url)).proxy_url_for(url) is not None


class DynamoDBSigner(SigningCredentials):
    """Signer of requests to DynamoDB, with current credentials and AWS's clock."""

    def __init__(self, client: DynamoDBClient, session: Callable[..., Session]) -> None:
        """Take endpoint and region of botocore's client.

        Raises `AwsConfiguration` and `AccessDenied`.
        """
        url, endpoint, _ = _captured_request(
            client, "dynamodb.BatchWriteItem", lambda: client.batch_write_item(RequestItems={})
        )
        parts = urlsplit(url)
        if parts.path not in ("", "/") or parts.query:
            raise AwsConfiguration(
                f"AWS settings: the endpoint {parts.hostname} has a path, which --engine async does"
                " not know; use --engine threads"
            )
        if has_proxy(url):
            # The proxy's address is not shown, because it may contain a password.
            raise AwsConfiguration(
                f"AWS settings: a proxy is set for {parts.hostname} ({parts.scheme.upper()}_PROXY),"
                " and --engine async does not know proxies: use --engine threads, which does, or"
                " name the host in NO_PROXY"
            )
        super().__init__(session, endpoint, "signing requests to DynamoDB")
        self._signers: dict[str, RequestSigner] = {}

    def request(self, operation: str, body: bytes) -> bytes:
        """Sign a request of an operation such as `BatchWriteItem`. Raises `AwsConfiguration`."""
        self._refresh()
        signer = self._signers.get(operation)
        if signer is None:
            signer = self._signers[operation] = RequestSigner(
                service="dynamodb",
                region=self.endpoint.region,
                host=self.endpoint.authority,
                headers={
                    "content-type": "application/x-amz-json-1.0",
                    "x-amz-target": f"DynamoDB_20120810.{operation}",
                    "user-agent": f"ddbload/{__version__}",
                },
            )
        return signer.post(body, self._credentials, self._now())


_HEADERS = {
    "ExpectedBucketOwner": "x-amz-expected-bucket-owner",
    "RequestPayer": "x-amz-request-payer",
}
"""Headers of a bucket's terms, which are parameters of botocore."""


class S3Signer(SigningCredentials):
    """Signer of requests to one bucket, with current credentials and AWS's clock.

    To be used by one thread. Made by `s3_signer_for`.
    """

    def __init__(
        self,
        session: Callable[..., Session],
        bucket: str,
        terms: Mapping[str, str],
        endpoint: Endpoint,
        path: str,
        service: str,
    ) -> None:
        """Load the credentials. Raises `AccessDenied` and `AwsConfiguration`.

        `path`: encoded path before an object's key: `/`, or `/bucket/` with a custom endpoint.
        `service`: name in the signature: s3 or s3-outposts.
        """
        super().__init__(session, endpoint, "signing requests to S3")
        self.bucket = bucket
        self._path = path
        self._signer = RequestSigner(
            service=service,
            region=endpoint.region,
            host=endpoint.authority,
            headers={
                "user-agent": f"ddbload/{__version__}",
                "x-amz-content-sha256": EMPTY_HASH,
                **{_HEADERS[name]: value for name, value in terms.items()},
            },
        )

    def get(
        self, key: str, headers: Mapping[str, str], version_id: str | None = None
    ) -> tuple[bytes, int]:
        """Sign a GET of an object; returns the request and its generation, see `may_pass`.

        `headers`: `if-match` and `range`, in this order. Raises `AwsConfiguration`.
        """
        query = encoded_query({"versionId": version_id}) if version_id else ""
        return self._request(self._path + encoded_path(key), query, headers)

    def list(self, query: Mapping[str, str]) -> tuple[bytes, int]:
        """Sign a request for a page of a listing; returns as `get`."""
        path = self._path if self._path == "/" else self._path.removesuffix("/")
        return self._request(path, encoded_query(query), {})

    def _request(self, path: str, query: str, headers: Mapping[str, str]) -> tuple[bytes, int]:
        self._refresh()
        request = self._signer.get(path, query, headers, self._credentials, self._now())
        return request, self.generation


def s3_signer_for(
    client: S3Client, session: Callable[..., Session], bucket: str, terms: Mapping[str, str]
) -> S3Signer | None:
    """Make a signer of requests to a bucket; None where only botocore can reach it.

    `terms`: parameters of botocore that all requests to the bucket have.
    That is behind a proxy, for directory buckets (S3 Express), for multi-region access points, and
    without signatures. Raises `AccessDenied`, `AwsConfiguration`, and `SourceNotFound` for an
    invalid bucket name.
    """
    try:
        url, endpoint, context = _captured_request(
            client, "s3.GetObject", lambda: client.get_object(Bucket=bucket, Key="k")
        )
    except ParamValidationError:
        raise SourceNotFound(
            f"s3://{bucket}: no such bucket; the name is not valid for a bucket (an access point is"
            " named by its alias)"
        ) from None
    parts = urlsplit(url)
    is_plain = context.get("auth_type") in (None, "v4", "s3v4")
    if not is_plain or not parts.path.endswith("/k") or parts.query or has_proxy(url):
        return None
    service = (context.get("signing") or {}).get("signing_name") or "s3"
    return S3Signer(session, bucket, terms, endpoint, parts.path.removesuffix("k"), service)
