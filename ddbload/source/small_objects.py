"""Many small objects by requests of one's own, over connections that do not block."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from ddbload.aws.failures import AwsFailure
from ddbload.aws.http_client.http1 import Response
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy
from ddbload.source.s3_object import (
    RANGE_BYTES,
    BrokenRead,
    Pinned,
    S3Object,
    expected,
    require_range,
    uri_of,
)
from ddbload.source.s3_requests import S3Request, S3RequestLoop, broken

if TYPE_CHECKING:
    from concurrent.futures import Future

    from mypy_boto3_s3 import S3Client

    from ddbload.aws.signing.s3_signer import S3Signer


OBJECTS_AHEAD = 8
"""For each request under way, so many objects may have come before they are taken."""


class _Read(S3Request):
    """An object that is being read, whole or range by range."""

    __slots__ = ("_end", "data", "is_done", "pinned", "size")

    def __init__(self, pinned: Pinned) -> None:
        super().__init__()
        self.pinned = pinned
        self.size = int(pinned["size"])
        self.data = b""
        self.is_done = not self.size
        self._end = 0

    def request(self, signer: S3Signer) -> tuple[bytes, int]:
        """For all of it, or for its next range."""
        pinned, at = self.pinned, len(self.data)
        self._end = min(self.size, at + RANGE_BYTES)
        headers = {"if-match": str(pinned["etag"])}
        if at or self._end < self.size:
            headers["range"] = f"bytes={at}-{self._end - 1}"
        return signer.get(str(pinned["key"]), headers, pinned.get("version_id"))

    def doing(self) -> str:
        """What, from where."""
        return f"reading {uri_of(self.pinned)} from byte {len(self.data)}"

    def expected(self, meant: AwsFailure) -> Exception | None:
        """Another version, or none."""
        return expected(meant, self.pinned)

    def add(self, answer: Response) -> None:
        """Take what was asked for. Raises `SourceChanged` and `BrokenRead`."""
        headers, data, at = answer.headers, answer.body, len(self.data)
        told = headers.get("etag"), headers.get("content-range"), len(data)
        require_range(self.pinned, *told, (at, self._end))
        if len(data) != self._end - at:
            raise BrokenRead("the body is not as long as the range that was asked for")
        self._take(data)

    def take_part(self, part: Response) -> None:
        """Go on from where the body broke off."""
        headers, data, at = part.headers, part.body, len(self.data)
        # One that comes in chunks does not say how long it would have been.
        length = int(headers.get("content-length", self._end - at))
        told = headers.get("etag"), headers.get("content-range"), length
        try:
            require_range(self.pinned, *told, (at, self._end))
        except BrokenRead:
            return
        if 0 < len(data) < self._end - at:
            self._take(data)

    def _take(self, data: bytes) -> None:
        self.data = self.data + data if self.data else data
        self.failures = 0
        self.is_done = len(self.data) == self.size


def read_by_event_loop(
    objects: Iterator[Pinned],
    signer: S3Signer,
    concurrency: int,
    max_bytes_ahead: int,
    retry_policy: RetryPolicy,
) -> Generator[bytes]:
    """The bytes of each object, in order. See `many.read_objects`."""
    requesting = S3RequestLoop(signer, concurrency, retry_policy)
    ahead: deque[_Read] = deque()
    bytes_ahead = 0
    try:
        following = next(objects, None)
        while following is not None or ahead:
            while following is not None and requesting.free():
                read = _Read(following)
                is_room = bytes_ahead + read.size <= max_bytes_ahead
                if ahead and not (is_room and len(ahead) < concurrency * OBJECTS_AHEAD):
                    break
                ahead.append(read)
                bytes_ahead += read.size
                if not read.is_done:
                    requesting.send(read)
                following = next(objects, None)
            if ahead[0].is_done:
                read = ahead.popleft()
                bytes_ahead -= read.size
                # One at a time: what makes room is used before the next one is given.
                yield read.data
            else:
                _wait(requesting)
    finally:
        requesting.close()


def _wait(requesting: S3RequestLoop) -> None:
    for job, answer in requesting.wait()[1]:
        assert isinstance(job, _Read)  # noqa: S101 - for type checkers
        try:
            job.add(answer)
        except BrokenRead as error:
            requesting.again(job, broken(error))
            continue
        if not job.is_done:
            requesting.send(job)


CONCURRENCY = 128
"""Requests under way at once. At 20 ms each that is 6,400 objects a second, if there is CPU."""
BYTES_AHEAD = 64 * 1024 * 1024
"""So much may have come, or be on its way, before it is taken."""


def read_objects(
    objects: Iterable[Pinned],
    client: S3Client,
    *,
    signers: Callable[[str], S3Signer | None] | None = None,
    concurrency: int = CONCURRENCY,
    max_bytes_ahead: int = BYTES_AHEAD,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
) -> Generator[tuple[int, bytes]]:
    """Each object's number in `objects`, counted from 0, and its bytes: all of them, in order.

    With `signers` (`Clients.s3_signer`) by requests of one's own over connections that do not
    block, in this thread; without it, or where it gives None, by `client` in threads, as many as
    that keeps connections, at most. Requests are signed when they are sent. `objects` is read as
    its objects' turn comes, and no more than `max_bytes_ahead` are held, or one object where that
    is larger. Close the iterator if it is not read to its end.

    Each read is of the pinned version, or fails: `SourceChanged`, `SourceNotFound`,
    `AccessDenied`, `RequestRefused`, `AwsConfiguration`, or `ServiceUnavailable` after several
    tries. A body that breaks off goes on where it stopped.
    """
    first = 0
    for bucket, group in groupby(objects, key=lambda pinned: str(pinned["bucket"])):
        signer = None if signers is None else signers(bucket)
        if signer is None:
            found = _by_threads(group, client, concurrency, max_bytes_ahead, retry_policy)
        else:
            found = read_by_event_loop(group, signer, concurrency, max_bytes_ahead, retry_policy)
        count = 0
        try:
            for data in found:
                yield first + count, data
                count += 1
        finally:
            found.close()
        first += count


def pinned_version(bucket: str, key: str, etag: str, size: int) -> Pinned:
    """What a listing tells of an object, as `read_objects` and `S3Object` take it."""
    return {"bucket": bucket, "key": key, "version_id": None, "etag": etag, "size": size}


def _by_threads(
    objects: Iterator[Pinned],
    client: S3Client,
    concurrency: int,
    max_bytes_ahead: int,
    retry_policy: RetryPolicy,
) -> Generator[bytes]:
    from concurrent.futures import ThreadPoolExecutor

    # More threads would only wait for a connection, or open one for each object.
    config = getattr(client.meta, "config", None)
    threads = min(concurrency, getattr(config, "max_pool_connections", concurrency))
    is_over = False

    def give_up() -> bool:
        return is_over or retry_policy.give_up()

    threads_policy = replace(retry_policy, give_up=give_up)

    def read(pinned: Pinned) -> bytes:
        source = S3Object(client, pinned, threads_policy)
        return b"".join(source.stream(0, source.size, max(1, source.size)))

    ahead: deque[tuple[int, Future[bytes]]] = deque()
    bytes_ahead = 0
    pool = ThreadPoolExecutor(threads, thread_name_prefix="objects")
    try:
        following = next(objects, None)
        while following is not None or ahead:
            while following is not None:
                size = int(following["size"])
                is_room = bytes_ahead + size <= max_bytes_ahead
                if ahead and not (is_room and len(ahead) < concurrency * OBJECTS_AHEAD):
                    break
                ahead.append((size, pool.submit(read, following)))
                bytes_ahead += size
                following = next(objects, None)
            size, future = ahead.popleft()
            data = future.result()
            bytes_ahead -= size
            yield data
    finally:
        is_over = True
        pool.shutdown(cancel_futures=True)
