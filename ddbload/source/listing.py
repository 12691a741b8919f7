"""What a bucket has under a prefix."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from ddbload.aws_http.calls import call
from ddbload.aws_http.failures import Meaning
from ddbload.errors import SourceNotFound

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from ddbload.aws_http.s3_identity import S3Identity

REQUESTS = 16
"""Pages asked for at once."""


class Listed(NamedTuple):
    """An object in a listing."""

    key: str
    size: int
    """Bytes."""
    etag: str
    """With its quotes, as If-Match takes it."""
    storage_class: str
    """STANDARD where S3 says none."""
    modified: str
    """As S3 wrote it: 2026-11-21T20:08:00.000Z."""


class Folder(NamedTuple):
    """What keys up to a delimiter have in common."""

    prefix: str
    """With the delimiter."""


def list_objects(
    client: S3Client,
    bucket: str,
    prefix: str = "",
    *,
    identity: S3Identity | None = None,  # noqa: ARG001
    after: str | None = None,
    requests: int = REQUESTS,  # noqa: ARG001
    sleep: Callable[[float], None] = time.sleep,
    rng: random.Random | None = None,
    give_up: Callable[[], bool] = lambda: False,
) -> Generator[Listed]:
    """All objects whose keys begin with `prefix`, in the order of their keys' UTF-8 bytes.

    `after`: only keys beyond this one. With an `identity` (`Clients.s3_identity(bucket)`) by
    requests of one's own, up to `requests` of them under way; without one by `client`. Bounded
    memory, however many there are. Close the iterator if it is not read to its end.

    Raises `SourceNotFound` (no such bucket), `SourceUnreadable` (an answer that is no listing),
    `AccessDenied`, `AwsConfiguration` (a bucket of another region), `RequestRefused`, and
    `ServiceUnavailable` after several tries.
    """
    start: dict[str, Any] = {} if after is None else {"StartAfter": after}
    while True:
        page = _page(client, bucket, {"Prefix": prefix, **start}, sleep, rng, give_up)
        for each in page.get("Contents", ()):
            yield _listed(each)
        if not page.get("IsTruncated"):
            return
        start = {"ContinuationToken": page["NextContinuationToken"]}


def list_level(
    client: S3Client,
    bucket: str,
    prefix: str = "",
    *,
    delimiter: str = "/",
    identity: S3Identity | None = None,  # noqa: ARG001
    sleep: Callable[[float], None] = time.sleep,
    rng: random.Random | None = None,
    give_up: Callable[[], bool] = lambda: False,
) -> Generator[Listed | Folder]:
    """Objects and folders right under a prefix, in the order of their names. As `list_objects`."""
    start: dict[str, Any] = {}
    while True:
        asked = {"Prefix": prefix, "Delimiter": delimiter, **start}
        page = _page(client, bucket, asked, sleep, rng, give_up)
        found: list[Listed | Folder] = [_listed(each) for each in page.get("Contents", ())]
        found += [Folder(each["Prefix"]) for each in page.get("CommonPrefixes", ())]
        yield from sorted(found, key=lambda each: each[0])
        if not page.get("IsTruncated"):
            return
        start = {"ContinuationToken": page["NextContinuationToken"]}


def _page(
    client: S3Client,
    bucket: str,
    asked: dict[str, Any],
    sleep: Callable[[float], None],
    rng: random.Random | None,
    give_up: Callable[[], bool],
) -> Any:
    def absent(meant: Meaning) -> Exception | None:
        if meant.code in ("NoSuchBucket", "404"):
            return SourceNotFound(f"s3://{bucket}: no such bucket")
        return None

    return call(
        lambda: client.list_objects_v2(Bucket=bucket, **asked),
        f"listing s3://{bucket}/{asked['Prefix']}",
        expected=absent,
        sleep=sleep,
        rng=rng,
        give_up=give_up,
    )


def _listed(each: Any) -> Listed:
    modified = each.get("LastModified")
    return Listed(
        each["Key"],
        int(each["Size"]),
        each["ETag"],
        each.get("StorageClass", "STANDARD"),
        "" if modified is None else modified.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    )
