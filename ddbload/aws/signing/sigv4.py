"""AWS Signature Version 4, for requests that differ in nothing but their body, or in what they get.

The rules are those of "AWS Signature Version 4 for API requests" in the IAM User Guide. What a
second's requests have in common (headers, scope, the signing key's own hashing) is worked out
once a second: then a request costs three short hashes and that of its body.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from ddbload import __version__
from ddbload.errors import AwsConfiguration

_BLOCK_BYTES = 64
"""SHA-256's block, by which HMAC pads its key."""
UNSIGNED = frozenset(
    {
        "baggage",
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "x-amzn-trace-id",
    }
)
"""Headers that whatever lies between may change: as in botocore, they are sent and not signed."""
_OWN = frozenset(
    {"authorization", "content-length", "date", "host", "x-amz-date", "x-amz-security-token"}
)
_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
# CR and LF would begin another header; the rest of them has no place in one either.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Credentials:
    """What signs. `token`: of temporary credentials, empty or None for others."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


class SigningKey:
    """What signs the requests of one second."""

    __slots__ = ("_inner", "_outer", "credential", "stamp")

    def __init__(self, credentials: Credentials, second: int, region: str, service: str) -> None:
        """`second`: of epoch."""
        self.stamp = stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        date = stamp[:8]
        scope = f"{date}/{region}/{service}/aws4_request"
        self.credential = f"{credentials.access_key}/{scope}"
        key = f"AWS4{credentials.secret_key}".encode()
        for part in (date, region, service, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        padded = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded))
        self._inner.update(f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n".encode())
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))

    def signature(self, canonical: str) -> str:
        """`canonical`: the SHA-256 of the canonical request, in hexadecimal."""
        inner = self._inner.copy()
        inner.update(canonical.encode())
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest()


class RequestSigner:
    """Makes the heads of `POST /` requests of one service. One thread uses it at a time."""

    def __init__(self, *, service: str, region: str, host: str, headers: Mapping[str, str]) -> None:
        """`host` as in the URL, with its port unless that is the scheme's own. `headers`: those
        that all requests have (in lower case) besides the ones of this module. Raises ValueError
        for a name that is none or is this module's own, and `AwsConfiguration` as `head` does.
        """
        for name in headers:
            if not _NAME.fullmatch(name) or name in _OWN:
                raise ValueError(f"no header to give: {name!r}")
        for value in (service, region, host, *headers.values()):
            check_value(value)
        self._service, self._region, self._host = service, region, host
        self._headers = dict(headers)
        self._second: int | None = None
        self._credentials: Credentials | None = None
        self._canonical = hashlib.sha256()
        self._key: SigningKey | None = None
        self._head = ""

    def head(self, body: bytes, credentials: Credentials, now: float) -> bytes:
        """Request line and headers, with the blank line that ends them. `now`: seconds of epoch.

        Raises `AwsConfiguration` where a value would end its header, and so begin another.
        """
        second, key = int(now), self._key
        if key is None or second != self._second or credentials is not self._credentials:
            key = self._begin_second(second, credentials)
        canonical = self._canonical.copy()
        canonical.update(hashlib.sha256(body).hexdigest().encode())
        signature = key.signature(canonical.hexdigest())
        return (self._head % (signature, len(body))).encode()

    def _begin_second(self, second: int, credentials: Credentials) -> SigningKey:
        key = SigningKey(credentials, second, self._region, self._service)
        headers = {**self._headers, "host": self._host, "x-amz-date": key.stamp}
        if credentials.token:
            headers["x-amz-security-token"] = credentials.token
        check_value(credentials.access_key)
        check_value(credentials.token or "")
        signed = sorted(name for name in headers if name not in UNSIGNED)
        # Runs of blanks count as one in what is signed.
        lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in signed)
        names = ";".join(signed)
        self._canonical = hashlib.sha256(f"POST\n/\n\n{lines}\n{names}\n".encode())
        shown = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={key.credential}, SignedHeaders={names}, Signature="
        )
        self._head = (
            f"POST / HTTP/1.1\r\n{shown}authorization: {authorization}".replace("%", "%%")
            + "%s\r\ncontent-length: %d\r\n\r\n"
        )
        self._second, self._credentials, self._key = second, credentials, key
        return key


def check_value(value: str) -> None:
    """Raise `AwsConfiguration` for what would end its header."""
    # The value itself may be a secret.
    if _CONTROL.search(value):
        raise AwsConfiguration(
            "AWS settings: the access key, the session token, the region or the endpoint has a"
            " line end or another control character in it; write it without"
        )


_NOTHING = hashlib.sha256(b"").hexdigest()
"""The hash of no body."""


def encoded_path(path: str) -> str:
    """As it stands in a URL. S3's own: nothing but a slash stays that would need an escape."""
    return quote(path, safe="/~-._", errors="strict")


