"""The parts of an HTTP request that decide which permissions it needs, and who signed it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl


class UnknownCall(Exception):
    """A request whose permissions are not known here. The message names the request."""


@dataclass(frozen=True)
class Call:
    """What AWS authorises: an action (`s3:GetObject`) on a resource (an ARN, or `*`)."""

    action: str
    resource: str


@dataclass(frozen=True)
class Place:
    """Where a request was sent to: the parts of an ARN that a request does not name."""

    region: str
    account: str
    partition: str = "aws"

    def arn(self, service: str, resource: str) -> str:
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"


@dataclass(frozen=True)
class Signature:
    """Who signed a request, for which service and region. It is read, not verified."""

    access_key: str
    region: str
    service: str


@dataclass(frozen=True)
class Request:
    """`path` is as it was sent: percent-encoded, without the query. Header names are lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: Callable[[], bytes] = lambda: b""

    def parameters(self) -> dict[str, str]:
        """The query's fields, decoded; a field without a value has an empty one."""
        return dict(parse_qsl(self.query, keep_blank_values=True))

    def json(self) -> dict[str, Any]:
        """The body as an object.

        Raises UnknownCall where it is none.
        """
        try:
            decoded = json.loads(self.body() or b"{}")
        except ValueError:
            decoded = None
        if not isinstance(decoded, dict):
            raise UnknownCall(f"{self}: the body is no JSON object")
        return decoded

    def __str__(self) -> str:
        target = self.headers.get("x-amz-target")
        return (
            f"{self.method} {self.path}"
            + (f"?{self.query}" if self.query else "")
            + (f" ({target})" if target else "")
        )


def parse_signature(request: Request) -> Signature | None:
    """By the Authorization header (Signature Version 4) or a presigned URL; None if unsigned."""
    authorization = request.headers.get("authorization", "")
    if authorization.startswith("AWS4-"):
        _, _, rest = authorization.partition("Credential=")
        credential = rest.split(",")[0].split()[0] if rest.strip() else ""
    else:
        credential = request.parameters().get("X-Amz-Credential", "")
    # The access key may itself hold slashes in theory; the other four parts never do.
    parts = credential.rsplit("/", 4)
    if len(parts) != 5:
        return None
    access_key, _, region, service, _ = parts
    return Signature(access_key, region, service)
