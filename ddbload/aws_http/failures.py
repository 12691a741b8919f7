"""What a failed AWS call means: try again, slow down, give up on the row, or on the run."""

from __future__ import annotations

import ssl
import zlib
from dataclasses import dataclass
from enum import Enum
from typing import Any

from botocore import exceptions as aws
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from ddbload.errors import (
    AccessDenied,
    AwsConfiguration,
    DdbloadError,
    RequestRefused,
    ServiceUnavailable,
)


class Kind(Enum):
    """What to do about a failed call."""

    THROTTLED = "throttled"
    """Refused for want of capacity: slow down and try again."""
    UNSURE = "unsure"
    """No answer, or none to be trusted: it may have been done. Try again."""
    INVALID = "invalid"
    """The request's content is refused: the same content will be refused again."""
    FATAL = "fatal"
    """Nothing that the caller sends will pass."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A failure's kind, AWS's code for it, and the text for people."""

    kind: Kind
    code: str
    text: str
    status: int = 0
    """HTTP status, 0 when there was no answer."""


class ChecksumMismatch(Exception):
    """A response body is not the one that DynamoDB signed for with x-amz-crc32."""


_THROTTLES = {
    "ProvisionedThroughputExceededException",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "SlowDown",
    "Throttling",
    "ThrottledException",
    "ThrottlingException",
    "TooManyRequestsException",
    "BandwidthLimitExceeded",
    "ReplicatedWriteConflictException",
}
_AGAIN = {
    "ConditionalRequestConflict",
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "OperationAborted",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "TransactionInProgressException",
}
_INVALID = {
    "ValidationException",
    "SerializationException",
    "ItemCollectionSizeLimitExceededException",
}
_CREDENTIALS = {
    "AccessDenied",
    "AccessDeniedException",
    "AllAccessDisabled",
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "InvalidToken",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "RequestExpired",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
    "UnrecognizedClientException",
}
_SESSIONS: tuple[type[Exception], ...] = tuple(
    # By name: the botocore of Lambda's runtime is older than ours, and lacks the newest of them.
    getattr(aws, name)
    for name in ("SSOError", "LoginError", "NoAuthTokenError")
    if hasattr(aws, name)
)
_CLOCK = {"InvalidSignatureException", "RequestTimeTooSkewed", "RequestExpired"}


def meaning(error: Exception) -> Meaning | None:
    """What a failed call means; None for exceptions that AWS calls do not raise."""
    if isinstance(error, aws.ClientError):
        return _of_answer(error)
    if isinstance(error, aws.NoCredentialsError | aws.PartialCredentialsError):
        return Meaning(Kind.FATAL, "NoCredentials", "no AWS credentials were found")
    if isinstance(error, aws.CredentialRetrievalError | aws.TokenRetrievalError):
        return Meaning(Kind.FATAL, "NoCredentials", "AWS credentials could not be fetched")
    if isinstance(error, _SESSIONS):
        # Its text says which session ended, and which command begins a new one.
        return Meaning(Kind.FATAL, "NoCredentials", _first_line(error))
    transport = (
        aws.ChecksumError,
        aws.ConnectionError,
        aws.FlexibleChecksumError,
        aws.HTTPClientError,
        aws.ResponseStreamingError,
        aws.IncompleteReadError,
        ResponseParserError,
        ChecksumMismatch,
        ConnectionError,
        TimeoutError,
        # botocore names what fails before a body, and not all that fails in its middle.
        ssl.SSLError,
        HTTPError,
    )
    if isinstance(error, transport):
        return Meaning(Kind.UNSURE, type(error).__name__, _first_line(error))
    if isinstance(error, aws.ParamValidationError):
        # Its text quotes the parameters.
        return Meaning(Kind.FATAL, "ParamValidationError", "botocore refuses the request")
    if isinstance(error, aws.BotoCoreError):
        return Meaning(Kind.FATAL, type(error).__name__, _first_line(error))
    return None


def _of_answer(error: aws.ClientError) -> Meaning:
    answer: Any = error.response
    code = str(answer.get("Error", {}).get("Code") or "Unknown")
    text = str(answer.get("Error", {}).get("Message") or code)
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
    if code in _THROTTLES or status == 429:
        kind = Kind.THROTTLED
    elif code in _AGAIN or status >= 500 or status == 408:
        kind = Kind.UNSURE
    elif code in _INVALID or status == 413:
        kind = Kind.INVALID
    else:
        kind = Kind.FATAL
    return Meaning(kind, code, text, status)


def named(meant: Meaning, doing: str) -> DdbloadError:
    """The named error for a call that is given up. `doing`: "reading s3://b/k", for people."""
    if meant.kind in (Kind.THROTTLED, Kind.UNSURE):
        return ServiceUnavailable(
            f"{doing}: {meant.code}: {meant.text} (tried several times; try again later, or"
            " check the endpoint and region)"
        )
    if meant.code in _CREDENTIALS or meant.code == "NoCredentials" or meant.status in (401, 403):
        hint = "check the credentials (aws sts get-caller-identity) and their permissions"
        if meant.code in _CLOCK:
            hint = "check this machine's clock and the secret key"
        return AccessDenied(f"{doing}: {meant.code}: {meant.text}; {hint}")
    return RequestRefused(f"{doing}: {meant.code}: {meant.text}")


def configuration(error: Exception) -> AwsConfiguration:
    """The named error for settings that botocore cannot use."""
    hint = ""
    if isinstance(error, aws.NoRegionError):
        hint = " Set AWS_REGION, or give --region."
    return AwsConfiguration(f"AWS settings: {_first_line(error)}{hint}")


def check_crc32(response_dict: dict[str, Any], **_: object) -> None:
    """A `before-parse` handler: raises `ChecksumMismatch` for a body that came damaged."""
    headers, body = response_dict.get("headers") or {}, response_dict.get("body")
    wanted = headers.get("x-amz-crc32")
    if wanted is None or not isinstance(body, bytes):
        return
    if str(zlib.crc32(body)) != str(wanted).strip():
        raise ChecksumMismatch("the response's checksum does not match its body")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
