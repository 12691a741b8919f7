"""Translate an AWS request into the (action, resource) pairs that AWS authorizes."""

from __future__ import annotations

from localaws.iam import json_services, lambda_sts, s3
from localaws.iam.requests import Call, Place, Request, UnknownCall


def required_actions(service: str, request: Request, place: Place) -> list[Call]:
    """Return every permission that the request needs; an empty list if it needs none.

    `service`: the signing name (`s3`, `dynamodb`, `states`). Raises UnknownCall for a request that
    is not supported here.
    """
    if service == "s3":
        return s3.required_actions(request, place)
    if service == "lambda":
        return lambda_sts.lambda_actions(request, place)
    if service == "sts":
        return lambda_sts.sts_actions(request)
    if "x-amz-target" in request.headers:
        return json_services.required_actions(service, request, place)
    raise UnknownCall(f"{service}: {request}")
