"""Signer of requests to DynamoDB."""

from __future__ import annotations

import time
from collections.abc import Callable

from ddbload.aws.boto_clients import BotoClients
from ddbload.aws.signing.json_signer import JsonService, JsonSigner

_DYNAMODB = JsonService(
    name="dynamodb",
    title="DynamoDB",
    target="DynamoDB_20120810",
    sample=lambda client: client.batch_write_item(RequestItems={}),
    sample_operation="BatchWriteItem",
)


class DynamoDBSigner(JsonSigner):
    """Signer of requests to DynamoDB, with current credentials and AWS's clock."""

    def __init__(
        self,
        clients: BotoClients,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Find the endpoint. Raises `AwsConfiguration` and `AccessDenied`."""
        super().__init__(clients, clients.dynamodb, _DYNAMODB, clock=clock, monotonic=monotonic)
