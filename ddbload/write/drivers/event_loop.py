"""Requests as bytes: what goes over a connection, and what came back means."""

from __future__ import annotations

import json
from functools import partial

from ddbload.aws import boto_clients
from ddbload.aws.failures import failure_of_response
from ddbload.aws.http_client.event_loop import HttpLoop
from ddbload.aws.http_client.exchange import RequestLost, Timeouts
from ddbload.aws.http_client.http1 import Response
from ddbload.aws.signing.dynamodb_signer import DynamoDBSigner
from ddbload.write.drivers.driver import Job
from ddbload.write.requests import Items, ModeRequests
from ddbload.write.scheduler.messages import Accepted, Answer, Finished, Unsure, Wait

FIRST_BYTE_SECONDS = 10.0
"""An answer that has not begun by then is taken for lost."""
_KNOWN = 100
"""How many answers are kept, to be known again."""


class RawTransport:
    """Writes to one table, for whoever sends the bytes."""

    def __init__(self, identity: DynamoDBSigner, requests: ModeRequests) -> None:
        self._identity = identity
        self._requests = requests
        # Nearly all answers are the same: that all was written, for so many units.
        self._known: dict[bytes, Answer] = {}

    def connect(self, connections: int) -> HttpLoop:
        """Where requests are sent. The caller closes it."""
        most = float(boto_clients.READ_SECONDS)
        timeouts = Timeouts(
            connect=boto_clients.CONNECT_SECONDS,
            first_byte=min(FIRST_BYTE_SECONDS, most),
            whole=most,
        )
        identity = self._identity
        return HttpLoop(identity.endpoint, connections, identity.tls(), timeouts=timeouts)

    def request(self, body: bytes) -> tuple[bytes, int]:
        """The whole request, signed now; and how it is signed, for `answer`."""
        request = self._identity.request(self._requests.operation, body)
        return request, self._identity.generation

    def answer(self, outcome: Response | RequestLost, signed: int, items: Items) -> Answer:
        """What came of a request. `items`: what it was to write."""
        if isinstance(outcome, RequestLost):
            return Unsure(outcome.reason)
        meant = failure_of_response(outcome)
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


class EventLoopDriver:
    """Up to `concurrency` requests under way."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._loop: HttpLoop | None = None

    def run(self, job: Job[RawTransport]) -> None:
        """Return when the scheduler is finished."""
        if self._loop is None:
            self._loop = job.transport.connect(self._concurrency)
        loop = self._loop
        finished = False
        try:
            while True:
                step = job.step()
                match step:
                    case Finished():
                        finished = True
                        return
                    case Wait():
                        _take(job, loop, job.pause(step))
                    case batch:
                        request, signed = job.transport.request(job.body(batch.handles))
                        loop.send((batch, signed), request)
        finally:
            if not finished:
                # What is under way may still be carried out; its answers are for nobody.
                self.close()

    def close(self) -> None:
        """Close all connections."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None


def _take(job: Job[RawTransport], loop: HttpLoop, pause: float) -> None:
    """Hand the scheduler what has come, waiting up to `pause` seconds for the first."""
    for (batch, signed), outcome in loop.wait(pause):
        if isinstance(outcome, Response) and outcome.resent:
            job.scheduler.note_resent(batch)
        answer = job.transport.answer(outcome, signed, partial(job.items, batch.handles))
        job.scheduler.answered(batch, answer, job.clock())
