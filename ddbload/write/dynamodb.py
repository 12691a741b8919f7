"""Requests through a boto3 client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ddbload.aws_http.failures import meaning
from ddbload.write.attributes import of_client, to_client
from ddbload.write.driver import PutItem
from ddbload.write.requests import Requests
from ddbload.write.steps import Answer, Unsure

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_METHODS = {"BatchWriteItem": "batch_write_item", "PutItem": "put_item"}


class ClientWriter:
    """Writes to one table. Thread-safe, as its client is."""

    def __init__(self, client: DynamoDBClient, requests: Requests) -> None:
        self._call: Callable[..., Any] = getattr(client, _METHODS[requests.operation])
        self._requests = requests

    def send(self, items: Sequence[PutItem]) -> Answer:
        """Write rows of different keys, in one request."""
        requests = self._requests
        try:
            response: Any = self._call(**requests.parameters(list(map(to_client, items))))
        except (AttributeError, LookupError, TypeError, ValueError):
            # So botocore fails on a body that is JSON, and not an object, or not even text.
            return Unsure("an answer that is not DynamoDB's")
        except Exception as error:
            meant = meaning(error)
            if meant is None:
                raise
            return requests.failed(replace(meant, item=of_client(meant.item)), lambda: items)
        if isinstance(response, Mapping) and response.get("UnprocessedItems"):
            response = of_client(response)
        return requests.accepted(response, lambda: items)
