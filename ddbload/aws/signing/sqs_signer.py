"""Signer of requests to SQS in its AWS JSON protocol."""

from __future__ import annotations

import time
from collections.abc import Callable

from ddbload.aws.boto_clients import BotoClients
from ddbload.aws.signing.json_signer import JsonService, JsonSigner

_SQS = JsonService(
    name="sqs",
    title="SQS",
    target="AmazonSQS",
    sample=lambda client: client.get_queue_url(QueueName="ddbload"),
    sample_operation="GetQueueUrl",
)


class SqsSigner(JsonSigner):
    """Signer of requests to SQS, with current credentials and AWS's clock.

    A queue's URL names an account and a queue. Requests go to the service's endpoint and have the
    URL in their body, as botocore's do.
    """

    def __init__(
        self,
        clients: BotoClients,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Find the endpoint. Raises `AwsConfiguration` and `AccessDenied`."""
        super().__init__(clients, clients.sqs, _SQS, clock=clock, monotonic=monotonic)
