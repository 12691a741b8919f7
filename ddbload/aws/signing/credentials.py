"""Who signs requests of one's own: the credentials of now, the clock of AWS, whom to trust.

One thread uses it. Looking credentials up may ask the network, and blocks while it does.
"""

from __future__ import annotations

import os
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from ddbload.aws import failures
from ddbload.aws.boto_clients import BotoClients
from ddbload.aws.failures import CLOCK, OUTDATED, AwsFailure
from ddbload.aws.http_client.connection import Endpoint
from ddbload.aws.signing.sigv4 import Credentials
from ddbload.errors import AccessDenied, AwsConfiguration

LOOK_SECONDS = 1.0
"""How often credentials are asked for at most: whether they are near their end is botocore's."""
RENEWALS = 5
RENEWALS_SECONDS = 60.0
"""So many times in this time may a refused signature be made anew; more would go on for ever."""
_OFF_SECONDS = 240.0
"""A clock that differs by less is not why AWS refuses a signature; it allows five minutes."""
_LATE = ("Signature expired: ", "Signature not yet current: ")
"""How AWS's words begin where it is the time that is wrong; two times follow."""


class SigningCredentials:
    """Knows the credentials of now and the clock of AWS, for requests to one endpoint."""

    def __init__(
        self,
        clients: BotoClients,
        endpoint: Endpoint,
        doing: str,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`doing`: "signing requests to S3", for people. Raises `AccessDenied`."""
        self._clients, self._clock, self._monotonic = clients, clock, monotonic
        self._doing = doing
        self.endpoint = endpoint
        self.generation = 0
        """Grows when a request that is signed now is signed otherwise than those before."""
        self._skew = 0.0
        self._renewals: deque[float] = deque()
        self._session = clients.session()
        self._source = self._look_for_source()
        self._looked_at = monotonic()
        self._credentials = self._frozen(self._source)

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

    def _look_in_time(self) -> None:
        """Ask for the credentials, unless that was done a moment ago."""
        now = self._monotonic()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._look()

    def _now(self) -> float:
        """AWS's time: seconds of epoch."""
        return self._clock() + self._skew

    def may_pass(self, meant: AwsFailure, headers: Mapping[str, str], generation: int) -> bool:
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
            credentials = self._frozen(self._source)
        except AccessDenied:
            # They are renewed long before they end, and may be renewed with the next try. AWS
            # says when they have ended.
            return
        self._take(credentials)

    def _look_anew(self) -> bool:
        try:
            self._session = self._clients.session(anew=True)
            source = self._look_for_source()
            credentials = self._frozen(source)
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
            raise self._refusal(error) from None
        if source is None:
            raise AccessDenied(
                f"{self._doing}: no AWS credentials were found; check the credentials"
                " (aws sts get-caller-identity)"
            )
        return source

    # The clock

    def _set_clock(self, meant: AwsFailure, headers: Mapping[str, str]) -> bool:
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

    def _frozen(self, source: Any) -> Credentials:
        """The credentials of now. Raises `AccessDenied`."""
        try:
            frozen = source.get_frozen_credentials()
        except Exception as error:  # noqa: BLE001 - as above
            raise self._refusal(error) from None
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token or None)

    def _refusal(self, error: Exception) -> AccessDenied:
        """Providers raise what they like, with secrets in it maybe; botocore's own tell none."""
        from botocore.exceptions import BotoCoreError

        meant = failures.classify_failure(error)
        if meant is not None and meant.code == "NoCredentials":
            said = meant.text
        elif isinstance(error, BotoCoreError):
            said = f"AWS credentials could not be fetched: {str(error).splitlines()[0]}"
        else:
            said = f"AWS credentials could not be fetched ({type(error).__name__})"
        return AccessDenied(
            f"{self._doing}: {said}; check the credentials (aws sts get-caller-identity)"
        )


def has_proxy(url: str) -> bool:
    """Whether botocore would go to this URL by a proxy."""
    from botocore.httpsession import ProxyConfiguration
    from botocore.utils import get_environ_proxies

    return ProxyConfiguration(get_environ_proxies(url)).proxy_url_for(url) is not None
