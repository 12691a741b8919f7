"""Retries of failed AWS calls: the one rule for which to repeat, how often and after how long."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import field
from typing import TypeVar

from ddbload.aws.backoff import full_jitter
from ddbload.aws.failures import AwsFailure, FailureKind, classify_failure, to_ddbload_error
from ddbload.errors import DdbloadError
from ddbload.records import Record

T = TypeVar("T")
ATTEMPTS = 6
CALL_BASE_SECONDS = 0.1
CALL_CAP_SECONDS = 5.0
_TRANSIENT = (FailureKind.THROTTLED, FailureKind.UNSURE)


class RetryPolicy(Record):
    """Rule for repeating a failed call."""

    attempts: int = ATTEMPTS
    """Calls in all, the first one included."""
    sleep: Callable[[float], None] = time.sleep
    # Without a state of its own, so that forked processes do not wait for equal times.
    rng: random.Random = field(default_factory=random.SystemRandom)
    give_up: Callable[[], bool] = lambda: False
    """Checked before each wait: true ends the retries, at a deadline for example."""

    def pause(self, attempt: int) -> float:
        """Draw the seconds to wait after failed attempt number `attempt`, counted from 1."""
        return full_jitter(attempt, self.rng, base=CALL_BASE_SECONDS, cap=CALL_CAP_SECONDS)

    def require_retry(self, failure: AwsFailure, attempt: int, doing: str) -> None:
        """Raise the named error of a failure that is permanent, or failed too often.

        `doing` begins the error's message, for example "reading s3://bucket/key".
        """
        if failure.kind not in _TRANSIENT or attempt >= self.attempts or self.give_up():
            raise to_ddbload_error(failure, doing) from None

    def wait(
        self,
        failure: AwsFailure,
        attempt: int,
        doing: str,
        expected: Callable[[AwsFailure], Exception | None],
    ) -> None:
        """Wait before the next attempt.

        Raises the exception that `expected` returns for the failure, or as `require_retry`.
        """
        known = expected(failure)
        if known is not None:
            raise known from None
        self.require_retry(failure, attempt, doing)
        self.sleep(self.pause(attempt))


DEFAULT_POLICY = RetryPolicy()
"""Six attempts over about five seconds, without a deadline."""


def call_with_retries(
    operation: Callable[[], T],
    doing: str,
    *,
    policy: RetryPolicy = DEFAULT_POLICY,
    expected: Callable[[AwsFailure], Exception | None] = lambda _: None,
) -> T:
    """Call `operation`, and repeat it while its failure may pass and the policy allows it.

    `expected` returns the exception for a failure with a meaning of the caller's (a 404 for
    example), else None. Any other failed call raises its named error, see `to_ddbload_error`.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            return operation()
        except Exception as error:
            failure = classify_failure(error)
            if failure is None:
                raise
            policy.wait(failure, attempt, doing, expected)


class _AbsentError(Exception):
    """Raised if the object of a call does not exist."""


def find_with_retries(
    operation: Callable[[], T],
    doing: str,
    absent: Callable[[AwsFailure], bool],
    *,
    policy: RetryPolicy = DEFAULT_POLICY,
    expected: Callable[[AwsFailure], Exception | None] = lambda _: None,
) -> T | None:
    """Call `operation` as `call_with_retries` does; return None for a failure that is `absent`."""
    try:
        return call_with_retries(
            operation,
            doing,
            policy=policy,
            expected=lambda failure: _AbsentError() if absent(failure) else expected(failure),
        )
    except _AbsentError:
        return None


def call_if_possible(operation: Callable[[], T], doing: str) -> T | None:
    """Call `operation` once for information that is not needed; None if it fails.

    A permission may be missing, an emulator may lack the call, or its answer may be damaged.
    """
    try:
        return call_with_retries(operation, doing, policy=RetryPolicy(attempts=1))
    except (DdbloadError, AttributeError, LookupError, TypeError, ValueError):
        return None
