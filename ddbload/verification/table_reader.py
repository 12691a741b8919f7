"""Read a table's items with concurrent Scan or BatchGetItem requests, at a limited rate.

Only complete answers of DynamoDB count: a segment ends with an answer without LastEvaluatedKey, and
a key is missing only if its answer has neither its item nor the key in UnprocessedKeys.
"""

from __future__ import annotations

import json
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import AwsFailure, FailureKind, classify_failure
from ddbload.aws.retry import RetryPolicy
from ddbload.dynamodb.item_equality import ItemDigests, to_client
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.errors import ServiceUnavailable, TableNotFound
from ddbload.records import Record
from ddbload.write.pacing.pacing import TokenBucket

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

IN_FLIGHT = 8
"""Maximum requests in flight, including answers that were not processed yet."""
PAGE_BYTES = 1024 * 1024
"""Bytes of items after which DynamoDB ends a page: 1 MB."""
PAGE_ITEMS = 5_000
"""Maximum items per page of a scan, so that pages of tiny items take little memory."""
BATCH_KEYS = 100
"""Maximum keys per BatchGetItem request."""
BATCH_BYTES = 1024 * 1024
"""Bytes of items per BatchGetItem request, estimated from the size of an average item."""
READ_UNIT_BYTES = 4096
"""Bytes covered by one strongly consistent read unit."""
UNSURE_ATTEMPTS = 10
"""Consecutive attempts at a request that gets no answer, or one not from DynamoDB."""
THROTTLED_ATTEMPTS = 100
"""Consecutive attempts at a throttled request: about four minutes."""
_PAUSE_SECONDS = 0.5
_UNITS_PER_REQUEST = 50.0
"""Read units per second for each request in flight, if the rate is limited."""

_METHODS = {"Scan": "scan", "BatchGetItem": "batch_get_item"}

Items = list[dict[str, Any]]
RawCall = Callable[[str, Mapping[str, Any]], bytes]
"""Function that sends a `Scan` or `BatchGetItem` request and returns the body of the answer."""


def raw_reads(client: DynamoDBClient) -> RawCall:
    """Make calls of botocore's client return answers as bytes. Raises botocore's errors.

    Parsing an answer in botocore takes several times longer than everything else.
    """

    def keep_body(**event: Any) -> None:
        response = event["response_dict"]
        if event["operation_model"].name in _METHODS and response["status_code"] < 300:
            event["customized_response_dict"]["Body"] = response["body"]
            response["body"] = b"{}"

    # Registered last, because other handlers check the body.
    client.meta.events.register_last("before-parse.dynamodb", keep_body)
    return lambda operation, params: getattr(client, _METHODS[operation])(**params)["Body"]


@dataclass(slots=True)
class ReadUsage:
    """Number of requests of a comparison, and their consumption."""

    requests: int = 0
    throttled: int = 0
    """Answers that throttled a whole request or some of its keys."""
    units: float = 0.0
    """Consumed read units, as reported by DynamoDB."""


class _Request(Record):
    """Request for a page of a scan's segment, or for a batch of keys."""

    operation: str
    params: Mapping[str, Any]
    attempts: int = 0
    """Consecutive attempts without progress."""


