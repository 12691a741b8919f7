"""Classification of failed AWS calls: retry, slow down, reject the row, or end the run."""

from __future__ import annotations

import re
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import unescape

from ddbload.contracts.messages import json_object
from ddbload.errors import (
    AccessDenied,
    AwsConfiguration,
    DdbloadError,
    RequestRefused,
    ServiceUnavailable,
)
from ddbload.records import Record

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

    from ddbload.aws.http_client.http1 import Response


class FailureKind(Enum):
    """Kind of a failure, which decides what to do about it."""

    THROTTLED = "throttled"
    """Not enough capacity: slow down and try again."""
    UNSURE = "unsure"
    """No response, or a damaged one, so the call may have been carried out: try again."""
    CONDITION = "condition"
    """The request's condition does not hold for the item in the table."""
    INVALID = "invalid"
    """The request's content is invalid, and will be refused again."""
    FATAL = "fatal"
    """Any request of this caller will be refused."""


class AwsFailure(Record):
    """A failed AWS call: its kind, AWS's error code and message."""

    kind: FailureKind
    code: str
    text: str
    status: int = 0
    """HTTP status; 0 without a response."""
    request_id: str = ""
    """AWS's request id, which AWS support asks for."""
    reasons: tuple[str, ...] = ()
    """DynamoDB's ThrottlingReasons, such as TableWriteKeyRangeThroughputExceeded."""
    item: Mapping[str, Any] | None = field(default=None, repr=False)
    """The item in the table if a condition does not hold and DynamoDB returns it."""

    @property
    def is_foreign(self) -> bool:
        """True if a server answered that is not AWS's, such as a proxy; it may pass."""
        return self.kind is FailureKind.UNSURE and _is_foreign(self.code, self.status)

    @property
    def is_known(self) -> bool:
        """True if the error code is known to this module, so that the text is AWS's."""
        return not self.status or self.code in _KINDS


class ChecksumMismatch(ConnectionError):
    """A response body does not match DynamoDB's x-amz-crc32 header."""


class LengthMissing(ConnectionError):
    """A response gives no length of its body, so it may have been cut short."""


class BodyCutShort(ConnectionError):
    """A response body is shorter than its Content-Length."""


