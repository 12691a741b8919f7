"""List S3 objects under a prefix.

A large prefix is divided into key ranges, which are requested in parallel and returned in order. A
range starts after one key and ends with another, so any choice of cuts covers all keys.
"""

from __future__ import annotations

import string
from bisect import bisect_right
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries
from ddbload.errors import SourceNotFound, SourceUnreadable
from ddbload.source.s3_listing.list_page import (
    BadPage,
    ListedObject,
    ListPage,
    is_sorted,
    read_page,
)
from ddbload.source.s3_requests import S3Request, S3RequestLoop, failure_of_content

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from ddbload.aws.signing.signers import S3Signer

REQUESTS = 16
"""Maximum concurrent requests for pages."""
PAGES_AHEAD = 128
"""Maximum pages that are requested or held before their turn, each about 0.4 MB."""
# Number of pages listed before the prefix is divided. Dividing a shorter listing saves no time.
_PAGES_BEFORE_CUT = 2
# Each range costs at least one request, even if it has no keys.
_MAX_CUTS = 64
_HEX_LETTERS = "abcdef"
_HEX = frozenset(string.digits + _HEX_LETTERS)


class PageRequest(S3Request):
    """Request for one page of a key range."""

    __slots__ = ("key_range", "location", "query")

    def __init__(self, key_range: _KeyRange, query: Mapping[str, str], location: str) -> None:
        super().__init__()
        self.key_range, self.query, self.location = key_range, query, location

    def request(self, signer: S3Signer) -> tuple[bytes, int]:
        """Return the signed request, and the generation of the credentials."""
        return signer.list(self.query)

    def doing(self) -> str:
        """Describe the request for error messages."""
        return f"listing {self.location}"

    def expected(self, failure: AwsFailure) -> Exception | None:
        """Return the named error for a missing bucket; None for other failures."""
        return missing_bucket(failure, self.location)


def missing_bucket(failure: AwsFailure, location: str) -> SourceNotFound | None:
    """Return the named error if S3 reports a missing bucket; None for other failures."""
    if failure.code in ("NoSuchBucket", "404"):
        bucket = "/".join(location.split("/")[:3])
        return SourceNotFound(f"{bucket}: no such bucket; check its name (aws s3 ls)")
    return None


def cut_keys(prefix: str, first: str, page: Sequence[str]) -> list[str]:
    """Guess keys that divide the rest of a listing; return at most 64, sorted, after its last key.

    `first` is the first key of the listing, `page` the last page's keys. Each cut is a prefix of
    the last key with one digit or letter replaced by a larger one. Only positions up to the first
    one that differs from `first` are used, because these show how the keys count up.
    """
    last = page[-1]
    pairs = enumerate(zip(first, last, strict=False))
    shortest = min(len(first), len(last) - 1)
    changed = next((place for place, (one, other) in pairs if one != other), shortest)
    digits = string.digits + (_HEX_LETTERS if _has_hex(page, changed + 1) else "")
    cuts: list[str] = []
    # A cut at a later position shares more characters with the last key, so it sorts first.
    for position in range(changed, len(prefix) - 1, -1):
        following = digits
        if last[position] not in digits:
            # Hexadecimal digits end here; a word in the middle is a name more often than a counter.
            digits = string.digits
            following = _case_of(last[position]) if position in (changed, len(prefix)) else ""
        cuts += [last[:position] + each for each in following if each > last[position]]
    return cuts[:_MAX_CUTS]


def _case_of(letter: str) -> str:
    """Return the ASCII letters of a letter's case; an empty text for other characters."""
    cases = (string.ascii_lowercase, string.ascii_uppercase)
    return next((each for each in cases if letter in each), "")


def _has_hex(page: Sequence[str], start: int) -> bool:
    """Return whether keys count in hexadecimal at a position from `start` on."""
    for characters in map(set, zip(*(key[start:] for key in page), strict=False)):
        if characters <= _HEX and len(characters.intersection(_HEX_LETTERS)) > 1:
            return not characters.isdisjoint(string.digits)
    return False


class _KeyRange:
    """Keys above `after`, up to and including `until`; None stands for no limit."""

    def __init__(self, after: str | None, until: str | None) -> None:
        self.after, self.until = after, until
        # Continuation token of the next page; None for the first one.
        self.token: str | None = None
        self.is_requested = False
        # Number of pages that have arrived.
        self.taken = 0
        # Pages that can be returned.
        self.pages: list[ListPage] = []
        self.first = self.last = ""
        self.is_done = False


