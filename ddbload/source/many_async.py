"""Many small objects by requests of one's own, over connections that do not block."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from ddbload.aws_http.failures import Meaning
from ddbload.aws_http.http1 import Response
from ddbload.source.requesting import Job, Requesting, Retries, broken
from ddbload.source.s3 import RANGE_BYTES, BrokenRead, Pinned, expected, require_range, uri_of

if TYPE_CHECKING:
    from ddbload.aws_http.s3_identity import S3Identity

OBJECTS_AHEAD = 8
"""For each request under way, so many objects may have come before they are taken."""


class _Read(Job):
    """An object that is being read, whole or range by range."""

    __slots__ = ("_end", "data", "is_done", "pinned", "size")

    def __init__(self, pinned: Pinned) -> None:
        super().__init__()
        self.pinned = pinned
        self.size = int(pinned["size"])
        self.data = b""
        self.is_done = not self.size
        self._end = 0

    def request(self, identity: S3Identity) -> tuple[bytes, int]:
        """For all of it, or for its next range."""
        pinned, at = self.pinned, len(self.data)
        self._end = min(self.size, at + RANGE_BYTES)
        headers = {"if-match": str(pinned["etag"])}
        if at or self._end < self.size:
            headers["range"] = f"bytes={at}-{self._end - 1}"
        return identity.get(str(pinned["key"]), headers, pinned.get("version_id"))

    def doing(self) -> str:
        """What, from where."""
        return f"reading {uri_of(self.pinned)} from byte {len(self.data)}"

    def expected(self, meant: Meaning) -> Exception | None:
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


def by_loop(
    objects: Iterator[Pinned],
    identity: S3Identity,
    concurrency: int,
    max_bytes_ahead: int,
    retries: Retries,
) -> Generator[bytes]:
    """The bytes of each object, in order. See `many.read_objects`."""
    requesting = Requesting(identity, concurrency, retries)
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


def _wait(requesting: Requesting) -> None:
    for job, answer in requesting.wait()[1]:
        assert isinstance(job, _Read)  # noqa: S101 - for type checkers
        try:
            job.add(answer)
        except BrokenRead as error:
            requesting.again(job, broken(error))
            continue
        if not job.is_done:
            requesting.send(job)
