"""The parts of an HTTP request that decide which permissions it needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl


class UnknownCall(Exception):
    """Error for a request whose permissions are not listed here. The message names the request."""


@dataclass(frozen=True)
class Call:
    """Permission that AWS checks: an action (`s3:GetObject`) on a resource (an ARN, or `*`)."""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Values of condition keys (`s3:prefix`) that the request supplies."""


@dataclass(frozen=True)
class Place:
    """Region and account that received a request: the parts of an ARN that a request leaves out."""

    region: str
    account: str
    partition: str = "aws"

    def arn(self, service: str, resource: str) -> str:
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"


@dataclass(frozen=True)
class Signature:
    """Signer of a request, with the signed region and service. Read, but not verified."""

    access_key: str
    region: str
    service: str


@dataclass(frozen=True)
class Request:
    """HTTP request.

    `path`: as sent, percent-encoded and without the query; `headers`: with lower-case names.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: Callable[[], bytes] = lambda: b""

    def parameters(self) -> dict[str, str]:
        """Decode the query's parameters. A parameter without a value has an empty one."""
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
