"""Lines in a random order, in bounded memory, by way of temporary files.

Each line goes to one of many files at random, and each of these is shuffled by itself: so every
order is as likely as any other. A file that is too large for that is dealt out once more.
"""

from __future__ import annotations

import contextlib
import io
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from threading import BoundedSemaphore

from ddbload.convert.shard_targets import UPLOADS, ShardTarget
from ddbload.convert.sinks import SUFFIXES, compressing
from ddbload.errors import DdbloadError, OutputUnwritable

HELD_BYTES = 8 * 1024 * 1024
"""Lines that wait in memory to be written to their files."""
BUCKET_BYTES = 12 * 1024 * 1024
"""A file of so much is shuffled in memory; its lines take about twice as much there."""
_READ_BYTES = 1024 * 1024
_DEEPEST = 4


class Shuffle:
    """Takes lines, and gives them back in an order that the seed, and nothing else, decides."""

    def __init__(self, folder: Path, rng: random.Random, depth: int = 0, bits: int = 8) -> None:
        """`folder`: an empty one, for itself alone. `bits`: of the number of its files."""
        self.bytes = 0
        """Of all lines, line ends included."""
        self._folder, self._rng, self._depth, self._bits = folder, rng, depth, bits
        self._buckets: list[list[str]] = [[] for _ in range(2**bits)]
        self._sizes = [0] * 2**bits
        self._held = 0

    def add(self, lines: Sequence[str]) -> None:
        """Take lines, in octets, without line ends. Raises `OSError`."""
        buckets, choose, bits = self._buckets, self._rng.getrandbits, self._bits
        for line in lines:
            # Not by the window: the order may not depend on how lines come together.
            buckets[choose(bits)].append(line)
        size = sum(map(len, lines)) + len(lines)
        self.bytes += size
        self._held += size
        if self._held >= HELD_BYTES:
            self._spill()

    def shuffled(self) -> Iterator[list[bytes]]:
        """All lines, without line ends, some at a time. Each file is removed when it is read."""
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
                yield from self._dealt_again(path, size)

    def _dealt_again(self, path: Path, size: int) -> Iterator[list[bytes]]:
        folder = path.with_suffix(".d")
        folder.mkdir()
        # As few files as will do: to open one takes as long as to write some.
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
            # Opened for a moment: so many files at once are more than some systems allow.
            with self._path(number).open("ab") as file:
                file.write(data)
            self._sizes[number] += len(data)
            lines.clear()
        self._held = 0

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:03d}"


DEFAULT_PART_BYTES = 64 * 1024 * 1024
MOST_PART_BYTES = 4 * 1024 * 1024 * 1024
"""S3 takes 5 GB at once, and compressed a part may be a little longer than it was."""
_WRITTEN_AT_ONCE = 64 * 1024


class ShardedSink:
    """Deals items out to parts, when all are there. Until then they are in temporary files."""

    def __init__(
        self,
        target: ShardTarget,
        *,
        compression: str,
        seed: int,
        part_bytes: int = DEFAULT_PART_BYTES,
    ) -> None:
        """`part_bytes`: of a part before it is compressed, at most about so many.

        Raises `OutputUnwritable` and `ExtraMissing`, and then has discarded the target.
        """
        self.bytes = 0
        self.parts = 0
        self._target = target
        self._compression = compression
        self._part_bytes = part_bytes
        try:
            # Whether that is installed is better known before everything is read.
            compressing(io.BytesIO(), compression).close()
            with _disk():
                self._folder = Path(tempfile.mkdtemp(prefix="ddbload-convert-"))
                lines = self._folder / "lines"
                lines.mkdir()
        except DdbloadError:
            target.discard()
            raise
        self._shuffle = Shuffle(lines, random.Random(seed))

    def write(self, lines: Sequence[str]) -> None:
        """Put them aside. Raises `OutputUnwritable`."""
        with _disk():
            self._shuffle.add(lines)

    def finish(self) -> None:
        """Make the parts, hand them over and show them. Raises `OutputUnwritable`, AWS's errors."""
        room = BoundedSemaphore(UPLOADS)
        under_way: list[Future[None]] = []
        with _disk(), ThreadPoolExecutor(UPLOADS) as pool:
            try:
                for path in self._written():
                    room.acquire()
                    _raise_first(under_way)
                    put = pool.submit(self._target.put, path.name, path)
                    put.add_done_callback(_done(path, room))
                    under_way.append(put)
                for put in under_way:
                    put.result()
            finally:
                for put in under_way:
                    put.cancel()
        self._target.publish()
        self._remove_folder()

    def abandon(self) -> None:
        """Remove the temporary files, and the parts."""
        self._remove_folder()
        with contextlib.suppress(DdbloadError):
            self._target.discard()

    def _written(self) -> Iterator[Path]:
        """The parts, each in a file of its own; at least one, that there be something."""
        total = self._shuffle.bytes
        count = max(1, -(-total // self._part_bytes))
        lines = chain.from_iterable(self._shuffle.shuffled())
        taken = 0
        for number in range(count):
            path = self._folder / f"part-{number:05d}.json{SUFFIXES[self._compression]}"
            # In equal parts: the last one is not to be a small one.
            until = total * (number + 1) // count
            with path.open("wb") as file:
                out = compressing(file, self._compression)
                while taken < until:
                    data = _some(lines, min(until - taken, _WRITTEN_AT_ONCE))
                    taken += len(data)
                    out.write(data)
                out.close()
            self.bytes += path.stat().st_size
            self.parts += 1
            yield path

    def _remove_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _some(lines: Iterator[bytes], size: int) -> bytes:
    """Lines with their ends, until they are as many bytes or more."""
    taken: list[bytes] = []
    while size > 0:
        line = next(lines)
        taken.append(line)
        size -= len(line) + 1
    taken.append(b"")
    return b"\n".join(taken)


def _done(path: Path, room: BoundedSemaphore) -> Callable[[Future[None]], None]:
    def done(_: Future[None]) -> None:
        with contextlib.suppress(OSError):
            path.unlink()
        room.release()

    return done


def _raise_first(under_way: Sequence[Future[None]]) -> None:
    """Raise what any failed of, as soon as it is known."""
    for put in under_way:
        if put.done():
            put.result()


@contextlib.contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputUnwritable(
            f"the folder for temporary files, {tempfile.gettempdir()} ($TMPDIR): {error.strerror}"
        ) from None
