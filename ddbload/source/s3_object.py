"""An S3 object, read in bounded ranges of one version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import AwsFailure, classify_failure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries
from ddbload.errors import SourceChanged, SourceNotFound, SourceUnreadable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

RANGE_BYTES = 8 * 1024 * 1024
"""One GET asks for this much: a broken read costs no more, and no body outlives its socket."""

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_GONE = {"NoSuchKey", "NoSuchBucket", "NoSuchVersion", "404", "NotFound", "MethodNotAllowed"}
_CHANGED = {"PreconditionFailed", "412", "InvalidRange", "416"}


Pinned = Mapping[str, Any]
"""One version of an object: bucket, key, version_id, etag, size."""


class BrokenRead(ConnectionError):
    """A body that is not the range which was asked for."""


class S3Object:
    """An object's version, pinned by ETag, and by version id where the bucket keeps versions."""

    def __init__(
        self,
        client: S3Client,
        pinned: Mapping[str, Any],
        retry_policy: RetryPolicy = DEFAULT_POLICY,
    ) -> None:
        self._client = client
        self._pinned = dict(pinned)
        self._retry_policy = retry_policy

    @property
    def name(self) -> str:
        """The s3:// URI."""
        return uri_of(self._pinned)

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self._pinned["size"])

    @property
    def pinned(self) -> Mapping[str, Any]:
        """Bucket, key, version id, ETag and size."""
        return self._pinned

    def stream(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        """The bytes of a range. A read that breaks or ends early goes on where it stopped."""
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
                self._retry_policy.wait(failure, failures, doing, self._expected)

    def close(self) -> None:
        """Nothing is kept open between reads."""

    def _expected(self, failure: AwsFailure) -> Exception | None:
        return expected(failure, self._pinned)

    def _read(self, start: int, end: int, piece_bytes: int) -> Iterator[bytes]:
        pinned = self._pinned
        version = {"VersionId": pinned["version_id"]} if pinned.get("version_id") else {}
        answer: Any = self._client.get_object(
            Bucket=pinned["bucket"],
            Key=pinned["key"],
            Range=f"bytes={start}-{end - 1}",
            IfMatch=pinned["etag"],
            **version,
        )
        body = answer["Body"]
        try:
            require_range(
                self._pinned,
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
    """Raise `SourceChanged` or `BrokenRead` where an answer is not the range that was asked for.

    `etag`, `content_range` and `length`: as the answer's headers have them.
    """
    (start, end), size = asked, int(pinned["size"])
    # Some stores that speak S3's language know no If-Match, and answer all the same.
    if etag is not None and _bare(etag) != _bare(str(pinned["etag"])):
        raise _changed(uri_of(pinned))
    found = _CONTENT_RANGE.fullmatch(content_range or "")
    if found is None:
        # The whole object was sent, as some proxies and stores do: it will do when it
        # is just what was asked for.
        if start == 0 and length == end == size:
            return
        raise BrokenRead("the answer is not the range that was asked for")
    if int(found[3]) != size:
        raise _changed(uri_of(pinned))
    if (int(found[1]), int(found[2])) != (start, end - 1):
        raise BrokenRead("the answer is not the range that was asked for")


def expected(meant: AwsFailure, pinned: Pinned) -> Exception | None:
    """The named error for a failure that means something of this version; None for others."""
    if meant.code in _CHANGED or meant.status in (412, 416):
        return _changed(uri_of(pinned))
    if meant.code in _GONE or meant.status == 404:
        return SourceChanged(
            f"{uri_of(pinned)}: the version that this run began with is gone; start a new run"
        )
    if meant.code == "InvalidObjectState":
        # As if it were forbidden: who only listed an object does not know.
        return SourceUnreadable(
            f"{uri_of(pinned)}: the object is archived; restore it first (aws s3api restore-object)"
        )
    return None


def uri_of(pinned: Pinned) -> str:
    """The s3:// URI of a pinned object."""
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
) -> S3Object:
    """Pin an object: its present version, or the one given.

    Raises `SourceNotFound`, `SourceChanged` (another ETag than the one given), `AccessDenied`
    and `ServiceUnavailable`.
    """
    name = f"s3://{bucket}/{key}"
    version: Any = {"VersionId": version_id} if version_id else {}

    def absent(meant: AwsFailure) -> Exception | None:
        if meant.code in _GONE or meant.status in (404, 405):
            what = f" in version {version_id}" if version_id else ""
            return SourceNotFound(f"{name}: no such object{what}")
        if meant.status == 400 and version_id:
            return SourceNotFound(f"{name}: S3 refuses version {version_id}")
        return None

    head: Any = call_with_retries(
        lambda: client.head_object(Bucket=bucket, Key=key, **version),
        f"reading {name}",
        policy=retry_policy,
        expected=absent,
    )
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
        # S3 says "null" for objects from before versioning; asking for "null" is right too.
        "version_id": found or version_id,
        "etag": head["ETag"],
        "size": int(head["ContentLength"]),
    }
    return S3Object(client, pinned, retry_policy)


def _is_archived(head: Mapping[str, Any]) -> bool:
    """Whether S3 would refuse to give its content, as if it were forbidden."""
    if head.get("ArchiveStatus"):
        return True
    archived = head.get("StorageClass") in ("GLACIER", "DEEP_ARCHIVE")
    return archived and 'ongoing-request="false"' not in str(head.get("Restore"))


def _bare(etag: str) -> str:
    return etag.strip('"')
