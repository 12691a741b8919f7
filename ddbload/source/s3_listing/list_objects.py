"""Listings of S3 objects and folders under a prefix, page by page."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from ddbload.aws.failures import AwsFailure
from ddbload.aws.http_client.http1 import Response
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries
from ddbload.errors import SourceNotFound
from ddbload.source.s3_listing.list_page import (
    BadPage,
    ListedFolder,
    ListedObject,
    ListPage,
    read_page,
    token_of,
)
from ddbload.source.s3_requests import S3Request, S3RequestLoop, failure_of_content

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from ddbload.aws.signing.s3_signer import S3Signer

# The next page is requested while the present one is still being received.
_CONNECTIONS = 2


def list_objects(
    client: S3Client,
    bucket: str,
    prefix: str = "",
    *,
    signer: S3Signer | None = None,
    after: str | None = None,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
) -> Generator[ListedObject]:
    """List the objects whose keys begin with `prefix`; S3 sorts them by the keys' UTF-8 bytes.

    `after` skips keys up to and including this one. With a `signer` (`Clients.s3_signer`),
    ddbload's HTTP client sends the requests, without one, `client`. Holds two pages at most. Close
    the generator if it is not read to its end.

    Raises `SourceNotFound` (no such bucket), `AccessDenied`, `AwsConfiguration` (a bucket in
    another region), `RequestRefused`, and `ServiceUnavailable` after several attempts.
    """
    pages = _list_pages(client, signer, bucket, prefix, "", after, retry_policy)
    try:
        for page in pages:
            if after is None:
                yield from page.objects
            else:
                # Some S3-compatible stores ignore start-after.
                yield from (each for each in page.objects if each.key > after)
    finally:
        pages.close()


def list_level(
    client: S3Client,
    bucket: str,
    prefix: str = "",
    *,
    delimiter: str = "/",
    signer: S3Signer | None = None,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
) -> Generator[ListedObject | ListedFolder]:
    """List the objects and folders directly under a prefix, by name; see `list_objects`."""
    pages = _list_pages(client, signer, bucket, prefix, delimiter, None, retry_policy)
    try:
        for page in pages:
            entries: list[ListedObject | ListedFolder] = [*page.objects, *page.folders]
            yield from sorted(entries, key=itemgetter(0))
    finally:
        pages.close()


def _list_pages(
    client: S3Client,
    signer: S3Signer | None,
    bucket: str,
    prefix: str,
    delimiter: str,
    after: str | None,
    retry_policy: RetryPolicy,
) -> Generator[ListPage]:
    if signer is None:
        yield from _pages_by_client(client, bucket, prefix, delimiter, after, retry_policy)
        return
    query = {"encoding-type": "url", "list-type": "2"}
    if prefix:
        query["prefix"] = prefix
    if delimiter:
        query["delimiter"] = delimiter
    loop = S3RequestLoop(signer, _CONNECTIONS, retry_policy)
    try:
        yield from request_pages(loop, query, after, f"s3://{bucket}/{prefix}")
    finally:
        loop.close()


class PageRequest(S3Request):
    """Request for one page of a listing."""

    __slots__ = ("location", "number", "query")

    peeks: ClassVar[bool] = True

    def __init__(self, number: int, query: Mapping[str, str], location: str) -> None:
        super().__init__()
        self.number, self.query, self.location = number, query, location

    def request(self, signer: S3Signer) -> tuple[bytes, int]:
        """Sign the request."""
        return signer.list(self.query)

    def doing(self) -> str:
        """Describe the listing for error messages."""
        return f"listing {self.location}"

    def expected(self, failure: AwsFailure) -> Exception | None:
        """Return the named error of a missing bucket."""
        return _missing_bucket(failure, self.location)

    def peek(self, partial: Response) -> str | None:
        """Find the next page's continuation token."""
        return token_of(partial)


def request_pages(
    loop: S3RequestLoop, query: Mapping[str, str], after: str | None, location: str
) -> Generator[ListPage]:
    """List pages in order; a page is requested as soon as the token for it has been received.

    S3 writes that token before the objects. `location` is the listing's s3:// URI, for messages.
    """
    received: dict[int, ListPage] = {}
    sent = yielded = 0
    # Query parameters that select the next page; None while its token is unknown.
    start: dict[str, str] | None = {} if after is None else {"start-after": after}
    while True:
        if start is not None and loop.free() > 0:
            sent += 1
            loop.send(PageRequest(sent, {**query, **start}, location))
            start = None
        tokens, responses = loop.wait()
        for request, token in tokens:
            assert isinstance(request, PageRequest)  # noqa: S101 - for type checkers
            if request.number == sent:
                start = {"continuation-token": token}
        for request, response in responses:
            assert isinstance(request, PageRequest)  # noqa: S101 - for type checkers
            try:
                page = read_page(response.body)
            except BadPage as error:
                loop.retry(request, failure_of_content(error))
                continue
            received[request.number] = page
            if request.number == sent:
                start = None if page.token is None else {"continuation-token": page.token}
        while yielded + 1 in received:
            yielded += 1
            page = received.pop(yielded)
            yield page
            if page.token is None:
                return


def _pages_by_client(
    client: S3Client,
    bucket: str,
    prefix: str,
    delimiter: str,
    after: str | None,
    retry_policy: RetryPolicy,
) -> Generator[ListPage]:
    parameters: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
    if delimiter:
        parameters["Delimiter"] = delimiter
    if after is not None:
        parameters["StartAfter"] = after
    location = f"s3://{bucket}/{prefix}"
    while True:
        answer: Any = call_with_retries(
            lambda: client.list_objects_v2(**parameters),
            f"listing {location}",
            policy=retry_policy,
            expected=lambda failure: _missing_bucket(failure, location),
        )
        objects = [_listed_object(each) for each in answer.get("Contents", ())]
        folders = [ListedFolder(each["Prefix"]) for each in answer.get("CommonPrefixes", ())]
        token = answer.get("NextContinuationToken") if answer.get("IsTruncated") else None
        yield ListPage(objects, folders, token)
        if token is None:
            return
        parameters["ContinuationToken"] = token


def _listed_object(each: Any) -> ListedObject:
    modified = each.get("LastModified")
    return ListedObject(
        each["Key"],
        int(each["Size"]),
        each["ETag"],
        each.get("StorageClass", "STANDARD"),
        "" if modified is None else modified.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    )


def _missing_bucket(failure: AwsFailure, location: str) -> SourceNotFound | None:
    if failure.code in ("NoSuchBucket", "404"):
        bucket = "/".join(location.split("/")[:3])
        return SourceNotFound(f"{bucket}: no such bucket")
    return None
