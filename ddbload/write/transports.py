"""Send requests to DynamoDB through botocore or over connections of ddbload, and read the answers.

The `ModeRequests` of the run interpret responses and failures, whichever transport received them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import classify_failure, failure_of_response
from ddbload.aws.http_client.event_loop import HttpLoop, RequestLost
from ddbload.aws.http_client.http1 import Response
from ddbload.contracts.options import ASYNC, Options
from ddbload.dynamodb.item_equality import of_client, to_client
from ddbload.write.requests import NOT_DYNAMODB, ItemOrKey, ModeRequests, SentItems
from ddbload.write.scheduler.messages import Accepted, Answer, Unsure

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from ddbload.aws.clients import Clients
    from ddbload.aws.signing.signers import DynamoDBSigner

_MAX_CACHED_ANSWERS = 100
_CLIENT_METHODS = {
    "BatchExecuteStatement": "batch_execute_statement",
    "BatchWriteItem": "batch_write_item",
    "DeleteItem": "delete_item",
    "PutItem": "put_item",
    "UpdateItem": "update_item",
}


class BotoTransport:
    """Writes to one table through a boto3 client. Thread-safe."""

    def __init__(self, client: DynamoDBClient, requests: ModeRequests) -> None:
        self._client = client
        self._requests = requests

    def send(self, items: Sequence[ItemOrKey]) -> Answer:
        """Write rows with different keys in one request."""
        requests, rows = self._requests, len(items)
        call: Callable[..., Any] = getattr(self._client, _CLIENT_METHODS[requests.operation(rows)])
        try:
            response: Any = call(**requests.parameters(list(map(to_client, items))))
        except (AttributeError, LookupError, TypeError, ValueError):
            # botocore raises these for a body that is JSON but not an object, or not text at all.
            return Unsure(NOT_DYNAMODB)
        except Exception as error:
            failure = classify_failure(error)
            if failure is None:
                raise
            failure = replace(failure, item=of_client(failure.item))
            return requests.failed(failure, rows, lambda: items)
        if isinstance(response, Mapping) and response.get("UnprocessedItems"):
            response = of_client(response)
        return requests.accepted(response, rows, lambda: items)


class RawTransport:
    """Signs requests for one table and interprets their responses; `EventLoopDriver` sends them."""

    def __init__(self, signer: DynamoDBSigner, requests: ModeRequests) -> None:
        self._signer = signer
        self._requests = requests
        # By the request's rows and the response's body. Nearly all responses are alike: all was
        # written, for the same units.
        self._cached_answers: dict[tuple[int, bytes], Answer] = {}

    def connect(self, connections: int) -> HttpLoop:
        """Open an event loop with this many connections. The caller closes it."""
        return self._signer.connect(connections)

    def request(self, body: bytes, rows: int) -> tuple[bytes, int]:
        """Sign a request; return it with the generation of the credentials, for `answer`."""
        request = self._signer.request(self._requests.operation(rows), body)
        return request, self._signer.generation

    def answer(
        self, outcome: Response | RequestLost, generation: int, rows: int, items: SentItems
    ) -> Answer:
        """Interpret the outcome of a request that wrote `rows` rows, which are `items`."""
        if isinstance(outcome, RequestLost):
            return Unsure(outcome.reason)
        failure = failure_of_response(outcome)
        if failure is not None:
            if self._signer.may_pass(failure, outcome.headers, generation):
                return Unsure(failure.code, refused=True)
            return self._requests.failed(failure, rows, items)
        body = outcome.body
        answer = self._cached_answers.get((rows, body))
        if answer is None:
            try:
                response = json.loads(body)
            except (ValueError, RecursionError):
                return Unsure(NOT_DYNAMODB)
            answer = self._requests.accepted(response, rows, items)
            all_written = isinstance(answer, Accepted) and answer.is_complete
            if all_written and len(self._cached_answers) < _MAX_CACHED_ANSWERS:
                self._cached_answers[rows, body] = answer
        return answer


def transport_for(
    options: Options, clients: Clients, requests: ModeRequests
) -> BotoTransport | RawTransport:
    """Make the transport of a run's engine."""
    if options.engine == ASYNC:
        return RawTransport(clients.dynamodb_signer, requests)
    return BotoTransport(clients.dynamodb, requests)
