"""Drivers that send through a boto3 client: one request at a time, or several in threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import classify_failure
from ddbload.dynamodb.item_equality import of_client, to_client
from ddbload.write.drivers.driver import DRIVER_POLL_SECONDS, Job, Transport
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


_Task = Callable[[], None]


class ThreadsDriver:
    """Driver of `--engine threads`: up to `concurrency` requests in flight, each in a thread."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._threads: list[threading.Thread] = []
        # None ends a thread.
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._is_closed = False

    def run(self, job: Job[Transport]) -> None:
        """Run a job until its scheduler is finished."""
        if self._is_closed:
            raise RuntimeError("the driver is closed")
        answers: queue.SimpleQueue[tuple[Batch, Answer | BaseException]] = queue.SimpleQueue()
        in_flight = 0

        def send(batch: Batch, items: Sequence[ItemOrKey]) -> None:
            try:
                answers.put((batch, job.transport.send(items)))
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                answers.put((batch, error))

        def process_answers(pause: float) -> None:
            """Pass answers to the scheduler; wait up to `pause` seconds for the first one."""
            nonlocal in_flight
            with suppress(queue.Empty):
                while True:
                    batch, answer = answers.get(timeout=pause) if pause else answers.get_nowait()
                    in_flight -= 1
                    pause = 0.0
                    if isinstance(answer, BaseException):
                        raise answer
                    job.scheduler.answered(batch, answer, job.clock())

        try:
            while True:
                step = job.step()
                match step:
                    case Finished():
                        break
                    case Wait() if in_flight:
                        process_answers(job.pause(step))
                    case Wait():
                        job.sleep(job.pause(step))
                    case batch:
                        self._begin(partial(send, batch, job.items(batch.handles)), in_flight)
                        in_flight += 1
                        # One request at a time: nothing is read while it is in flight.
                        process_answers(DRIVER_POLL_SECONDS if self._concurrency == 1 else 0.0)
        except BaseException:
            # The next job may write the same keys.
            for _ in range(in_flight):
                answers.get()
            raise
        if in_flight:
            self._abandon()

    def close(self) -> None:
        """End the threads after their requests are answered."""
        self._is_closed = True
        threads = self._abandon()
        for thread in threads:
            thread.join()

    def _begin(self, task: _Task, in_flight: int) -> None:
        """Have a thread do a task, beside those that are in flight."""
        if len(self._threads) < min(in_flight + 1, self._concurrency):
            # Daemons, because the end of the process waits for no answer.
            thread = threading.Thread(target=_work, args=(self._tasks,), name="write", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._tasks.put(task)

    def _abandon(self) -> list[threading.Thread]:
        """Let the threads end after their requests, and return them."""
        threads, self._threads = self._threads, []
        tasks, self._tasks = self._tasks, queue.SimpleQueue()
        for _ in threads:
            tasks.put(None)
        return threads


class SyncDriver(ThreadsDriver):
    """Driver of `--engine sync`: sends one request at a time."""

    def __init__(self) -> None:
        super().__init__(1)


def _work(tasks: queue.SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task()
