"""Where a ledger is kept: a folder on this machine, or a prefix in S3."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries
from ddbload.errors import TAKE_UP, LedgerDamaged, LedgerUnwritable, SourceNotFound

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


READERS = 16
"""Objects that are read from S3 at once."""


class Store(Protocol):
    """Named byte strings. Names are relative paths with slashes."""

    def get(self, name: str) -> bytes | None:
        """The content, or None when there is none."""

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """The content of each, in order."""

    def put(self, name: str, data: bytes) -> None:
        """Write, over what there is. Readers see the old or the new content, whole."""

    def put_new(self, name: str, data: bytes) -> bool:
        """Write unless the name is taken; whether it was written. Of two at once, one wins."""

    def names(self, prefix: str) -> list[str]:
        """All names that begin with `prefix`, sorted."""

    def uri(self, name: str) -> str:
        """Where people find it."""


class FolderStore:
    """A folder. It is made when something is first written.

    What was written when `put` or `put_new` returns is on the disk, and outlasts a loss of power.
    Raises `LedgerUnwritable` for what cannot be written, `LedgerDamaged` for what cannot be read.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, name: str) -> bytes | None:
        """The file's content."""
        try:
            return (self._root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._damaged(name, error) from None

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """One after the other: a disk is not faster for being asked twice at once."""
        return map(self.get, names)

    def put(self, name: str, data: bytes) -> None:
        """Write beside it, then rename."""
        temporary = self._write_beside(name, data)
        try:
            temporary.replace(self._root / name)
            self._sync_folder(name)
        except OSError as error:
            _remove(temporary)
            raise self._unwritable(name, error) from None

    def put_new(self, name: str, data: bytes) -> bool:
        """Write beside it, then link: that fails where the name is taken."""
        temporary = self._write_beside(name, data)
        try:
            os.link(temporary, self._root / name)
        except FileExistsError:
            return False
        except OSError as error:
            raise self._unwritable(name, error) from None
        else:
            self._sync_folder(name)
            return True
        finally:
            _remove(temporary)

    def names(self, prefix: str) -> list[str]:
        """Names of files, temporary ones left out."""
        folder = self._root / prefix.rpartition("/")[0]
        found = (
            path.relative_to(self._root).as_posix()
            for path in folder.rglob("*")
            if not path.name.startswith(".") and path.is_file()
        )
        return sorted(name for name in found if name.startswith(prefix))

    def uri(self, name: str) -> str:
        """The absolute path."""
        return str((self._root / name).absolute())

    def _write_beside(self, name: str, data: bytes) -> Path:
        path = self._root / name
        temporary = None
        try:
            _make_folder(path.parent)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
                temporary = Path(file.name)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            return temporary
        except OSError as error:
            if temporary is not None:
                _remove(temporary)
            raise self._unwritable(name, error) from None

    def _sync_folder(self, name: str) -> None:
        """Have a name that was just given outlast a loss of power."""
        try:
            _sync((self._root / name).parent)
        except OSError as error:
            raise self._unwritable(name, error) from None

    def _damaged(self, name: str, error: OSError) -> LedgerDamaged:
        return LedgerDamaged(f"the ledger at {self.uri(name)}: {error.strerror}")

    def _unwritable(self, name: str, error: OSError) -> LedgerDamaged | LedgerUnwritable:
        if isinstance(error, IsADirectoryError | NotADirectoryError | FileExistsError):
            # Something else has the name.
            return self._damaged(name, error)
        return LedgerUnwritable(
            f"the ledger cannot be written at {self.uri(name)}: {error.strerror}; make room or mend"
            f" the permissions (its file system must know hard links), and {TAKE_UP}"
        )


class BucketStore:
    """A prefix of an S3 bucket."""

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        prefix: str = "",
        *,
        retry_policy: RetryPolicy = DEFAULT_POLICY,
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._retry_policy = retry_policy

    def get(self, name: str) -> bytes | None:
        """The object's content."""

        def read() -> bytes | None:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            data = answer["Body"].read()
            if len(data) != answer["ContentLength"]:
                raise ConnectionError("the body ended early")
            return data

        try:
            return call_with_retries(
                read, f"reading {self.uri(name)}", policy=self._retry_policy, expected=self._absent
            )
        except _AbsentError:
            return None

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Several at once: a ledger of 20,000 segments must not take 20,000 round trips."""
        with ThreadPoolExecutor(READERS) as pool:
            yield from pool.map(self.get, names)

    def put(self, name: str, data: bytes) -> None:
        """Write, over what there is."""
        call_with_retries(
            lambda: self._client.put_object(
                Bucket=self._bucket, Key=self._prefix + name, Body=data
            ),
            f"writing {self.uri(name)}",
            policy=self._retry_policy,
        )

    def put_new(self, name: str, data: bytes) -> bool:
        """Write with If-None-Match.

        An answer that was lost and is asked for again says that the name is taken, so what
        is there is compared.
        """
        tries = 0

        def write() -> bool:
            nonlocal tries
            tries += 1
            self._client.put_object(
                Bucket=self._bucket, Key=self._prefix + name, Body=data, IfNoneMatch="*"
            )
            return True

        try:
            return call_with_retries(
                write, f"writing {self.uri(name)}", policy=self._retry_policy, expected=self._taken
            )
        except _TakenError:
            return tries > 1 and self.get(name) == data

    def names(self, prefix: str) -> list[str]:
        """Keys under the store's prefix, without it."""
        found: list[str] = []
        token: Any = {}

        def read() -> Any:
            return self._client.list_objects_v2(
                Bucket=self._bucket, Prefix=self._prefix + prefix, **token
            )

        while True:
            page = call_with_retries(read, f"listing {self.uri(prefix)}", policy=self._retry_policy)
            found += [each["Key"][len(self._prefix) :] for each in page.get("Contents", ())]
            if not page.get("IsTruncated"):
                return sorted(found)
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def uri(self, name: str) -> str:
        """The s3:// URI."""
        return f"s3://{self._bucket}/{self._prefix}{name}"

    def _absent(self, meant: AwsFailure) -> Exception | None:
        if meant.code == "NoSuchBucket":
            return SourceNotFound(f"the ledger's bucket {self._bucket} does not exist")
        return _AbsentError() if meant.code in ("NoSuchKey", "404") else None

    @staticmethod
    def _taken(meant: AwsFailure) -> Exception | None:
        return _TakenError() if meant.status == 412 else None


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that they outlast a loss of power."""
    missing = []
    above = folder
    while not above.is_dir() and above != above.parent:
        missing.append(above)
        above = above.parent
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        _sync(made.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(temporary: Path) -> None:
    with contextlib.suppress(OSError):
        temporary.unlink()


class _AbsentError(Exception):
    pass


class _TakenError(Exception):
    pass
