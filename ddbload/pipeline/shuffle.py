"""Lines in a random order, in bounded memory, by way of temporary files.

Each line goes to one of many files at random, and each of these is shuffled by itself: so every
order is as likely as any other. A file that is too large for that is dealt out once more.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

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
