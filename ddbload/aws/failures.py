"""What a failed AWS call means: try again, slow down, give up on the row, or on the run."""

from __future__ import annotations

import json
import re
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import unescape

from ddbload.errors import (
    AccessDenied,
    AwsConfiguration,
    DdbloadError,
    RequestRefused,
    ServiceUnavailable,
)

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

    from ddbload.aws.http_client.http1 import Response


class FailureKind(Enum):
    """What to do about a failed call."""

    THROTTLED = "throttled"
    """Refused for want of capacity: slow down and try again."""
    UNSURE = "unsure"
    """No answer, or none to be trusted: it may have been done. Try again."""
    CONDITION = "condition"
    """The request's condition does not hold of the item that is there."""
    INVALID = "invalid"
    """The request's content is refused: the same content will be refused again."""
    FATAL = "fatal"
    """Nothing that the caller sends will pass."""


@dataclass(frozen=True, slots=True)
class AwsFailure:
    """A failure's kind, AWS's code for it, and the text for people."""

    kind: FailureKind
    code: str
    text: str
    status: int = 0
    """HTTP status, 0 when there was no answer."""
    request_id: str = ""
    """AWS's own, for its support."""
    reasons: tuple[str, ...] = ()
    """DynamoDB's ThrottlingReasons, such as TableWriteKeyRangeThroughputExceeded."""
    item: Mapping[str, Any] | None = field(default=None, repr=False)
    """The item that is there, where a condition does not hold and DynamoDB shows it."""

    @property
    def is_known(self) -> bool:
        """Whether its code is one that this module knows, and so its text AWS's."""
        return not self.status or self.code in _KNOWN


class ChecksumMismatch(Exception):
    """A response body is not the one that DynamoDB signed for with x-amz-crc32."""


class LengthMissing(Exception):
    """An answer does not say where its body ends: it may have been cut short."""


_UNFIT = (
    "the access key, the session token, the region or the endpoint has a line end or another"
    " control character in it; write it without"
)
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9.]{2,99}")
"""How AWS's codes look."""
_DAMAGED = "the response's checksum does not match its body"
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
    "TransactionConflictException",
    "TransactionInProgressException",
}
_CONDITION = "ConditionalCheckFailedException"
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
_SESSIONS = ("SSOError", "LoginError", "NoAuthTokenError")
"""By name: the botocore of Lambda's runtime is older than ours, and lacks the newest of them."""
_KNOWN = {
    *_THROTTLES,
    *_AGAIN,
    *_INVALID,
    *_CREDENTIALS,
    _CONDITION,
    "LimitExceededException",
    "ResourceInUseException",
    "ResourceNotFoundException",
}
OUTDATED = {
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "TokenRefreshRequired",
    "UnrecognizedClientException",
}
"""Codes for credentials in whose place there may be newer ones."""
CLOCK = {"InvalidSignatureException", "RequestTimeTooSkewed", "RequestExpired"}
"""Codes for signatures that are wrong, or of the wrong time."""


_FIELD = re.compile(r"<(Code|Message|Region)>([^<]*)</\1>")
_REGION = re.compile(r"[a-z0-9-]{1,64}")
_MOVED = {
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "PermanentRedirect",
    "TemporaryRedirect",
}
"""Codes for a bucket that is in another region, or asked for by another's signature."""
_ERROR_BYTES = 65536
"""Errors are short."""
_ENTITIES = {"&quot;": '"', "&apos;": "'"}


