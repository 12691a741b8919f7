"""Stores of a ledger: a local folder, or a prefix in S3."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ddbload.contracts.messages import Message, decode_json, encode_json
from ddbload.errors import TAKE_UP, LedgerDamaged, LedgerUnwritable, ServiceUnavailable
from ddbload.records import Record

S = TypeVar("S", bound=Message)
T = TypeVar("T")

MAX_OBJECT_BYTES = 512 * 1024 * 1024
"""Maximum size of an object that is read, far above that of ddbload's own objects."""

_ATTEMPTS = 30


class AgesPage(Record):
    """Page of a listing, sorted by name."""

    ages: dict[str, float]
    """Seconds since each object was written, by name."""
    more: bool
    """True if more names may follow."""


class VersionedObject(Record):
    """Content of an object, and a mark that distinguishes its versions."""

    data: bytes
    version: str


ListedKey = tuple[str, str, int]
"""Key, ETag and size of an object."""
KeyReader = Callable[[str, Iterable[ListedKey]], Generator[bytes]]
"""Function that reads many objects of a bucket, concurrently and in order."""


class Store(ABC):
    """Store of byte strings by name. Names are relative paths with slashes."""

    def get(self, name: str) -> bytes | None:
        """Read an object; None if it does not exist."""
        found = self.get_version(name)
        return None if found is None else found.data

    @abstractmethod
    def get_version(self, name: str) -> VersionedObject | None:
        """Read an object with its version mark; None if it does not exist."""

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Read objects, in order; None for one that does not exist."""
        return map(self.get, names)

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Write or replace an object. Readers see either the old or the new content."""

    def put_new(self, name: str, data: bytes) -> bool:
        """Write an object unless it exists; return true if written.

        Of two concurrent writes one succeeds.
        """
        return self.put_over(name, data, None)

    @abstractmethod
    def put_over(self, name: str, data: bytes, version: str | None) -> bool:
        """Write an object unless it changed since `version` was read; return true if written.

        `version` None means: unless it exists. Of two concurrent writes over one version, one wins.
        """

    @abstractmethod
    def pages(self, prefix: str, after: str = "") -> Iterator[AgesPage]:
        """List names that begin with `prefix` and come after `prefix + after`, sorted.

        Yields at least one page, with at most one request each. Ages are accurate to about a
        second, by the store's clock.
        """

    def names(self, prefix: str) -> list[str]:
        """List all names that begin with `prefix`, sorted."""
        return sorted(self.ages(prefix))

    def ages(self, prefix: str) -> dict[str, float]:
        """List names that begin with `prefix`, with the seconds since each was written."""
        return {name: age for page in self.pages(prefix) for name, age in page.ages.items()}

    def page(self, folder: str, after: str = "") -> AgesPage:
        """List names in a folder after `after`, relative to the folder, with at most one request.

        `folder` ends with a slash.
        """
        page = next(self.pages(folder, after))
        ages = {name.removeprefix(folder): age for name, age in page.ages.items()}
        return AgesPage(ages, page.more)

    def read_folder(self, folder: str, after: str = "") -> Generator[tuple[str, bytes | None]]:
        """List names like `page`, page by page, and read the objects in order."""
        for page in self.pages(folder, after):
            names = list(page.ages)
            for name, data in zip(names, self.get_all(names), strict=True):
                yield name.removeprefix(folder), data

    @abstractmethod
    def folders(self, prefix: str) -> list[str]:
        """List the names of folders directly below a prefix that ends with a slash, sorted."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete an object; do nothing if it does not exist."""

    @abstractmethod
    def uri(self, name: str) -> str:
        """Return the path or s3:// URI of an object."""