class ParallelListing:
    """Parallel listing of one prefix."""

    def __init__(
        self,
        loop: S3RequestLoop,
        bucket: str,
        prefix: str,
        *,
        after: str | None = None,
        divides: bool = True,
        pages_ahead: int = PAGES_AHEAD,
    ) -> None:
        """Prepare a listing. `divides`: allow dividing it."""
        self._loop, self._prefix = loop, prefix
        self._location = f"s3://{bucket}/{prefix}"
        self._query = {"encoding-type": "url", "list-type": "2"}
        if prefix:
            self._query["prefix"] = prefix
        self._may_divide = divides
        self._pages_ahead = pages_ahead
        self._ranges = [_KeyRange(after, None)]
        self._is_divided = self._has_restarted = False
        # Keys up to this one are dropped, because some S3-compatible stores ignore start-after.
        self._skip_to = after
        self._last_returned = after

    def pages(self) -> Generator[ListPage]:
        """Yield all pages in order. Raises the errors of `list_objects`."""
        ranges = self._ranges
        while ranges:
            head = ranges[0]
            if head.pages:
                page = head.pages.pop(0)
                if page.objects:
                    self._last_returned = page.objects[-1].key
                yield page
            elif head.is_done:
                del ranges[0]
            else:
                self._send_requests()
                self._take_responses()

    def _send_requests(self) -> None:
        """Request the next pages, in the order in which they will be returned."""
        held = sum(len(each.pages) + each.is_requested for each in self._ranges)
        for number, key_range in enumerate(self._ranges):
            # The page that is returned next is always requested, whatever the limits.
            if self._loop.free() <= 0 or (held >= self._pages_ahead and number):
                return
            if not (key_range.is_done or key_range.is_requested):
                query = dict(self._query)
                if key_range.token is not None:
                    query["continuation-token"] = key_range.token
                elif key_range.after is not None:
                    query["start-after"] = key_range.after
                key_range.is_requested = True
                self._loop.send(PageRequest(key_range, query, self._location))
                held += 1

    def _take_responses(self) -> None:
        for request, response in self._loop.wait():
            assert isinstance(request, PageRequest)  # noqa: S101 - for type checkers
            key_range = request.key_range
            try:
                page = read_page(response.body)
            except BadPage as error:
                self._loop.retry(request, failure_of_content(error))
                continue
            key_range.token, key_range.is_requested = page.token, False
            if not key_range.is_done:
                self._add_page(key_range, page)

    def _add_page(self, key_range: _KeyRange, page: ListPage) -> None:
        """Add a range's next page, dropping keys outside the range."""
        objects, is_last = page.objects, page.token is None
        if objects:
            if not self._is_next(key_range, objects):
                return
            key_range.first = key_range.first or objects[0].key
            key_range.last = objects[-1].key
            if self._skip_to is not None:
                objects = [each for each in objects if each.key > self._skip_to]
            if key_range.until is not None and key_range.last >= key_range.until:
                objects = objects[: bisect_right(objects, key_range.until, key=itemgetter(0))]
                is_last = True
        key_range.taken += 1
        if objects:
            key_range.pages.append(page._replace(objects=objects))
        if is_last:
            key_range.is_done = True
        elif objects and self._may_divide and key_range.taken >= _PAGES_BEFORE_CUT:
            # The listing's only range is divided once.
            self._may_divide = False
            cuts = cut_keys(self._prefix, key_range.first, [each.key for each in objects])
            if cuts:
                self._is_divided = True
                key_range.until = cuts[0]
                self._ranges += map(_KeyRange, cuts, [*cuts[1:], None])

    def _is_next(self, key_range: _KeyRange, objects: list[ListedObject]) -> bool:
        """Check that a page continues its range; otherwise restart the listing and return false.

        Some S3-compatible stores ignore start-after or list in another order.
        """
        start = key_range.last or key_range.after
        in_order = is_sorted(objects)
        if in_order and (start is None or objects[0].key > start):
            return True
        if not self._is_divided:
            # Keep the order of the store.
            self._may_divide = False
            return True
        if in_order and not key_range.taken and not self._has_restarted:
            self._restart()
            return False
        raise SourceUnreadable(
            f"{self._location}: the store does not list keys in S3's order, so it cannot be listed"
            " in parallel; list it with one request at a time"
        )

    def _restart(self) -> None:
        """List everything again page by page, without the keys that were already returned."""
        self._has_restarted = True
        self._skip_to = self._last_returned
        for each in self._ranges:
            each.is_done = True
        self._ranges[:] = [_KeyRange(None, None)]


# Entry points.


def list_objects(
    client: S3Client,
    bucket: str,
    prefix: str = "",
    *,
    signer: S3Signer | None = None,
    after: str | None = None,
    requests: int = REQUESTS,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
) -> Generator[ListedObject]:
    """List the objects whose keys begin with `prefix`, sorted by the keys' UTF-8 bytes.

    `after` skips keys up to and including this one. With a `signer` (`Clients.s3_signer`),
    ddbload's HTTP client sends up to `requests` concurrent requests; one or two list page by page.
    Without a signer, `client` lists page by page. Memory is bounded. Close the generator if it is
    not read to its end.

    Raises `SourceNotFound` (no such bucket), `SourceUnreadable` (an S3-compatible store lists in
    another order), `AccessDenied`, `AwsConfiguration` (a bucket in another region),
    `RequestRefused`, and `ServiceUnavailable` after several attempts.
    """
    if signer is not None:
        with closing(S3RequestLoop(signer, requests, retry_policy)) as loop:
            listing = ParallelListing(loop, bucket, prefix, after=after, divides=requests > 2)
            for page in listing.pages():
                yield from page.objects
        return
    parameters: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
    if after is not None:
        parameters["StartAfter"] = after
    location = f"s3://{bucket}/{prefix}"
    while True:
        answer: Any = call_with_retries(
            lambda: client.list_objects_v2(**parameters),
            f"listing {location}",
            policy=retry_policy,
            expected=lambda failure: missing_bucket(failure, location),
        )
        objects = map(_listed_object, answer.get("Contents", ()))
        # Some S3-compatible stores ignore start-after.
        yield from (each for each in objects if after is None or each.key > after)
        if not answer.get("IsTruncated") or answer.get("NextContinuationToken") is None:
            return
        parameters["ContinuationToken"] = answer["NextContinuationToken"]


def _listed_object(each: Any) -> ListedObject:
    modified = each.get("LastModified")
    return ListedObject(
        each["Key"],
        int(each["Size"]),
        each["ETag"],
        each.get("StorageClass", "STANDARD"),
        "" if modified is None else modified.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    )
