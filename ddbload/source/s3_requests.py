"""Concurrent S3 requests over the event loop, with retries, and reads of objects by them."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from ddbload.aws.failures import AwsFailure, FailureKind, failure_of_s3_response, redirected_region
from ddbload.aws.http_client.event_loop import RequestLost
from ddbload.aws.http_client.http1 import LEAST_BYTES_PER_SECOND, Response
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy
from ddbload.parallel import map_in_order
from ddbload.records import Record
from ddbload.source.s3_object import (
    RANGE_BYTES,
    BrokenRead,
    Pinned,
    S3Object,
    expected,
    require_range,
    uri_of,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from ddbload.aws.signing.signers import S3Signer


S3_POLL_SECONDS = 0.2
"""Maximum seconds to wait for the network between two checks of a deadline."""


class S3Request(ABC):
    """GET request, or a sequence of them, for one object or listing page."""

    __slots__ = ("failures", "generation")

    def __init__(self) -> None:
        self.failures = 0
        """Number of consecutive failed attempts."""
        self.generation = 0
        """Generation of the credentials that signed the last request."""

    @abstractmethod
    def request(self, signer: S3Signer) -> tuple[bytes, int]:
        """Sign the next request; return its bytes and the generation of the credentials."""

    @abstractmethod
    def doing(self) -> str:
        """Describe the operation for error messages, for example "reading s3://b/k"."""

    @abstractmethod
    def expected(self, failure: AwsFailure) -> Exception | None:
        """Return the named error for a failure with a meaning for this request; else None."""

    def take_partial(self, partial: Response) -> None:  # noqa: B027 - optional
        """Use the received part of an interrupted response. Raises `SourceChanged`."""


class S3RequestLoop:
    """Sender of `S3Request`s to one bucket, which retries failed ones after a back-off."""

    def __init__(self, signer: S3Signer, connections: int, retry_policy: RetryPolicy) -> None:
        """Make the event loop. Raises `AwsConfiguration`."""
        self._signer, self._retry_policy = signer, retry_policy
        self._loop = signer.connect(connections)
        # Heap of requests to retry: time, tie-breaker, request.
        self._waiting: list[tuple[float, int, S3Request]] = []
        self._number = 0

    def free(self) -> int:
        """Return the number of requests that may be sent now."""
        return self._loop.free() - len(self._waiting)

    def send(self, request: S3Request) -> None:
        """Sign and send a request."""
        data, request.generation = request.request(self._signer)
        self._loop.send(request, data)

    def wait(self) -> list[tuple[S3Request, Response]]:
        """Wait for responses, and return the successful ones, if any.

        Raises the named error of a request that failed permanently.
        """
        loop, waiting = self._loop, self._waiting
        pause = S3_POLL_SECONDS
        if waiting:
            now = loop.now()
            while waiting and waiting[0][0] <= now:
                self.send(heapq.heappop(waiting)[2])
            if waiting:
                pause = min(pause, waiting[0][0] - now)
        responses: list[tuple[S3Request, Response]] = []
        for request, outcome in loop.wait(pause):
            if isinstance(outcome, RequestLost):
                self._on_lost(request, outcome)
            elif self._is_success(request, outcome):
                responses.append((request, outcome))
        return responses

    def retry(self, request: S3Request, failure: AwsFailure) -> None:
        """Retry a failed request after a back-off, or raise its named error."""
        request.failures += 1
        self._retry_policy.require_retry(failure, request.failures, request.doing())
        self._number += 1
        at = self._loop.now() + self._retry_policy.pause(request.failures)
        heapq.heappush(self._waiting, (at, self._number, request))

    def close(self) -> None:
        """Close all connections."""
        self._loop.close()

    def _on_lost(self, request: S3Request, lost: RequestLost) -> None:
        partial, failures = lost.partial, request.failures
        if partial is not None and partial.status in (200, 206):
            request.take_partial(partial)
            if lost.reason == "ReadTimeout" and len(partial.body) < LEAST_BYTES_PER_SECOND:
                # Too little to count as progress: a server that sends single bytes would be retried
                # forever.
                request.failures = failures
        self.retry(request, AwsFailure(FailureKind.UNSURE, lost.reason, "the connection failed"))

    def _is_success(self, request: S3Request, response: Response) -> bool:
        failure = failure_of_s3_response(response)
        if failure is None:
            return True
        if self._signer.may_pass(failure, response.headers, request.generation):
            failure = replace(failure, kind=FailureKind.UNSURE)
        redirect = redirected_region(response, self._signer.bucket, self._signer.endpoint.region)
        known = redirect or request.expected(failure)
        if known is not None:
            raise known
        self.retry(request, failure)
        return False


def failure_of_content(error: Exception) -> AwsFailure:
    """Return the failure for a response whose content is not what was requested."""
    return AwsFailure(FailureKind.UNSURE, type(error).__name__, str(error))


# Objects, or ranges of objects.

READ_CONCURRENCY = 128
"""Maximum requests in flight: 6,400 objects per second at 20 ms each, given enough CPU."""
BYTES_AHEAD = 64 * 1024 * 1024
"""Maximum bytes requested or received before their turn."""
OBJECTS_AHEAD = 8
"""Maximum objects requested or received before their turn, per request in flight."""


class ObjectRange(Record):
    """Range of one version of an object."""

    pinned: Pinned
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of bytes in the range."""
        return self.end - self.start


