"""Single calls that are repeated while repeating may help."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from ddbload.aws_http.backoff import full_jitter
from ddbload.aws_http.failures import Kind, Meaning, meaning, named

T = TypeVar("T")

ATTEMPTS = 6


def call(
    operation: Callable[[], T],
    doing: str,
    *,
    expected: Callable[[Meaning], Exception | None] = lambda _: None,
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
            meant = meaning(error)
            if meant is None:
                raise
            known = expected(meant)
            if known is not None:
                raise known from None
            again = meant.kind in (Kind.THROTTLED, Kind.UNSURE) and attempt < attempts
            if not again or give_up():
                raise named(meant, doing) from None
            sleep(full_jitter(attempt, jitter, base=0.1, cap=5.0))
