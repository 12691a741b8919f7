"""Sink that shuffles items and writes them into parts, in bounded memory.

The shuffle deals each line to one of many temporary files at random, then shuffles each file in
memory, so that every order is equally likely. A file that is too large is dealt out once more.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

from ddbload.convert.shard_targets import CONCURRENT_UPLOADS, ShardTarget
from ddbload.convert.sinks import SUFFIXES, open_compressor
from ddbload.errors import DdbloadError, OutputUnwritable
from ddbload.parallel import map_in_threads

BUFFER_BYTES = 8 * 1024 * 1024
"""Bytes of lines buffered in memory before they are written to the temporary files."""
BUCKET_BYTES = 12 * 1024 * 1024
"""Largest temporary file that is shuffled in memory, where it takes about twice as much."""
_READ_BYTES = 1024 * 1024
_DEEPEST = 4


class Shuffle:
    """External shuffle of lines; the order depends on the seed alone."""

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
            # Line by line, so that the order does not depend on the size of batches.
            buckets[choose(bits)].append(line)
        size = sum(map(len, lines)) + len(lines)
        self.bytes += size
        self._buffered += size
        if self._buffered >= BUFFER_BYTES:
            self._spill()

    def shuffled(self) -> Iterator[list[bytes]]:
        """Yield all lines in lists, without line ends; each file is removed after reading."""
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
            # Opened one at a time: some systems allow fewer open files than there are buckets.
            with self._path(number).open("ab") as file:
                file.write(data)
            self._sizes[number] += len(data)
            lines.clear()
        self._buffered = 0

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:03d}"


DEFAULT_PART_BYTES = 64 * 1024 * 1024
_WRITE_BYTES = 64 * 1024


class ShardedSink:
    """Sink that writes items in random order into parts, once all items are known."""

    def __init__(
        self,
        target: ShardTarget,
        *,
        compression: str,
        seed: int,
        part_bytes: int = DEFAULT_PART_BYTES,
        threads: int = 1,
    ) -> None:
        """Open temporary files; parts have about `part_bytes` before compression.

        `threads` compress them. Raises `OutputUnwritable` and `ExtraMissing`, after discarding the
        target.
        """
        self.bytes = 0
        self.parts = 0
        self._target = target
        self._compression = compression
        self._part_bytes = part_bytes
        self._threads = threads
        self._rest = ""
        try:
            # A missing zstd package is reported before the source is read.
            open_compressor(io.BytesIO(), compression).close()
            with _disk_errors():
                self._folder = Path(tempfile.mkdtemp(prefix="ddbload-convert-"))
                lines = self._folder / "lines"
                lines.mkdir()
        except DdbloadError:
            target.discard()
            raise
        self._shuffle = Shuffle(lines, random.Random(seed))

    def write(self, data: bytes) -> None:
        """Write lines to the temporary files; a line may come in pieces. Raises as `finish`."""
        lines = (self._rest + data.decode("latin-1")).split("\n")
        self._rest = lines.pop()
        with _disk_errors():
            self._shuffle.add(lines)

    def finish(self) -> None:
        """Write, upload and publish the parts. Raises `OutputUnwritable` and AWS's errors."""

        def upload(path: Path) -> None:
            try:
                self._target.put(path.name, path)
            finally:
                path.unlink(missing_ok=True)

        count = CONCURRENT_UPLOADS
        with (
            _disk_errors(),
            closing(map_in_threads(upload, self._write_parts(), count, count)) as uploads,
        ):
            for _ in uploads:
                pass
        self._target.publish()
        self._remove_folder()

    def abandon(self) -> None:
        """Remove the temporary files and the uploaded parts."""
        self._remove_folder()
        with contextlib.suppress(DdbloadError):
            self._target.discard()

    def _write_parts(self) -> Iterator[Path]:
        """Write each part to a file, and yield its path; there is at least one part."""
        total = self._shuffle.bytes
        count = max(1, -(-total // self._part_bytes))
        lines = chain.from_iterable(self._shuffle.shuffled())
        taken = 0
        for number in range(count):
            path = self._folder / f"part-{number:05d}.json{SUFFIXES[self._compression]}"
            # Equal sizes, so that the last part is not a small one.
            until = total * (number + 1) // count
            with path.open("wb") as file:
                os.fchmod(file.fileno(), 0o600)
                out = open_compressor(file, self._compression, self._threads)
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
    """Take lines, with line ends, until they have at least `size` bytes."""
    taken: list[bytes] = []
    while size > 0:
        line = next(lines)
        taken.append(line)
        size -= len(line) + 1
    taken.append(b"")
    return b"\n".join(taken)


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputUnwritable(
            f"the folder for temporary files, {tempfile.gettempdir()} ($TMPDIR): {error.strerror}"
        ) from None
