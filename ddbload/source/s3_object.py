"""S3 objects as byte sources, pinned to one version and read in bounded ranges."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import AwsFailure, classify_failure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries
from ddbload.errors import (
    AccessDenied,
    RequestRefused,
    SourceChanged,
    SourceNotFound,
    SourceUnreadable,
)
from ddbload.source.local_file import MAX_COMPARED, nearest_file

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

RANGE_BYTES = 8 * 1024 * 1024
"""Bytes per ranged GET; limits what a broken read repeats, and a body's duration."""

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
# Error codes of a missing object, and of one that is not the pinned version.
_GONE = {"NoSuchKey", "NoSuchBucket", "NoSuchVersion", "404", "NotFound", "MethodNotAllowed"}
_CHANGED = {"PreconditionFailed", "412", "InvalidRange", "416"}


Pinned = Mapping[str, Any]
"""Version of an object: keys bucket, key, version_id, etag and size."""


def stored_bytes(pinned: Pinned) -> int:
    """Return the stored size in bytes of an object, or of the member of an archive."""
    return int(pinned["bytes" if "member" in pinned else "size"])


class BrokenRead(ConnectionError):
    """Raised for a response that is not the requested range."""


@dataclass(eq=False)
class S3Object:
    """Object pinned by its ETag, and in a versioned bucket by its version id."""

    client: S3Client
    pinned: Mapping[str, Any]
    """Bucket, key, version id, ETag and size."""
    retry_policy: RetryPolicy = DEFAULT_POLICY
    head: bytes = b""
    """First bytes, if they were read when the object was opened."""

    def __post_init__(self) -> None:
        self.pinned = dict(self.pinned)
        self.name = uri_of(self.pinned)
        """s3:// URI of the object."""
        self.size = int(self.pinned["size"])
        """Size in bytes."""

    def stream(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        """Yield a range; see `ByteSource.stream`. A broken read continues where it stopped."""
        position, failures = start, 0
        while position < end:
            try:
                for piece in self._read(position, min(end, position + RANGE_BYTES), piece_bytes):
                    position += len(piece)
                    failures = 0
                    yield piece
            except Exception as error:
                failure = classify_failure(error)
                if failure is None:
                    raise
                failures += 1
                doing = f"reading {self.name} from byte {position}"
                known = partial(expected, pinned=self.pinned)
                self.retry_policy.wait(failure, failures, doing, known)

    def close(self) -> None:
        """Do nothing, because no connection is kept between reads."""

    def _read(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        pinned = self.pinned
        version = {"VersionId": pinned["version_id"]} if pinned.get("version_id") else {}
        answer: Any = self.client.get_object(
            Bucket=pinned["bucket"],
            Key=pinned["key"],
            Range=f"bytes={start}-{end - 1}",
            IfMatch=pinned["etag"],
            **version,
        )
        body = answer["Body"]
        try:
            require_range(
                self.pinned,
                answer.get("ETag"),
                answer.get("ContentRange"),
                answer.get("ContentLength"),
                (start, end),
            )
            left = end - start
            while left:
                piece = body.read(min(piece_bytes, left))
                if not piece:
                    raise BrokenRead(f"the body ended {left} bytes early")
                if len(piece) > left:
                    raise BrokenRead("the body is longer than the range that was asked for")
                left -= len(piece)
                yield piece
        finally:
            body.close()


def require_range(
    pinned: Pinned,
    etag: str | None,
    content_range: str | None,
    length: int | None,
    asked: tuple[int, int],
) -> None:
    """Raise `SourceChanged` or `BrokenRead` if a response is not the requested range.

    Args:
        pinned: Pinned version of the object.
        etag: ETag header of the response.
        content_range: Content-Range header of the response.
        length: Content-Length header of the response.
        asked: Requested range: first byte, and byte after the last.
    """
    (start, end), size = asked, int(pinned["size"])
    # Some S3-compatible stores ignore If-Match.
    if etag is not None and _bare(etag) != _bare(str(pinned["etag"])):
        raise _changed(uri_of(pinned))
    found = _CONTENT_RANGE.fullmatch(content_range or "")
    if found is None:
        # Some proxies and stores send the whole object, which is accepted if all of it was
        # requested.
        if start == 0 and length == end == size:
            return
        raise BrokenRead("the answer is not the range that was asked for")
    if int(found[3]) != size:
        raise _changed(uri_of(pinned))
    if (int(found[1]), int(found[2])) != (start, end - 1):
        raise BrokenRead("the answer is not the range that was asked for")


def expected(failure: AwsFailure, pinned: Pinned) -> Exception | None:
    """Return the named error for a version that changed, is gone or is archived; else None."""
    if failure.code in _CHANGED or failure.status in (412, 416):
        return _changed(uri_of(pinned))
    if failure.code in _GONE or failure.status == 404:
        return SourceChanged(
            f"{uri_of(pinned)}: the version that this run began with is gone; start a new run"
        )
    if failure.code == "InvalidRequest" and "Server Side Encryption" in failure.text:
        return SourceUnreadable(
            f"{uri_of(pinned)}: the object is encrypted with a key that its writer sent (SSE-C),"
            " which ddbload does not support; copy it with another encryption"
        )
    if failure.code == "InvalidObjectState":
        # S3 returns 403 for a GET of an archived object, and a listing does not show the state.
        return SourceUnreadable(
            f"{uri_of(pinned)}: the object is archived; restore it first (aws s3api restore-object)"
        )
    return None


def uri_of(pinned: Pinned) -> str:
    """Format the s3:// URI of a pinned object."""
    return f"s3://{pinned['bucket']}/{pinned['key']}"


def _changed(name: str) -> SourceChanged:
    return SourceChanged(
        f"{name} was overwritten after this run began with it; start a new run for the new version"
    )


def open_s3(
    client: S3Client,
    bucket: str,
    key: str,
    *,
    version_id: str | None = None,
    etag: str | None = None,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
    head_bytes: int = 0,
) -> S3Object:
    """Pin an object's current version, or the one with `version_id`.

    Up to `head_bytes` of its first bytes are read, too, unless S3 refuses to return any. Raises
    `SourceNotFound`, `SourceChanged` (the ETag is not `etag`), `SourceUnreadable`,
    `AccessDenied` and `ServiceUnavailable`.
    """
    name = f"s3://{bucket}/{key}"
    version: Any = {"VersionId": version_id} if version_id else {}

    def absent(failure: AwsFailure) -> Exception | None:
        if failure.code in _GONE or failure.status in (404, 405):
            if version_id:
                return SourceNotFound(f"{name}: no such object in version {version_id}")
            return missing_object(client, bucket, key)
        if failure.status == 400 and version_id:
            return SourceNotFound(f"{name}: S3 refuses version {version_id}")
        if failure.code == "ParamValidationError":
            return SourceNotFound(
                f"{name}: no such bucket; {bucket} is not valid for a bucket (an access point is"
                " named by its alias)"
            )
        # Responses to HEAD have no body with details.
        if failure.code == "400":
            return RequestRefused(
                f"reading {name}: 400: the object is encrypted with a key that its writer sent"
                " (SSE-C), which ddbload does not support; or the credentials have expired"
            )
        if failure.code == "403":
            return AccessDenied(
                f"reading {name}: 403: check the credentials (aws sts get-caller-identity). They"
                " need s3:GetObject, s3:ListBucket to learn that an object does not exist, and"
                " kms:Decrypt if the object has a key of its own; the bucket must belong to the"
                " account that is expected; if its requester pays, give --requester-pays, or"
                " requester_pays for the stack"
            )
        return None

    data = b""

    def look() -> Any:
        nonlocal data
        if head_bytes:
            # HEAD explains why GET refuses an empty, archived or missing object.
            with suppress(client.exceptions.ClientError):
                first = f"bytes=0-{head_bytes - 1}"
                found: Any = client.get_object(Bucket=bucket, Key=key, Range=first, **version)
                data = found["Body"].read()
                size = _CONTENT_RANGE.fullmatch(found.get("ContentRange") or "")
                if size is not None and len(data) == int(size[2]) + 1:
                    return {**found, "ContentLength": int(size[3])}
                data = b""
        return client.head_object(Bucket=bucket, Key=key, **version)

    head = call_with_retries(look, f"reading {name}", policy=retry_policy, expected=absent)
    if not head.get("ETag") or "ContentLength" not in head:
        raise SourceUnreadable(f"{name}: the answer has no ETag or size; check the endpoint")
    if _is_archived(head):
        raise SourceUnreadable(
            f"{name}: the object is archived ({head.get('StorageClass')}); restore it first (aws"
            " s3api restore-object)"
        )
    if etag is not None and _bare(etag) != _bare(head["ETag"]):
        raise SourceChanged(
            f"{name}: its ETag is not the one that was asked for ({etag}), so it was overwritten"
            " since; start a new run for what is there now"
        )
    found = head.get("VersionId")
    pinned = {
        "bucket": bucket,
        "key": key,
        # S3 returns and accepts "null" as the version id of objects older than the bucket's
        # versioning.
        "version_id": found or version_id,
        "etag": head["ETag"],
        "size": int(head["ContentLength"]),
    }
    return S3Object(client, pinned, retry_policy, data)


def _is_archived(head: Mapping[str, Any]) -> bool:
    """Return whether the object must be restored before S3 returns its content."""
    if head.get("ArchiveStatus"):
        return True
    archived = head.get("StorageClass") in ("GLACIER", "DEEP_ARCHIVE")
    return archived and 'ongoing-request="false"' not in str(head.get("Restore"))


def _bare(etag: str) -> str:
    return etag.strip('"')


def missing_object(client: S3Client, bucket: str, key: str) -> SourceNotFound:
    """Return the error for an object that does not exist, with a suggestion of a similar key.

    HEAD does not show whether the bucket exists, so the bucket is listed if permitted. Errors of
    that are ignored.
    """
    advice = ""
    with suppress(Exception):
        advice = _advice_of_bucket(client, bucket, key)
    return SourceNotFound(f"s3://{bucket}/{key}: no such object{advice}")


def _advice_of_bucket(client: S3Client, bucket: str, key: str) -> str:
    try:
        below = client.list_objects_v2(Bucket=bucket, Prefix=f"{key}/", MaxKeys=1)
    except Exception as error:
        response: Any = getattr(error, "response", None) or {}
        if response.get("Error", {}).get("Code") == "NoSuchBucket":
            return f", because there is no bucket {bucket}: check its name"
        raise
    if below.get("Contents"):
        return f", and there are objects below it: s3://{bucket}/{key}/ names all of them"
    if key.startswith("/"):
        return "; the key begins with a slash: write one slash after the bucket"
    folder = key[: key.rfind("/") + 1]
    page = client.list_objects_v2(Bucket=bucket, Prefix=folder, Delimiter="/", MaxKeys=MAX_COMPARED)
    keys = [each["Key"] for each in page.get("Contents", ())]
    names = {posixpath.basename(each): each for each in keys if not each.endswith("/")}
    near = nearest_file(posixpath.basename(key), names)
    return "" if near is None else f"; did you mean s3://{bucket}/{names[near]}?"
