"""Single calls that are repeated while repeating may help."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ddbload.aws.backoff import full_jitter
from ddbload.aws.failures import AwsFailure, FailureKind, classify_failure, to_ddbload_error

T = TypeVar("T")
ATTEMPTS = 6


def call_with_retries(
    operation: Callable[[], T],
    doing: str,
    *,
    expected: Callable[[AwsFailure], Exception | None] = lambda _: None,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], None] = time.sleep,
    rng: random.Random | None = None,
    give_up: Callable[[], bool] = lambda: False,
) -> T:
    """What `operation` returns, tried up to `attempts` times with full jitter between.

    `expected` may give the exception to raise for a failure that means something here (a 404,
    say). Any other raises the named error of `failures.named`.
    """
    jitter = rng or random.Random()
    attempt = 0
    while True:
        attempt += 1
        try:
            return operation()
        except Exception as error:
            meant = classify_failure(error)
            if meant is None:
                raise
            known = expected(meant)
            if known is not None:
                raise known from None
            again = meant.kind in (FailureKind.THROTTLED, FailureKind.UNSURE) and attempt < attempts
            if not again or give_up():
                raise to_ddbload_error(meant, doing) from None
            sleep(full_jitter(attempt, jitter, base=0.1, cap=5.0))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long what failed waits, and until when."""

    sleep: Callable[[float], None]
    rng: random.Random
    give_up: Callable[[], bool]

    def pause(self, failures: int) -> float:
        """Seconds before the next try."""
        return full_jitter(failures, self.rng, base=0.1, cap=5.0)
