"""Requests through a boto3 client."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import classify_failure
from ddbload.dynamodb.item_equality import of_client, to_client
from ddbload.write.drivers.driver import Job, Transport
from ddbload.write.requests import ModeRequests, PutItem
from ddbload.write.scheduler.messages import Answer, Batch, Finished, Unsure, Wait

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


_METHODS = {"BatchWriteItem": "batch_write_item", "PutItem": "put_item"}


class BotoTransport:
    """Writes to one table. Thread-safe, as its client is."""

    def __init__(self, client: DynamoDBClient, requests: ModeRequests) -> None:
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
            meant = classify_failure(error)
            if meant is None:
                raise
            return requests.failed(replace(meant, item=of_client(meant.item)), lambda: items)
        if isinstance(response, Mapping) and response.get("UnprocessedItems"):
            response = of_client(response)
        return requests.accepted(response, lambda: items)


class SyncDriver:
    """Sends in the caller's own thread."""

    def run(self, job: Job[Transport]) -> None:
        """Return when the scheduler is finished."""
        while True:
            step = job.step()
            match step:
                case Finished():
                    return
                case Wait():
                    job.sleep(job.pause(step))
                case batch:
                    answer = job.transport.send(job.items(batch.handles))
                    job.scheduler.answered(batch, answer, job.clock())

    def close(self) -> None:
        """Nothing to end."""


class ThreadsDriver:
    """Up to `concurrency` requests under way."""

    def __init__(self, concurrency: int) -> None:
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="write")

    def run(self, job: Job[Transport]) -> None:
        """Return when the scheduler is finished."""
        answers: queue.SimpleQueue[tuple[Batch, Answer | BaseException]] = queue.SimpleQueue()

        def send(batch: Batch, items: Sequence[PutItem]) -> None:
            try:
                answers.put((batch, job.transport.send(items)))
            except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
                answers.put((batch, error))

        under_way: set[Future[None]] = set()
        try:
            while True:
                step = job.step()
                match step:
                    case Finished():
                        return
                    case Wait():
                        self._take(job, answers, job.pause(step))
                    case batch:
                        future = self._pool.submit(send, batch, job.items(batch.handles))
                        under_way.add(future)
                        future.add_done_callback(under_way.discard)
                        self._take(job, answers, 0.0)
        finally:
            # Also after an exception: the next job may have rows of the same keys.
            wait(set(under_way))

    def close(self) -> None:
        """End the threads, once their requests are answered."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    @staticmethod
    def _take(
        job: Job[Transport],
        answers: queue.SimpleQueue[tuple[Batch, Answer | BaseException]],
        pause: float,
    ) -> None:
        """Hand the scheduler what has come, waiting up to `pause` seconds for the first."""
        try:
            batch, answer = answers.get(timeout=pause) if pause > 0 else answers.get_nowait()
            while True:
                if isinstance(answer, BaseException):
                    raise answer
                job.scheduler.answered(batch, answer, job.clock())
                batch, answer = answers.get_nowait()
        except queue.Empty:
            return
