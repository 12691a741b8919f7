"""Fake S3 bucket with generated objects and a configurable latency.

    python -m bench.bucket

It serves ListObjects, ListObjectsV2 and GetObject; `bench.http_server` says how it begins and
ends. POST /reset takes {"shape": name, "objects": count, "bytes": size, "latency": seconds, "seed":
number} and clears the counters; the seed determines when each object was last changed. GET
/counters returns the number of requests since then, GET /etag the ETag that all objects share.

Two more settings make requests grow old. "max_skew_seconds": requests whose X-Amz-Date differs by
more from the time at which the server gets to them are answered 403 RequestTimeTooSkewed, as by S3,
and counted as `skewed`; the header has whole seconds, so that a new request is up to a second old.
"most_at_once": number of requests that are worked on at a time, behind which others wait.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import random
import re
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from bench.http_server import Answer, Request, Service, run

BUCKET = "bench"
PREFIX = "in/"
PAGE_KEYS = 1000
"""Most keys in a page of a listing."""
_YEARS = (1_577_836_800, 1_767_225_599)
"""Times between which objects were last changed: the years from 2020 to 2025."""
_OWNER = b"<Owner><ID>75aa57f09aa0c8caeab4f8c24e99d10f8e7faeebf76c078efc7c6caea54ba06a</ID></Owner>"
_SIGNED_AT = re.compile(rb"\nx-amz-date: *([0-9TZ]+)", re.IGNORECASE)
_STAMP = "%Y%m%dT%H%M%SZ"


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
    """Return the bucket's keys in S3's order."""
    return sorted({PREFIX + SHAPES[shape](number) for number in range(count)}, key=str.encode)


class Bucket(Service):
    """Objects of the bucket, and counters of requests."""

    def __init__(self) -> None:
        self.reset({})

    def reset(self, settings: dict[str, Any]) -> None:
        """Replace the objects and clear the counters."""
        self.latency = float(settings.get("latency", 0.0))
        self.max_skew_seconds: float | None = settings.get("max_skew_seconds")
        self.most_at_once: int | None = settings.get("most_at_once")
        self.keys = bucket_keys(
            str(settings.get("shape", "numbered")), int(settings.get("objects", 0))
        )
        self.body = b"x" * int(settings.get("bytes", 1024))
        self.etag = hashlib.md5(self.body, usedforsecurity=False).hexdigest()
        self.requests: Counter[str] = Counter()
        self._entries = self._describe(random.Random(int(settings.get("seed", 1))))

    def _describe(self, generator: random.Random) -> list[bytes]:
        """Return each object's entry in a listing, up to the owner and the end."""
        entry = (
            "<Contents><Key>{}</Key><LastModified>{}.000Z</LastModified>"
            f"<ETag>&quot;{self.etag}&quot;</ETag><Size>{len(self.body)}</Size>"
            "<StorageClass>STANDARD</StorageClass>"
        )
        entries = []
        for key in self.keys:
            changed = time.gmtime(generator.randint(*_YEARS))
            moment = time.strftime("%Y-%m-%dT%H:%M:%S", changed)
            entries.append(entry.format(quote(key, safe="/~-._"), moment).encode())
        return entries

    def counters(self) -> dict[str, Any]:
        """Return the number of requests of each kind."""
        return dict(self.requests)

    def control(self, target: str) -> Any:
        """Answer GET /etag."""
        return {"etag": f'"{self.etag}"'} if target == "/etag" else None

    def serve(self, request: Request) -> Answer:
        """Answer a request after the latency."""
        status, headers, body = self.answer(request.target, request.head)
        return Answer(status, body, headers, self.latency)

    def answer(self, target: str, headers: bytes) -> tuple[int, str, bytes]:
        """Answer a request with status, headers and body."""
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True)
        bucket, _, key = parts.path[1:].partition("/")
        if bucket != BUCKET or b"AWS4-HMAC-SHA256 " not in headers:
            return 403, "", b"<Error><Code>AccessDenied</Code></Error>"
        if self.max_skew_seconds is not None:
            refusal = self._refusal(headers, self.max_skew_seconds)
            if refusal is not None:
                return refusal
        if not key:
            return 200, "", self._page({name: values[0] for name, values in query.items()})
        return self._object(unquote(key))

    def _refusal(self, headers: bytes, max_skew: float) -> tuple[int, str, bytes] | None:
        """Refuse a request that was signed too long ago, or in the future."""
        now = dt.datetime.now(dt.UTC)
        found = _SIGNED_AT.search(headers)
        signed = found[1].decode() if found else ""
        try:
            at = dt.datetime.strptime(signed, _STAMP).replace(tzinfo=dt.UTC)
        except ValueError:
            return 403, "", b"<Error><Code>AccessDenied</Code></Error>"
        if abs((now - at).total_seconds()) <= max_skew:
            return None
        self.requests["skewed"] += 1
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>RequestTimeTooSkewed</Code>'
            "<Message>The difference between the request time and the current time is too large."
            f"</Message><RequestTime>{signed}</RequestTime>"
            f"<ServerTime>{now:%Y-%m-%dT%H:%M:%SZ}</ServerTime>"
            f"<MaxAllowedSkewMilliseconds>{max_skew * 1000:.0f}</MaxAllowedSkewMilliseconds>"
            "<RequestId>0000000000000000</RequestId><HostId>none</HostId></Error>"
        )
        date = f"Date: {format_datetime(now, usegmt=True)}\r\n"
        return 403, f"{date}Content-Type: application/xml\r\n", body.encode()

    def _object(self, key: str) -> tuple[int, str, bytes]:
        self.requests["objects"] += 1
        at = bisect_left(self.keys, key)
        if at == len(self.keys) or self.keys[at] != key:
            return 404, "", b"<Error><Code>NoSuchKey</Code></Error>"
        return 200, f'ETag: "{self.etag}"\r\n', self.body

    def _page(self, query: dict[str, str]) -> bytes:
        """Answer ListObjectsV2; without `list-type` ListObjects, which tells owners."""
        self.requests["pages"] += 1
        is_first_version = "list-type" not in query
        prefix = query.get("prefix", "")
        after = query.get("marker" if is_first_version else "start-after", "")
        first = max(bisect_left(self.keys, prefix), bisect_right(self.keys, after))
        last = bisect_left(self.keys, prefix + "\U0010ffff")
        if "continuation-token" in query:
            first = int(query["continuation-token"])
        most = min(PAGE_KEYS, int(query.get("max-keys", PAGE_KEYS)))
        end = min(first + most, last)
        more = end < last
        if is_first_version:
            own = f"<Marker>{quote(after, safe='/')}</Marker>"
        else:
            own = f"<KeyCount>{max(0, end - first)}</KeyCount>"
            own += f"<NextContinuationToken>{end}</NextContinuationToken>" if more else ""
        head = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult'
            f' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{BUCKET}</Name>'
            f"<Prefix>{escape(prefix)}</Prefix>{own}<MaxKeys>{most}</MaxKeys>"
            "<EncodingType>url</EncodingType>"
            f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"
        ).encode()
        close = (_OWNER if is_first_version else b"") + b"</Contents>"
        entries = (entry + close for entry in self._entries[first:end])
        return b"".join([head, *entries, b"</ListBucketResult>"])


def main() -> None:
    """Run the server."""
    argparse.ArgumentParser(
        description="Serve a fake S3 bucket with generated objects."
    ).parse_args()
    run(Bucket())


if __name__ == "__main__":
    main()
