"""Targets for parts: a folder or an S3 prefix, in which all parts appear at once."""

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

CONCURRENT_UPLOADS = 4
"""Parts uploaded at once; each takes space on the local disk meanwhile."""


class ShardTarget(Protocol):
    """Target for parts, which are invisible until `publish`.

    Methods raise `OutputUnwritable` and AWS's errors.
    """

    def put(self, name: str, path: Path) -> None:
        """Store the part in the file at `path`. May be called from any thread."""

    def publish(self) -> None:
        """Make all parts visible."""

    def discard(self) -> None:
        """Remove all parts, visible or not."""


class FolderShards:
    """Target that is a new or empty folder."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        with self._disk_errors():
            if self._path.exists() and (not self._path.is_dir() or any(self._path.iterdir())):
                raise OutputUnwritable(
                    f"{path} exists and is not empty: name a new folder, or empty it"
                )
            beside = self._path.parent
            self._folder = Path(tempfile.mkdtemp(dir=beside, prefix=f".{self._path.name[:80]}."))

    def put(self, name: str, path: Path) -> None:
        """Copy a part into a hidden folder beside the target."""
        with self._disk_errors():
            shutil.copyfile(path, self._folder / name)

    def publish(self) -> None:
        """Rename the hidden folder."""
        with self._disk_errors():
            mask = os.umask(0)
            os.umask(mask)
            self._folder.chmod(0o777 & ~mask)
            self._folder.replace(self._path)

    def discard(self) -> None:
        """Remove the hidden folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextlib.contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputUnwritable(f"{self._path}: {error.strerror}") from None


@dataclass(slots=True)
class _Upload:
    """Multipart upload with one part."""

    key: str
    id: str
    etag: str = ""
    size: int = 0
    completing: bool = False
    """True once the object may exist."""


class BucketShards:
    """Target that is an empty prefix of an S3 bucket.

    Each part is a multipart upload, and all uploads are completed at the end, so that no object
    appears before. A killed process leaves incomplete uploads, which are not objects.
    """

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        prefix: str,
        *,
        retry_policy: RetryPolicy = DEFAULT_POLICY,
    ) -> None:
        """Check that the prefix, which ends with a slash or is empty, has no objects."""
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
                f"there are objects below {where}, which importers would load as well: remove them,"
                " or name another prefix"
            )
        # A missing permission is reported before the source is read.
        self._abort(self._start_upload("part"))

    def put(self, name: str, path: Path) -> None:
        """Upload a part."""
        upload = self._start_upload(name)
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
        with ThreadPoolExecutor(CONCURRENT_UPLOADS) as pool:
            list(pool.map(self._complete, self._uploads))

    def discard(self) -> None:
        """Abort incomplete uploads, and delete objects of completed ones."""
        for upload in self._uploads:
            with contextlib.suppress(DdbloadError):
                self._abort(upload)
            if upload.completing:
                with contextlib.suppress(DdbloadError):
                    self._call(
                        partial(self._client.delete_object, Bucket=self._bucket, Key=upload.key),
                        f"removing s3://{self._bucket}/{upload.key}",
                    )

    def _start_upload(self, name: str) -> _Upload:
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
                complete, doing, expected=self._expected_in_retry, policy=self._retry_policy
            )
        except _NoUploadError:
            # An earlier try may have succeeded although its answer was lost: look for the object.
            head: Any = {}
            if tries > 1:
                head = self._call(
                    lambda: self._client.head_object(Bucket=self._bucket, Key=upload.key), doing
                )
            if head.get("ContentLength") != upload.size:
                raise OutputUnwritable(f"{doing}: the upload was aborted from outside") from None

    def _call(self, operation: Callable[[], T], doing: str) -> T:
        return call_with_retries(
            operation, doing, expected=self._expected, policy=self._retry_policy
        )

    def _expected(self, meant: AwsFailure) -> Exception | None:
        if meant.code == "NoSuchBucket":
            return OutputUnwritable(f"there is no bucket {self._bucket}")
        return None

    def _expected_in_retry(self, meant: AwsFailure) -> Exception | None:
        return _NoUploadError() if meant.code == "NoSuchUpload" else self._expected(meant)


class _NoUploadError(Exception):
    pass
