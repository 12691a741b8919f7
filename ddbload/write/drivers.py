"""Drivers: feed rows to the scheduler, send its requests, and report their answers to it.

A driver sends through a loop with up to `concurrency` requests in flight. With `--engine async` the
loop is an `HttpLoop`: one thread with its own connections. Otherwise it is a `ThreadLoop`: threads
that call botocore. The engine's transport makes the requests and interprets the loop's results.
"""

from __future__ import annotations

import json
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import classify_failure, failure_of_response
from ddbload.aws.http_client.event_loop import HttpLoop, RequestLost
from ddbload.aws.http_client.http1 import Response
from ddbload.contracts.options import ASYNC, SYNC, Options
from ddbload.dynamodb.item_equality import of_client, to_client
from ddbload.records import Record
from ddbload.write.requests import NOT_DYNAMODB, ItemOrKey, SentItems, WriteRequests
from ddbload.write.scheduler.answers import Answer, Batch, Finished, Unsure, Wait
from ddbload.write.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from ddbload.aws.clients import Clients
    from ddbload.aws.signing.signers import DynamoDBSigner

DRIVER_POLL_SECONDS = 0.2
"""Maximum seconds that a driver sleeps between calls of `should_stop`."""


class Job(Record):
    """Job of writing one byte range, with its scheduler, rows and transport."""

    scheduler: Scheduler
    feed: Callable[[int], bool]
    """Function that adds up to this many rows to the scheduler; false after the last row."""
    items: Callable[[Sequence[int]], Sequence[ItemOrKey]]
    """Function that builds the items, or the keys to delete, of the rows with these handles."""
    body: Callable[[Sequence[int]], bytes]
    """Function that builds the body of the request that writes these rows."""
    transport: Any
    """`BotoTransport` or `RawTransport` of the engine."""
    should_stop: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def step(self) -> Batch | Wait | Finished:
        """Feed the scheduler until a request is full or there is no room; return the next step."""
        scheduler = self.scheduler
        while True:
            # Checked before each feed, because a long sequence of rejects never leaves this loop.
            if self.should_stop():
                scheduler.stop()
            elif self.clock() >= scheduler.deadline:
                scheduler.expire()
            room = scheduler.room()
            if room <= 0:
                break
            if not self.feed(room):
                scheduler.close()
            elif scheduler.is_full:
                # Send now: reading more first could delay this request for a long time.
                break
        return scheduler.next(self.clock())

    def pause(self, wait: Wait) -> float:
        """Return the seconds to sleep before the next step, at most `DRIVER_POLL_SECONDS`.

        They are whole milliseconds, rounded up: requests that may go a few microseconds after one
        another are sent by one step.
        """
        left = DRIVER_POLL_SECONDS if wait.until is None else wait.until - self.clock()
        return min(math.ceil(max(left, 0.0) * 1000) / 1000, DRIVER_POLL_SECONDS)


