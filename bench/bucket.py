"""Fake S3 bucket with generated and stored objects, faults, and a configurable latency.

    python -m bench.bucket

It serves ListObjects, ListObjectsV2, GetObject, HeadObject, PutObject and HeadBucket, but no
versions, multipart uploads, ranges or delimiters. `bench.http_server` says how it begins and ends.
GET /etag returns the ETag that generated objects share, GET /stored the objects that were put,
by key, and GET /counters what `Bucket.counters` describes.

POST /reset clears everything. All of its settings may be left out:

    {"shape": "numbered", "objects": 1000, "bytes": 1024,   generated objects
     "distinct": true,                        each a JSON line of its own, see `object_body`
     "seed": 1,                               determines when each of them was last changed
     "latency": 0.008,                        seconds before each answer
     "max_skew_seconds": 900,                 requests whose X-Amz-Date, which has whole seconds,
                                              differs by more from the time at which the server gets
                                              to them are answered 403 RequestTimeTooSkewed
     "clock_ahead_seconds": 3600,             what the server's clock differs from the machine's
     "most_at_once": 100,                     requests served at a time; others wait, and grow old
     "denied": ["PutObject"],                 operations without permission
     "faults": {"seed": 1,                    shares of the requests for objects, from 0 to 1:
                "slow_down": 0.1,             requests answered 503 SlowDown
                "errors": 0.1,                requests answered 500
                "conflicts": 0.1,             conditional writes answered 409
                "reset_before": 0.1,          connections reset before anything is stored
                "reset_after": 0.1,           connections reset in place of the answer
                "lost": 0.1}}                 connections closed in place of the answer
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from bench.http_server import Answer, Request, Service, run
from bench.listing_page import entry, page
from bench.put_request import (
    MOST_KEY_BYTES,
    S3Error,
    StoredObject,
    bucket_checksum,
    check_conditions,
    object_digest,
    parse_headers,
    read_object,
)
from bench.request_date import check_date

BUCKET = "bench"
PREFIX = "in/"
REGION = "us-east-1"
_YEARS = (1_577_836_800, 1_767_225_599)
"""Times between which generated objects were last changed: the years from 2020 to 2025."""
_FAULTS = ("slow_down", "errors", "conflicts", "reset_before", "reset_after", "lost")
_LISTED = frozenset(
    {
        "list-type",
        "prefix",
        "delimiter",
        "marker",
        "start-after",
        "continuation-token",
        "max-keys",
        "encoding-type",
        "fetch-owner",
    }
)
"""Parameters of listings."""
_IF_MATCH = re.compile(rb"\nif-match: *(\S+)", re.IGNORECASE)
_XML = "Content-Type: application/xml\r\n"
_COUNTED = {
    "ListObjects": "pages",
    "ListObjectsV2": "pages",
    "GetObject": "objects",
    "HeadObject": "heads",
    "PutObject": "puts",
    "HeadBucket": "bucket_heads",
}
"""Counter of each operation's requests."""


def _numbered(number: int) -> str:
    return f"part-{number:06d}.csv"


def _hashed(number: int) -> str:
    return f"{hashlib.sha256(str(number).encode()).hexdigest()[:32]}.json"


def _dated(number: int) -> str:
    day, rest = divmod(number, 240)
    return f"y=2026/m={day // 28 % 12 + 1:02d}/d={day % 28 + 1:02d}/h={rest // 10:02d}/{number}.csv"


def _plain(number: int) -> str:
    return f"row {number}"


SHAPES: dict[str, Callable[[int], str]] = {
    "numbered": _numbered,
    "hashed": _hashed,
    "dated": _dated,
    "plain": _plain,
}


def bucket_keys(shape: str, count: int) -> list[str]:
    """Return the generated objects' keys in S3's order."""
    return sorted({PREFIX + SHAPES[shape](number) for number in range(count)}, key=str.encode)


def object_body(key: str, size: int) -> bytes:
    """Return the body of a generated object that differs from all others: a line of JSON."""
    begin = f'{{"object":{json.dumps(key)},"text":"'
    return (begin + "x" * (size - len(begin) - 3) + '"}\n').encode()


