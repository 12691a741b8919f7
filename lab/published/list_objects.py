"""List a bucket with boto3; print a digest of its keys, and times of requests and parsing.

    python -m lab.published.list_objects WAY BUCKET

- `documented`: the loop in boto3's documentation.
- `isoparse`: the same, with timestamps parsed as ISO 8601.
- `none`: the same, with None in place of parsed timestamps.
- `early`: each page is requested before the previous one is parsed, in another thread.
- `paginator`: the usual way today, with ListObjectsV2. It was not published.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from html import unescape
from typing import Any
from urllib.parse import unquote_plus

import boto3
from dateutil.parser import isoparse  # type: ignore[import-untyped]

_THREADS = 4
_TRUNCATED = b"<IsTruncated>true</IsTruncated>"


class Stopwatch:
    """Recorder of the times of requests and parsing, by botocore's events."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, float, float]] = []
        """Activity, start and end, in seconds since the first request."""
        self.seconds = self.cpu = 0.0
        """Elapsed time and CPU time between start and stop."""
        self._thread = threading.local()
        self._begin = self._used = 0.0

    def attach(self, client: Any) -> None:
        """Record the client's requests from now on."""
        events = client.meta.events
        events.register_first("before-send.s3", self._begin_request)
        events.register_first("before-parse.s3", self._begin_parsing)
        events.register_first("response-received.s3", self._end)

    def start(self) -> None:
        """Start the clock."""
        self._used, self._begin = time.process_time(), time.perf_counter()

    def stop(self) -> None:
        """Stop the clock."""
        self.seconds = self._now()
        self.cpu = time.process_time() - self._used

    def _now(self) -> float:
        return time.perf_counter() - self._begin

    def _begin_request(self, **_: Any) -> None:
        self._thread.begin = "request", self._now()

    def _begin_parsing(self, **_: Any) -> None:
        self._end()
        self._thread.begin = "parsing", self._now()

    def _end(self, **_: Any) -> None:
        self.spans.append((*self._thread.begin, self._now()))


def list_documented(session: Any, bucket: str, stopwatch: Stopwatch) -> list[str]:
    """List a bucket's objects as in boto3's documentation."""
    s3 = session.resource("s3")
    stopwatch.attach(s3.meta.client)
    stopwatch.start()
    entries = []
    for entry in s3.Bucket(bucket).objects.all():
        entries.append(entry)  # noqa: PERF402 - the documentation's loop
    return [entry.key for entry in entries]


def parse_timestamps_by(session: Any, parser: Callable[[Any], Any]) -> None:
    """Replace botocore's timestamp parser, which tries many formats."""
    factory = session._session.get_component("response_parser_factory")  # noqa: SLF001
    factory.set_parser_defaults(timestamp_parser=parser)


def list_with_isoparse(session: Any, bucket: str, stopwatch: Stopwatch) -> list[str]:
    """List as documented, with timestamps parsed as ISO 8601."""
    parse_timestamps_by(session, isoparse)
    return list_documented(session, bucket, stopwatch)


def list_without_timestamps(session: Any, bucket: str, stopwatch: Stopwatch) -> list[str]:
    """List as documented, with None in place of each timestamp."""
    parse_timestamps_by(session, lambda _: None)
    return list_documented(session, bucket, stopwatch)


def list_early(session: Any, bucket: str, stopwatch: Stopwatch) -> list[str]:
    """Request the next page as soon as a response arrives, and parse the response meanwhile."""
    parse_timestamps_by(session, isoparse)
    client = session.client("s3")
    stopwatch.attach(client)
    pages: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(_THREADS) as pool:

        def ask(**after: str) -> None:
            pages.append(pool.submit(client.list_objects, Bucket=bucket, **after))

        def ask_for_the_next(response_dict: dict[str, Any], **_: Any) -> None:
            if _TRUNCATED in response_dict["body"]:
                ask(Marker=last_key(response_dict["body"]))

        client.meta.events.register("before-parse.s3.ListObjects", ask_for_the_next)
        stopwatch.start()
        ask()
        entries = []
        while pages:
            entries += pages.popleft().result().get("Contents", ())
    return [entry["Key"] for entry in entries]


def last_key(body: bytes) -> str:
    """Find a page's last key, which is the next page's marker, without parsing the page."""
    key = body[body.rindex(b"<Key>") + len(b"<Key>") : body.rindex(b"</Key>")]
    return unquote_plus(unescape(key.decode()))


def list_with_paginator(session: Any, bucket: str, stopwatch: Stopwatch) -> list[str]:
    """List with the paginator of ListObjectsV2."""
    client = session.client("s3")
    stopwatch.attach(client)
    stopwatch.start()
    entries = []
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        entries += page.get("Contents", ())
    return [entry["Key"] for entry in entries]


WAYS = {
    "documented": list_documented,
    "isoparse": list_with_isoparse,
    "none": list_without_timestamps,
    "early": list_early,
    "paginator": list_with_paginator,
}


def main() -> None:
    """List the bucket."""
    way, bucket = sys.argv[1:]
    stopwatch = Stopwatch()
    keys = WAYS[way](boto3.Session(), bucket, stopwatch)
    stopwatch.stop()
    found = {
        "seconds": stopwatch.seconds,
        "cpu": stopwatch.cpu,
        "keys": len(keys),
        "digest": hashlib.sha256("".join(f"{key}\n" for key in keys).encode()).hexdigest(),
        "spans": stopwatch.spans,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
