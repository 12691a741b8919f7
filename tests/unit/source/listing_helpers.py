"""A store that lists, for who asks in any order and is answered in any."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote_plus

from ddbload.aws.failures import AwsFailure
from ddbload.aws.http_client.http1 import Response
from ddbload.source.s3_listing.parallel_listing import PageRequest
from ddbload.source.s3_requests import S3Request

ENTRY = (
    "<Contents><Key>{}</Key><LastModified>2026-11-21T20:08:00.000Z</LastModified>"
    "<ETag>&quot;{}&quot;</ETag><Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>"
)


def page_of(keys: Iterable[str], token: str | None = None, more: str = "") -> bytes:
    """A page as S3 writes it; the size of each object is that of its key."""
    entries = "".join(ENTRY.format(quote_plus(key, safe="/"), "e", len(key)) for key in keys)
    told = "" if token is None else f"<NextContinuationToken>{token}</NextContinuationToken>"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult'
        f' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>{told}'
        f"<EncodingType>url</EncodingType><IsTruncated>{str(token is not None).lower()}"
        f"</IsTruncated>{entries}{more}</ListBucketResult>"
    ).encode()


class Lister:
    """Its keys, in pages of `size`. Answers come in a random order, some tokens before them.

    `ignores_after`: it knows of no start-after. `order`: how it sorts.
    `is_prompt`: all answers come together, so that `rounds` is how often somebody waited.
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
        self.order = order
        self.asked: list[dict[str, str]] = []
        self.at_once = self.rounds = 0
        self.is_prompt = is_prompt
        self._under_way: list[S3Request] = []

    def free(self) -> int:
        return self.connections - len(self._under_way)

    def send(self, job: S3Request) -> None:
        assert self.free() > 0
        assert isinstance(job, PageRequest)
        self.asked.append(dict(job.query))
        self._under_way.append(job)
        self.at_once = max(self.at_once, len(self._under_way))

    def retry(self, job: S3Request, failure: AwsFailure) -> None:
        raise AssertionError(failure)

    def wait(self) -> tuple[list[tuple[S3Request, Any]], list[tuple[S3Request, Response]]]:
        assert self._under_way, "nothing is asked for, so nothing will come"
        self.rounds += 1
        peeked, answers = [], []
        count = len(self._under_way)
        for job in self.rng.sample(
            self._under_way, count if self.is_prompt else self.rng.randint(1, count)
        ):
            assert isinstance(job, PageRequest)
            body, token = self.page(job.query)
            is_glimpse = not self.is_prompt and self.rng.random() < 0.5
            if token is not None and is_glimpse:
                # Again and again, as where a page is lost and sent anew.
                peeked.append((job, token))
                continue
            self._under_way.remove(job)
            answers.append((job, Response(200, {}, body, keep_alive=True)))
        return peeked, answers

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
