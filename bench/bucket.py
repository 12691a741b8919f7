"""Fake S3 bucket with generated and stored objects, and a configurable latency.

    python -m bench.bucket

It serves ListObjects, ListObjectsV2, GetObject and PutObject. `bench.http_server` says how it
begins and ends. POST /reset clears everything. All of its settings are optional:

    {"shape": "numbered", "objects": 1000, "bytes": 1024,   generated objects
     "seed": 1,                               determines when each of them was last changed
     "latency": 0.008,                        seconds before each answer
     "max_skew_seconds": 900,                 refuse requests whose X-Amz-Date (whole seconds)
                                              differs by more when the server gets to them
     "clock_ahead_seconds": 3600,             difference of the server's clock from the machine's
     "most_at_once": 100}                     requests served at a time; others wait, and grow old
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import random
import re
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from bench.http_server import Answer, Request, Service, run

BUCKET = "bench"
PREFIX = "in/"
PAGE_KEYS = 1000
_YEARS = (1_577_836_800, 1_767_225_599)
"""Range of the generated objects' last change: the years 2020 to 2025."""
_OWNER = "<Owner><ID>75aa57f09aa0c8caeab4f8c24e99d10f8e7faeebf76c078efc7c6caea54ba06a</ID></Owner>"
_IF_MATCH = re.compile(rb"\nif-match: *(\S+)", re.IGNORECASE)
_SIGNED_AT = re.compile(rb"\nx-amz-date: *([0-9TZ]+)", re.IGNORECASE)
_STAMP = "%Y%m%dT%H%M%SZ"
_XML = "Content-Type: application/xml\r\n"


def _dated(number: int) -> str:
    day, rest = divmod(number, 240)
    return f"y=2026/m={day // 28 % 12 + 1:02d}/d={day % 28 + 1:02d}/h={rest // 10:02d}/{number}.csv"


SHAPES: dict[str, Callable[[int], str]] = {
    "numbered": lambda number: f"part-{number:06d}.csv",
    "hashed": lambda number: f"{hashlib.sha256(str(number).encode()).hexdigest()[:32]}.json",
    "dated": _dated,
    "plain": lambda number: f"row {number}",
}


