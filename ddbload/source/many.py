"""Many small objects, read side by side and given in the order asked for."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from ddbload.source.many_async import OBJECTS_AHEAD, by_loop
from ddbload.source.requesting import Retries
from ddbload.source.s3 import Pinned, S3Object

if TYPE_CHECKING:
    from concurrent.futures import Future

    from mypy_boto3_s3 import S3Client

    from ddbload.aws_http.s3_identity import S3Identity

CONCURRENCY = 128
"""Requests under way at once. At 20 ms each that is 6,400 objects a second, if there is CPU."""
BYTES_AHEAD = 64 * 1024 * 1024
"""So much may have come, or be on its way, before it is taken."""


def read_objects(
    objects: Iterable[Pinned],
    client: S3Client,
    *,
    identities: Callable[[str], S3Identity | None] | None = None,
    concurrency: int = CONCURRENCY,
    max_bytes_ahead: int = BYTES_AHEAD,
    sleep: Callable[[float], None] = time.sleep,
    rng: random.Random | None = None,
    give_up: Callable[[], bool] = lambda: False,
) -> Generator[tuple[int, bytes]]:
    """Each object's number in `objects`, counted from 0, and its bytes: all of them, in order.

    With `identities` (`Clients.s3_identity`) by requests of one's own over connections that do not
    block, in this thread; without it, or where it gives None, by `client` in threads, as many as
    that keeps connections, at most. Requests are signed when they are sent. `objects` is read as
    its objects' turn comes, and no more than `max_bytes_ahead` are held, or one object where that
    is larger. Close the iterator if it is not read to its end.

    Each read is of the pinned version, or fails: `SourceChanged`, `SourceNotFound`,
    `AccessDenied`, `RequestRefused`, `AwsConfiguration`, or `ServiceUnavailable` after several
    tries. A body that breaks off goes on where it stopped. No retry waits once `give_up` is true.
    """
    first = 0
    retries = Retries(sleep, rng or random.Random(), give_up)
    for bucket, group in groupby(objects, key=lambda pinned: str(pinned["bucket"])):
        identity = None if identities is None else identities(bucket)
        if identity is None:
            found = _by_threads(group, client, concurrency, max_bytes_ahead, retries)
        else:
            found = by_loop(group, identity, concurrency, max_bytes_ahead, retries)
        count = 0
        try:
            for data in found:
                yield first + count, data
                count += 1
        finally:
            found.close()
        first += count


def pinned_of(bucket: str, key: str, etag: str, size: int) -> Pinned:
    """What a listing tells of an object, as `read_objects` and `S3Object` take it."""
    return {"bucket": bucket, "key": key, "version_id": None, "etag": etag, "size": size}


def _by_threads(
    objects: Iterator[Pinned],
    client: S3Client,
    concurrency: int,
    max_bytes_ahead: int,
    retries: Retries,
) -> Generator[bytes]:
    from concurrent.futures import ThreadPoolExecutor

    # More threads would only wait for a connection, or open one for each object.
    config = getattr(client.meta, "config", None)
    threads = min(concurrency, getattr(config, "max_pool_connections", concurrency))
    is_over = False

    def give_up() -> bool:
        return is_over or retries.give_up()

    def read(pinned: Pinned) -> bytes:
        source = S3Object(client, pinned, sleep=retries.sleep, rng=retries.rng, give_up=give_up)
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
