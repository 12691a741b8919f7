"""Send the result of an asynchronous invocation with the function's role."""

from __future__ import annotations

import logging
from typing import Any

from localaws.functions.function import Function
from localaws.patches.clients import client_for_role

_LOG = logging.getLogger(__name__)


class Delivery:
    """Sender of results to queues, topics and functions.

    `endpoint`: base URL of these services.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def __call__(
        self, function: Function, destination: str, body: str, attributes: dict[str, str]
    ) -> None:
        try:
            self._send(function, destination, body, attributes)
        except Exception:  # noqa: BLE001 - see below
            # The event has been processed, so a failed delivery is only logged; AWS counts a
            # metric.
            _LOG.exception("%s: could not send the outcome to %s", function.name, destination)

    def _send(
        self, function: Function, destination: str, body: str, attributes: dict[str, str]
    ) -> None:
        _, _, service, region, account, name = destination.split(":", 5)
        client: Any = client_for_role(service, region, function.role, self._endpoint)
        values = {
            key: {"DataType": "String", "StringValue": value} for key, value in attributes.items()
        }
        if service != "sqs":
            raise ValueError(f"destinations of the service {service} are not emulated")
        queue = f"{self._endpoint}/{account}/{name}"
        client.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=values)
