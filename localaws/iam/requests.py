"""Parts of an HTTP request that determine the permissions it needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl


class UnknownCall(Exception):
    """Raised for a request that is not supported here. The message names the request."""


@dataclass(frozen=True)
class Call:
    """Permission that AWS checks: an action (`s3:GetObject`) on a resource (an ARN, or `*`)."""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Values of condition keys (such as `s3:prefix`) in the request."""


@dataclass(frozen=True)
class Place:
    """Region and account that received a request, which ARNs need and requests leave out."""

    region: str
    account: str
    partition: str = "aws"

    def arn(self, service: str, resource: str) -> str:
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"


@dataclass(frozen=True)
class Signature:
    """Signer of a request, with the signed region and service. Not verified."""

    access_key: str
    region: str
    service: str


@dataclass(frozen=True)
class Request:
    """HTTP request.

    `path`: percent-encoded as sent, without the query; `headers`: with names in lower case.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: Callable[[], bytes] = lambda: b""

    def parameters(self) -> dict[str, str]:
        """Decode the query's parameters. One without a value has an empty text."""
        return dict(parse_qsl(self.query, keep_blank_values=True))

    def json(self) -> dict[str, Any]:
        """Parse the body as a JSON object. Raises UnknownCall if it is anything else."""
        try:
            decoded = json.loads(self.body() or b"{}")
        except ValueError:
            decoded = None
        if not isinstance(decoded, dict):
            raise UnknownCall(f"{self}: the body is not a JSON object")
        return decoded

    def __str__(self) -> str:
        target = self.headers.get("x-amz-target")
        return (
            f"{self.method} {self.path}"
            + (f"?{self.query}" if self.query else "")
            + (f" ({target})" if target else "")
        )


def parse_signature(request: Request) -> Signature | None:
    """Read the Authorization header (Signature Version 4); None if the request is unsigned."""
    _, _, rest = request.headers.get("authorization", "").partition("Credential=")
    credential = rest.split(",")[0].split()[0] if rest.strip() else ""
    # The access key might contain slashes; the other four parts never do.
    parts = credential.rsplit("/", 4)
    if len(parts) != 5:
        return None
    access_key, _, region, service, _ = parts
    return Signature(access_key, region, service)