def classify_failure(error: Exception) -> AwsFailure | None:
    """What a failed call means; None for exceptions that AWS calls do not raise."""
    # Here, as below: who takes no exceptions of botocore need not wait for it.
    from botocore import exceptions as aws
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    if isinstance(error, aws.ClientError):
        return _of_answer(error)
    if isinstance(error, aws.NoCredentialsError | aws.PartialCredentialsError):
        return AwsFailure(FailureKind.FATAL, "NoCredentials", "no AWS credentials were found")
    if isinstance(error, aws.CredentialRetrievalError | aws.TokenRetrievalError):
        return AwsFailure(
            FailureKind.FATAL, "NoCredentials", "AWS credentials could not be fetched"
        )
    if isinstance(error, tuple(getattr(aws, name) for name in _SESSIONS if hasattr(aws, name))):
        # Its text says which session ended, and which command begins a new one.
        return AwsFailure(FailureKind.FATAL, "NoCredentials", _first_line(error))
    transport = (
        aws.ChecksumError,
        aws.ConnectionError,
        aws.FlexibleChecksumError,
        aws.HTTPClientError,
        aws.ResponseStreamingError,
        aws.IncompleteReadError,
        ResponseParserError,
        ChecksumMismatch,
        LengthMissing,
        ConnectionError,
        TimeoutError,
        # botocore names what fails before a body, and not all that fails in its middle.
        ssl.SSLError,
        HTTPError,
    )
    if isinstance(error, aws.HTTPClientError) and _is_unfit(error.kwargs.get("error")):
        return AwsFailure(FailureKind.FATAL, "InvalidHeader", _UNFIT)
    if isinstance(error, transport):
        return AwsFailure(FailureKind.UNSURE, type(error).__name__, _first_line(error))
    if isinstance(error, aws.ParamValidationError):
        # Its text quotes the parameters.
        return AwsFailure(FailureKind.FATAL, "ParamValidationError", "botocore refuses the request")
    if isinstance(error, aws.BotoCoreError):
        return AwsFailure(FailureKind.FATAL, type(error).__name__, _first_line(error))
    return None


def _of_answer(error: ClientError) -> AwsFailure:
    answer: Any = error.response
    code = str(answer.get("Error", {}).get("Code") or "")
    text = str(answer.get("Error", {}).get("Message") or code)
    told = answer.get("ResponseMetadata", {})
    status, request_id = int(told.get("HTTPStatusCode") or 0), str(told.get("RequestId") or "")
    if not _CODE.fullmatch(code):
        # An answer that is not AWS's, of which botocore makes a text all the same.
        code, text = str(status), f"HTTP status {status}"
    return _with_item(failure_of_code(code, text, status, request_id, _reasons(answer)), answer)


