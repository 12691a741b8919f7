"""Fake `S3RequestLoop` that answers requests for pages of a listing."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote_plus

from ddbload.aws.failures import AwsFailure
from ddbload.aws.http_client.http1 import Response
from ddbload.source.s3_listing.list_objects import PageRequest
from ddbload.source.s3_requests import S3Request

ENTRY = (
    "<Contents><Key>{}</Key><LastModified>2026-11-21T20:08:00.000Z</LastModified>"
    "<ETag>&quot;{}&quot;</ETag><Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>"
)


def page_of(keys: Iterable[str], token: str | None = None, more: str = "") -> bytes:
    """Write a page as S3 does; an object's size is the length of its key."""
    entries = "".join(ENTRY.format(quote_plus(key, safe="/"), "e", len(key)) for key in keys)
    told = "" if token is None else f"<NextContinuationToken>{token}</NextContinuationToken>"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult'
        f' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>{told}'
        f"<EncodingType>url</EncodingType><IsTruncated>{str(token is not None).lower()}"
        f"</IsTruncated>{entries}{more}</ListBucketResult>"
    ).encode()


class Lister:
    """Request loop over a store with `keys`, in pages of `size`.

    Responses come in a random order. `ignores_after`: the store ignores start-after. `order`: its
    sort key. `is_prompt`: all responses come together, so that `rounds` measures latency.
    """

    def __init__(
        self,
        keys: Iterable[str],
        *,
        seed: int = 0,
        size: int = 3,
        connections: int = 6,
        ignores_after: bool = False,
        order: Any = None,
        is_prompt: bool = False,
    ) -> None:
        self.keys = sorted(set(keys), key=order or str.encode)
        self.rng = random.Random(seed)
        self.size, self.connections = size, connections
        self.ignores_after = ignores_after
        self.order, self.is_prompt = order, is_prompt
        self.queries: list[dict[str, str]] = []
        self.max_in_flight = self.rounds = 0
        self._in_flight: list[S3Request] = []

    def free(self) -> int:
        return self.connections - len(self._in_flight)

    def send(self, request: S3Request) -> None:
        assert self.free() > 0
        assert isinstance(request, PageRequest)
        self.queries.append(dict(request.query))
        self._in_flight.append(request)
        self.max_in_flight = max(self.max_in_flight, len(self._in_flight))

    def retry(self, request: S3Request, failure: AwsFailure) -> None:
        raise AssertionError(failure)

    def wait(self) -> list[tuple[S3Request, Response]]:
        assert self._in_flight, "no request is in flight"
        self.rounds += 1
        responses = []
        count = len(self._in_flight)
        answered = count if self.is_prompt else self.rng.randint(1, count)
        for request in self.rng.sample(self._in_flight, answered):
            assert isinstance(request, PageRequest)
            body, _ = self.page(request.query)
            self._in_flight.remove(request)
            responses.append((request, Response(200, {}, body, keep_alive=True)))
        return responses

    def page(self, query: Any) -> tuple[bytes, str | None]:
        assert query["list-type"] == "2"
        assert query["encoding-type"] == "url"
        found = [key for key in self.keys if key.startswith(query.get("prefix", ""))]
        start = 0
        if "continuation-token" in query:
            assert "start-after" not in query
            start = int(query["continuation-token"].removeprefix("t"))
        elif "start-after" in query and not self.ignores_after:
            assert self.order is None
            start = bisect_right(found, query["start-after"])
        token = f"t{start + self.size}" if start + self.size < len(found) else None
        return page_of(found[start : start + self.size], token), token
