"""Each failure of an AWS call has a kind."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import zlib
from dataclasses import replace
from typing import Any

import pytest
from botocore import exceptions as aws
from urllib3.exceptions import HTTPError

from ddbload.aws.failures import (
    AwsFailure,
    FailureKind,
    classify_failure,
    failure_of_response,
    to_ddbload_error,
)
from ddbload.aws.http_client.http1 import Response
from ddbload.errors import AccessDenied, RequestRefused, ServiceUnavailable
from tests.unit.aws.response_helpers import client_error


def classified(error: Exception) -> AwsFailure:
    found = classify_failure(error)
    assert found is not None
    return found


# What the service answers

CODES = {
    FailureKind.THROTTLED: [
        ("ProvisionedThroughputExceededException", 400),
        ("RequestLimitExceeded", 400),
        ("ThrottlingException", 400),
        ("Throttling", 400),
        ("ThrottledException", 400),
        ("TooManyRequestsException", 400),
        ("SlowDown", 503),
        ("Unheard", 429),
        ("", 429),
    ],
    FailureKind.UNSURE: [
        ("InternalServerError", 500),
        ("InternalServerError", 400),
        ("InternalFailure", 500),
        ("ServiceUnavailable", 503),
        ("ServiceUnavailableException", 400),
        ("TransactionInProgressException", 400),
        ("RequestTimeout", 400),
        ("OperationAborted", 409),
        ("Unheard", 500),
        ("Unheard", 502),
        ("Unheard", 599),
        ("", 504),
        ("", 408),
        ("", 302),
        ("", 400),
    ],
    FailureKind.INVALID: [
        ("ValidationException", 400),
        ("SerializationException", 400),
        ("ItemCollectionSizeLimitExceededException", 400),
        ("413", 413),
        ("", 413),
    ],
    FailureKind.FATAL: [
        ("AccessDeniedException", 400),
        ("AccessDenied", 403),
        ("ExpiredTokenException", 400),
        ("ExpiredToken", 400),
        ("IncompleteSignature", 400),
        ("InvalidAccessKeyId", 403),
        ("InvalidSignatureException", 400),
        ("MissingAuthenticationTokenException", 400),
        ("NoSuchBucket", 404),
        ("PermanentRedirect", 301),
        ("RequestTimeTooSkewed", 403),
        ("ResourceNotFoundException", 400),
        ("SignatureDoesNotMatch", 403),
        ("UnrecognizedClientException", 400),
        ("Unheard", 400),
        ("Unheard", 404),
        ("", 404),
        ("", 0),
    ],
}


def told(code: str, status: int) -> tuple[str, str]:
    """Expect AWS's code and text only from AWS; otherwise the status."""
    return (code, "words") if code[:1].isalpha() else (str(status), f"HTTP status {status}")


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [(kind, *case) for kind, cases in CODES.items() for case in cases],
)
def test_failure_kind_follows_from_code_and_status(kind, code, status):
    assert classified(client_error(code, status)) == AwsFailure(kind, *told(code, status), status)


PAGE = '<html>blocked: {"id": {"S": "secret"}}</html>'


@pytest.mark.parametrize("code", ["403", "<html>", "an error", "", "1x"])
def test_foreign_response_is_not_quoted(code):
    error = client_error(code, 403, PAGE)
    own = failure_of_response(response({"__type": code, "message": PAGE}, 403))
    for found in (classified(error), own):
        assert found == replace(found, code="403", text="HTTP status 403", status=403)
        assert "secret" not in to_ddbload_error(found, "writing").message


def test_invalid_header_is_not_quoted():
    inner = ValueError("Invalid header value b'SECRET\\r'")
    found = classified(aws.HTTPClientError(error=inner))
    assert found.kind is FailureKind.FATAL
    assert "SECRET" not in found.text
    assert "line end" in found.text


def test_client_error_keeps_request_id_and_reasons():
    error = client_error("ThrottlingException")
    error.response["ResponseMetadata"]["RequestId"] = "ABC"
    error.response["throttlingReasons"] = [{"reason": "One"}, {"reason": "Two"}]  # type: ignore[typeddict-unknown-key]
    found = classified(error)
    assert (found.request_id, found.reasons) == ("ABC", ("One", "Two"))
    assert "[request ABC]" in to_ddbload_error(found, "x").message


# The same, without botocore