class FolderStore(Store):
    """Store in a local folder, which the first write creates.

    When a write returns, the file is on disk and survives a power failure. Raises
    `LedgerUnwritable` for a failed write, and `LedgerDamaged` for a failed read.

    Rejects quote rows, so files and new folders are private to their owner. Symbolic links below
    the root are refused: in a folder that others may write to, they could point anywhere.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, name: str) -> bytes | None:
        """Read a file."""
        self._refuse_links(name)
        with self._errors(name), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return _read_regular(self._root / name)
        return None

    def get_version(self, name: str) -> VersionedObject | None:
        """Read a file with the hash of its content; None if it does not exist."""
        data = self.get(name)
        return None if data is None else VersionedObject(data, hashlib.sha256(data).hexdigest())

    def put(self, name: str, data: bytes) -> None:
        """Write a temporary file, then rename it."""
        with self._temporary(name, data) as temporary:
            temporary.replace(self._root / name)

    def put_over(self, name: str, data: bytes, version: str | None) -> bool:
        """Link a temporary file to a new name, or replace a file while its folder is locked.

        Linking fails if the name exists.
        """
        if version is None:
            with self._temporary(name, data) as temporary:
                try:
                    os.link(temporary, self._root / name)
                except FileExistsError:
                    return False
            return True
        with (
            self._errors(name, writes=True),
            contextlib.suppress(FileNotFoundError),
            _locked((self._root / name).parent),
        ):
            found = self.get_version(name)
            if found is not None and found.version == version:
                self.put(name, data)
                return True
        return False

    def pages(self, prefix: str, after: str = "") -> Iterator[AgesPage]:
        """List all files except temporary ones, as one page."""
        folder = prefix.rpartition("/")[0]
        self._refuse_links(folder)
        now, ages = time.time(), dict[str, float]()
        with self._errors(folder):
            for path in (self._root / folder).rglob("*"):
                # A file may be deleted meanwhile.
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    found, name = path.lstat(), path.relative_to(self._root).as_posix()
                    if stat.S_ISREG(found.st_mode) and not path.name.startswith("."):
                        ages[name] = max(0.0, now - found.st_mtime)
        first = prefix + after
        names = [
            each for each in sorted(ages) if each.startswith(prefix) and (each > first or not after)
        ]
        yield AgesPage({each: ages[each] for each in names}, more=False)

    def folders(self, prefix: str) -> list[str]:
        """List the folders in a folder."""
        self._refuse_links(prefix.rstrip("/"))
        with self._errors(prefix), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return sorted(path.name for path in (self._root / prefix).iterdir() if path.is_dir())
        return []

    def delete(self, name: str) -> None:
        """Delete a file."""
        self._refuse_links(name)
        with self._errors(name, writes=True), contextlib.suppress(NotADirectoryError):
            (self._root / name).unlink(missing_ok=True)

    def uri(self, name: str) -> str:
        """Return the absolute path."""
        return str((self._root / name).absolute())

    @contextlib.contextmanager
    def _temporary(self, name: str, data: bytes) -> Iterator[Path]:
        """Write a temporary file next to a name; sync the folder after it was renamed.

        Without the sync, the name may not survive a power failure.
        """
        self._refuse_links(name)
        folder, temporary = (self._root / name).parent, None
        try:
            with self._errors(name, writes=True):
                _make_folder(folder)
                with tempfile.NamedTemporaryFile(dir=folder, prefix=".", delete=False) as file:
                    temporary = Path(file.name)
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                yield temporary
                _sync(folder)
        finally:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    temporary.unlink()

    def _refuse_links(self, name: str) -> None:
        path = self._root
        for part in filter(None, name.split("/")):
            path /= part
            if path.is_symlink():
                raise LedgerDamaged(
                    f"the ledger at {path}: this is a symbolic link, which ddbload never writes;"
                    " remove it, or choose another folder for the ledger"
                )

    @contextlib.contextmanager
    def _errors(self, name: str, *, writes: bool = False) -> Iterator[None]:
        """Turn an `OSError` into `LedgerDamaged` or, if it `writes`, `LedgerUnwritable`."""
        try:
            yield
        except OSError as error:
            # The name may belong to a folder, or a parent folder's name to a file.
            wrong_kind = isinstance(error, IsADirectoryError | NotADirectoryError | FileExistsError)
            if not writes or wrong_kind:
                message = f"the ledger at {self.uri(name)}: {error.strerror}"
                raise LedgerDamaged(message) from None
            raise LedgerUnwritable(
                f"the ledger cannot be written at {self.uri(name)}: {error.strerror}; make room or"
                " mend the permissions (its file system must know hard links), or name another"
                f" place by --ledger, and {TAKE_UP}"
            ) from None


def _read_regular(path: Path) -> bytes:
    """Read a regular file. Reading anything else, such as a FIFO, might never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "this is not a regular file")
        size = os.fstat(descriptor).st_size
        if size > MAX_OBJECT_BYTES:
            raise OSError(errno.EFBIG, too_large(size))
        return file.read()


def too_large(size: int) -> str:
    return f"this has {size:,} bytes, and ddbload writes at most {MAX_OBJECT_BYTES:,}"


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents, durably even over a power failure."""
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


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder. The system releases the lock if the process dies."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# State that several runs change concurrently, without locks: an object that is only replaced by a
# writer that has read it. Of two concurrent changes one fails, and is repeated on the result of
# the other.


def read_state(store: Store, name: str, kind: type[S], *, advice: str) -> S | None:
    """Return the state under a name; None if there is none.

    `advice`: see `change_state`. Raises `LedgerDamaged` and errors of the store.
    """
    data = store.get(name)
    return None if data is None else decode_json(store.uri(name), data, kind.from_json, advice)


def change_state(
    store: Store,
    name: str,
    kind: type[S],
    change: Callable[[S | None], S | None],
    *,
    advice: str,
    wait: Callable[[int], object] = lambda _: None,
) -> None:
    """Replace the state under a name by the result of `change`.

    Args:
        store: Store of the ledger.
        name: Name of the state.
        kind: Class of the state.
        change: Receives the state (None at first) and returns the new one; None keeps the state.
            Called again if another write came first.
        advice: What to do about a damaged state, for errors.
        wait: Called with the number of attempts before the next one.

    Raises:
        LedgerDamaged: If the state cannot be decoded.
        ServiceUnavailable: After too many attempts.

    Errors of `change` and of the store are raised, too.
    """
    for attempt in range(_ATTEMPTS):
        if attempt:
            wait(attempt)
        found = store.get_version(name)
        version = state = None
        if found is not None:
            version = found.version
            state = decode_json(store.uri(name), found.data, kind.from_json, advice)
        changed = change(state)
        if changed is None:
            return
        if store.put_over(name, encode_json(changed.to_json()), version):
            return
    raise ServiceUnavailable(
        f"the state in {store.uri(name)} was changed {_ATTEMPTS} times meanwhile; try again"
    )