def whole_object(pinned: Pinned) -> ObjectRange:
    """Return the range of a whole object."""
    return ObjectRange(pinned, 0, int(pinned["size"]))


class _RangeRequest(S3Request):
    """Request for a range of an object, in one or several parts."""

    __slots__ = ("_end", "data", "is_done", "pinned", "size", "start")

    def __init__(self, wanted: ObjectRange) -> None:
        super().__init__()
        self.pinned = wanted.pinned
        self.start, self.size = wanted.start, wanted.size
        self.data = b""
        self.is_done = not self.size
        self._end = 0

    def request(self, signer: S3Signer) -> tuple[bytes, int]:
        """Sign a GET for the whole object, or for the next part of the range."""
        pinned, at = self.pinned, self._at
        self._end = min(self.start + self.size, at + RANGE_BYTES)
        headers = {"if-match": str(pinned["etag"])}
        if at or self._end < int(pinned["size"]):
            headers["range"] = f"bytes={at}-{self._end - 1}"
        return signer.get(str(pinned["key"]), headers, pinned.get("version_id"))

    @property
    def _at(self) -> int:
        return self.start + len(self.data)

    def doing(self) -> str:
        """Describe the read with its current offset."""
        return f"reading {uri_of(self.pinned)} from byte {self._at}"

    def expected(self, failure: AwsFailure) -> Exception | None:
        """Return the named error for a changed, removed or archived object; else None."""
        return expected(failure, self.pinned)

    def add(self, response: Response) -> None:
        """Append the body of a response. Raises `SourceChanged` and `BrokenRead`."""
        self._take(response, len(response.body), is_whole=True)

    def take_partial(self, partial: Response) -> None:
        """Append the received part of a body, so that the next request continues after it."""
        # A chunked response has no Content-Length.
        length = int(partial.headers.get("content-length", self._end - self._at))
        with suppress(BrokenRead):
            self._take(partial, length, is_whole=False)

    def _take(self, response: Response, length: int, *, is_whole: bool) -> None:
        headers, data, at = response.headers, response.body, self._at
        etag, content_range = headers.get("etag"), headers.get("content-range")
        require_range(self.pinned, etag, content_range, length, (at, self._end))
        if is_whole and len(data) != self._end - at:
            raise BrokenRead("the body is not as long as the range that was asked for")
        if is_whole or 0 < len(data) < self._end - at:
            self.data = self.data + data if self.data else data
            self.failures = 0
            self.is_done = len(self.data) == self.size


