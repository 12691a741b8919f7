from __future__ import annotations

import random

import pytest
from botocore.exceptions import NoCredentialsError

from ddbload.aws.retry import ATTEMPTS, RetryPolicy, call_with_retries
from ddbload.errors import AccessDenied, RequestRefused, ServiceUnavailable, SourceNotFound
from tests.fakes.client import read_timeout
from tests.unit.aws.response_helpers import client_error

THROTTLED = client_error("ThrottlingException")


class Operation:
    """Operation that raises the given errors in turn, then returns."""

    def __init__(self, *errors: BaseException) -> None:
        self.calls = 0
        self._errors = list(errors)

    def __call__(self) -> str:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        return "done"


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.mark.parametrize(
    "error", [THROTTLED, client_error("", 503), read_timeout(), TimeoutError()]
)
def test_call_is_repeated_after_a_transient_failure(slept, error):
    operation = Operation(error, error)
    assert call_with_retries(operation, "x", policy=RetryPolicy(sleep=slept.append)) == "done"
    assert (operation.calls, len(slept)) == (3, 2)


@pytest.mark.parametrize("attempts", [1, 2, ATTEMPTS])
def test_call_is_given_up_after_all_attempts(slept, attempts):
    operation = Operation(*[THROTTLED] * 20)
    with pytest.raises(ServiceUnavailable, match="reading it: ThrottlingException: words"):
        call_with_retries(operation, "reading it", policy=RetryPolicy(attempts, slept.append))
    assert (operation.calls, len(slept)) == (attempts, attempts - 1)


def test_pauses_grow_to_a_cap(slept):
    class Longest(random.Random):
        def uniform(self, low: float, high: float) -> float:
            assert low == 0.0
            return high

    with pytest.raises(ServiceUnavailable):
        call_with_retries(
            Operation(*[THROTTLED] * 20), "x", policy=RetryPolicy(9, slept.append, Longest())
        )
    assert slept == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (client_error("AccessDenied", 403), AccessDenied),
        (NoCredentialsError(), AccessDenied),
        (client_error("ValidationException"), RequestRefused),
        (client_error("NoSuchKey", 404), RequestRefused),
    ],
)
def test_call_is_not_repeated_after_a_permanent_failure(slept, error, name):
    operation = Operation(error)
    with pytest.raises(name):
        call_with_retries(operation, "x", policy=RetryPolicy(sleep=slept.append))
    assert (operation.calls, slept) == (1, [])


def test_expected_failure_is_not_repeated(slept):
    # Also of what would be called again otherwise.
    with pytest.raises(SourceNotFound):
        call_with_retries(
            Operation(client_error("SlowDown", 503)),
            "x",
            expected=lambda _: SourceNotFound("busy"),
            policy=RetryPolicy(sleep=slept.append),
        )


def test_unexpected_failure_raises_its_named_error(slept):
    with pytest.raises(AccessDenied):
        call_with_retries(
            Operation(client_error("AccessDenied", 403)),
            "x",
            expected=lambda _: None,
            policy=RetryPolicy(sleep=slept.append),
        )


def test_named_error_hides_its_cause():
    # A traceback with botocore's own error would show what the message leaves out.
    with pytest.raises(RequestRefused) as raised:
        call_with_retries(Operation(client_error("ValidationException")), "x")
    assert raised.value.__suppress_context__