def failure_of_response(response: Response) -> AwsFailure | None:
    """What an answer of DynamoDB's means; None for one that is to be read.

    Its errors are JSON: `{"__type": "namespace#Code", "message": "..."}`. Whatever lies between
    may say something else, which is not repeated: then the status alone tells.
    """
    headers, status = response.headers, response.status
    request_id = headers.get("x-amzn-requestid", "")
    if not _is_sound(headers, response.body):
        return AwsFailure(FailureKind.UNSURE, "ChecksumMismatch", _DAMAGED, status, request_id)
    if status == 200:
        return None
    try:
        answer = json.loads(response.body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        answer = {}
    kind = answer.get("__type")
    # As in "com.amazonaws.dynamodb.v20120810#ThrottlingException", or with an address behind it.
    code = kind.partition(":")[0].rpartition("#")[2] if isinstance(kind, str) else ""
    text = answer.get("message") or answer.get("Message")
    if not _CODE.fullmatch(code):
        code, text = str(status), None
    text = text if isinstance(text, str) else f"HTTP status {status}"
    return _with_item(failure_of_code(code, text, status, request_id, _reasons(answer)), answer)


def failure_of_s3_response(response: Response) -> AwsFailure | None:
    """What an answer means; None for one that is to be read.

    S3's errors are XML. Whatever lies between may say something else: then the status tells.
    """
    status = response.status
    if status in (200, 206):
        return None
    said = _said(response)
    code, text = said.get("Code", ""), unescape(said.get("Message", ""), _ENTITIES)
    if not _CODE.fullmatch(code):
        code, text = str(status), f"HTTP status {status}"
    return failure_of_code(code, text or code, status, response.headers.get("x-amz-request-id", ""))


def redirected_region(response: Response, bucket: str, region: str) -> AwsConfiguration | None:
    """The named error for a bucket that is in another region than `region`; None for any other."""
    if response.status < 300:
        return None
    said = _said(response)
    there = response.headers.get("x-amz-bucket-region") or said.get("Region", "")
    is_elsewhere = bool(_REGION.fullmatch(there)) and there != region
    if response.status not in (301, 307) and not (said.get("Code") in _MOVED and is_elsewhere):
        return None
    if not is_elsewhere:
        return AwsConfiguration(
            f"AWS settings: the bucket {bucket} is at another endpoint than {region}'s; give"
            " --region, or check --endpoint-url"
        )
    return AwsConfiguration(
        f"AWS settings: the bucket {bucket} is in {there}, and not in {region}: give --region"
        f" {there}, or set AWS_REGION"
    )


def _said(response: Response) -> dict[str, str]:
    return dict(_FIELD.findall(response.body[:_ERROR_BYTES].decode("utf-8", "replace")))


def failure_of_code(
    code: str, text: str, status: int, request_id: str = "", reasons: tuple[str, ...] = ()
) -> AwsFailure:
    """What AWS's code for a failure means, or, where nobody knows that, its HTTP status."""
    if code in _THROTTLES or status == 429:
        kind = FailureKind.THROTTLED
    elif code in _AGAIN or status >= 500 or status == 408:
        kind = FailureKind.UNSURE
    elif code == _CONDITION:
        kind = FailureKind.CONDITION
    elif code in _INVALID or status == 413:
        kind = FailureKind.INVALID
    else:
        kind = FailureKind.FATAL
    return AwsFailure(kind, code, text, status, request_id, reasons)


def _with_item(meant: AwsFailure, answer: Mapping[str, Any]) -> AwsFailure:
    item = answer.get("Item") if meant.kind is FailureKind.CONDITION else None
    return replace(meant, item=item) if isinstance(item, Mapping) else meant


def _reasons(answer: Mapping[str, Any]) -> tuple[str, ...]:
    # The name begins with either letter: exceptions of DynamoDB differ in it.
    listed = answer.get("ThrottlingReasons") or answer.get("throttlingReasons")
    found = (each.get("reason") for each in _dicts(listed))
    return tuple(reason for reason in found if isinstance(reason, str))


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def to_ddbload_error(meant: AwsFailure, doing: str) -> DdbloadError:
    """The named error for a call that is given up. `doing`: "reading s3://b/k", for people."""
    said = f"{doing}: {meant.code}: {meant.text}"
    if meant.request_id:
        said += f" [request {meant.request_id}]"
    if meant.kind in (FailureKind.THROTTLED, FailureKind.UNSURE):
        return ServiceUnavailable(
            f"{said} (tried several times; try again later, or check the endpoint and region)"
        )
    if meant.code in _CREDENTIALS or meant.code == "NoCredentials" or meant.status in (401, 403):
        hint = "check the credentials (aws sts get-caller-identity) and their permissions"
        if meant.code in CLOCK:
            hint = "check this machine's clock and the secret key"
        return AccessDenied(f"{said}; {hint}")
    return RequestRefused(said)


def configuration_error(error: Exception) -> AwsConfiguration:
    """The named error for settings that botocore cannot use."""
    from botocore.exceptions import NoRegionError

    hint = ""
    if isinstance(error, NoRegionError):
        hint = " Set AWS_REGION, or give --region."
    return AwsConfiguration(f"AWS settings: {_first_line(error)}{hint}")


def check_crc32(response_dict: dict[str, Any], **_: object) -> None:
    """A `before-parse` handler: raises `ChecksumMismatch` for a body that came damaged."""
    body = response_dict.get("body")
    if isinstance(body, bytes) and not _is_sound(response_dict.get("headers") or {}, body):
        raise ChecksumMismatch(_DAMAGED)


def check_length(response_dict: dict[str, Any], operation_model: Any, **_: object) -> None:
    """A `before-parse` handler: raises `LengthMissing` for a body that ends with its connection.

    botocore takes any such for whole. AWS sends none, and ddbload's own requests refuse it, too.
    """
    headers = response_dict.get("headers") or {}
    if "content-length" in headers or "transfer-encoding" in headers:
        return
    if response_dict.get("status_code") in (204, 304) or operation_model.http["method"] == "HEAD":
        return
    body: Any = response_dict.get("body")
    if hasattr(body, "close"):
        body.close()
    raise LengthMissing("the answer does not say how long it is, so it may have been cut short")


def _is_sound(headers: Mapping[str, str], body: bytes) -> bool:
    wanted = headers.get("x-amz-crc32")
    return wanted is None or str(zlib.crc32(body)) == str(wanted).strip()


def _is_unfit(error: object) -> bool:
    """Whether a request was not sent for what is in it: the words of that would tell secrets."""
    return isinstance(error, ValueError) and not isinstance(error, OSError)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
