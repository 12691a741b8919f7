"""A request to AWS as the (action, resource) pairs that AWS would authorise."""

from __future__ import annotations

from localaws.iam import json_services, lambda_sts, s3
from localaws.iam.requests import Call, Place, Request, UnknownCall


def required_actions(service: str, request: Request, place: Place) -> list[Call]:
    """All of the rights that the request needs; none for the few that need none.

    `service`: as the request was signed (`s3`, `dynamodb`, `states`).
    Raises UnknownCall where they are not known here.
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
