"""A request to AWS as the (action, resource) pairs that AWS would authorise."""

from __future__ import annotations

from localaws.iam import rest, s3, targets
from localaws.iam.errors import UnknownCall
from localaws.iam.requests import Call, Place, Request


def calls_of(service: str, request: Request, place: Place) -> list[Call]:
    """All of the rights that the request needs; none for the few that need none.

    `service`: as the request was signed (`s3`, `dynamodb`, `states`).
    Raises UnknownCall where they are not known here.
    """
    if service == "s3":
        return s3.calls_of(request, place)
    if service == "lambda":
        return rest.lambda_calls(request, place)
    if service == "sts":
        return rest.sts_calls(request)
    if "x-amz-target" in request.headers:
        return targets.calls_of(service, request, place)
    raise UnknownCall(f"{service}: {request}")
