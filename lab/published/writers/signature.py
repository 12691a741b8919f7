"""Sign requests to DynamoDB with Signature Version 4, using only the standard library.

The four steps are those of AWS's documentation: canonical request, string to sign, signature, and
the Authorization header.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from dataclasses import dataclass
from urllib.parse import urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"
_SERVICE = "dynamodb"
_SIGNED = "content-type;host;x-amz-date;x-amz-target"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Access key, secret key and region of an account."""

    access_key: str
    secret_key: str
    region: str


def signed_headers(
    credentials: Credentials, endpoint: str, operation: str, body: bytes, now: dt.datetime
) -> dict[str, str]:
    """Return all headers of a POST request to `endpoint`."""
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {
        "content-type": "application/x-amz-json-1.0",
        "host": urlsplit(endpoint).netloc,
        "x-amz-date": moment,
        "x-amz-target": f"DynamoDB_20120810.{operation}",
    }
    canonical = _canonical_request(headers, body)
    scope = f"{moment[:8]}/{credentials.region}/{_SERVICE}/aws4_request"
    string_to_sign = "\n".join((_ALGORITHM, moment, scope, _digest(canonical.encode())))
    key = _signing_key(credentials, moment[:8])
    signature = hmac.new(key, string_to_sign.encode(), hashlib.sha256).hexdigest()
    authorization = (
        f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, "
        f"SignedHeaders={_SIGNED}, Signature={signature}"
    )
    return {**headers, "authorization": authorization}


def _canonical_request(headers: dict[str, str], body: bytes) -> str:
    """Return the canonical request: method, path, query, headers and the body's hash."""
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    return "\n".join(("POST", "/", "", lines, _SIGNED, _digest(body)))


def _signing_key(credentials: Credentials, day: str) -> bytes:
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (day, credentials.region, _SERVICE, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