def _read_by_event_loop(
    ranges: Iterator[ObjectRange], loop: S3RequestLoop, most_ahead: int
) -> Generator[bytes]:
    ahead: deque[_RangeRequest] = deque()
    bytes_ahead = 0
    following = next(ranges, None)
    while following is not None or ahead:
        while following is not None and loop.free():
            request = _RangeRequest(following)
            is_room = bytes_ahead + request.size <= BYTES_AHEAD
            if ahead and not (is_room and len(ahead) < most_ahead):
                break
            ahead.append(request)
            bytes_ahead += request.size
            if not request.is_done:
                loop.send(request)
            following = next(ranges, None)
        if ahead[0].is_done:
            request = ahead.popleft()
            bytes_ahead -= request.size
            # Yield one object at a time, so that new requests are sent as soon as memory is free.
            yield request.data
            continue
        for answered, response in loop.wait():
            assert isinstance(answered, _RangeRequest)  # noqa: S101 - for type checkers
            try:
                answered.add(response)
            except BrokenRead as error:
                loop.retry(answered, failure_of_content(error))
                continue
            if not answered.is_done:
                loop.send(answered)


def read_ranges(
    ranges: Iterable[ObjectRange],
    client: S3Client,
    *,
    signers: Callable[[str], S3Signer | None] | None = None,
    concurrency: int = READ_CONCURRENCY,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
) -> Generator[bytes]:
    """Read ranges concurrently; yield the bytes of each, in order.

    `signers` (`Clients.s3_signer`) makes a signer for a bucket; objects are then read in this
    thread over ddbload's non-blocking connections. Without `signers`, or if it returns None,
    `client` reads them in threads, limited by its connection pool. Memory is limited to
    `BYTES_AHEAD`, or one range if that is larger. `ranges` is consumed lazily. Close the
    generator if it is not read to its end.

    Only the pinned version is read. A broken body continues where it stopped. Raises
    `SourceChanged`, `SourceNotFound`, `AccessDenied`, `RequestRefused`, `AwsConfiguration`, and
    `ServiceUnavailable` after several attempts.
    """
    for bucket, group in groupby(ranges, key=lambda each: str(each.pinned["bucket"])):
        signer = None if signers is None else signers(bucket)
        if signer is None:
            yield from _read_by_threads(group, client, concurrency, retry_policy)
        else:
            with closing(S3RequestLoop(signer, concurrency, retry_policy)) as loop:
                yield from _read_by_event_loop(group, loop, concurrency * OBJECTS_AHEAD)


def pinned_version(bucket: str, key: str, etag: str, size: int) -> Pinned:
    """Pin a listed object, for `whole_object` and `S3Object`."""
    return {"bucket": bucket, "key": key, "version_id": None, "etag": etag, "size": size}


def _read_by_threads(
    ranges: Iterator[ObjectRange],
    client: S3Client,
    concurrency: int,
    retry_policy: RetryPolicy,
) -> Generator[bytes]:
    # Threads beyond the pooled connections would wait, or open a connection for each object.
    config = getattr(client.meta, "config", None)
    threads = min(concurrency, getattr(config, "max_pool_connections", concurrency))
    is_over = False
    threads_policy = replace(retry_policy, give_up=lambda: is_over or retry_policy.give_up())

    def read(wanted: ObjectRange) -> bytes:
        source = S3Object(client, wanted.pinned, threads_policy)
        return b"".join(source.stream(wanted.start, wanted.end, max(1, wanted.size)))

    with ThreadPoolExecutor(threads, thread_name_prefix="objects") as pool:
        found = map_in_order(
            lambda wanted: pool.submit(read, wanted),
            *(ranges, concurrency * OBJECTS_AHEAD, lambda each: each.size, BYTES_AHEAD),
        )
        try:
            with closing(found):
                for _, data in found:
                    yield data
        finally:
            is_over = True
