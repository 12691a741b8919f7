"""Many small objects by requests of one's own, over connections that do not block."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from ddbload.aws_http.backoff import full_jitter
from ddbload.aws_http.calls import ATTEMPTS
from ddbload.aws_http.failures import Kind, Meaning, named
from ddbload.aws_http.http1 import Response
from ddbload.aws_http.loop import HttpLoop, Lost
from ddbload.aws_http.s3_failures import moved, of_s3_response
from ddbload.source.many import OBJECTS_AHEAD, Pinned, Retries
from ddbload.source.s3 import RANGE_BYTES, BrokenRead, require_range, uri_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from ddbload.aws_http.s3_identity import S3Identity

POLL_SECONDS = 0.2
"""How long to wait for the network without asking whether to give up."""


class _Read:
    """An object that is being read."""

    __slots__ = ("data", "end", "failures", "generation", "is_done", "number", "pinned", "size")

    def __init__(self, number: int, pinned: Pinned) -> None:
        self.number, self.pinned = number, pinned
        self.size = int(pinned["size"])
        self.data = b""
        self.end = 0
        self.is_done = not self.size
        self.failures = 0
        self.generation = 0

    def headers(self) -> dict[str, str]:
        """Of the next request: for all of it, or the next range."""
        at = len(self.data)
        self.end = min(self.size, at + RANGE_BYTES)
        headers = {"if-match": str(self.pinned["etag"])}
        if at or self.end < self.size:
            headers["range"] = f"bytes={at}-{self.end - 1}"
        return headers

    def add(self, answer: Response) -> None:
        """Take what came. Raises `SourceChanged` and `BrokenRead`."""
        headers, data, at = answer.headers, answer.body, len(self.data)
        told = headers.get("etag"), headers.get("content-range"), len(data)
        require_range(self.pinned, *told, (at, self.end))
        if len(data) != self.end - at:
            raise BrokenRead("the body is not as long as the range that was asked for")
        self.data = self.data + data if self.data else data
        self.failures = 0
        self.is_done = len(self.data) == self.size


class _Reader:
    """Reads objects side by side. Time is the loop's own: retries wait between its waits."""

    def __init__(
        self, client: S3Client, identity: S3Identity, loop: HttpLoop, retries: Retries
    ) -> None:
        self._client, self._identity, self._loop = client, identity, loop
        self._retries = retries
        # Those that wait to be read again, by when.
        self._waiting: list[tuple[float, int, _Read]] = []

    def has_room(self) -> bool:
        """Whether another may begin."""
        return self._loop.free() > len(self._waiting)

    def begin(self, read: _Read) -> None:
        """Send the next request of a read."""
        pinned = read.pinned
        request, read.generation = self._identity.get(
            str(pinned["key"]), read.headers(), pinned.get("version_id")
        )
        self._loop.send(read, request)

    def wait(self) -> None:
        """Take what comes, waiting for the first of it."""
        now = self._loop.now()
        while self._waiting and self._waiting[0][0] <= now:
            self.begin(heapq.heappop(self._waiting)[2])
        pause = POLL_SECONDS
        if self._waiting:
            pause = min(pause, max(0.0, self._waiting[0][0] - now))
        for read, outcome in self._loop.wait(pause):
            self._take(read, outcome)

    def _take(self, read: _Read, outcome: Response | Lost) -> None:
        if isinstance(outcome, Lost):
            self._again(read, Meaning(Kind.UNSURE, outcome.reason, "the connection failed"))
            return
        meant = of_s3_response(outcome)
        source = self._retries.object(self._client, read.pinned) if meant is not None else None
        if meant is not None and source is not None:
            if self._identity.may_pass(meant, outcome.headers, read.generation):
                meant = Meaning(Kind.UNSURE, meant.code, meant.text, meant.status, meant.request_id)
            elsewhere = moved(outcome, self._identity.bucket, self._identity.endpoint.region)
            known = elsewhere or source.expected(meant)
            if known is not None:
                raise known
            self._again(read, meant)
            return
        try:
            read.add(outcome)
        except BrokenRead as error:
            self._again(read, Meaning(Kind.UNSURE, "BrokenRead", str(error)))
            return
        if not read.is_done:
            self.begin(read)

    def _again(self, read: _Read, meant: Meaning) -> None:
        read.failures += 1
        again = meant.kind in (Kind.THROTTLED, Kind.UNSURE) and read.failures < ATTEMPTS
        if not again or self._retries.give_up():
            raise named(meant, f"reading {uri_of(read.pinned)} from byte {len(read.data)}")
        pause = full_jitter(read.failures, self._retries.rng, base=0.1, cap=5.0)
        heapq.heappush(self._waiting, (self._loop.now() + pause, read.number, read))


def by_loop(
    objects: Iterator[Pinned],
    client: S3Client,
    identity: S3Identity,
    concurrency: int,
    max_bytes_ahead: int,
    retries: Retries,
) -> Generator[bytes]:
    """The bytes of each object, in order. See `many.read_objects`."""
    loop = identity.connect(concurrency)
    try:
        reader = _Reader(client, identity, loop, retries)
        ahead: deque[_Read] = deque()
        bytes_ahead = number = 0
        following: Any = next(objects, None)
        while following is not None or ahead:
            while following is not None and reader.has_room():
                read = _Read(number, following)
                is_room = bytes_ahead + read.size <= max_bytes_ahead
                if ahead and not (is_room and len(ahead) < concurrency * OBJECTS_AHEAD):
                    break
                ahead.append(read)
                bytes_ahead += read.size
                number += 1
                if not read.is_done:
                    reader.begin(read)
                following = next(objects, None)
            while ahead and ahead[0].is_done:
                read = ahead.popleft()
                bytes_ahead -= read.size
                yield read.data
            if ahead and not ahead[0].is_done:
                reader.wait()
    finally:
        loop.close()
