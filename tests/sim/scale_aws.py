"""S3 and a ledger in virtual time, for functions that run ddbload's own code.

Time passes by what a request takes, and by the processor time that the code in between has used
here. Nothing is stored that can be computed: the content of an object is a function of its offset.
"""

from __future__ import annotations

import heapq
import io
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ddbload.aws.http_client.http1 import Response
from ddbload.context import SEGMENT_READERS
from ddbload.ledger.bucket_store import READERS
from ddbload.ledger.history import PARALLEL_WRITES
from tests.unit.steps.world import MemoryStore

FIRST_BYTE_SECONDS = 0.1
"""Seconds until the first byte of an answer of S3."""
BYTES_PER_SECOND = 70e6
"""Bytes a second that a function receives."""
HTTP_SECONDS = 100e-6
"""Processor seconds of a request by ddbload's own client, TLS included, which is not run here."""
BOTO_SECONDS = 3e-3
"""Processor seconds of a request by boto3, which is not run here."""
PROCESSOR = 1.5
"""Seconds of a function's processor for a second of this one."""
PAGE_KEYS = 1000


class FunctionClock:
    """Time of one function: that of its requests, and of its processor."""

    def __init__(self, *, counts_processor: bool = True) -> None:
        self.time = 0.0
        self._used = time.process_time()
        self._counts = counts_processor

    def __call__(self) -> float:
        """Return the time, with what the processor has used since the last call."""
        self.enter()
        self._used = time.process_time()
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.time += seconds

    def enter(self) -> None:
        """Count the processor time of ddbload; call `leave` when the simulation is done."""
        if self._counts:
            self.time += PROCESSOR * (time.process_time() - self._used)

    def leave(self) -> None:
        """Leave the processor time of the simulation out."""
        self._used = time.process_time()


