"""Stores that keep a ledger: a local folder, or a prefix in S3."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries
from ddbload.errors import TAKE_UP, LedgerDamaged, LedgerUnwritable, SourceNotFound

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


MAX_OBJECT_BYTES = 512 * 1024 * 1024
"""Size limit of an object that is read; ddbload writes none that is nearly as large."""
HTML_TYPE = "text/html; charset=utf-8"
READERS = 16
"""Objects that are read from S3 concurrently."""
PAGE_KEYS = 1000
"""Most keys that S3 returns to one request."""


@dataclass(frozen=True, slots=True)
class AgesPage:
    """Page of a listing, in the order of the names."""

    ages: dict[str, float]
    """Seconds since each object was written, by name."""
    more: bool
    """True if names may follow."""


class Store(Protocol):
    """Store of byte strings by name. Names are relative paths with slashes."""

    def get(self, name: str) -> bytes | None:
        """Read an object; None if it does not exist."""

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Read objects, in order."""

    def put(self, name: str, data: bytes, *, attempts: int | None = None) -> None:
        """Write or replace an object. Readers see either the old or the new content.

        `attempts`: tries where writing may be repeated, instead of the store's own number.
        """

    def put_new(self, name: str, data: bytes) -> bool:
        """Write an object unless it exists; True if written. Of two concurrent writes one wins."""

    def names(self, prefix: str) -> list[str]:
        """List all names that begin with `prefix`, sorted."""

    def first_names(self, prefix: str, most: int) -> list[str]:
        """List the first names that begin with `prefix`, at most `most`, sorted."""

    def folders(self, prefix: str) -> list[str]:
        """List the names directly below a prefix that ends in a slash, sorted, without files."""

    def ages(self, prefix: str) -> dict[str, float]:
        """List names that begin with `prefix`, each with the seconds since it was written.

        Ages are by one clock, the store's, to about a second.
        """

    def page(self, folder: str, after: str = "") -> AgesPage:
        """List names in a folder, relative to it, those after `after`, by one request at most.

        `folder` ends with a slash.
        """

    def delete(self, name: str) -> None:
        """Delete an object; do nothing if it does not exist."""

    def uri(self, name: str) -> str:
        """Return the path or s3:// URI of an object."""


