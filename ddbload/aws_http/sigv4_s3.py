"""AWS Signature Version 4 for what is got from S3: no body, another path or query each time.

The rules are those of "Authenticating Requests (AWS Signature Version 4)" in the S3 API Reference:
a path is encoded once, and stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from urllib.parse import quote

from ddbload import __version__
from ddbload.aws_http.sigv4 import Credentials, SigningKey, check_value

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
