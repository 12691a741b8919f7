"""Every call that a role makes, for whoever wants to see it: to record or to refuse it.

Functions and state machines call with credentials of their roles. What arrives over HTTP is
seen where it arrives (`server` for all services but DynamoDB, `dynamodb_proxy`); what a state
machine asks of another service inside moto is reported where it is asked, in the shape that it
would have over HTTP. Calls by people (any other credentials) are not seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote

from localaws.credentials import find_role
from localaws.iam.requests import Request, parse_signature


class Observer(Protocol):
    """Sees a call before it is made."""

    def __call__(self, principal: str, service: str, region: str, request: Request) -> str | None:
        """None, or why AWS would refuse it.

        `principal`: the role's ARN; `service`: as signed (`s3`, `dynamodb`, `states`).
        """

    def check_missing_object(self, principal: str, region: str, request: Request) -> str | None:
        """None, or why S3 would not tell this role that the object it reads is missing."""


_observers: list[Observer] = []


def add_observer(observer: Observer) -> None:
    """Show it every call from now on."""
    _observers.append(observer)


def check_call(principal: str, service: str, region: str, request: Request) -> str | None:
    """Why somebody refuses this call; None if nobody does."""
    reasons = [observer(principal, service, region, request) for observer in _observers]
    return next((reason for reason in reasons if reason is not None), None)


def check_signed_request(request: Request) -> str | None:
    """As `check_call`, for a request as it came over the wire; None for people's requests."""
    if not _observers:
        return None
    signature = parse_signature(request)
    role = find_role(signature.access_key) if signature else None
    if signature is None or role is None:
        return None
    return check_call(role, signature.service, signature.region, request)


def check_missing_object(request: Request) -> str | None:
    """Why S3 answers 403 where an object is missing; None where it says so, by a 404."""
    signature = parse_signature(request)
    role = find_role(signature.access_key) if signature else None
    if signature is None or role is None or signature.service != "s3":
        return None
    reasons = [
        observer.check_missing_object(role, signature.region, request) for observer in _observers
    ]
    return next((reason for reason in reasons if reason is not None), None)


def check_invocation(role: str, region: str, function: str) -> str | None:
    """As `check_call`, for a state machine's lambda:Invoke of `function` (a name or an ARN)."""
    if not _observers:
        return None
    path = f"/2015-03-31/functions/{quote(function, safe='')}/invocations"
    return check_call(role, "lambda", region, Request("POST", path, "", {}))


def check_json_call(
    role: str, service: str, region: str, target: str, fields: Mapping[str, Any]
) -> str | None:
    """As `check_call`, for a call in the JSON protocol; `target` is its X-Amz-Target."""
    if not _observers:
        return None
    body = json.dumps(fields).encode()
    request = Request("POST", "/", "", {"x-amz-target": target}, lambda: body)
    return check_call(role, service, region, request)