INVALID_HEADER = (
    "the access key, the session token, the region or the endpoint has a line end or another"
    " control character in it; write it without"
)
# Form of AWS's error codes.
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9.]{2,99}")
_NOT_AWS = (
    "this is not an answer of AWS: check the endpoint (--endpoint-url, AWS_ENDPOINT_URL), and what"
    " answers there"
)
DAMAGED = "the response's checksum does not match its body"
_FOREIGN = frozenset({302, 303, 308, 400})
"""Statuses that AWS gives no request without an error code: a proxy or a load balancer answered."""
EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
"""Error codes of session tokens whose time is over."""
OUTDATED = {*EXPIRED, "InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException"}
"""Error codes of expired credentials, which may have been replaced by newer ones."""
CLOCK = {"InvalidSignatureException", "RequestTimeTooSkewed", "RequestExpired"}
"""Error codes of wrong signatures, or of signatures with a wrong time."""
_CREDENTIALS = {
    *OUTDATED,
    *CLOCK,
    "AccessDenied",
    "AccessDeniedException",
    "AllAccessDisabled",
    "AuthFailure",
    "IncompleteSignature",
    "InvalidToken",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch",
}
# By name, because the older botocore of Lambda's runtime lacks the newest of these classes.
_SESSIONS = ("SSOError", "LoginError", "NoAuthTokenError")
_THROTTLES = {
    "BandwidthLimitExceeded",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
_KINDS = {
    **dict.fromkeys(_CREDENTIALS, FailureKind.FATAL),
    **dict.fromkeys(_THROTTLES, FailureKind.THROTTLED),
    "ConditionalCheckFailedException": FailureKind.CONDITION,
    "ItemCollectionSizeLimitExceededException": FailureKind.INVALID,
    "SerializationException": FailureKind.INVALID,
    "ValidationException": FailureKind.INVALID,
    "LimitExceededException": FailureKind.FATAL,
    "ResourceInUseException": FailureKind.FATAL,
    "ResourceNotFoundException": FailureKind.FATAL,
    # A million executions of Step Functions are open.
    "ExecutionLimitExceeded": FailureKind.THROTTLED,
    "KmsThrottlingException": FailureKind.THROTTLED,
    "ConditionalRequestConflict": FailureKind.UNSURE,
    "InternalError": FailureKind.UNSURE,
    "InternalFailure": FailureKind.UNSURE,
    "InternalServerError": FailureKind.UNSURE,
    "OperationAborted": FailureKind.UNSURE,
    "RequestTimeout": FailureKind.UNSURE,
    "RequestTimeoutException": FailureKind.UNSURE,
    "ServiceUnavailable": FailureKind.UNSURE,
    "ServiceUnavailableException": FailureKind.UNSURE,
    "TransactionConflictException": FailureKind.UNSURE,
    "TransactionInProgressException": FailureKind.UNSURE,
}
"""Kind of a failure by AWS's error code."""
UNKNOWN_OPERATION = {"UnknownOperation", "UnknownOperationException"}
"""Error codes of an endpoint, usually an emulator, that does not know the operation."""

_FIELD = re.compile(r"<(Code|Message|Region)>([^<]*)</\1>")
_REGION = re.compile(r"[a-z0-9-]{1,64}")
_MOVED = {
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "PermanentRedirect",
    "TemporaryRedirect",
}
"""Error codes for a bucket in another region, or a signature for another region."""
# Error responses are short; anything longer is not searched.
_ERROR_BYTES = 65536
_ENTITIES = {"&quot;": '"', "&apos;": "'"}


def classify_failure(error: Exception) -> AwsFailure | None:
    """Classify an exception of an AWS call; None for exceptions of other origin."""
    # Imported here, because callers that do not use botocore need not wait for it.
    from botocore import exceptions, parsers
    from urllib3.exceptions import HTTPError

    if isinstance(error, exceptions.ClientError):
        return _failure_of_client_error(error)
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return AwsFailure(FailureKind.FATAL, "NoCredentials", "no AWS credentials were found")
    if isinstance(error, exceptions.CredentialRetrievalError | exceptions.TokenRetrievalError):
        return AwsFailure(
            FailureKind.FATAL, "NoCredentials", "AWS credentials could not be fetched"
        )
    if isinstance(
        error, tuple(getattr(exceptions, name) for name in _SESSIONS if hasattr(exceptions, name))
    ):
        # The text says which session has expired, and which command begins a new one.
        return AwsFailure(FailureKind.FATAL, "NoCredentials", first_line(error))
    transport = (
        exceptions.ChecksumError,
        exceptions.ConnectionError,
        exceptions.FlexibleChecksumError,
        exceptions.HTTPClientError,
        exceptions.IncompleteReadError,
        parsers.ResponseParserError,
        ConnectionError,
        TimeoutError,
        # botocore does not wrap all errors in the middle of a body.
        ssl.SSLError,
        HTTPError,
    )
    if isinstance(error, exceptions.HTTPClientError) and _is_invalid_header(
        error.kwargs.get("error")
    ):
        return AwsFailure(FailureKind.FATAL, "InvalidHeader", INVALID_HEADER)
    if isinstance(error, transport):
        return AwsFailure(FailureKind.UNSURE, type(error).__name__, first_line(error))
    if isinstance(error, exceptions.ParamValidationError):
        # Its text quotes the parameters, which hold row data.
        return AwsFailure(FailureKind.FATAL, "ParamValidationError", "botocore refuses the request")
    if isinstance(error, exceptions.BotoCoreError):
        return AwsFailure(FailureKind.FATAL, type(error).__name__, first_line(error))
    return None


def _failure_of_client_error(error: ClientError) -> AwsFailure:
    answer: Any = error.response
    code = str(answer.get("Error", {}).get("Code") or "")
    text = str(answer.get("Error", {}).get("Message") or "")
    metadata = answer.get("ResponseMetadata", {})
    status = int(metadata.get("HTTPStatusCode") or 0)
    request_id = str(metadata.get("RequestId") or "")
    failure = failure_of_code(code, text, status, request_id, _reasons(answer))
    if failure.is_foreign and error.operation_name.startswith("Head"):
        # AWS's errors have no body there.
        failure = replace(failure, kind=FailureKind.FATAL)
    return _with_item(failure, answer)


def failure_of_response(response: Response) -> AwsFailure | None:
    """Classify a response of DynamoDB; None for a success.

    DynamoDB's errors are JSON: `{"__type": "namespace#Code", "message": "..."}`. A proxy may send
    something else. That is not quoted, and the status alone decides.
    """
    headers, status = response.headers, response.status
    request_id = headers.get("x-amzn-requestid", "")
    if not has_valid_checksum(headers, response.body):
        return AwsFailure(FailureKind.UNSURE, "ChecksumMismatch", DAMAGED, status, request_id)
    if status == 200:
        return None
    answer = json_object(response.body) or {}
    kind = answer.get("__type")
    # For example "com.amazonaws.dynamodb.v20120810#ThrottlingException", maybe with ":http://…".
    code = kind.partition(":")[0].rpartition("#")[2] if isinstance(kind, str) else ""
    text = answer.get("message") or answer.get("Message")
    text = text if isinstance(text, str) else ""
    return _with_item(failure_of_code(code, text, status, request_id, _reasons(answer)), answer)


def failure_of_s3_response(response: Response) -> AwsFailure | None:
    """Classify a response of S3; None for a success.

    S3's errors are XML. A proxy may send something else; then the status alone decides.
    """
    status = response.status
    if status in (200, 206):
        return None
    fields = _error_fields(response)
    code, text = fields.get("Code", ""), unescape(fields.get("Message", ""), _ENTITIES)
    return failure_of_code(code, text, status, response.headers.get("x-amz-request-id", ""))


def redirected_region(response: Response, bucket: str, region: str) -> AwsConfiguration | None:
    """Return the named error if a response says the bucket is in another region, else None."""
    if response.status < 300:
        return None
    fields = _error_fields(response)
    there = response.headers.get("x-amz-bucket-region") or fields.get("Region", "")
    is_elsewhere = bool(_REGION.fullmatch(there)) and there != region
    if response.status not in (301, 307) and not (fields.get("Code") in _MOVED and is_elsewhere):
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


def _error_fields(response: Response) -> dict[str, str]:
    return dict(_FIELD.findall(response.body[:_ERROR_BYTES].decode("utf-8", "replace")))


def _is_foreign(code: str, status: int) -> bool:
    """Return whether a status without an error code is another server's than AWS's."""
    return code == str(status) and status in _FOREIGN


def failure_of_code(
    code: str, text: str, status: int, request_id: str = "", reasons: tuple[str, ...] = ()
) -> AwsFailure:
    """Classify a failure by AWS's error code, or by the HTTP status if the code is unknown.

    An answer without a code of AWS is another server's: its text is not quoted.
    """
    if not _CODE.fullmatch(code):
        code, text = str(status), f"HTTP status {status}"
    kind = _KINDS.get(code, FailureKind.FATAL)
    if kind is FailureKind.THROTTLED or status == 429:
        kind = FailureKind.THROTTLED
    elif status >= 500 or status == 408 or _is_foreign(code, status):
        kind = FailureKind.UNSURE
    elif kind is FailureKind.FATAL and status == 413:
        kind = FailureKind.INVALID
    return AwsFailure(kind, code, text or code, status, request_id, reasons)


def _with_item(failure: AwsFailure, answer: Mapping[str, Any]) -> AwsFailure:
    item = answer.get("Item") if failure.kind is FailureKind.CONDITION else None
    return replace(failure, item=item) if isinstance(item, Mapping) else failure


def _reasons(answer: Mapping[str, Any]) -> tuple[str, ...]:
    # DynamoDB's exceptions differ in the first letter's case.
    listed = answer.get("ThrottlingReasons") or answer.get("throttlingReasons")
    if not isinstance(listed, list):
        return ()
    found = (each.get("reason") for each in listed if isinstance(each, dict))
    return tuple(reason for reason in found if isinstance(reason, str))


def to_ddbload_error(failure: AwsFailure, doing: str) -> DdbloadError:
    """Make the named error of a failed call. `doing`: the operation, as in "reading s3://b/k"."""
    message = f"{doing}: {failure.code}: {failure.text}"
    if failure.request_id:
        message += f" [request {failure.request_id}]"
    if failure.is_foreign:
        return RequestRefused(f"{message} (tried several times; {_NOT_AWS})")
    if failure.kind in (FailureKind.THROTTLED, FailureKind.UNSURE):
        return ServiceUnavailable(f"{message} (tried several times; {_transport_advice(failure)})")
    if (
        failure.code in _CREDENTIALS
        or failure.code == "NoCredentials"
        or failure.status in (401, 403)
    ):
        hint = "check the credentials (aws sts get-caller-identity) and their permissions"
        if failure.code in CLOCK:
            hint = "check this machine's clock and the secret key"
        elif failure.code == "NoCredentials":
            hint = (
                "log in (aws sso login, aws configure), or name a profile (--profile, AWS_PROFILE)"
            )
        elif failure.code in EXPIRED:
            hint = "they have expired: log in again (aws sso login), then repeat the command"
        return AccessDenied(f"{message}; {hint}")
    if failure.code.isdigit():
        message += f"; {_NOT_AWS}"
    return RequestRefused(message)


def _transport_advice(failure: AwsFailure) -> str:
    """Return advice about a failure below HTTP, or about any that may pass."""
    if "WRONG_VERSION_NUMBER" in failure.text or "record layer failure" in failure.text:
        return "the server does not speak TLS: write its --endpoint-url with http://"
    if failure.code == "ProxyConnectionError":
        return "check the proxy, HTTPS_PROXY or HTTP_PROXY, or name the host in NO_PROXY"
    if "CERTIFICATE_VERIFY_FAILED" in failure.text:
        return "AWS_CA_BUNDLE names the certificates that are trusted"
    if failure.code == "EndpointConnectionError":
        return (
            "check the host and port of the endpoint (--endpoint-url, AWS_ENDPOINT_URL), the region"
            " (--region), and whether there is a network"
        )
    return "try again later, or check the endpoint and region"


def has_valid_checksum(headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether a body matches DynamoDB's x-amz-crc32 header, if there is one."""
    wanted = headers.get("x-amz-crc32")
    return wanted is None or str(zlib.crc32(body)) == str(wanted).strip()


def _is_invalid_header(error: object) -> bool:
    """Return whether a header was invalid; the error's text would quote it, maybe a secret."""
    return isinstance(error, ValueError) and not isinstance(error, OSError)


def first_line(error: Exception) -> str:
    """Return the first line of an exception's text, or its class."""
    return (str(error) or type(error).__name__).splitlines()[0]