@dataclass(frozen=True)
class SimulatedObjects:
    """Objects below a prefix, all of one size and content."""

    count: int
    size: int
    content: Callable[[int, int], bytes]
    """Return a range of an object."""

    def key(self, number: int) -> str:
        return "in/file.csv" if self.count == 1 else f"in/{number:08d}.csv"

    def number_after(self, key: str) -> int:
        """Return the number of the first object with a greater key."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.key(middle) <= key else (low, middle)
        return low


ETAG = '"0123456789abcdef0123456789abcdef"'


@dataclass
class SimulatedS3:
    """The client, the signer and the event loop of one function, over the same objects."""

    objects: SimulatedObjects
    clock: FunctionClock
    requests: Counter[str] = field(default_factory=Counter)
    bytes_read: int = 0
    bucket: str = "bucket"

    # As a signer: a request is a tuple, and the loop below its only reader.

    @property
    def endpoint(self) -> Any:
        raise AssertionError("only errors ask for the endpoint")

    def may_pass(self, *_: object) -> bool:
        return False

    def get(self, key: str, headers: Mapping[str, str], _: str | None = None) -> tuple[Any, int]:
        return ("get", headers.get("range")), 0

    def list(self, query: Mapping[str, str]) -> tuple[Any, int]:
        return ("list", dict(query)), 0

    def connect(self, connections: int) -> SimulatedLoop:
        return SimulatedLoop(self, connections)

    # As a client.

    def head_object(self, **_: Any) -> dict[str, Any]:
        self._boto("GET", 0)
        return {"ETag": ETAG, "ContentLength": self.objects.size}

    def get_object(self, **params: Any) -> dict[str, Any]:
        start, end = _range(params["Range"])
        self._boto("GET", end - start)
        data = self.objects.content(start, end)
        return {
            "ETag": ETAG,
            "ContentRange": f"bytes {start}-{end - 1}/{self.objects.size}",
            "ContentLength": end - start,
            "Body": io.BytesIO(data),
        }

    def _boto(self, kind: str, size: int) -> None:
        self.clock.enter()
        self.clock.time += FIRST_BYTE_SECONDS + size / BYTES_PER_SECOND + BOTO_SECONDS
        self.requests[kind] += 1
        self.bytes_read += size
        self.clock.leave()

    def answer(self, request: tuple[str, Any]) -> Response:
        """Return the response to a request of the event loop."""
        kind, what = request
        if kind == "list":
            self.requests["LIST"] += 1
            return Response(200, {}, self._page(what), True)
        self.requests["GET"] += 1
        size = self.objects.size
        start, end = (0, size) if what is None else _range(what)
        data = self.objects.content(start, end)
        self.bytes_read += len(data)
        headers = {"etag": ETAG, "content-range": f"bytes {start}-{end - 1}/{size}"}
        return Response(200 if what is None else 206, headers, data, True)

    def _page(self, query: Mapping[str, str]) -> bytes:
        after = query.get("continuation-token") or query.get("start-after") or ""
        first = self.objects.number_after(after)
        last = min(self.objects.count, first + PAGE_KEYS)
        entries = "".join(
            f"<Contents><Key>{self.objects.key(number)}</Key>"
            "<LastModified>2026-11-23T00:00:00.000Z</LastModified>"
            f"<ETag>{ETAG}</ETag><Size>{self.objects.size}</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
            for number in range(first, last)
        )
        more = last < self.objects.count
        token = f"<NextContinuationToken>{self.objects.key(last - 1)}</NextContinuationToken>"
        return (
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{token if more else ''}{entries}</ListBucketResult>"
        ).encode()


class SimulatedLoop:
    """Requests in flight of one function, which share its network."""

    def __init__(self, s3: SimulatedS3, connections: int) -> None:
        self._s3 = s3
        self._connections = connections
        self._in_flight: list[tuple[float, int, Any, Response]] = []
        self._number = 0
        self._network_free = 0.0

    def now(self) -> float:
        return self._s3.clock()

    def free(self) -> int:
        return self._connections - len(self._in_flight)

    def send(self, token: Any, request: Any, _: object = None) -> None:
        clock = self._s3.clock
        clock.enter()
        response = self._s3.answer(request)
        clock.time += HTTP_SECONDS
        arrives = max(self._network_free, clock.time + FIRST_BYTE_SECONDS)
        self._network_free = arrives + len(response.body) / BYTES_PER_SECOND
        self._number += 1
        heapq.heappush(self._in_flight, (self._network_free, self._number, token, response))
        clock.leave()

    def wait(self, seconds: float) -> list[tuple[Any, Response]]:
        clock = self._s3.clock
        clock.enter()
        done = []
        if self._in_flight:
            clock.time = max(clock.time, min(clock.time + seconds, self._in_flight[0][0]))
        while self._in_flight and self._in_flight[0][0] <= clock.time:
            _, _, token, response = heapq.heappop(self._in_flight)
            done.append((token, response))
        clock.leave()
        return done

    def close(self) -> None:
        self._in_flight.clear()


class SimulatedLedger(MemoryStore):
    """Ledger in S3: each access takes the time of a request, and is counted."""

    def __init__(self, clock: FunctionClock) -> None:
        super().__init__(clock=clock)
        self.function_clock = clock
        self.requests: Counter[str] = Counter()

    def get(self, name: str) -> bytes | None:
        if "/chunks/" in name:
            # Report reads segments concurrently, by ddbload's own client.
            self._pass("GET", SEGMENT_READERS, HTTP_SECONDS)
        else:
            self._pass("GET")
        return self.objects.get(name)

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        for name in names:
            self._pass("GET", READERS)
            yield self.objects.get(name)

    def put(self, name: str, data: bytes) -> None:
        if "/parts/" in name:
            # Written by other threads meanwhile, and read by imports only.
            self.function_clock.time += BOTO_SECONDS
            self.requests["PUT"] += 1
            return
        self._pass("PUT")
        self.objects[name] = data

    def put_new(self, name: str, data: bytes) -> bool:
        self._pass("PUT", PARALLEL_WRITES if name.startswith("history/") else 1)
        new = name not in self.objects
        self.objects.setdefault(name, data)
        return new

    def put_over(self, name: str, data: bytes, version: str | None) -> bool:
        self._pass("PUT")
        return super().put_over(name, data, version)

    def names(self, prefix: str) -> list[str]:
        found = sorted(name for name in self.objects if name.startswith(prefix))
        for _ in range(1 + len(found) // PAGE_KEYS):
            self._pass("LIST")
        return found

    def ages(self, prefix: str) -> dict[str, float]:
        return dict.fromkeys(self.names(prefix), 0.0)

    def _pass(self, kind: str, at_once: int = 1, client: float = BOTO_SECONDS) -> None:
        self.function_clock.enter()
        self.function_clock.time += FIRST_BYTE_SECONDS / at_once + client
        self.requests[kind] += 1
        self.function_clock.leave()


def _range(text: str) -> tuple[int, int]:
    first, last = text.removeprefix("bytes=").split("-")
    return int(first), int(last) + 1


def repeated(header: bytes, block: bytes) -> Callable[[int, int], bytes]:
    """Return the content of an object: a header, and a block over and over."""

    def content(start: int, end: int) -> bytes:
        if start < len(header):
            return (header + block * (1 + (end - len(header)) // len(block)))[start:end]
        at = (start - len(header)) % len(block)
        count = 1 + (at + end - start) // len(block)
        return (block * count)[at : at + end - start] if count > 1 else block[at : at + end - start]

    return content
