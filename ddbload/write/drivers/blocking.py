"""Drivers that send through a boto3 client: one request at a time, or several in threads."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import classify_failure
from ddbload.dynamodb.item_equality import of_client, to_client
from ddbload.write.drivers.driver import Job, Transport
from ddbload.write.requests import ItemOrKey, ModeRequests
from ddbload.write.scheduler.messages import Answer, Batch, Finished, Unsure, Wait

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


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
            return Unsure("an answer that is not DynamoDB's")
        except Exception as error:
            failure = classify_failure(error)
            if failure is None:
                raise
            failure = replace(failure, item=of_client(failure.item))
            return requests.failed(failure, rows, lambda: items)
        if isinstance(response, Mapping) and response.get("UnprocessedItems"):
            response = of_client(response)
        return requests.accepted(response, rows, lambda: items)


class QueueTransport:
    """Sends messages to one SQS queue through a boto3 client. Thread-safe."""

    def __init__(self, client: Any, requests: ModeRequests) -> None:
        self._client = client
        self._requests = requests

    def send(self, items: Sequence[ItemOrKey]) -> Answer:
        """Send messages in one request."""
        requests, rows = self._requests, len(items)
        try:
            response: Any = self._client.send_message_batch(**requests.parameters(items))
        except (AttributeError, LookupError, TypeError, ValueError):
            # As in `BotoTransport`.
            return Unsure("an answer that is not SQS's")
        except Exception as error:
            failure = classify_failure(error)
            if failure is None:
                raise
            return requests.failed(failure, rows, lambda: items)
        return requests.accepted(response, rows, lambda: items)


class SyncDriver:
    """Driver of `--engine sync`: sends one request at a time in the caller's thread."""

    def run(self, job: Job[Transport]) -> None:
        """Run a job until its scheduler is finished."""
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
        """Do nothing: there are no threads or connections to end."""


class ThreadsDriver:
    """Driver of `--engine threads`: up to `concurrency` requests in flight, each in a thread."""

    def __init__(self, concurrency: int) -> None:
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="write")

    def run(self, job: Job[Transport]) -> None:
        """Run a job until its scheduler is finished."""
        answers: queue.SimpleQueue[tuple[Batch, Answer | BaseException]] = queue.SimpleQueue()

        def send(batch: Batch, items: Sequence[ItemOrKey]) -> None:
            try:
                answers.put((batch, job.transport.send(items)))
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                answers.put((batch, error))

        in_flight: set[Future[None]] = set()
        try:
            while True:
                step = job.step()
                match step:
                    case Finished():
                        return
                    case Wait():
                        self._process_answers(job, answers, job.pause(step))
                    case batch:
                        future = self._pool.submit(send, batch, job.items(batch.handles))
                        in_flight.add(future)
                        future.add_done_callback(in_flight.discard)
                        self._process_answers(job, answers, 0.0)
        finally:
            # Also after an exception: the next job may write the same keys.
            wait(set(in_flight))

    def close(self) -> None:
        """End the threads after their requests are answered."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    @staticmethod
    def _process_answers(
        job: Job[Transport],
        answers: queue.SimpleQueue[tuple[Batch, Answer | BaseException]],
        pause: float,
    ) -> None:
        """Pass answers to the scheduler; wait up to `pause` seconds for the first one."""
        try:
            batch, answer = answers.get(timeout=pause) if pause > 0 else answers.get_nowait()
            while True:
                if isinstance(answer, BaseException):
                    raise answer
                job.scheduler.answered(batch, answer, job.clock())
                batch, answer = answers.get_nowait()
        except queue.Empty:
            return