class Driver:
    """Driver of all engines. It runs one job after the other. The caller closes it at the end."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._loop: Any = None
        self._in_flight = 0

    def run(self, job: Job) -> None:
        """Run a job until its scheduler is finished."""
        if self._loop is None:
            self._loop = job.transport.connect(self._concurrency)
        transport = job.transport
        try:
            while True:
                step = job.step()
                match step:
                    case Finished():
                        break
                    case Wait() if self._in_flight:
                        self._pass_answers(job, job.pause(step))
                    case Wait():
                        job.sleep(job.pause(step))
                    case batch:
                        handles = batch.handles
                        request, generation = transport.request(job.body(handles), len(handles))
                        self._loop.send((batch, generation), request)
                        self._in_flight += 1
        except BaseException:
            # The answers of requests in flight must not reach the next job.
            self.close()
            raise
        if self._in_flight:
            # After a stop, requests may be in flight whose answers are not awaited.
            self._loop.abandon()
            self._loop, self._in_flight = None, 0

    def close(self) -> None:
        """Close all connections, or end the threads once their requests are answered."""
        if self._loop is not None:
            self._loop.close()
            self._loop, self._in_flight = None, 0

    def _pass_answers(self, job: Job, pause: float) -> None:
        """Report answers to the scheduler; wait up to `pause` seconds for the first one."""
        for (batch, generation), outcome in self._loop.wait(pause):
            self._in_flight -= 1
            if isinstance(outcome, Response) and outcome.resent:
                job.scheduler.note_resent(batch)
            handles = batch.handles
            items = partial(job.items, handles)
            answer = job.transport.answer(outcome, generation, len(handles), items)
            job.scheduler.answered(batch, answer, job.clock())


def _work(calls: queue.SimpleQueue[Any], outcomes: queue.SimpleQueue[Any]) -> None:
    while (given := calls.get()) is not None:
        token, call = given
        try:
            outcomes.put((token, call()))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            outcomes.put((token, error))


class ThreadLoop:
    """Threads that make calls and return their results, with the interface of `HttpLoop`."""

    def __init__(self, threads: int) -> None:
        """Prepare up to `threads` threads, each with one call in flight. They start on demand."""
        self._limit = threads
        self._threads: list[threading.Thread] = []
        self._in_flight = 0
        # None ends a thread.
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def send(self, token: Any, call: Callable[[], Any]) -> None:
        """Start a call. `wait` returns its result once, with `token`."""
        self._in_flight += 1
        if len(self._threads) < min(self._in_flight, self._limit):
            # Daemon threads, so that the process can end without waiting for answers.
            given = (self._calls, self._outcomes)
            thread = threading.Thread(target=_work, args=given, name="write", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._calls.put((token, call))

    def wait(self, seconds: float) -> list[tuple[Any, Any]]:
        """Wait for results, at most `seconds`; return pairs of token and result.

        The list may be empty. The result of a call that raised is the exception.
        """
        found: list[tuple[Any, Any]] = []
        with suppress(queue.Empty):
            while self._in_flight:
                block = seconds > 0 and not found
                found.append(self._outcomes.get(block, seconds if block else None))
                self._in_flight -= 1
        return found

    def abandon(self) -> None:
        """Let the threads end after their current calls, whose results are dropped."""
        for _ in self._threads:
            self._calls.put(None)

    def close(self) -> None:
        """End the threads after their calls, because the next job may write the same keys."""
        self.abandon()
        for thread in self._threads:
            thread.join()


class BotoTransport:
    """Transport that writes to one table through a boto3 client. Thread-safe."""

    connect = ThreadLoop

    def __init__(self, client: DynamoDBClient, requests: WriteRequests) -> None:
        self._client = client
        self._requests = requests

    def request(self, body: bytes, rows: int) -> tuple[Callable[[], Any], int]:
        """Return a function that sends a body; see `RawTransport.request`."""
        return partial(self._call, self._requests.operation(rows), body), 0

    def answer(self, outcome: Any, _generation: int, rows: int, items: SentItems) -> Answer:
        """Interpret the result of a call that wrote `rows` rows. `items`: builds these again."""
        if isinstance(outcome, AttributeError | LookupError | TypeError | ValueError):
            # botocore raises these for a body that is JSON but not an object, or not text at all.
            return Unsure(NOT_DYNAMODB)
        if isinstance(outcome, BaseException):
            failure = classify_failure(outcome) if isinstance(outcome, Exception) else None
            if failure is None:
                raise outcome
            failure = replace(failure, item=of_client(failure.item))
            return self._requests.failed(failure, rows, items)
        if isinstance(outcome, Mapping) and outcome.get("UnprocessedItems"):
            outcome = of_client(outcome)
        return self._requests.accepted(outcome, rows, items)

    def _call(self, operation: str, body: bytes) -> Any:
        # Imported here: few runs send by botocore.
        from botocore import xform_name

        parameters = json.loads(body)
        if b'"B' in body:
            parameters = to_client(parameters)
        return getattr(self._client, xform_name(operation))(**parameters)


class RawTransport:
    """Transport that signs requests for one table; an `HttpLoop` sends them."""

    def __init__(self, signer: DynamoDBSigner, requests: WriteRequests) -> None:
        self._signer = signer
        self._requests = requests

    def connect(self, connections: int) -> HttpLoop:
        """Open an event loop with this number of connections. The caller closes it."""
        return self._signer.connect(connections)

    def request(self, body: bytes, rows: int) -> tuple[bytes, int]:
        """Sign a request; return it with the generation of the credentials, for `answer`."""
        request = self._signer.request(self._requests.operation(rows), body)
        return request, self._signer.generation

    def answer(
        self, outcome: Response | RequestLost, generation: int, rows: int, items: SentItems
    ) -> Answer:
        """Interpret the result of a request that wrote `rows` rows. `items`: builds these again."""
        if isinstance(outcome, RequestLost):
            return Unsure(outcome.reason)
        failure = failure_of_response(outcome)
        if failure is not None:
            if self._signer.may_pass(failure, outcome.headers, generation):
                return Unsure(failure.code, refused=True)
            return self._requests.failed(failure, rows, items)
        try:
            response = json.loads(outcome.body)
        except (ValueError, RecursionError):
            return Unsure(NOT_DYNAMODB)
        return self._requests.accepted(response, rows, items)


def transport_for(
    options: Options, clients: Clients, requests: WriteRequests
) -> BotoTransport | RawTransport:
    """Make the transport of a run's engine."""
    if options.engine == ASYNC:
        return RawTransport(clients.dynamodb_signer, requests)
    return BotoTransport(clients.dynamodb, requests)


def concurrency_for(options: Options) -> int:
    """Return the maximum number of requests in flight."""
    return 1 if options.engine == SYNC else options.concurrency
