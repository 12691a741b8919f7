"""Build AWS's response to a refused call, in the protocol of each service."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from localaws.iam.requests import Call, Request

# JSON-protocol services whose AccessDenied has status 403; all others use 400.
_JSON_WITH_403 = {"sqs"}


@dataclass(frozen=True)
class HttpResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes


def denial_message(role: str, call: Call, *, explicit: bool) -> str:
    """Return AWS's error message.

    `role`: an ARN; `explicit`: True if a statement denies the call.
    """
    parts = role.split(":")
    name = parts[5].rpartition("/")[2]
    session = f"arn:{parts[1]}:sts::{parts[4]}:assumed-role/{name}/localaws"
    why = (
        "with an explicit deny in an identity-based policy"
        if explicit
        else f"because no identity-based policy allows the {call.action} action"
    )
    return (
        f"User: {session} is not authorized to perform: {call.action} "
        f"on resource: {call.resource} {why}"
    )


def access_denied(service: str, request: Request, why: str) -> HttpResponse:
    """Build the HTTP response that a client of `service` reports as its AccessDenied error."""
    request_id = str(uuid.uuid4())
    target = request.headers.get("x-amz-target")
    if service == "s3":
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>AccessDenied</Code><Message>{escape(why)}</Message>"
            f"<RequestId>{request_id}</RequestId><HostId>localaws</HostId></Error>"
        )
        headers = {"Content-Type": "application/xml", "x-amz-request-id": request_id}
        # The response to HEAD has no body, so a client sees the status only.
        return HttpResponse(403, headers, b"" if request.method == "HEAD" else body.encode())
    if target is not None:
        prefix = "com.amazon.coral.service#" if service in {"dynamodb", "sqs"} else ""
        kind = "application/x-amz-json-1.1"
        kind = request.headers.get("content-type", kind).partition(";")[0]
        fields = {"__type": f"{prefix}AccessDeniedException", "Message": why}
        headers = {"Content-Type": kind, "x-amzn-RequestId": request_id}
        status = 403 if service in _JSON_WITH_403 else 400
        return HttpResponse(status, headers, json.dumps(fields).encode())
    form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    if form or "Action" in request.parameters():
        body = (
            "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>"
            f"<Message>{escape(why)}</Message></Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
        headers = {"Content-Type": "text/xml", "x-amzn-RequestId": request_id}
        return HttpResponse(403, headers, body.encode())
    headers = {
        "Content-Type": "application/json",
        "x-amzn-ErrorType": "AccessDeniedException",
        "x-amzn-RequestId": request_id,
    }
    return HttpResponse(403, headers, json.dumps({"Message": why}).encode())