def response(body: Any, status: int = 400, **headers: str) -> Response:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = {"x-amz-crc32": str(zlib.crc32(data)), "x-amzn-requestid": "ABC"}
    return Response(status, {**told, **headers}, data, True)


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [(kind, *case) for kind, cases in CODES.items() for case in cases if case[1] >= 300],
)
def test_raw_response_is_classified_like_botocores_error(kind, code, status):
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "words"}
    found = failure_of_response(response(body, status))
    assert found == AwsFailure(kind, *told(code, status), status, "ABC")


@pytest.mark.parametrize(
    ("spelt", "code"),
    [
        ("ThrottlingException", "ThrottlingException"),
        ("a.b#ThrottlingException", "ThrottlingException"),
        ("a.b#ThrottlingException:http://internal.amazon.com/x#y", "ThrottlingException"),
        ("", "400"),
        ("#", "400"),
        (None, "400"),
        (7, "400"),
        (["ThrottlingException"], "400"),
    ],
)
def test_error_code_is_found_in_any_spelling(spelt, code):
    found = failure_of_response(response({"__type": spelt, "Message": "words"}))
    assert found is not None
    assert (found.code, found.text) == told(code, 400)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}",
        b"null",
        b"[]",
        b'"secret"',
        b"\x00\xff",
        b"[" * 100_000,
        b"<html>secret</html>",
        b'{"message": ["secret"]}',
    ],
)
@pytest.mark.parametrize(
    ("status", "kind"),
    [(502, FailureKind.UNSURE), (429, FailureKind.THROTTLED), (403, FailureKind.FATAL)],
)
def test_response_not_from_dynamodb_is_classified_by_status(body, status, kind):
    found = failure_of_response(response(body, status))
    assert found == AwsFailure(kind, str(status), f"HTTP status {status}", status, "ABC")


@pytest.mark.parametrize("name", ["ThrottlingReasons", "throttlingReasons"])
def test_throttling_reasons_are_read(name):
    listed = [{"reason": "TableWriteKeyRangeThroughputExceeded", "resource": "arn"}, 5, {}]
    found = failure_of_response(response({"__type": "x#ThrottlingException", name: listed}))
    assert found is not None
    assert found.reasons == ("TableWriteKeyRangeThroughputExceeded",)


@pytest.mark.parametrize("status", [200, 400, 502])
def test_response_with_wrong_checksum_is_unsure(status):
    damaged = response({"__type": "x#AccessDeniedException"}, status, **{"x-amz-crc32": "1"})
    found = failure_of_response(damaged)
    assert found is not None
    assert (found.kind, found.code, found.request_id) == (
        FailureKind.UNSURE,
        "ChecksumMismatch",
        "ABC",
    )


# No answer


@pytest.mark.parametrize("error", [ssl.SSLError(1, "bad record"), HTTPError("no pool")])
def test_error_in_the_middle_of_a_body_is_unsure(error):
    """botocore wraps errors of requests, but not all errors while reading a body."""
    assert classified(error).kind is FailureKind.UNSURE


def test_older_botocore_lacks_some_session_errors():
    """Lambda's runtime has an older botocore, which lacks some exception classes."""
    script = """
from botocore import exceptions
for name in ("LoginError", "NoAuthTokenError"):
    if hasattr(exceptions, name):
        delattr(exceptions, name)
from ddbload.aws.failures import classify_failure
print(classify_failure(TimeoutError("x")).kind.value)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "unsure\n"


# Nothing that is sent will pass


def test_validation_error_does_not_quote_parameters():
    error = aws.ParamValidationError(report="Invalid type for parameter Item.secret")
    found = classified(error)
    assert (found.kind, found.code) == (FailureKind.FATAL, "ParamValidationError")
    assert "secret" not in found.text


# By name


@pytest.mark.parametrize(
    ("code", "status", "name"),
    [
        ("ThrottlingException", 400, ServiceUnavailable),
        ("InternalServerError", 500, ServiceUnavailable),
        ("AccessDeniedException", 400, AccessDenied),
        ("ExpiredTokenException", 400, AccessDenied),
        ("UnrecognizedClientException", 400, AccessDenied),
        ("InvalidSignatureException", 400, AccessDenied),
        ("Unheard", 401, AccessDenied),
        ("403", 403, AccessDenied),
        ("ValidationException", 400, RequestRefused),
        ("ResourceNotFoundException", 400, RequestRefused),
        ("Unheard", 400, RequestRefused),
    ],
)
def test_failure_becomes_a_named_error(code, status, name):
    error = to_ddbload_error(
        classified(client_error(code, status, "its words")), "reading s3://b/k"
    )
    assert type(error) is name
    words = "HTTP status 403" if code == "403" else "its words"
    assert error.message.startswith(f"reading s3://b/k: {code}: {words}")


# Checksums