class Bucket(Service):
    """Objects of the bucket, counters of requests, and the faults that were asked for."""

    def __init__(self) -> None:
        self.reset({})

    def reset(self, settings: dict[str, Any]) -> None:
        """Replace the objects and clear the counters."""
        self._latency = float(settings.get("latency", 0.0))
        self.most_at_once = settings.get("most_at_once")
        self._max_skew: float | None = settings.get("max_skew_seconds")
        self._clock_ahead = float(settings.get("clock_ahead_seconds", 0.0))
        self._denied = frozenset(settings.get("denied", ()))
        self._faults = dict(settings.get("faults", {}))
        if unknown := self._faults.keys() - {"seed", *_FAULTS}:
            raise ValueError(f"unknown faults {sorted(unknown)}")
        self._random = random.Random(self._faults.get("seed", 0))
        shape, count = str(settings.get("shape", "numbered")), int(settings.get("objects", 0))
        self._generated = bucket_keys(shape, count)
        self._bytes = int(settings.get("bytes", 1024))
        self._distinct = bool(settings.get("distinct", False))
        body = b"x" * self._bytes
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        self._every = StoredObject(body, f'"{etag}"', {"content-type": "text/csv"})
        moments = random.Random(int(settings.get("seed", 1)))
        self._changed = {key: moments.randint(*_YEARS) for key in self._generated}
        self._stored: dict[str, StoredObject] = {}
        self._digests = self._overwritten = 0
        self._counts: Counter[str] = Counter()
        self._listing: tuple[list[str], list[bytes]] | None = None
        # Made now, so that no listing is slower than another.
        self._listed()

    def counters(self) -> dict[str, Any]:
        """Return the counters.

        Requests: `pages` of listings, `objects` that were asked for, `heads`, `puts` and
        `bucket_heads`; `precondition_failed` of them were answered 412, and `skewed` ones were
        signed at another time. `stored` objects were put
        and are there; `overwritten` times an object was replaced. `checksum` is the one of all
        stored keys and bodies, see `bench.put_request.bucket_checksum`. Each fault is counted by
        its name.
        """
        names = (*dict.fromkeys(_COUNTED.values()), "precondition_failed", "skewed", *_FAULTS)
        return {
            **{name: self._counts[name] for name in names},
            "stored": len(self._stored),
            "overwritten": self._overwritten,
            "checksum": bucket_checksum(self._digests),
        }

    def control(self, target: str) -> Any:
        """Answer GET /etag and GET /stored."""
        if target == "/etag":
            return {"etag": self._every.etag}
        if target == "/stored":
            return {
                key: {"body": each.body.decode(errors="replace"), "headers": dict(each.headers)}
                for key, each in sorted(self._stored.items())
            }
        return None

    def serve(self, request: Request) -> Answer:
        """Answer a request after the latency."""
        try:
            return self._serve(request)
        except S3Error as error:
            self._counts["precondition_failed"] += error.status == 412
            self._counts["skewed"] += error.code == "RequestTimeTooSkewed"
            body = (
                f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{error.code}</Code>'
                f"<Message>{escape(str(error))}</Message>{error.details}</Error>"
            )
            return Answer(error.status, body.encode(), error.headers + _XML, self._latency)

    def _serve(self, request: Request) -> Answer:
        if b"AWS4-HMAC-SHA256 " not in request.head:
            raise S3Error(403, "AccessDenied", "the request is not signed")
        if self._max_skew is not None:
            check_date(request.head, self._max_skew, self._clock_ahead)
        parts = urlsplit(request.target)
        bucket, _, path = parts.path[1:].partition("/")
        query = parse_qs(parts.query, keep_blank_values=True)
        key = unquote(path)
        operation = _operation(request.method, key, query)
        self._counts[_COUNTED[operation]] += 1
        if bucket != BUCKET:
            raise S3Error(404, "NoSuchBucket", "The specified bucket does not exist")
        if operation in self._denied:
            raise S3Error(403, "AccessDenied", f"not authorized to perform: s3:{operation}")
        if operation == "HeadBucket":
            return Answer(200, b"", f"x-amz-bucket-region: {REGION}\r\n", self._latency)
        if operation in {"ListObjects", "ListObjectsV2"}:
            page = self._page({name: values[0] for name, values in query.items()})
            return Answer(200, page, _XML, self._latency)
        return self._with_faults(operation, key, request)

    def _with_faults(self, operation: str, key: str, request: Request) -> Answer:
        if self._happens("slow_down"):
            raise S3Error(503, "SlowDown", "Please reduce your request rate.")
        if self._happens("errors"):
            raise S3Error(500, "InternalError", "We encountered an internal error.")
        if self._happens("reset_before"):
            return Answer(0, delay=self._latency, reset=True)
        if operation == "PutObject":
            answer = self._put(key, parse_headers(request.head), request.body)
        else:
            answer = self._get(key, request.head)
        if self._happens("reset_after"):
            return Answer(0, delay=self._latency, reset=True)
        if self._happens("lost"):
            return Answer(0, delay=self._latency, lost=True)
        return answer

    def _happens(self, fault: str) -> bool:
        share = self._faults.get(fault, 0)
        happens = bool(share) and self._random.random() < share
        self._counts[fault] += happens
        return happens

    def _find(self, key: str) -> StoredObject | None:
        found = self._stored.get(key)
        if found is None:
            at = bisect_left(self._generated, key)
            if at < len(self._generated) and self._generated[at] == key:
                return self._generate(key)
        return found

    def _generate(self, key: str) -> StoredObject:
        if not self._distinct:
            return self._every
        body = object_body(key, self._bytes)
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        return StoredObject(body, f'"{etag}"', {"content-type": "application/json"})

    def _get(self, key: str, head: bytes) -> Answer:
        """Answer GetObject; for HeadObject the server leaves out the body."""
        found = self._find(key)
        if found is None:
            raise S3Error(404, "NoSuchKey", "The specified key does not exist.")
        asked = _IF_MATCH.search(head)
        if asked and asked[1].decode().strip('"') != found.etag.strip('"'):
            raise S3Error(412, "PreconditionFailed", "If-Match")
        lines = "".join(f"{name}: {value}\r\n" for name, value in found.headers.items())
        changed = formatdate(self._changed[key], usegmt=True)
        headers = f"ETag: {found.etag}\r\nLast-Modified: {changed}\r\n{lines}"
        return Answer(200, found.body, headers, self._latency)

    def _put(self, key: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if len(key.encode()) > MOST_KEY_BYTES:
            raise S3Error(400, "KeyTooLongError", "Your key is too long")
        if headers.keys() & {"if-match", "if-none-match"} and self._happens("conflicts"):
            raise S3Error(409, "ConditionalRequestConflict", "a conflicting operation occurred")
        existing = self._find(key)
        check_conditions(headers, existing)
        made = read_object(headers, body)
        if key in self._stored:
            self._digests -= object_digest(key, self._stored[key].body)
        self._overwritten += existing is not None
        self._digests += object_digest(key, made.body)
        self._stored[key] = made
        self._changed[key] = int(time.time())
        self._listing = None
        return Answer(200, b"", f"ETag: {made.etag}\r\n", self._latency)

    def _listed(self) -> tuple[list[str], list[bytes]]:
        """Return all keys in order, and their entries in a page."""
        if self._listing is None:
            keys = sorted({*self._generated, *self._stored})
            self._listing = keys, [self._entry(key) for key in keys]
        return self._listing

    def _entry(self, key: str) -> bytes:
        found = self._stored.get(key) or self._generate(key)
        return entry(key, found.etag, len(found.body), self._changed[key])

    def _page(self, query: dict[str, str]) -> bytes:
        if "delimiter" in query:
            raise S3Error(501, "NotImplemented", "delimiters are not served")
        return page(BUCKET, *self._listed(), query)


def _operation(method: str, key: str, query: Mapping[str, Any]) -> str:
    """Return the operation that a request asks for."""
    if not key and method == "GET" and query.keys() <= _LISTED:
        return "ListObjectsV2" if "list-type" in query else "ListObjects"
    if not key and method == "HEAD":
        return "HeadBucket"
    if key and method in {"GET", "HEAD", "PUT"} and not query.keys() - {"x-id"}:
        return f"{method.capitalize()}Object"
    raise S3Error(501, "NotImplemented", f"{method} with {sorted(query)} is not served")


def main() -> None:
    """Run the server."""
    argparse.ArgumentParser(
        description="Serve a fake S3 bucket with generated and stored objects."
    ).parse_args()
    run(Bucket())


if __name__ == "__main__":
    main()