class TableReader:
    """Reader of one table."""

    def __init__(
        self,
        call: RawCall,
        table: str,
        digests: ItemDigests,
        *,
        consistent: bool,
        units_per_second: float | None,
        item_bytes: float,
        policy: RetryPolicy,
        clock: Callable[[], float],
    ) -> None:
        """Make a reader.

        Args:
            call: Function that sends a request.
            table: Name of the table.
            digests: Digester that knows the table's keys.
            consistent: Use strongly consistent reads.
            units_per_second: Maximum read units per second; None for no limit.
            item_bytes: Estimated size of an average item.
            policy: Retry policy: back-off, and when to give up.
            clock: Function that returns seconds.
        """
        self.usage = ReadUsage()
        self._call, self._table, self._doing = call, table, f"reading table {table}"
        self._consistent, self._rate = consistent, units_per_second
        self.key_text = digests.key_text
        self._stopped = threading.Event()
        self._sleep = policy.sleep
        self._policy = replace(
            policy,
            sleep=self._pause,
            give_up=lambda: self._stopped.is_set() or policy.give_up(),
        )
        self._clock = clock
        self._bucket, self._lock = TokenBucket(clock()), threading.Lock()
        self._item_bytes = max(1.0, item_bytes)
        self._unit_bytes = READ_UNIT_BYTES * (1 if consistent else 2)
        # Read units per scanned item, updated from the answers.
        self._item_units = self._item_bytes / self._unit_bytes

    @property
    def in_flight(self) -> int:
        """Maximum number of requests in flight."""
        if self._rate is None:
            return IN_FLIGHT
        return max(1, min(IN_FLIGHT, int(self._rate / _UNITS_PER_REQUEST)))

    def scan(self, segments: int) -> Iterator[Items]:
        """Yield all items, one page at a time.

        `segments`: number of segments of the parallel scan. Raises `TableNotFound`, `AccessDenied`,
        `ServiceUnavailable` and AWS's other errors.
        """
        base: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": self._consistent,
            "ReturnConsumedCapacity": "TOTAL",
        }
        several = [{"Segment": each, "TotalSegments": segments} for each in range(segments)]
        yield from self._read_all(_Request("Scan", {**base, **each}) for each in several)

    def get(self, keys: Iterable[Mapping[str, Any]]) -> Iterator[Items]:
        """Yield the items with these distinct keys, some at a time.

        Keys that are not in the table yield nothing. Raises the same errors as `scan`.
        """
        size = max(1, min(BATCH_KEYS, int(BATCH_BYTES / self._item_bytes)))
        left = iter(keys)
        batches = iter(lambda: list(islice(left, size)), [])
        yield from self._read_all(map(self._batch_request, batches))

    def _batch_request(self, keys: Sequence[Mapping[str, Any]], attempts: int = 0) -> _Request:
        wanted = {"Keys": keys, "ConsistentRead": self._consistent}
        params = {"RequestItems": {self._table: wanted}, "ReturnConsumedCapacity": "TOTAL"}
        return _Request("BatchGetItem", params, attempts)

    def _read_all(self, requests: Iterator[_Request]) -> Iterator[Items]:
        later: deque[_Request] = deque()
        flying: dict[Future[bytes], _Request] = {}
        executor = ThreadPoolExecutor(self.in_flight, initializer=_leave_signals_to_main)

        def send_more() -> None:
            while len(flying) < self.in_flight:
                # Continue segments that have begun before starting others.
                request = later.popleft() if later else next(requests, None)
                if request is None:
                    return
                flying[executor.submit(self._send, request)] = request

        try:
            send_more()
            while flying:
                done, _ = wait(flying, return_when=FIRST_COMPLETED)
                for future in done:
                    items, again = self._read_answer(flying.pop(future), future.result())
                    if again is not None:
                        later.append(again)
                    send_more()
                    if items:
                        yield items
        except BaseException:
            self._stopped.set()
            raise
        finally:
            executor.shutdown(wait=False, cancel_futures=True)

    # Called by threads.

    def _send(self, request: _Request) -> bytes:
        if request.attempts:
            self._pause(self._policy.pause(request.attempts))
        # A throttled request is retried far more often than one that gets no answer.
        attempts = dict.fromkeys(FailureKind, request.attempts)
        while True:
            params, charge = self._params(request)
            self._wait_turn(charge)
            try:
                body = self._call(request.operation, params)
            except Exception as error:
                failure = classify_failure(error)
                if failure is None:
                    raise
                self._charge(-charge)
                attempts[failure.kind] += 1
                self._wait_after(failure, attempts[failure.kind], request.operation)
            else:
                self._charge(-charge)
                with self._lock:
                    self.usage.requests += 1
                return body

    def _pause(self, seconds: float) -> None:
        """Sleep in short steps, so that Ctrl-C takes effect during a long pause."""
        while seconds > 0 and not self._stopped.is_set():
            self._sleep(min(seconds, _PAUSE_SECONDS))
            seconds -= _PAUSE_SECONDS

    def _params(self, request: _Request) -> tuple[dict[str, Any], float]:
        """Return the request's parameters for botocore, and an estimate of its read units."""
        params, rate = dict(request.params), self._rate
        if request.operation == "Scan":
            most, items = PAGE_BYTES / self._unit_bytes, PAGE_ITEMS
            if rate is not None:
                # A page takes at most one second's units; a larger one would starve other readers.
                most = min(most, max(1.0, rate / self.in_flight))
                items = max(1, min(items, int(most / self._item_units)))
            if "ExclusiveStartKey" in params:
                params["ExclusiveStartKey"] = to_client(params["ExclusiveStartKey"])
            return {**params, "Limit": items}, min(most, items * self._item_units)
        wanted = params["RequestItems"][self._table]
        keys = [to_client(key) for key in wanted["Keys"]]
        params["RequestItems"] = {self._table: {**wanted, "Keys": keys}}
        each = max(1.0, self._item_bytes / READ_UNIT_BYTES) * (1.0 if self._consistent else 0.5)
        return params, len(keys) * each

    def _wait_turn(self, charge: float) -> None:
        """Wait until the rate allows another request, and charge it."""
        if self._rate is None:
            return
        with self._lock:
            now = self._clock()
            pause = self._bucket.ready_at(self._rate, now) - now
            self._bucket.take(charge)
        if pause > 0:
            self._pause(pause)

    def _charge(self, units: float) -> None:
        if self._rate is not None:
            with self._lock:
                self._bucket.take(units)

    def _wait_after(self, failure: AwsFailure, attempt: int, operation: str) -> None:
        """Wait after a failed attempt. Raises the named error if a retry cannot help."""
        throttled = failure.kind is FailureKind.THROTTLED
        with self._lock:
            self.usage.requests += 1
            self.usage.throttled += throttled
        policy = replace(
            self._policy, attempts=THROTTLED_ATTEMPTS if throttled else UNSURE_ATTEMPTS
        )
        policy.wait(failure, attempt, f"{self._doing} (dynamodb:{operation})", self._expected)

    def _expected(self, failure: AwsFailure) -> Exception | None:
        if failure.code == "ResourceNotFoundException":
            return TableNotFound(f"table {self._table} is not there any more")
        return None

    # Called by the thread that consumes the items.

    def _read_answer(self, request: _Request, body: bytes) -> tuple[Items, _Request | None]:
        """Decode an answer; return its items, and the request for the rest, if any."""
        read = self._read_page if request.operation == "Scan" else self._read_batch
        try:
            answer = json.loads(body)
            items, again, units = read(request, answer)
        except (AttributeError, BadValue, LookupError, TypeError, ValueError, RecursionError):
            # Damaged, or not from DynamoDB: must not count as the end of a segment or as missing
            # keys.
            if request.attempts + 1 >= UNSURE_ATTEMPTS:
                raise ServiceUnavailable(
                    f"{self._doing}: the answer is not from DynamoDB; check the endpoint"
                ) from None
            return [], replace(request, attempts=request.attempts + 1)
        self._charge(units)
        self.usage.units += units
        return items, again

    def _read_page(
        self, request: _Request, answer: Mapping[str, Any]
    ) -> tuple[Items, _Request | None, float]:
        items: Items = answer["Items"]
        if len(items) != answer["Count"]:
            raise ValueError
        units = float(answer.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0))
        if items and units:
            self._item_units = units / len(items)
        last = answer.get("LastEvaluatedKey")
        if not last:
            return items, None, units
        before = request.params.get("ExclusiveStartKey")
        key = self.key_text(last)
        if before is not None and key == self.key_text(before):
            # The scan would never end.
            raise ValueError
        params = {**request.params, "ExclusiveStartKey": last}
        return items, _Request(request.operation, params), units

    def _read_batch(
        self, request: _Request, answer: Mapping[str, Any]
    ) -> tuple[Items, _Request | None, float]:
        key_text = self.key_text
        asked = {key_text(key): key for key in request.params["RequestItems"][self._table]["Keys"]}
        # Every answer of DynamoDB has both fields.
        items: Items = answer["Responses"].get(self._table, [])
        left = answer["UnprocessedKeys"].get(self._table, {}).get("Keys", [])
        found, undone = [key_text(item) for item in items], [key_text(key) for key in left]
        answered = {*found, *undone}
        if len(answered) != len(found) + len(undone) or not answered <= asked.keys():
            raise ValueError
        used = answer.get("ConsumedCapacity") or ()
        units = sum(float(each.get("CapacityUnits", 0.0)) for each in used)
        if not undone:
            return items, None, units
        self.usage.throttled += 1
        attempts = 1 if len(undone) < len(asked) else request.attempts + 1
        if attempts >= THROTTLED_ATTEMPTS:
            raise ServiceUnavailable(
                f"{self._doing}: DynamoDB returns all keys unprocessed; the table is throttled,"
                " try again later or with a lower --max-rcu"
            )
        return items, self._batch_request([asked[key] for key in undone], attempts), units


def _leave_signals_to_main() -> None:
    """Block signals in this thread, so that they interrupt the main thread."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
