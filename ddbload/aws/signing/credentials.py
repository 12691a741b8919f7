"""Current credentials, AWS's clock and trusted certificates, for requests that ddbload signs.

To be used by one thread. Loading credentials may call the network, and blocks meanwhile.
"""

from __future__ import annotations

import os
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from threading import get_ident
from types import SimpleNamespace
from typing import Any

from ddbload.aws import boto_clients, failures
from ddbload.aws.boto_clients import BotoClients
from ddbload.aws.failures import CLOCK, OUTDATED, AwsFailure
from ddbload.aws.http_client.connection import Endpoint
from ddbload.aws.http_client.event_loop import FIRST_BYTE_SECONDS, HttpLoop, Timeouts
from ddbload.aws.signing.sigv4 import Credentials
from ddbload.errors import AccessDenied, AwsConfiguration

LOOK_SECONDS = 1.0
"""Shortest time between two reads of the credentials; botocore refreshes them before they end."""
RENEWALS = 5
RENEWALS_SECONDS = 60.0
"""Limit: at most `RENEWALS` refused signatures are made anew in this time, to prevent a loop."""
# AWS allows a clock to differ by five minutes, so a smaller skew is not why it refuses.
_OFF_SECONDS = 240.0
# AWS's messages about a wrong time begin like this; two times follow.
_LATE = ("Signature expired: ", "Signature not yet current: ")


def captured_request(client: Any, event: str, send: Callable[[], object]) -> Mapping[str, Any]:
    """Return the request that botocore would send, which is stopped before it is sent.

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
    finally:
        client.meta.events.unregister(f"before-call.{event}", capture)
    (request,) = found
    return request


class SigningCredentials:
    """Current credentials and the offset of AWS's clock, for requests to one endpoint."""

    def __init__(
        self,
        clients: BotoClients,
        endpoint: Endpoint,
        doing: str,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Load the credentials. `doing` begins error messages. Raises `AccessDenied`."""
        self._clients, self._clock, self._monotonic = clients, clock, monotonic
        self._doing = doing
        self.endpoint = endpoint
        self.generation = 0
        """Number that grows when the credentials or the clock's offset change."""
        self._skew = 0.0
        self._renewals: deque[float] = deque()
        self._session = clients.session()
        self._source = self._find_source()
        self._read_at = monotonic()
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
        from botocore.httpsession import get_cert_path

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
        now = self._monotonic()
        if now - self._read_at >= LOOK_SECONDS:
            self._read_at = now
            self._read_credentials()

    def _now(self) -> float:
        """Read AWS's time in seconds since 1970."""
        return self._clock() + self._skew

    def may_pass(self, failure: AwsFailure, headers: Mapping[str, str], generation: int) -> bool:
        """Tell whether a refused request may pass with a new signature, and prepare for it.

        `headers`: of the response. `generation`: the one that the request was signed with.
        """
        if failure.code not in OUTDATED and failure.code not in CLOCK:
            return False
        if generation != self.generation:
            return True
        now = self._monotonic()
        while self._renewals and now - self._renewals[0] >= RENEWALS_SECONDS:
            self._renewals.popleft()
        if len(self._renewals) >= RENEWALS:
            return False
        self._renewals.append(now)
        if failure.code in OUTDATED:
            return self._load_credentials()
        return self._set_clock(failure, headers)

    # Credentials

    def _read_credentials(self) -> None:
        try:
            credentials = self._frozen(self._source)
        except AccessDenied:
            # botocore refreshes credentials long before they expire, so the next refresh may work.
            # If they do expire, AWS refuses the signature.
            return
        self._replace(credentials)

    def _load_credentials(self) -> bool:
        try:
            self._session = self._clients.session(anew=True)
            source = self._find_source()
            credentials = self._frozen(source)
        except (AccessDenied, AwsConfiguration):
            return False
        self._source = source
        self._read_at = self._monotonic()
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
            raise self._refusal(error) from None
        if source is None:
            raise AccessDenied(
                f"{self._doing}: no AWS credentials were found; log in (aws sso login, aws"
                " configure), or name a profile (--profile, AWS_PROFILE)"
            )
        return source

    # The clock

    def _set_clock(self, failure: AwsFailure, headers: Mapping[str, str]) -> bool:
        try:
            server_time = parsedate_to_datetime(headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError, OverflowError):
            return False
        skew = server_time - self._clock()
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
            raise self._refusal(error) from None
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token or None)

    def _refusal(self, error: Exception) -> AccessDenied:
        """Make the error of failed credentials; only botocore's texts are free of secrets."""
        from botocore.exceptions import BotoCoreError

        failure = failures.classify_failure(error)
        if failure is not None and failure.code == "NoCredentials":
            reason = failure.text
        elif isinstance(error, BotoCoreError):
            reason = f"AWS credentials could not be fetched: {str(error).splitlines()[0]}"
        else:
            reason = f"AWS credentials could not be fetched ({type(error).__name__})"
        return AccessDenied(
            f"{self._doing}: {reason}; check the credentials (aws sts get-caller-identity)"
        )


def has_proxy(url: str) -> bool:
    """Tell whether botocore would use a proxy for this URL."""
    from botocore.httpsession import ProxyConfiguration
    from botocore.utils import get_environ_proxies

    return ProxyConfiguration(get_environ_proxies(url)).proxy_url_for(url) is not None