class FolderStore:
    """Store in a local folder, which is created by the first write.

    When `put` or `put_new` returns, the file is on the disk and survives a loss of power. Raises
    `LedgerUnwritable` for a failed write, and `LedgerDamaged` for a failed read.

    Rejects quote rows, so files and new folders are for their owner alone. Symbolic links below
    the root are refused: in a folder that others may write to, they could lead anywhere.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, name: str) -> bytes | None:
        """Read a file."""
        self._refuse_links(name)
        try:
            return _read_regular(self._root / name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._damaged(name, error) from None

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Read files one after the other: a disk does not gain from concurrent reads."""
        return map(self.get, names)

    def put(self, name: str, data: bytes, *, attempts: int | None = None) -> None:  # noqa: ARG002 - a folder is written once
        """Write a temporary file, then rename it."""
        temporary = self._write_beside(name, data)
        try:
            temporary.replace(self._root / name)
            self._sync_folder(name)
        except OSError as error:
            _remove(temporary)
            raise self._unwritable(name, error) from None

    def put_new(self, name: str, data: bytes) -> bool:
        """Write a temporary file, then link it: linking fails if the name exists."""
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
        """List the names of files, without temporary ones."""
        folder = prefix.rpartition("/")[0]
        self._refuse_links(folder)
        names = (
            path.relative_to(self._root).as_posix()
            for path in (self._root / folder).rglob("*")
            if not path.name.startswith(".") and path.is_file() and not path.is_symlink()
        )
        try:
            return sorted(name for name in names if name.startswith(prefix))
        except OSError as error:
            raise self._damaged(folder, error) from None

    def first_names(self, prefix: str, most: int) -> list[str]:
        """List the first files: a folder has no shorter way than to list all."""
        return self.names(prefix)[:most]

    def folders(self, prefix: str) -> list[str]:
        """List the folders in a folder."""
        self._refuse_links(prefix.rstrip("/"))
        try:
            return sorted(path.name for path in (self._root / prefix).iterdir() if path.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._damaged(prefix, error) from None

    def ages(self, prefix: str) -> dict[str, float]:
        """List files with the seconds since their last change."""
        now, found = time.time(), {}
        for name in self.names(prefix):
            # A file may be deleted meanwhile.
            with contextlib.suppress(FileNotFoundError):
                found[name] = max(0.0, now - (self._root / name).stat().st_mtime)
        return found

    def page(self, folder: str, after: str = "") -> AgesPage:
        """List all files after a name: a folder is read at once."""
        ages = {name.removeprefix(folder): age for name, age in self.ages(folder).items()}
        return AgesPage({name: age for name, age in ages.items() if name > after}, more=False)

    def delete(self, name: str) -> None:
        """Delete a file."""
        self._refuse_links(name)
        try:
            (self._root / name).unlink(missing_ok=True)
        except NotADirectoryError:
            pass
        except OSError as error:
            raise self._unwritable(name, error) from None

    def uri(self, name: str) -> str:
        """Return the absolute path."""
        return str((self._root / name).absolute())

    def _write_beside(self, name: str, data: bytes) -> Path:
        self._refuse_links(name)
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

    def _refuse_links(self, name: str) -> None:
        path = self._root
        for part in filter(None, name.split("/")):
            path /= part
            if path.is_symlink():
                raise LedgerDamaged(
                    f"the ledger at {path}: this is a symbolic link, which ddbload never writes;"
                    " remove it, or choose another folder for the ledger"
                )

    def _sync_folder(self, name: str) -> None:
        """Sync the folder of a file, so that its name survives a loss of power."""
        try:
            _sync((self._root / name).parent)
        except OSError as error:
            raise self._unwritable(name, error) from None

    def _damaged(self, name: str, error: OSError) -> LedgerDamaged:
        return LedgerDamaged(f"the ledger at {self.uri(name)}: {error.strerror}")

    def _unwritable(self, name: str, error: OSError) -> LedgerDamaged | LedgerUnwritable:
        if isinstance(error, IsADirectoryError | NotADirectoryError | FileExistsError):
            # A folder has the file's name, or the reverse.
            return self._damaged(name, error)
        return LedgerUnwritable(
            f"the ledger cannot be written at {self.uri(name)}: {error.strerror}; make room or mend"
            f" the permissions (its file system must know hard links), and {TAKE_UP}"
        )


class BucketStore:
    """Store below a prefix of an S3 bucket."""

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
        """Read an object."""

        def read() -> bytes | None:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            if answer["ContentLength"] > MAX_OBJECT_BYTES:
                raise LedgerDamaged(f"{self.uri(name)}: {_too_large(answer['ContentLength'])}")
            data = answer["Body"].read()
            if len(data) != answer["ContentLength"]:
                raise ConnectionError("the body ended early")
            return data

        try:
            return call_with_retries(
                read,
                f"reading {self.uri(name)}",
                policy=self._retry_policy,
                expected=self._not_found,
            )
        except _NotFoundError:
            return None

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Read objects concurrently: 20,000 segments must not take 20,000 round trips."""
        with ThreadPoolExecutor(READERS) as pool:
            yield from pool.map(self.get, names)

    def put(self, name: str, data: bytes, *, attempts: int | None = None) -> None:
        """Write or replace an object. A page is shown by browsers, and not saved."""
        policy = self._retry_policy
        more: Any = {"ContentType": HTML_TYPE} if name.endswith(".html") else {}
        call_with_retries(
            lambda: self._client.put_object(
                Bucket=self._bucket, Key=self._prefix + name, Body=data, **more
            ),
            f"writing {self.uri(name)}",
            policy=policy if attempts is None else replace(policy, attempts=attempts),
        )

    def put_new(self, name: str, data: bytes) -> bool:
        """Write with If-None-Match.

        If the answer to a successful write is lost, the retry finds the name taken: then the
        content decides.
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
                write,
                f"writing {self.uri(name)}",
                policy=self._retry_policy,
                expected=self._name_taken,
            )
        except _NameTakenError:
            return tries > 1 and self.get(name) == data

    def names(self, prefix: str) -> list[str]:
        """List keys below the store's prefix, which is removed from them."""
        return sorted(name for page in self._pages(prefix) for name, _ in self._entries(page))

    def first_names(self, prefix: str, most: int) -> list[str]:
        """List the first keys, which S3 sorts; up to 1,000 take one request."""
        entries = (
            name for page in self._pages(prefix, most=most) for name, _ in self._entries(page)
        )
        return list(islice(entries, most))

    def folders(self, prefix: str) -> list[str]:
        """List common prefixes, up to 1,000 a request, whatever is below them."""
        start = len(self._prefix + prefix)
        return [
            each["Prefix"][start:].rstrip("/")
            for page in self._pages(prefix, delimiter="/")
            for each in page.get("CommonPrefixes", ())
        ]

    def ages(self, prefix: str) -> dict[str, float]:
        """List keys with the seconds since they were written, by the clock of S3's answers."""
        return {
            name: age for page in self._pages(prefix) for name, age in self._ages_of(page).items()
        }

    def page(self, folder: str, after: str = "") -> AgesPage:
        """List a page of up to 1,000 keys after a name, with their ages."""
        start: Any = {"StartAfter": self._prefix + folder + after} if after else {}
        page = call_with_retries(
            lambda: self._client.list_objects_v2(
                Bucket=self._bucket, Prefix=self._prefix + folder, **start
            ),
            f"listing {self.uri(folder)}",
            policy=self._retry_policy,
        )
        ages = {name.removeprefix(folder): age for name, age in self._ages_of(page).items()}
        return AgesPage(ages, more=bool(page.get("IsTruncated")))

    def _ages_of(self, page: Any) -> dict[str, float]:
        date = page["ResponseMetadata"]["HTTPHeaders"].get("date")
        now = datetime.now(UTC) if date is None else parsedate_to_datetime(date)
        return {
            name: max(0.0, (now - modified).total_seconds())
            for name, modified in self._entries(page)
        }

    def delete(self, name: str) -> None:
        """Delete an object."""
        call_with_retries(
            lambda: self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name),
            f"deleting {self.uri(name)}",
            policy=self._retry_policy,
        )

    def _entries(self, page: Any) -> Iterator[tuple[str, datetime]]:
        for each in page.get("Contents", ()):
            yield each["Key"][len(self._prefix) :], each["LastModified"]

    def _pages(
        self, prefix: str, *, most: int = PAGE_KEYS, delimiter: str | None = None
    ) -> Iterator[Any]:
        more: Any = {} if delimiter is None else {"Delimiter": delimiter}
        if most < PAGE_KEYS:
            more["MaxKeys"] = most
        token: Any = {}

        def read() -> Any:
            return self._client.list_objects_v2(
                Bucket=self._bucket, Prefix=self._prefix + prefix, **more, **token
            )

        while True:
            page = call_with_retries(read, f"listing {self.uri(prefix)}", policy=self._retry_policy)
            yield page
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def uri(self, name: str) -> str:
        """Return the s3:// URI."""
        return f"s3://{self._bucket}/{self._prefix}{name}"

    def _not_found(self, failure: AwsFailure) -> Exception | None:
        if failure.code == "NoSuchBucket":
            return SourceNotFound(f"the ledger's bucket {self._bucket} does not exist")
        return _NotFoundError() if failure.code in ("NoSuchKey", "404") else None

    @staticmethod
    def _name_taken(failure: AwsFailure) -> Exception | None:
        return _NameTakenError() if failure.status == 412 else None


def _read_regular(path: Path) -> bytes:
    """Read a file. Anything else, such as a FIFO or a device, might never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "this is not a regular file")
        size = os.fstat(descriptor).st_size
        if size > MAX_OBJECT_BYTES:
            raise OSError(errno.EFBIG, _too_large(size))
        return file.read()


def _too_large(size: int) -> str:
    return f"this has {size:,} bytes, and ddbload writes at most {MAX_OBJECT_BYTES:,}"


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents, so that they survive a loss of power."""
    missing = []
    parent = folder
    while not parent.is_dir() and parent != parent.parent:
        missing.append(parent)
        parent = parent.parent
    for created in reversed(missing):
        created.mkdir(mode=0o700, exist_ok=True)
    for created in missing:
        _sync(created.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(temporary: Path) -> None:
    with contextlib.suppress(OSError):
        temporary.unlink()


class _NotFoundError(Exception):
    pass


class _NameTakenError(Exception):
    pass
