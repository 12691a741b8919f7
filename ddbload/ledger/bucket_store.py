"""Ledger store below a prefix of an S3 bucket."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries, find_with_retries
from ddbload.errors import LedgerDamaged, SourceNotFound
from ddbload.ledger import store
from ddbload.ledger.store import (
    AgesPage,
    KeyReader,
    ListedKey,
    Store,
    VersionedObject,
    too_large,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_NO_KEY = ("NoSuchKey", "404")
HTML_TYPE = "text/html; charset=utf-8"
READERS = 16
"""Maximum objects read from S3 concurrently."""


@dataclass(eq=False)
class BucketStore(Store):
    """Store below a prefix of an S3 bucket."""

    client: S3Client
    bucket: str
    prefix: str = ""
    retry_policy: RetryPolicy = DEFAULT_POLICY
    read_many: KeyReader | None = None
    """Reader of a folder's objects, concurrently. By default, threads read them with `client`."""

    def __post_init__(self) -> None:
        self.prefix = f"{self.prefix.strip('/')}/".removeprefix("/")

    def get_version(self, name: str) -> VersionedObject | None:
        """Read an object together with its ETag; None if it does not exist."""

        def read() -> VersionedObject:
            answer = self.client.get_object(Bucket=self.bucket, Key=self.prefix + name)
            if answer["ContentLength"] > store.MAX_OBJECT_BYTES:
                raise LedgerDamaged(f"{self.uri(name)}: {too_large(answer['ContentLength'])}")
            data = answer["Body"].read()
            if len(data) != answer["ContentLength"]:
                raise ConnectionError("the body ended early")
            return VersionedObject(data, answer["ETag"])

        return find_with_retries(
            read,
            f"reading {self.uri(name)}",
            lambda failure: failure.code in _NO_KEY,
            policy=self.retry_policy,
            expected=self._no_bucket,
        )

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Read objects concurrently: one by one, 20,000 segments take 20,000 round trips."""
        with ThreadPoolExecutor(READERS) as pool:
            yield from pool.map(self.get, names)

    def put(self, name: str, data: bytes) -> None:
        """Write or replace an object."""
        self._put(name, data, {})

    def put_over(self, name: str, data: bytes, version: str | None) -> bool:
        """Write with If-Match, or with If-None-Match if `version` is None."""
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        return self._put(name, data, condition)

    def _put(self, name: str, data: bytes, condition: Any) -> bool:
        """Write an object; return false if the condition fails.

        If the answer to a successful write is lost, the condition fails for the retry; then the
        content decides. HTML pages get a content type, so that browsers display them.
        """
        tries = 0
        more: Any = {"ContentType": HTML_TYPE} if name.endswith(".html") else {}

        def write() -> bool:
            nonlocal tries
            tries += 1
            self.client.put_object(
                Bucket=self.bucket, Key=self.prefix + name, Body=data, **more, **condition
            )
            return True

        def is_changed(failure: AwsFailure) -> bool:
            # S3 answers If-Match with 404 if the object was deleted.
            return bool(condition) and (failure.status == 412 or failure.code in _NO_KEY)

        doing = f"writing {self.uri(name)}"
        written = find_with_retries(write, doing, is_changed, policy=self.retry_policy)
        return written or (tries > 1 and self.get(name) == data)

    def pages(self, prefix: str, after: str = "") -> Iterator[AgesPage]:
        """List keys below the store's prefix, without that prefix, sorted.

        Ages are computed with the clock of S3's answers.
        """
        for answer in self._answers(prefix, after):
            date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
            now = datetime.now(UTC) if date is None else parsedate_to_datetime(date)
            ages = {
                each["Key"][len(self.prefix) :]: max(
                    0.0, (now - each["LastModified"]).total_seconds()
                )
                for each in answer.get("Contents", ())
            }
            yield AgesPage(ages, more=bool(answer.get("IsTruncated")))

    def folders(self, prefix: str) -> list[str]:
        """List common prefixes, up to 1,000 per request."""
        start = len(self.prefix + prefix)
        return [
            each["Prefix"][start:].rstrip("/")
            for page in self._answers(prefix, delimiter="/")
            for each in page.get("CommonPrefixes", ())
        ]

    def read_folder(self, folder: str, after: str = "") -> Generator[tuple[str, bytes | None]]:
        """List keys after a name page by page, and read their objects concurrently."""
        if self.read_many is None:
            yield from super().read_folder(folder, after)
            return
        start = len(self.prefix + folder)
        listed: deque[str] = deque()

        def each() -> Iterator[ListedKey]:
            for answer in self._answers(folder, after):
                for key in answer.get("Contents", ()):
                    listed.append(key["Key"][start:])
                    yield key["Key"], key["ETag"], int(key["Size"])

        with closing(self.read_many(self.bucket, each())) as contents:
            for data in contents:
                yield listed.popleft(), data

    def delete(self, name: str) -> None:
        """Delete an object."""
        call_with_retries(
            lambda: self.client.delete_object(Bucket=self.bucket, Key=self.prefix + name),
            f"deleting {self.uri(name)}",
            policy=self.retry_policy,
        )

    def _answers(self, prefix: str, after: str = "", delimiter: str | None = None) -> Iterator[Any]:
        """List page by page, with one request each; `after` is relative to the prefix."""
        more: Any = {} if delimiter is None else {"Delimiter": delimiter}
        start: Any = {"StartAfter": self.prefix + prefix + after} if after else {}

        def read() -> Any:
            return self.client.list_objects_v2(
                Bucket=self.bucket, Prefix=self.prefix + prefix, **more, **start
            )

        while True:
            page = call_with_retries(read, f"listing {self.uri(prefix)}", policy=self.retry_policy)
            yield page
            if not page.get("IsTruncated"):
                return
            start = {"ContinuationToken": page["NextContinuationToken"]}

    def uri(self, name: str) -> str:
        """Return the s3:// URI of an object."""
        return f"s3://{self.bucket}/{self.prefix}{name}"

    def _no_bucket(self, failure: AwsFailure) -> Exception | None:
        if failure.code != "NoSuchBucket":
            return None
        return SourceNotFound(f"the ledger's bucket {self.bucket} does not exist")
