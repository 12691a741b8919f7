"""Items in many files or objects, in a random order: none is there before all are written.

Importers read such files side by side, and a random order spreads what they write over a table's
partitions, whatever order the source is in.
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

from ddbload.errors import DdbloadError, OutputUnwritable
from ddbload.pipeline.part_targets import UPLOADS, Target
from ddbload.pipeline.shuffle import Shuffle
from ddbload.pipeline.sinks import SUFFIXES, compressing

DEFAULT_PART_BYTES = 64 * 1024 * 1024
MOST_PART_BYTES = 4 * 1024 * 1024 * 1024
"""S3 takes 5 GB at once, and compressed a part may be a little longer than it was."""
_WRITTEN_AT_ONCE = 64 * 1024


class PartsSink:
    """Deals items out to parts, when all are there. Until then they are in temporary files."""

    def __init__(
        self, target: Target, *, compression: str, seed: int, part_bytes: int = DEFAULT_PART_BYTES
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
