"""Sink that shuffles items and writes them into parts of a folder or an S3 prefix.

The shuffle deals each line at random to one of many temporary files, then shuffles each file in
memory, so that every order is equally likely. A file too large for memory is dealt out again. All
parts appear at once.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import DEFAULT_POLICY, RetryPolicy, call_with_retries, find_with_retries
from ddbload.convert.sinks import SUFFIXES, disk_errors, open_compressor
from ddbload.errors import DdbloadError, OutputUnwritable
from ddbload.parallel import map_in_threads

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

BUFFER_BYTES = 8 * 1024 * 1024
"""Bytes of lines buffered before they are written to the temporary files."""
BUCKET_BYTES = 12 * 1024 * 1024
"""Size of the largest temporary file shuffled in memory, where it takes about twice as much."""
_READ_BYTES = 1024 * 1024
_DEEPEST = 4


class Shuffle:
    """External shuffle of lines. The order depends only on the seed."""

    def __init__(self, folder: Path, rng: random.Random, depth: int = 0, bits: int = 8) -> None:
        """Use `2**bits` temporary files in `folder`, which must be empty."""
        self.bytes = 0
        """Bytes of all lines, line ends included."""
        self._folder, self._rng, self._depth, self._bits = folder, rng, depth, bits
        self._buckets: list[list[str]] = [[] for _ in range(2**bits)]
        self._sizes = [0] * 2**bits
        self._buffered = 0

    def add(self, lines: Sequence[str]) -> None:
        """Add lines, as latin-1 octets without line ends. Raises `OSError`."""
        buckets, choose, bits = self._buckets, self._rng.getrandbits, self._bits
        for line in lines:
            # Draw once per line, so that the order does not depend on the size of batches.
            buckets[choose(bits)].append(line)
        size = sum(map(len, lines)) + len(lines)
        self.bytes += size
        self._buffered += size
        if self._buffered >= BUFFER_BYTES:
            self._spill()

    def shuffled(self) -> Iterator[list[bytes]]:
        """Yield lists of lines in shuffled order, without line ends; remove files once read."""
        self._spill()
        for number, size in enumerate(self._sizes):
            if not size:
                continue
            path = self._path(number)
            if size <= BUCKET_BYTES or self._depth >= _DEEPEST:
                lines = path.read_bytes().split(b"\n")
                lines.pop()
                path.unlink()
                self._rng.shuffle(lines)
                yield lines
            else:
                yield from self._shuffle_again(path, size)

    def _shuffle_again(self, path: Path, size: int) -> Iterator[list[bytes]]:
        folder = path.with_suffix(".d")
        folder.mkdir()
        # As few files as possible, because opening files takes time.
        bits = min(8, (size // BUCKET_BYTES).bit_length())
        more = Shuffle(folder, self._rng, self._depth + 1, bits)
        with path.open("rb") as file:
            rest = b""
            while piece := file.read(_READ_BYTES):
                *lines, rest = (rest + piece).split(b"\n")
                more.add([line.decode("latin-1") for line in lines])
        path.unlink()
        yield from more.shuffled()
        folder.rmdir()

    def _spill(self) -> None:
        for number, lines in enumerate(self._buckets):
            if not lines:
                continue
            lines.append("")
            data = "\n".join(lines).encode("latin-1")
            # Open one file at a time: some systems allow fewer open files than there are buckets.
            with self._path(number).open("ab") as file:
                file.write(data)
            self._sizes[number] += len(data)
            lines.clear()
        self._buffered = 0

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:03d}"


DEFAULT_PART_BYTES = 64 * 1024 * 1024
_SEED = 0
"""Seed of the random order of items, so that equal conversions give equal parts."""
_WRITE_BYTES = 64 * 1024


@dataclass(eq=False)
class ShardedSink:
    """Sink that writes items in random order into parts, once all items are known."""

    target: ShardTarget
    compression: str
    part_bytes: int = DEFAULT_PART_BYTES
    """Approximate size of a part, uncompressed."""
    threads: int = 1
    """Number of threads that compress."""

    def __post_init__(self) -> None:
        """Create temporary files.

        Discards the target, and raises `OutputUnwritable` or `ExtraMissing`, if that fails.
        """
        self.bytes = self.parts = 0
        self._rest = ""
        try:
            # A missing zstd package is reported before the source is read.
            open_compressor(io.BytesIO(), self.compression).close()
            with _disk_errors():
                self._folder = Path(tempfile.mkdtemp(prefix="ddbload-convert-"))
                lines = self._folder / "lines"
                lines.mkdir()
        except DdbloadError:
            self.target.discard()
            raise
        self._shuffle = Shuffle(lines, random.Random(_SEED))

    def write(self, data: bytes) -> None:
        """Write lines to the temporary files; calls may split a line. Raises as `finish`."""
        lines = (self._rest + data.decode("latin-1")).split("\n")
        self._rest = lines.pop()
        with _disk_errors():
            self._shuffle.add(lines)

    def finish(self) -> None:
        """Write, upload and publish the parts. Raises `OutputUnwritable` and AWS's errors."""

        def upload(path: Path) -> None:
            try:
                self.target.put(path.name, path)
            finally:
                path.unlink(missing_ok=True)

        count = CONCURRENT_UPLOADS
        with (
            _disk_errors(),
            closing(map_in_threads(upload, self._write_parts(), count, count)) as uploads,
        ):
            for _ in uploads:
                pass
        self.target.publish()
        self._remove_folder()

    def abandon(self) -> None:
        """Remove the temporary files and the uploaded parts."""
        self._remove_folder()
        with contextlib.suppress(DdbloadError):
            self.target.discard()

    def _write_parts(self) -> Iterator[Path]:
        """Write each part to a file and yield its path. There is at least one part."""
        total = self._shuffle.bytes
        count = max(1, -(-total // self.part_bytes))
        lines = chain.from_iterable(self._shuffle.shuffled())
        taken = 0
        for number in range(count):
            path = self._folder / f"part-{number:05d}.json{SUFFIXES[self.compression]}"
            # Parts of equal size, so that the last one is not small.
            until = total * (number + 1) // count
            with path.open("wb") as file:
                os.fchmod(file.fileno(), 0o600)
                out = open_compressor(file, self.compression, self.threads)
                while taken < until:
                    data = _take(lines, min(until - taken, _WRITE_BYTES))
                    taken += len(data)
                    out.write(data)
                out.close()
            self.bytes += path.stat().st_size
            self.parts += 1
            yield path

    def _remove_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _take(lines: Iterator[bytes], size: int) -> bytes:
    """Take lines, with line ends, until they total at least `size` bytes."""
    taken: list[bytes] = []
    while size > 0:
        line = next(lines)
        taken.append(line)
        size -= len(line) + 1
    taken.append(b"")
    return b"\n".join(taken)


def _disk_errors() -> contextlib.AbstractContextManager[None]:
    return disk_errors(f"the folder for temporary files, {tempfile.gettempdir()} ($TMPDIR)")


CONCURRENT_UPLOADS = 4
"""Number of parts uploaded at once. Each takes disk space meanwhile."""


class FolderShards:
    """Target that is a new or empty folder."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        with disk_errors(self._path):
            if self._path.exists() and (not self._path.is_dir() or any(self._path.iterdir())):
                raise OutputUnwritable(
                    f"{path} exists and is not empty: name a new folder, or empty it"
                )
            beside = self._path.parent
            self._folder = Path(tempfile.mkdtemp(dir=beside, prefix=f".{self._path.name[:80]}."))

    def put(self, name: str, path: Path) -> None:
        """Copy a part into a hidden folder next to the target."""
        with disk_errors(self._path):
            shutil.copyfile(path, self._folder / name)

    def publish(self) -> None:
        """Rename the hidden folder to the target."""
        with disk_errors(self._path):
            mask = os.umask(0)
            os.umask(mask)
            self._folder.chmod(0o777 & ~mask)
            self._folder.replace(self._path)

    def discard(self) -> None:
        """Remove the hidden folder."""
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(slots=True)
class _Upload:
    """Multipart upload of one part."""

    key: str
    id: str
    etag: str = ""
    size: int = 0
    completing: bool = False
    """True once the object may exist."""


class BucketShards:
    """Target that is an empty prefix of an S3 bucket.

    Each part is a multipart upload. All uploads are completed at the end, so that no object appears
    earlier. A killed process leaves incomplete uploads, which are not objects.
    """

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        prefix: str,
        *,
        retry_policy: RetryPolicy = DEFAULT_POLICY,
    ) -> None:
        """Check that the prefix has no objects. It is empty or ends with a slash."""
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

        def complete() -> bool:
            nonlocal tries
            tries += 1
            self._client.complete_multipart_upload(
                Bucket=self._bucket,
                Key=upload.key,
                UploadId=upload.id,
                MultipartUpload={"Parts": [{"ETag": upload.etag, "PartNumber": 1}]},
            )
            return True

        doing = f"writing s3://{self._bucket}/{upload.key}"
        done = find_with_retries(
            complete,
            doing,
            lambda failure: failure.code == "NoSuchUpload",
            policy=self._retry_policy,
            expected=self._expected,
        )
        if done is None:
            # An earlier attempt may have succeeded although its answer was lost: check for the
            # object.
            head: Any = {}
            if tries > 1:
                head = self._call(
                    lambda: self._client.head_object(Bucket=self._bucket, Key=upload.key), doing
                )
            if head.get("ContentLength") != upload.size:
                raise OutputUnwritable(f"{doing}: the upload was aborted from outside")

    def _call(self, operation: Callable[[], T], doing: str) -> T:
        return call_with_retries(
            operation, doing, expected=self._expected, policy=self._retry_policy
        )

    def _expected(self, meant: AwsFailure) -> Exception | None:
        if meant.code == "NoSuchBucket":
            return OutputUnwritable(f"there is no bucket {self._bucket}")
        return None


ShardTarget = FolderShards | BucketShards
"""Target for parts, which are invisible until `publish`; `put` may be called from any thread.

Methods raise `OutputUnwritable` and AWS's errors.
"""