def encoded_query(query: Mapping[str, str]) -> str:
    """As it stands in a URL, in the order in which it is signed."""
    pairs = ((quote(name, safe="~-._"), quote(value, safe="~-._")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


class GetSigner:
    """Makes `GET` requests of one service in one region. One thread uses it at a time."""

    def __init__(self, *, service: str, region: str, host: str) -> None:
        """`host` as in the URL, with its port unless that is the scheme's own.

        Raises `AwsConfiguration` for what would end its header.
        """
        for value in (service, region, host):
            check_value(value)
        self._service, self._region, self._host = service, region, host
        self._second: int | None = None
        self._credentials: Credentials | None = None
        self._key: SigningKey | None = None
        # Headers of all requests of this second: as they are sent, and as they are signed.
        self._sent = ""
        self._signed: dict[str, str] = {}

    def request(
        self,
        path: str,
        query: str,
        headers: Mapping[str, str],
        credentials: Credentials,
        now: float,
    ) -> bytes:
        """The whole request. `path` and `query`: encoded. `headers`: more of them, in lower case,
        in the order of their names, all before `x-amz`. `now`: seconds of epoch.

        Raises `AwsConfiguration` where a value would end its header, and so begin another.
        """
        second, key = int(now), self._key
        if key is None or second != self._second or credentials is not self._credentials:
            key = self._begin_second(second, credentials)
        more = "".join(f"{name}:{' '.join(value.split())}\n" for name, value in headers.items())
        names = "".join(f"{name};" for name in headers)
        # "host" comes before "if-match" and "range", and those before all of "x-amz".
        canonical = (
            f"GET\n{path}\n{query}\nhost:{self._host}\n{more}{self._signed['lines']}\n"
            f"host;{names}{self._signed['names']}\n{_NOTHING}"
        )
        signature = key.signature(hashlib.sha256(canonical.encode()).hexdigest())
        sent = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        target = f"{path}?{query}" if query else path
        return (
            f"GET {target} HTTP/1.1\r\n{self._sent}{sent}authorization: AWS4-HMAC-SHA256"
            f" Credential={key.credential},"
            f" SignedHeaders=host;{names}{self._signed['names']}, Signature={signature}\r\n\r\n"
        ).encode()

    def _begin_second(self, second: int, credentials: Credentials) -> SigningKey:
        key = SigningKey(credentials, second, self._region, self._service)
        check_value(credentials.access_key)
        check_value(credentials.token or "")
        headers = {"x-amz-content-sha256": _NOTHING, "x-amz-date": key.stamp}
        if credentials.token:
            headers["x-amz-security-token"] = credentials.token
        self._signed = {
            "lines": "".join(f"{name}:{' '.join(v.split())}\n" for name, v in headers.items()),
            "names": ";".join(headers),
        }
        shown = {"host": self._host, "user-agent": f"ddbload/{__version__}", **headers}
        self._sent = "".join(f"{name}: {value}\r\n" for name, value in shown.items())
        self._second, self._credentials, self._key = second, credentials, key
        return key
