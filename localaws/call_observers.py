"""Pass every AWS call made by a role to observers, which may record or refuse it.

Functions and state machines call with the credentials of their roles. HTTP calls are observed where
they arrive: in `dynamodb_proxy` for DynamoDB, in `server` for all other services. A call that a
state machine makes within moto is reported by the calling code, in the form of an HTTP call. Calls
with any other credentials, such as a developer's, are not observed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote

from localaws.credentials import find_role
from localaws.iam.requests import Request, parse_signature


class Observer(Protocol):
    """Callable that receives each call before it is made."""

    def __call__(self, principal: str, service: str, region: str, request: Request) -> str | None:
        """Return the reason for which AWS would refuse the call; None if it would not.

        `principal`: the role's ARN; `service`: the signing name (`s3`, `dynamodb`, `states`).
        """

    def check_missing_object(self, principal: str, region: str, request: Request) -> str | None:
        """Return the reason to answer 403, not 404, for a missing object; else None."""


_observers: list[Observer] = []


def add_observer(observer: Observer) -> None:
    """Pass all calls from now on to `observer`."""
    _observers.append(observer)


def check_call(principal: str, service: str, region: str, request: Request) -> str | None:
    """Return the first observer's reason to refuse this call; None if there is none."""
    reasons = [observer(principal, service, region, request) for observer in _observers]
    return next((reason for reason in reasons if reason is not None), None)


def check_signed_request(request: Request) -> str | None:
    """Return the reason to refuse an HTTP request that a role signed; None to accept it."""
    if not _observers:
        return None
    signature = parse_signature(request)
    role = find_role(signature.access_key) if signature else None
    if signature is None or role is None:
        return None
    return check_call(role, signature.service, signature.region, request)


def check_missing_object(request: Request) -> str | None:
    """Return the reason to answer 403 for a missing object in S3; None to answer 404."""
    signature = parse_signature(request)
    role = find_role(signature.access_key) if signature else None
    if signature is None or role is None or signature.service != "s3":
        return None
    reasons = [
        observer.check_missing_object(role, signature.region, request) for observer in _observers
    ]
    return next((reason for reason in reasons if reason is not None), None)


def check_invocation(role: str, region: str, function: str) -> str | None:
    """Return the reason to refuse a state machine's lambda:Invoke; None to accept it.

    `function`: a function's name or ARN.
    """
    if not _observers:
        return None
    path = f"/2015-03-31/functions/{quote(function, safe='')}/invocations"
    return check_call(role, "lambda", region, Request("POST", path, "", {}))


def check_json_call(
    role: str, service: str, region: str, target: str, fields: Mapping[str, Any]
) -> str | None:
    """Return the reason to refuse a call in the JSON protocol; None to accept it.

    `target`: X-Amz-Target header of the call.
    """
    if not _observers:
        return None
    body = json.dumps(fields).encode()
    request = Request("POST", "/", "", {"x-amz-target": target}, lambda: body)
    return check_call(role, service, region, request)
