"""Where parts go: a folder, or a prefix in S3. They are shown when all are there."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries
from ddbload.errors import DdbloadError, OutputUnwritable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

UPLOADS = 4
"""Parts that are on their way at once, and so lie on this machine's disk."""


class ShardTarget(Protocol):
    """Where parts go. Nobody sees any before `publish`. Raises `OutputUnwritable`, AWS's errors."""

    def put(self, name: str, path: Path) -> None:
        """Take a part that lies in a file, which is gone afterwards. From any thread."""

    def publish(self) -> None:
        """Show all parts."""

    def discard(self) -> None:
        """Remove what was put, shown or not."""


class FolderShards:
    """A folder that is not there yet, or is empty."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        with self._disk():
            if self._path.exists() and (not self._path.is_dir() or any(self._path.iterdir())):
                raise OutputUnwritable(f"{path} is there already: name a new folder, or empty it")
            beside = self._path.parent
            self._folder = Path(tempfile.mkdtemp(dir=beside, prefix=f".{self._path.name[:80]}."))

    def put(self, name: str, path: Path) -> None:
        """Copy a part into a folder beside it: temporary files may lie on another disk."""
        with self._disk():
            shutil.copyfile(path, self._folder / name)

    def publish(self) -> None:
        """Give the folder its name."""
        with self._disk():
            mask = os.umask(0)
            os.umask(mask)
            self._folder.chmod(0o777 & ~mask)
            self._folder.replace(self._path)

    def discard(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextlib.contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputUnwritable(f"{self._path}: {error.strerror}") from None


@dataclass(slots=True)
class _Upload:
    """A multipart upload, of one part."""

    key: str
    id: str
    etag: str = ""
    size: int = 0
    completing: bool = False
    """Whether there may be an object of it."""


class BucketShards:
    """A prefix of an S3 bucket below which there is nothing.

    Each part is a multipart upload of its own, and all are completed at the end: no object is to
    be seen before, and what is left of a process that was killed is no object.
    """

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        prefix: str,
        *,
        retry_policy: RetryPolicy = DEFAULT_POLICY,
    ) -> None:
        """`prefix` ends with a slash, or is empty."""
        self._client, self._bucket, self._prefix = client, bucket, prefix
        self._retry_policy = retry_policy
        self._uploads: list[_Upload] = []
        where = f"s3://{bucket}/{prefix}"
        found: Any = self._call(
            lambda: client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1),
            f"listing {where}",
        )
        if found.get("KeyCount") or found.get("Contents"):
            raise OutputUnwritable(
                f"there are objects below {where}, which importers would take for parts of this:"
                " remove them, or name another prefix"
            )
        # Whether this is allowed is better known before everything is read.
        self._abort(self._begin("part"))

    def put(self, name: str, path: Path) -> None:
        """Upload a part."""
        upload = self._begin(name)
        self._uploads.append(upload)
        upload.size = path.stat().st_size

        def send() -> Any:
            with path.open("rb") as body:
                return self._client.upload_part(
                    Bucket=self._bucket,
                    Key=upload.key,
                    UploadId=upload.id,
                    PartNumber=1,
                    Body=body,
                )

        upload.etag = self._call(send, f"writing s3://{self._bucket}/{upload.key}")["ETag"]

    def publish(self) -> None:
        """Complete all uploads."""
        with ThreadPoolExecutor(UPLOADS) as pool:
            list(pool.map(self._complete, self._uploads))

    def discard(self) -> None:
        """Abort what is not completed, and delete what may be."""
        for upload in self._uploads:
            with contextlib.suppress(DdbloadError):
                self._abort(upload)
            if upload.completing:
                with contextlib.suppress(DdbloadError):
                    self._call(
                        partial(self._client.delete_object, Bucket=self._bucket, Key=upload.key),
                        f"removing s3://{self._bucket}/{upload.key}",
                    )

    def _begin(self, name: str) -> _Upload:
        key = self._prefix + name
        begun: Any = self._call(
            lambda: self._client.create_multipart_upload(Bucket=self._bucket, Key=key),
            f"writing s3://{self._bucket}/{key}",
        )
        return _Upload(key, begun["UploadId"])

    def _abort(self, upload: _Upload) -> None:
        self._call(
            lambda: self._client.abort_multipart_upload(
                Bucket=self._bucket, Key=upload.key, UploadId=upload.id
            ),
            f"removing s3://{self._bucket}/{upload.key}",
        )

    def _complete(self, upload: _Upload) -> None:
        upload.completing = True
        tries = 0

        def complete() -> None:
            nonlocal tries
            tries += 1
            self._client.complete_multipart_upload(
                Bucket=self._bucket,
                Key=upload.key,
                UploadId=upload.id,
                MultipartUpload={"Parts": [{"ETag": upload.etag, "PartNumber": 1}]},
            )

        doing = f"writing s3://{self._bucket}/{upload.key}"
        try:
            call_with_retries(
                complete, doing, expected=self._expected_again, policy=self._retry_policy
            )
        except _NoUploadError:
            # The answer to an earlier try was lost, if it is there.
            head: Any = {}
            if tries > 1:
                head = self._call(
                    lambda: self._client.head_object(Bucket=self._bucket, Key=upload.key), doing
                )
            if head.get("ContentLength") != upload.size:
                raise OutputUnwritable(f"{doing}: somebody aborted the upload") from None

    def _call(self, operation: Callable[[], T], doing: str) -> T:
        return call_with_retries(
            operation, doing, expected=self._expected, policy=self._retry_policy
        )

    def _expected(self, meant: AwsFailure) -> Exception | None:
        if meant.code == "NoSuchBucket":
            return OutputUnwritable(f"there is no bucket {self._bucket}")
        return None

    def _expected_again(self, meant: AwsFailure) -> Exception | None:
        return _NoUploadError() if meant.code == "NoSuchUpload" else self._expected(meant)


class _NoUploadError(Exception):
    pass
