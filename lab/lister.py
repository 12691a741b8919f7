"""List a bucket with ddbload, and print the same JSON as `lab.published.list_objects`.

    python -m lab.lister REQUESTS BUCKET

`REQUESTS` is the maximum of concurrent requests; 1 lists page by page.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from typing import Any
from unittest import mock

from ddbload.aws.clients import Clients
from ddbload.aws.http_client.http1 import Response
from ddbload.source.s3_listing import list_objects
from ddbload.source.s3_listing.list_page import ListPage, read_page
from ddbload.source.s3_requests import S3Request, S3RequestLoop

_spans: list[tuple[str, float, float]] = []


class WatchedLoop(S3RequestLoop):
    """Request loop that records when each request was sent and its response arrived."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._begins: dict[int, float] = {}

    def send(self, request: S3Request) -> None:
        """Sign and send a request."""
        self._begins[id(request)] = time.perf_counter()
        super().send(request)

    def wait(self) -> list[tuple[S3Request, Response]]:
        """Wait for responses."""
        responses = super().wait()
        now = time.perf_counter()
        _spans.extend(("request", self._begins.pop(id(each)), now) for each, _ in responses)
        return responses


def read_page_watched(body: bytes) -> ListPage:
    """Parse a response, and record the time of parsing."""
    begin = time.perf_counter()
    page = read_page(body)
    _spans.append(("parsing", begin, time.perf_counter()))
    return page


def main() -> None:
    """List the bucket."""
    requests, bucket = sys.argv[1:]
    clients = Clients()
    signer = clients.s3_signer(bucket)
    with (
        mock.patch.object(list_objects, "S3RequestLoop", WatchedLoop),
        mock.patch.object(list_objects, "read_page", read_page_watched),
    ):
        used, begin = time.process_time(), time.perf_counter()
        found = list_objects.list_objects(clients.s3, bucket, signer=signer, requests=int(requests))
        keys = [each.key for each in found]
        seconds = time.perf_counter() - begin
        cpu = time.process_time() - used
    result = {
        "seconds": seconds,
        "cpu": cpu,
        "keys": len(keys),
        "digest": hashlib.sha256("".join(f"{key}\n" for key in keys).encode()).hexdigest(),
        "spans": [(what, since - begin, until - begin) for what, since, until in _spans],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
