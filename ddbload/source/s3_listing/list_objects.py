"""Listings of S3 objects and folders under a prefix."""

from __future__ import annotations

from collections.abc import Generator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries
from ddbload.source.s3_listing.list_page import ListedFolder, ListedObject, ListPage
from ddbload.source.s3_listing.parallel_listing import ParallelListing, missing_bucket
from ddbload.source.s3_requests import S3RequestLoop

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from ddbload.aws.signing.signers import S3Signer

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
    """List the objects whose keys begin with `prefix`; S3 sorts them by the keys' UTF-8 bytes.

    `after` skips keys up to and including this one. With a `signer` (`Clients.s3_signer`),
    ddbload's HTTP client sends up to `requests` concurrent requests; one or two list page by page.
    Without a signer, `client` lists page by page. Memory is bounded. Close the generator if it is
    not read to its end.

    Raises `SourceNotFound` (no such bucket), `SourceUnreadable` (an S3-compatible store lists in
    another order), `AccessDenied`, `AwsConfiguration` (a bucket in another region),
    `RequestRefused`, and `ServiceUnavailable` after several attempts.
    """
    pages = _list_pages(client, signer, bucket, prefix, "", after, requests, retry_policy)
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
    signer: S3Signer | None = None,
) -> Generator[ListedObject | ListedFolder]:
    """List the objects and folders directly under a prefix, by name; see `list_objects`."""
    pages = _list_pages(client, signer, bucket, prefix, "/", None, 1, DEFAULT_POLICY)
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
    requests: int,
    retry_policy: RetryPolicy,
) -> Generator[ListPage]:
    if signer is None:
        yield from _pages_by_client(client, bucket, prefix, delimiter, after, retry_policy)
        return
    # At least two: the next page is requested while the present one is still being received.
    loop = S3RequestLoop(signer, max(2, requests), retry_policy)
    try:
        listing = ParallelListing(
            loop, bucket, prefix, after=after, delimiter=delimiter, divides=requests > 2
        )
        yield from listing.pages()
    finally:
        loop.close()


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
            expected=lambda failure: missing_bucket(failure, location),
        )
        objects = [_listed_object(each) for each in answer.get("Contents", ())]
        folders = [ListedFolder(each["Prefix"]) for each in answer.get("CommonPrefixes", ())]
        if after is not None:
            # Some S3-compatible stores ignore start-after.
            objects = [each for each in objects if each.key > after]
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
