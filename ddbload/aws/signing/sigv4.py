"""AWS Signature Version 4 for many similar requests.

The rules are those of "AWS Signature Version 4 for API requests" in the IAM User Guide. The
headers, scope and signing key that all requests of one second share are computed once a second. A
request then costs three short hashes and the hash of its body.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from dataclasses import field
from urllib.parse import quote

from ddbload.aws.failures import INVALID_HEADER
from ddbload.errors import AwsConfiguration, RequestRefused
from ddbload.records import Record

_UNSIGNED = "user-agent"
"""Header that proxies may change: sent but not signed, as in botocore."""
# CR and LF would begin another header; other control characters are not allowed in one.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Credentials(Record):
    """AWS credentials; `token` is the session token of temporary ones, empty or None otherwise."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


class SigningKey:
    """Signing key for the requests of one second."""

    __slots__ = ("_mac", "credential", "stamp")

    def __init__(self, credentials: Credentials, second: int, region: str, service: str) -> None:
        """Derive the key. `second`: seconds since 1970."""
        self.stamp = stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        date = stamp[:8]
        scope = f"{date}/{region}/{service}/aws4_request"
        self.credential = f"{credentials.access_key}/{scope}"
        key = f"AWS4{credentials.secret_key}".encode()
        for part in (date, region, service, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        self._mac = hmac.new(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n".encode(), "sha256")

    def signature(self, canonical: str) -> str:
        """Sign a canonical request, given its SHA-256 in hexadecimal."""
        mac = self._mac.copy()
        mac.update(canonical.encode())
        return mac.hexdigest()


class RequestSigner:
    """Signer of requests to one host. To be used by one thread at a time."""

    def __init__(self, *, service: str, region: str, host: str, headers: Mapping[str, str]) -> None:
        """Set the parts that all requests share.

        `host`: as in the URL, with its port unless it is the scheme's default. `headers`: further
        headers, with lower-case names. Raises `AwsConfiguration` for an invalid value.
        """
        for value in (service, region, host, *headers.values()):
            check_header_value(value)
        self._service, self._region, self._host = service, region, host
        self._headers = dict(headers)
        self._second: int | None = None
        self._credentials: Credentials | None = None
        self._key: SigningKey | None = None
        # Of this second: the beginning of a POST's canonical request, and its head.
        self._canonical, self._head = hashlib.sha256(), ""
        # Headers as sent; and as signed up to `host`, and after it: lines and names.
        self._sent = ""
        self._first = self._rest = ("", "")

    def post(self, body: bytes, credentials: Credentials, now: float) -> bytes:
        """Sign a `POST /` request. `now`: seconds since 1970.

        Raises `AwsConfiguration` for credentials that are not valid in a header.
        """
        key = self._key_of(int(now), credentials)
        canonical = self._canonical.copy()
        canonical.update(hashlib.sha256(body).hexdigest().encode())
        signature = key.signature(canonical.hexdigest())
        return (self._head % (signature, len(body))).encode() + body

    def get(
        self,
        path: str,
        query: str,
        headers: Mapping[str, str],
        credentials: Credentials,
        now: float,
    ) -> bytes:
        """Sign a GET request. `path` and `query` are encoded. `now`: seconds since 1970.

        `headers`: further headers with lower-case names, sorted, between `host` and `x-amz`.
        Raises `AwsConfiguration` for credentials that are not valid in a header.
        """
        _check_headers(headers)
        key = self._key_of(int(now), credentials)
        lines = "".join(f"{name}:{' '.join(value.split())}\n" for name, value in headers.items())
        names = self._first[1] + "".join(f"{name};" for name in headers) + self._rest[1]
        canonical = (
            f"GET\n{path}\n{query}\n{self._first[0]}{lines}{self._rest[0]}\n{names}\n{EMPTY_HASH}"
        )
        signature = key.signature(hashlib.sha256(canonical.encode()).hexdigest())
        sent = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        target = f"{path}?{query}" if query else path
        return (
            f"GET {target} HTTP/1.1\r\n{self._sent}{sent}authorization: AWS4-HMAC-SHA256"
            f" Credential={key.credential}, SignedHeaders={names}, Signature={signature}\r\n\r\n"
        ).encode()

    def _key_of(self, second: int, credentials: Credentials) -> SigningKey:
        """Return the key of a second, and prepare what its requests share."""
        if self._key and second == self._second and credentials is self._credentials:
            return self._key
        key = SigningKey(credentials, second, self._region, self._service)
        headers = {"host": self._host, **self._headers, "x-amz-date": key.stamp}
        if credentials.token:
            headers["x-amz-security-token"] = credentials.token
        check_header_value(credentials.access_key)
        check_header_value(credentials.token or "")
        signed = sorted(name for name in headers if name != _UNSIGNED)
        # The canonical form has single spaces.
        lines = [f"{name}:{' '.join(headers[name].split())}\n" for name in signed]
        cut = signed.index("host") + 1
        self._first = "".join(lines[:cut]), ";".join([*signed[:cut], ""])
        self._rest = "".join(lines[cut:]), ";".join(signed[cut:])
        names = ";".join(signed)
        self._canonical = hashlib.sha256(f"POST\n/\n\n{''.join(lines)}\n{names}\n".encode())
        self._sent = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={key.credential}, SignedHeaders={names}, Signature="
        )
        self._head = (
            f"POST / HTTP/1.1\r\n{self._sent}authorization: {authorization}".replace("%", "%%")
            + "%s\r\ncontent-length: %d\r\n\r\n"
        )
        self._second, self._credentials, self._key = second, credentials, key
        return key


def check_header_value(value: str) -> None:
    """Raise `AwsConfiguration` for a header value with a control character."""
    # The message must not quote the value, which may be a secret.
    if _CONTROL.search(value):
        raise AwsConfiguration(f"AWS settings: {INVALID_HEADER}")


def _check_headers(headers: Mapping[str, str]) -> None:
    """Raise `RequestRefused` for a header of one request whose value could end the header."""
    for name, value in headers.items():
        if _CONTROL.search(value):
            raise RequestRefused(
                f"the value for the header {name} has a line end or another control character in"
                " it, so the request is not sent: correct the ETag or version, or the endpoint"
                " that returned it"
            )


EMPTY_HASH = hashlib.sha256(b"").hexdigest()
"""Hash of an empty body."""


def encoded_path(path: str) -> str:
    """Encode a path for a URL by S3's rules: slashes stay unescaped."""
    return quote(path, safe="/~-._", errors="strict")


def encoded_query(query: Mapping[str, str]) -> str:
    """Encode a query for a URL, sorted as it is signed."""
    pairs = ((quote(name, safe="~-._"), quote(value, safe="~-._")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))
