"""Invoke functions, directly or from a queue, within the limits of Lambda's API.

Source: the Lambda Developer Guide, "Quotas" and "Error handling for asynchronous invocation".
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import Any, Protocol

from localaws.functions.function import Function, Outcome
from localaws.functions.pool import Pools

REQUEST_BYTES = 6_291_456
EVENT_BYTES = 1_048_576


class RequestTooLarge(Exception):
    """Raised for a payload over Lambda's limit, with Lambda's message."""


class InvalidRequestContent(Exception):
    """Raised for a payload that is not JSON, with Lambda's message."""


@dataclass(frozen=True)
class AsyncSettings:
    """Retries and destinations of asynchronous invocations. Destinations are ARNs.

    `dead_letter`: receives only the event; `on_failure`: receives a record of the invocation.
    """

    attempts: int = 3
    dead_letter: str | None = None
    on_failure: str | None = None


class DestinationSender(Protocol):
    """Callable that sends `body` to a queue, function or topic with the function's role."""

    def __call__(
        self, function: Function, destination: str, body: str, attributes: dict[str, str]
    ) -> None: ...


class Invoker:
    """Invoker of all functions.

    `retry_seconds`: seconds before the first retry of an event, doubled before the second, and
    before a queue's message that failed is delivered again.
    """

    def __init__(self, pools: Pools, retry_seconds: float, deliver: DestinationSender) -> None:
        self._pools = pools
        self.retry_seconds = retry_seconds
        self._deliver = deliver

    def invoke(self, function: Function, payload: bytes) -> Outcome:
        """Invoke a function and wait for the result.

        Raises RequestTooLarge and InvalidRequestContent.
        """
        return self._pools.invoke(function, _validate_payload(payload, REQUEST_BYTES))

    def queue(self, function: Function, payload: bytes, settings: AsyncSettings) -> None:
        """Queue an event and return at once. Raises RequestTooLarge and InvalidRequestContent."""
        payload = _validate_payload(payload, EVENT_BYTES)
        threading.Thread(
            target=self._run_event,
            args=(function, payload, settings),
            name=f"event for {function.name}",
            daemon=True,
        ).start()

    def _run_event(self, function: Function, payload: bytes, settings: AsyncSettings) -> None:
        pause = self.retry_seconds
        outcome = self._pools.invoke(function, payload)
        attempt = 1
        while outcome.failed and attempt < settings.attempts:
            time.sleep(pause)
            pause *= 2
            outcome = self._pools.invoke(function, payload)
            attempt += 1
        if outcome.failed:
            self._send_to_destinations(function, payload, outcome, attempt, settings)

    def _send_to_destinations(
        self,
        function: Function,
        payload: bytes,
        outcome: Outcome,
        attempts: int,
        settings: AsyncSettings,
    ) -> None:
        if settings.on_failure:
            record = _destination_record(function, payload, outcome, attempts)
            self._deliver(function, settings.on_failure, json.dumps(record), {})
        if settings.dead_letter:
            message = json.loads(outcome.payload).get("errorMessage", "")
            # A message attribute must not be empty.
            attributes = {"ErrorCode": "200", "ErrorMessage": message[:1024] or "Unhandled"}
            self._deliver(function, settings.dead_letter, payload.decode(), attributes)


def _validate_payload(payload: bytes, limit: int) -> bytes:
    if len(payload) > limit:
        raise RequestTooLarge(
            f"Request must be smaller than {limit} bytes for the InvokeFunction operation"
        )
    try:
        json.loads(payload or b"{}")
    except ValueError as error:
        raise InvalidRequestContent(f"Could not parse request body into json: {error}") from error
    return payload or b"{}"


def _destination_record(
    function: Function, payload: bytes, outcome: Outcome, attempts: int
) -> dict[str, Any]:
    return {
        "version": "1.0",
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        "requestContext": {
            "functionArn": f"{function.arn}:{function.version}",
            "condition": "RetriesExhausted",
            "approximateInvokeCount": attempts,
        },
        "requestPayload": json.loads(payload),
        "responseContext": {
            "statusCode": 200,
            "executedVersion": function.version,
            "functionError": "Unhandled",
        },
        "responsePayload": json.loads(outcome.payload or b"null"),
    }
