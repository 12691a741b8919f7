"""Requests as bytes: what goes over a connection, and what came back means."""

from __future__ import annotations

import json

from ddbload.aws_http import clients
from ddbload.aws_http.exchange import Lost, Timeouts
from ddbload.aws_http.failures import of_response
from ddbload.aws_http.http1 import Response
from ddbload.aws_http.identity import Identity
from ddbload.aws_http.loop import HttpLoop
from ddbload.write.requests import Items, Requests
from ddbload.write.steps import Accepted, Answer, Unsure

FIRST_BYTE_SECONDS = 10.0
"""An answer that has not begun by then is taken for lost."""

_KNOWN = 100
"""How many answers are kept, to be known again."""


class Wire:
    """Writes to one table, for whoever sends the bytes."""

    def __init__(self, identity: Identity, requests: Requests) -> None:
        self._identity = identity
        self._requests = requests
        # Nearly all answers are the same: that all was written, for so many units.
        self._known: dict[bytes, Answer] = {}

    def connect(self, connections: int) -> HttpLoop:
        """Where requests are sent. The caller closes it."""
        most = float(clients.READ_SECONDS)
        timeouts = Timeouts(
            connect=clients.CONNECT_SECONDS, first_byte=min(FIRST_BYTE_SECONDS, most), whole=most
        )
        identity = self._identity
        return HttpLoop(identity.endpoint, connections, identity.tls(), timeouts=timeouts)

    def request(self, body: bytes) -> tuple[bytes, int]:
        """The whole request, signed now; and how it is signed, for `answer`."""
        request = self._identity.request(self._requests.operation, body)
        return request, self._identity.generation

    def answer(self, outcome: Response | Lost, signed: int, items: Items) -> Answer:
        """What came of a request. `items`: what it was to write."""
        if isinstance(outcome, Lost):
            return Unsure(outcome.reason)
        meant = of_response(outcome)
        if meant is not None:
            if self._identity.may_pass(meant, outcome.headers, signed):
                return Unsure(meant.code, refused=True)
            return self._requests.failed(meant, items)
        body = outcome.body
        answer = self._known.get(body)
        if answer is None:
            try:
                said = json.loads(body)
            except (ValueError, RecursionError):
                return Unsure("an answer that is not DynamoDB's")
            answer = self._requests.accepted(said, items)
            is_plain = isinstance(answer, Accepted) and not answer.unprocessed
            if is_plain and len(self._known) < _KNOWN:
                self._known[body] = answer
        return answer
