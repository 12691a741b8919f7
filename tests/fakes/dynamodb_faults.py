"""Faults of calls of FakeDynamoDB."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.fakes.client import ServiceError
from tests.fakes.dynamodb_values import number_text

# The codes that a loader meets, with their HTTP status and the service's words.
ERRORS = {
    "ProvisionedThroughputExceededException": (
        400,
        "The level of configured provisioned throughput for the table was exceeded.",
    ),
    "ThrottlingException": (400, "Rate of requests exceeds the allowed throughput."),
    "RequestLimitExceeded": (
        400,
        "Throughput exceeds the current throughput limit for your account.",
    ),
    "AccessDeniedException": (400, "User is not authorized to perform this action."),
    "ExpiredTokenException": (400, "The security token included in the request is expired"),
    "UnrecognizedClientException": (
        400,
        "The security token included in the request is invalid.",
    ),
    "InvalidSignatureException": (
        400,
        "Signature expired: 20260101T000000Z is now earlier than 20260101T000500Z",
    ),
    "ResourceNotFoundException": (400, "Requested resource not found"),
    "InternalServerError": (500, "Internal server error"),
    "ServiceUnavailable": (503, "Service is unavailable. Please try again later."),
}
THROTTLES = (
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
)

# (position of a write request in the call, the write request) -> whether it stays unprocessed.
Choice = Callable[[int, dict[str, Any]], bool]


@dataclass(frozen=True)
class Fault:
    """Fault of one call, which may combine several effects.

    In this order: ``before`` is called; the call is in flight for ``delay`` seconds; ``raises`` is
    raised, after the writes took effect if ``landed``; write requests chosen by ``unprocessed`` are
    returned instead of written, in reverse order, with numbers spelt by ``spell``; ``rewrite``
    replaces the response. ``statement`` gives statements of ``batch_execute_statement`` an error by
    their position, after the write if the code begins with ``Landed``; ``unprocessed`` throttles
    them. ``unprocessed`` and ``spell`` apply to ``batch_write_item`` only, ``landed`` and
    ``rewrite`` to the writes of one item, too. A call that the service would refuse is refused
    despite the fault.
    """

    before: Callable[[], object] | None = None
    delay: float = 0.0
    raises: ServiceError | BaseException | None = None
    landed: bool = False
    unprocessed: Choice | None = None
    spell: Callable[[str], str] | None = None
    statement: Callable[[int], str | None] | None = None
    rewrite: Callable[[dict[str, Any]], dict[str, Any]] | None = None


def error(code: str, *reasons: tuple[str, str]) -> ServiceError:
    """Make an error of ERRORS; ``reasons`` are (reason, resource) of ThrottlingReasons."""
    status, message = ERRORS[code]
    # The service's model spells the member in two ways.
    member = "throttlingReasons" if code == "ThrottlingException" else "ThrottlingReasons"
    found = [{"reason": reason, "resource": resource} for reason, resource in reasons]
    return ServiceError(code, status, message, {member: found} if found else {})


def fails(code: str, *reasons: tuple[str, str]) -> Fault:
    """Fault: an error of ERRORS."""
    return Fault(raises=error(code, *reasons))


def nothing_processed(spell: Callable[[str], str] | None = None) -> Fault:
    """Fault: a 200 that returns every write request as unprocessed."""
    return Fault(unprocessed=lambda _position, _request: True, spell=spell)


def processed_first(count: int, spell: Callable[[str], str] | None = None) -> Fault:
    """Fault: only the first ``count`` write requests are written."""
    return Fault(unprocessed=lambda position, _request: position >= count, spell=spell)


def empty_answer(landed: bool = True) -> Fault:
    """Fault: the response ``{}``, without UnprocessedItems."""
    return Fault(
        unprocessed=None if landed else lambda _position, _request: True,
        rewrite=lambda _answer: {},
    )


def never_sent(table: str, *requests: dict[str, Any]) -> Fault:
    """Fault: the writes take effect, and the response returns requests that were never sent."""

    def lie(answer: dict[str, Any]) -> dict[str, Any]:
        return answer | {"UnprocessedItems": {table: list(requests)}}

    return Fault(rewrite=lie)


def other_table(name: str) -> Fault:
    """Fault: nothing is written, and all requests come back under another table's name."""

    def lie(answer: dict[str, Any]) -> dict[str, Any]:
        back = [r for requests in answer["UnprocessedItems"].values() for r in requests]
        return answer | {"UnprocessedItems": {name: back}}

    return Fault(unprocessed=lambda _position, _request: True, rewrite=lie)


def as_stored(text: str) -> str:
    """Respell ``1.0`` as ``1``, as the service stores it."""
    return number_text(text)


def scientific(text: str) -> str:
    """Respell ``10`` as ``1E+1``, the same number."""
    sign, digits, exponent = Decimal(number_text(text)).normalize().as_tuple()
    return f"{'-' if sign else ''}{''.join(map(str, digits))}E{int(exponent):+d}"


def respelt(value: Any, spell: Callable[[str], str]) -> Any:
    """Copy a write request, or a value in it, with every number spelt by ``spell``."""
    if isinstance(value, dict):
        if value.keys() == {"N"} and isinstance(value["N"], str):
            return {"N": spell(value["N"])}
        if value.keys() == {"NS"} and isinstance(value["NS"], list):
            return {"NS": [spell(text) for text in value["NS"]]}
        return {name: respelt(member, spell) for name, member in value.items()}
    if isinstance(value, list):
        return [respelt(member, spell) for member in value]
    return copy.copy(value)