class S3Error(Exception):
    """Error answer to a request. `details`: further XML; `headers`: whole lines."""

    def __init__(
        self, status: int, code: str, message: str, *, details: str = "", headers: str = ""
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.details, self.headers = status, code, details, headers


def bucket_keys(shape: str, count: int) -> list[str]:
    """Return the keys of the generated objects in S3's order."""
    return sorted({PREFIX + SHAPES[shape](number) for number in range(count)}, key=str.encode)


def object_body(key: str, size: int) -> bytes:
    """Return the body of a generated object: a line of JSON that contains its key."""
    begin = f'{{"object":{json.dumps(key)},"text":"'
    return (begin + "x" * (size - len(begin) - 3) + '"}\n').encode()


def etag_of(body: bytes) -> str:
    """Return a body's ETag, including its quotes."""
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


class Bucket(Service):
    """Objects of the bucket, and counters of requests."""

    def reset(self, settings: dict[str, Any]) -> None:
        """Replace the objects and clear the counters."""
        self._latency = float(settings.get("latency", 0.0))
        self.most_at_once = settings.get("most_at_once")
        self._max_skew: float | None = settings.get("max_skew_seconds")
        self._clock_ahead = float(settings.get("clock_ahead_seconds", 0.0))
        self._bytes = int(settings.get("bytes", 1024))
        shape, count = str(settings.get("shape", "numbered")), int(settings.get("objects", 0))
        moments = random.Random(int(settings.get("seed", 1)))
        self._changed = {key: moments.randint(*_YEARS) for key in bucket_keys(shape, count)}
        self._stored: dict[str, bytes] = {}
        self._counts: Counter[str] = Counter()
        # Created now, so that all listings take the same time.
        self._list()

    def _list(self) -> None:
        self._keys = sorted(self._changed, key=str.encode)
        self._entries = [self._entry(key) for key in self._keys]

    def counters(self) -> dict[str, Any]:
        """Return the counters: listed pages, requests for objects, skewed dates, stored objects."""
        names = ("pages", "objects", "puts", "skewed")
        stored = {key: body.decode() for key, body in self._stored.items()}
        return {**{name: self._counts[name] for name in names}, "stored": stored}

    def serve(self, request: Request) -> Answer:
        """Answer a request after the latency."""
        try:
            return self._serve(request)
        except S3Error as error:
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
            self._check_date(request.head, self._max_skew)
        parts = urlsplit(request.target)
        bucket, _, path = parts.path[1:].partition("/")
        key = unquote(path)
        if bucket != BUCKET:
            raise S3Error(404, "NoSuchBucket", "The specified bucket does not exist")
        if not key and request.method == "GET":
            self._counts["pages"] += 1
            query = parse_qs(parts.query, keep_blank_values=True)
            page = self._page({name: values[0] for name, values in query.items()})
            return Answer(200, page, _XML, self._latency)
        if key and request.method == "GET":
            self._counts["objects"] += 1
            return self._get(key, request.head)
        if key and request.method == "PUT":
            self._counts["puts"] += 1
            self._stored[key] = request.body
            self._changed[key] = int(time.time())
            return Answer(200, b"", f"ETag: {etag_of(request.body)}\r\n", self._latency)
        raise S3Error(501, "NotImplemented", f"{request.method} {key} is not served")

    def _check_date(self, head: bytes, max_skew: float) -> None:
        now = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=self._clock_ahead)
        found = _SIGNED_AT.search(head)
        signed = found[1].decode() if found else ""
        at = dt.datetime.strptime(signed, _STAMP).replace(tzinfo=dt.UTC)
        if abs((now - at).total_seconds()) <= max_skew:
            return
        details = (
            f"<RequestTime>{signed}</RequestTime>"
            f"<ServerTime>{now.strftime('%Y-%m-%dT%H:%M:%SZ')}</ServerTime>"
            f"<MaxAllowedSkewMilliseconds>{max_skew * 1000:.0f}</MaxAllowedSkewMilliseconds>"
        )
        raise S3Error(
            *(403, "RequestTimeTooSkewed"),
            "The difference between the request time and the current time is too large.",
            details=details,
            headers=f"Date: {format_datetime(now, usegmt=True)}\r\n",
        )

    def _body(self, key: str) -> bytes:
        return self._stored[key] if key in self._stored else object_body(key, self._bytes)

    def _get(self, key: str, head: bytes) -> Answer:
        if key not in self._changed:
            raise S3Error(404, "NoSuchKey", "The specified key does not exist.")
        body = self._body(key)
        etag, asked = etag_of(body), _IF_MATCH.search(head)
        if asked and asked[1].decode().strip('"') != etag.strip('"'):
            raise S3Error(412, "PreconditionFailed", "If-Match")
        return Answer(200, body, f"ETag: {etag}\r\n", self._latency)

    def _entry(self, key: str) -> str:
        """Return an object's entry in a listing, up to its owner."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self._changed[key]))
        body = self._body(key)
        return (
            f"<Contents><Key>{quote(key, safe='/~-._')}</Key>"
            f"<LastModified>{moment}.000Z</LastModified>"
            f"<ETag>&quot;{etag_of(body)[1:-1]}&quot;</ETag><Size>{len(body)}</Size>"
            "<StorageClass>STANDARD</StorageClass>"
        )

    def _page(self, query: Mapping[str, str]) -> bytes:
        """Answer ListObjectsV2, or ListObjects without `list-type`; the latter includes owners."""
        if len(self._keys) != len(self._changed):
            self._list()
        keys, is_first_version = self._keys, "list-type" not in query
        prefix = query.get("prefix", "")
        after = query.get("marker" if is_first_version else "start-after", "")
        begin = bytes.fromhex(query.get("continuation-token", "")).decode() or after
        first = max(bisect_left(keys, prefix), bisect_right(keys, begin))
        last = bisect_left(keys, prefix + "\U0010ffff")
        most = min(PAGE_KEYS, int(query.get("max-keys", PAGE_KEYS)))
        end = min(first + most, last)
        more = end < last
        if is_first_version:
            own = f"<Marker>{quote(after, safe='/')}</Marker>"
        else:
            own = f"<KeyCount>{max(0, end - first)}</KeyCount>"
            token = keys[end - 1].encode().hex() if more and end > first else ""
            own += f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
        head = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult'
            f' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{BUCKET}</Name>'
            f"<Prefix>{escape(prefix)}</Prefix>{own}<MaxKeys>{most}</MaxKeys>"
            "<EncodingType>url</EncodingType>"
            f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"
        )
        close = (_OWNER if is_first_version else "") + "</Contents>"
        entries = (each + close for each in self._entries[first:end])
        return "".join([head, *entries, "</ListBucketResult>"]).encode()


if __name__ == "__main__":
    run(Bucket())
