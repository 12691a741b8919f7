"""Listings of S3 objects and folders under a prefix."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries
from ddbload.source.s3_listing.list_page import ListedFolder, ListedObject, ListPage
from ddbload.source.s3_listing.parallel_listing import ParallelListing, no_bucket
from ddbload.source.s3_requests import S3RequestLoop

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from ddbload.aws.signing.s3_signer import S3Signer


REQUESTS = 16
"""Concurrent requests for pages."""


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

    `after` skips keys up to and including this one. With a `signer` (`Clients.s3_signer`), up to
    `requests` concurrent requests are sent; without one, `client` lists page by page. Memory is
    bounded. Close the generator if it is not read to its end.

    Raises `SourceNotFound` (no such bucket), `SourceUnreadable` (an S3-compatible store lists in
    another order), `AccessDenied`, `AwsConfiguration` (a bucket in another region),
    `RequestRefused`, and `ServiceUnavailable` after several attempts.
    """
    if signer is None:
        pages = _pages_by_client(client, bucket, prefix, after, "", retry_policy)
    else:
        pages = _pages_by_signer(signer, bucket, prefix, after, "", requests, retry_policy)
    try:
        for page in pages:
            yield from page.objects
    finally:
        pages.close()


def list_level(
    client: S3Client,
    bucket: str,
    prefix: str = "",
    *,
    delimiter: str = "/",
    signer: S3Signer | None = None,
    after: str | None = None,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
) -> Generator[ListedObject | ListedFolder]:
    """List the objects and folders directly under a prefix, by name; see `list_objects`."""
    if signer is None:
        pages = _pages_by_client(client, bucket, prefix, after, delimiter, retry_policy)
    else:
        pages = _pages_by_signer(signer, bucket, prefix, after, delimiter, 2, retry_policy)
    try:
        for page in pages:
            found: list[ListedObject | ListedFolder] = [*page.objects, *page.folders]
            yield from sorted(found, key=lambda each: each[0])
    finally:
        pages.close()


def _pages_by_signer(
    signer: S3Signer,
    bucket: str,
    prefix: str,
    after: str | None,
    delimiter: str,
    requests: int,
    retry_policy: RetryPolicy,
) -> Generator[ListPage]:
    # At least two: the next page is requested while the present one is being received.
    loop = S3RequestLoop(signer, max(2, requests), retry_policy)
    try:
        listing = ParallelListing(
            loop,
            bucket,
            prefix,
            after=after,
            delimiter=delimiter,
            divides=requests > 2,
        )
        yield from listing.pages()
    finally:
        loop.close()


def _pages_by_client(
    client: S3Client,
    bucket: str,
    prefix: str,
    after: str | None,
    delimiter: str,
    retry_policy: RetryPolicy,
) -> Generator[ListPage]:
    asked: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
    if delimiter:
        asked["Delimiter"] = delimiter
    if after is not None:
        asked["StartAfter"] = after
    where = f"s3://{bucket}/{prefix}"
    while True:
        page: Any = call_with_retries(
            lambda: client.list_objects_v2(**asked),
            f"listing {where}",
            expected=lambda failure: no_bucket(failure, where),
            policy=retry_policy,
        )
        objects = [_listed_object(each) for each in page.get("Contents", ())]
        folders = [ListedFolder(each["Prefix"]) for each in page.get("CommonPrefixes", ())]
        token = page.get("NextContinuationToken") if page.get("IsTruncated") else None
        yield ListPage(objects, folders, token)
        if token is None:
            return
        asked["ContinuationToken"] = token


def _listed_object(each: Any) -> ListedObject:
    modified = each.get("LastModified")
    return ListedObject(
        each["Key"],
        int(each["Size"]),
        each["ETag"],
        each.get("StorageClass", "STANDARD"),
        "" if modified is None else modified.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    )
