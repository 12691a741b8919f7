"""Faults of the fault server, by name."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.fakes.dynamodb_faults import (
    Fault,
    as_stored,
    empty_answer,
    fails,
    never_sent,
    nothing_processed,
    other_table,
)


class NotWritten(Exception):
    """Failure raised in the fake: the call is recorded, but writes nothing."""


@dataclass(frozen=True)
class Named:
    """A fault of the server: its description, and its effect on a call."""

    says: str
    call: Callable[[dict[str, Any]], Fault]


def _same(fault: Fault) -> Callable[[dict[str, Any]], Fault]:
    return lambda _params: fault


_LANDED = _same(Fault())
_NOT_WRITTEN = _same(Fault(raises=NotWritten()))


def _ghost(params: dict[str, Any]) -> Fault:
    table, requests = next(iter(params["RequestItems"].items()))
    request = next(iter(requests))
    attributes = next(iter(next(iter(request.values())).values()))
    ghost = {
        name: {"S": value["S"] + "-never-sent"} if "S" in value else value
        for name, value in attributes.items()
    }
    ghost = {k: {"N": "987654321.125"} if "N" in v else v for k, v in ghost.items()}
    return never_sent(table, {"PutRequest": {"Item": ghost}})


def _renamed(params: dict[str, Any]) -> Fault:
    return other_table(next(iter(params["RequestItems"])) + "-other")


THROTTLES = {
    "ProvisionedThroughputExceededException": (
        "TableWriteProvisionedThroughputExceeded",
        "arn:aws:dynamodb:us-east-1:123456789012:table/any",
    ),
    "ThrottlingException": (
        "TableWriteKeyRangeThroughputExceeded",
        "arn:aws:dynamodb:us-east-1:123456789012:table/any",
    ),
    "RequestLimitExceeded": (
        "TableWriteAccountLimitExceeded",
        "arn:aws:dynamodb:us-east-1:123456789012:table/any",
    ),
}

# A client that retries loses and invents nothing under any of these.
SURVIVABLE = {
    "unprocessed_all": Named(
        "200, nothing is written, all comes back", _same(nothing_processed(as_stored))
    ),
    "unprocessed_some": Named(
        "200, every other write comes back",
        _same(Fault(unprocessed=lambda position, _: position % 2 == 1, spell=as_stored)),
    ),
    **{
        code: Named("400, a throttle, with its reason", _same(fails(code, reason)))
        for code, reason in THROTTLES.items()
    },
    "InternalServerError": Named("500", _same(fails("InternalServerError"))),
    "ServiceUnavailable": Named("503", _same(fails("ServiceUnavailable"))),
    "reset_before": Named("a reset before the request's body is read", _NOT_WRITTEN),
    "reset_landed": Named("written, then a reset in place of an answer", _LANDED),
    "reset_mid_response": Named("written, then a reset in the middle of the answer", _LANDED),
    "closed": Named("the connection is closed in place of an answer", _NOT_WRITTEN),
    "closed_landed": Named("written, then the same", _LANDED),
    "truncated": Named("written; half the body of the length announced, then the end", _LANDED),
    "wrong_crc": Named("written; x-amz-crc32 is not the body's", _LANDED),
    "garbage_200": Named("200 and bytes that are no JSON", _NOT_WRITTEN),
    "garbage_200_landed": Named("written, then the same", _LANDED),
    "html_200": Named("200 and a page of HTML", _NOT_WRITTEN),
    "html_200_landed": Named("written, then the same", _LANDED),
    "html_502": Named("502 and a page of HTML", _NOT_WRITTEN),
    "html_502_landed": Named("written, then the same", _LANDED),
    "empty_200": Named("200 and no body", _NOT_WRITTEN),
    "empty_200_landed": Named("written, then the same", _LANDED),
    "braces_200": Named("200 and {}, nothing is written", _same(empty_answer(landed=False))),
    "braces_200_landed": Named("200 and {}, all is written", _same(empty_answer(landed=True))),
    "slow_drip": Named("the answer comes in drops over drip_seconds", _LANDED),
    "connection_close": Named("the answer says Connection: close, and it is", _LANDED),
    "closes_after": Named(
        "the connection is closed after the answer, which does not say so", _LANDED
    ),
    "chunked": Named("the answer comes in chunks, without Content-Length", _LANDED),
    "doubled": Named("the answer comes twice", _LANDED),
    "interim_100": Named("100 Continue comes before the answer", _LANDED),
    "stall": Named("no answer for stall_seconds, then the end", _NOT_WRITTEN),
    "stall_landed": Named("written, then the same", _LANDED),
    "late": Named("written after stall_seconds, and answered then", _LANDED),
}

# No retry helps against these.
FATAL = {
    code: Named("400, no retry helps", _same(fails(code)))
    for code in (
        "AccessDeniedException",
        "ExpiredTokenException",
        "InvalidSignatureException",
        "ResourceNotFoundException",
        "UnrecognizedClientException",
    )
}

# A client must notice these, and must not write what it never read.
LIES = {
    "never_sent": Named("all is written; a write comes back that nobody sent", _ghost),
    "other_table": Named("nothing is written; all comes back for another table", _renamed),
}

FAULTS = SURVIVABLE | FATAL | LIES


class Chance:
    """Random choice of a fault of ``names`` with probability ``rate`` a call; thread-safe.

    The same ``seed`` gives the same faults for the same order of calls.
    """

    def __init__(self, seed: int, names: Iterable[str], rate: float) -> None:
        self._random = random.Random(seed)
        self._names = checked(names)
        self._rate = rate
        self._lock = threading.Lock()

    def __call__(self, _operation: str, _params: dict[str, Any]) -> str | None:
        with self._lock:
            hit = self._random.random() < self._rate
            return self._random.choice(self._names) if hit else None


def checked(names: Iterable[str]) -> list[str]:
    """Check fault names. Raises ValueError for an unknown name, and for an empty list."""
    listed = list(names)
    unknown = [name for name in listed if name not in FAULTS]
    if unknown or not listed:
        raise ValueError(f"no such fault: {', '.join(unknown)}" if unknown else "no fault given")
    return listed
