"""DynamoDB's JSON 1.0 protocol on the server's side."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from botocore.model import Shape

CONTENT_TYPE = "application/x-amz-json-1.0"

# The namespace of an error's __type, where it is not DynamoDB's own.
_CORAL = "com.amazon.coral."
_NAMESPACES = {
    "ValidationException": f"{_CORAL}validate",
    "ThrottlingException": f"{_CORAL}availability",
    "ServiceUnavailable": f"{_CORAL}availability",
    **dict.fromkeys(
        (
            "AccessDeniedException",
            "ExpiredTokenException",
            "InvalidSignatureException",
            "MissingAuthenticationTokenException",
            "SerializationException",
            "UnknownOperationException",
            "UnrecognizedClientException",
        ),
        f"{_CORAL}service",
    ),
}


@dataclass(frozen=True)
class Response:
    """A response before it is sent."""

    status: int
    body: bytes

    @property
    def crc32(self) -> int:
        """Compute the value of DynamoDB's x-amz-crc32 header."""
        return zlib.crc32(self.body)


def decode(shape: Shape, value: Any) -> Any:
    """Convert a request's JSON to botocore's parameters, with binary as bytes.

    Raises ValueError for invalid base64, and TypeError or KeyError for JSON of another form.
    """
    match shape.type_name:
        case "structure":
            members: dict[str, Shape] = shape.members  # type: ignore[attr-defined]
            return {k: decode(members[k], v) for k, v in value.items() if v is not None}
        case "map":
            inner: Shape = shape.value  # type: ignore[attr-defined]
            return {k: decode(inner, v) for k, v in value.items()}
        case "list":
            member: Shape = shape.member  # type: ignore[attr-defined]
            return [decode(member, one) for one in value]
        case "blob":
            try:
                return base64.b64decode(value, validate=True)
            except binascii.Error as error:
                raise ValueError(f"binary that is not base64: {error}") from None
        case _:
            return value


def answer(result: dict[str, Any]) -> Response:
    """Make the response to a successful call."""
    result = {name: value for name, value in result.items() if name != "ResponseMetadata"}
    return Response(200, _json(result))


def failure(
    code: str, status: int, message: str, members: dict[str, Any] | None = None
) -> Response:
    """Make an error response; AWS's front end spells its text ``Message``."""
    if status == 413:
        return Response(413, b"")
    namespace = _NAMESPACES.get(code, "com.amazonaws.dynamodb.v20120810")
    word = "Message" if namespace == f"{_CORAL}service" else "message"
    return Response(
        status, _json({"__type": f"{namespace}#{code}", word: message, **(members or {})})
    )


def failure_of(error: ClientError) -> Response:
    """Make the response that botocore would turn into ``error``."""
    members = {k: v for k, v in error.response.items() if k not in ("Error", "ResponseMetadata")}
    said = error.response["Error"]
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    return failure(said["Code"], status, said["Message"], members)


def _json(value: Any) -> bytes:
    def other(one: Any) -> Any:
        if isinstance(one, datetime):
            return one.timestamp()
        return base64.b64encode(bytes(one)).decode()

    return json.dumps(value, default=other, ensure_ascii=False, separators=(",", ":")).encode()
