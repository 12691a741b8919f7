"""Driver that sends signed HTTP requests from one thread, over its own connections."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Protocol

from ddbload.aws import boto_clients
from ddbload.aws.failures import failure_of_response
from ddbload.aws.http_client.event_loop import FIRST_BYTE_SECONDS, HttpLoop, RequestLost, Timeouts
from ddbload.aws.http_client.http1 import Response
from ddbload.aws.signing.json_signer import JsonSigner
from ddbload.write.drivers.driver import FollowUp, Job
from ddbload.write.requests import ModeRequests, SentItems
from ddbload.write.scheduler.messages import Accepted, Answer, Finished, Unsure, Wait

_MAX_CACHED_ANSWERS = 100


class LoopTransport(Protocol):
    """Signs requests and interprets their answers; `EventLoopDriver` sends them."""

    def connect(self, connections: int) -> HttpLoop:
        """Open an event loop with this many connections. The caller closes it."""

    def request(self, body: Any, rows: int) -> tuple[bytes, Any]:
        """Sign a request for what `Job.body` built; return it with the state for `answer`."""

    def answer(
        self, outcome: Response | RequestLost, state: Any, rows: int, items: SentItems
    ) -> Answer | FollowUp:
        """Interpret the outcome of a request for `rows` rows, which are `items`.

        A `FollowUp` is sent at once, and its outcome interpreted in turn.
        """


class RawTransport:
    """Signs a target's requests and interprets their responses; `EventLoopDriver` sends them."""

    def __init__(self, signer: JsonSigner, requests: ModeRequests) -> None:
        self._signer = signer
        self._requests = requests
        # By the request's rows and the response's body. Nearly all responses are alike: all was
        # written, for the same units.
        self._cached_answers: dict[tuple[int, bytes], Answer] = {}

    def connect(self, connections: int) -> HttpLoop:
        """Open an event loop with this many connections. The caller closes it."""
        whole = float(boto_clients.READ_SECONDS)
        timeouts = Timeouts(
            connect=boto_clients.CONNECT_SECONDS,
            first_byte=min(FIRST_BYTE_SECONDS, whole),
            whole=whole,
        )
        signer = self._signer
        return HttpLoop(signer.endpoint, connections, signer.tls(), timeouts=timeouts)

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
                return Unsure("an answer that is not DynamoDB's")
            answer = self._requests.accepted(response, rows, items)
            all_written = isinstance(answer, Accepted) and answer.is_complete
            if all_written and len(self._cached_answers) < _MAX_CACHED_ANSWERS:
                self._cached_answers[rows, body] = answer
        return answer


class EventLoopDriver:
    """Driver of `--engine async`: up to `concurrency` requests in flight, all in one thread."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._loop: HttpLoop | None = None

    def run(self, job: Job[LoopTransport]) -> None:
        """Run a job until its scheduler is finished."""
        if self._loop is None:
            self._loop = job.transport.connect(self._concurrency)
        loop = self._loop
        finished = False
        try:
            while True:
                step = job.step()
                match step:
                    case Finished():
                        # After a stop there may be requests that nobody waits for.
                        finished = loop.free() == self._concurrency
                        return
                    case Wait():
                        _process_answers(job, loop, job.pause(step))
                    case batch:
                        request, state = job.transport.request(
                            job.body(batch.handles), len(batch.handles)
                        )
                        loop.send((batch, state), request)
        finally:
            if not finished:
                # The answers of requests in flight must not reach the next job.
                self.close()

    def close(self) -> None:
        """Close all connections."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None


def _process_answers(job: Job[LoopTransport], loop: HttpLoop, pause: float) -> None:
    """Pass answers to the scheduler; wait up to `pause` seconds for the first one."""
    for (batch, state), outcome in loop.wait(pause):
        if isinstance(outcome, Response) and outcome.resent:
            job.scheduler.note_resent(batch)
        handles = batch.handles
        items = partial(job.items, handles)
        answer = job.transport.answer(outcome, state, len(handles), items)
        if isinstance(answer, FollowUp):
            # The connection of the answered request is free.
            loop.send((batch, answer.state), answer.request)
            continue
        job.scheduler.answered(batch, answer, job.clock())
