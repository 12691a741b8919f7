"""Measure reading gzip from seek points, compared with Python's zlib.

    python -m bench.gzip_workers [--megabytes 1000] [--rounds 3] [--seed 1] [--file rows.csv.gz]

Measures CPU seconds of this process: medians of all rounds, which run in rotated order. All chunks
together are the work of a run's workers. Variants that disagree on the text end the run with an
error.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from bench.rounds import described_machine, rotated
from ddbload.contracts.chunks import SeekPoint
from ddbload.contracts.options import DEFAULT_CHUNK_BYTES
from ddbload.contracts.source import GZIP
from ddbload.source.decoding.decoded_source import DecodedSource, SeekTrail
from ddbload.source.local_file import open_local

PIECE_BYTES = 64 * 1024
Text = tuple[int, int]
"""Length and CRC-32 of decompressed text."""
Cut = tuple[int, str]
"""First byte of a chunk, and its seek point as JSON."""


def make_file(path: Path, size: int, seed: int) -> None:
    """Write about `size` bytes of rows, compressed like `gzip -6`."""
    rng = random.Random(seed)
    words = [
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(5000)
    ]
    packer, number, written = zlib.compressobj(6, zlib.DEFLATED, 31), 0, 0
    with path.open("wb") as file:
        while written < size:
            rows = []
            for _ in range(5000):
                number += 1
                name, text = rng.choice(words), " ".join(rng.choices(words, k=4))
                rows.append(f"{number},{rng.randint(1900, 2020)},{name},{text}\n")
            block = "".join(rows).encode()
            written += len(block)
            file.write(packer.compress(block))
        file.write(packer.flush())


def bare_zlib(path: Path) -> Text:
    """Decompress a file of one member with Python's zlib alone, in cache-sized pieces."""
    inflate, length, checksum = zlib.decompressobj(31), 0, 0
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            while piece:
                text = inflate.decompress(piece, PIECE_BYTES)
                length += len(text)
                checksum = zlib.crc32(text, checksum)
                piece = inflate.unconsumed_tail
    return length, checksum


def make_index(path: Path, cuts: list[Cut]) -> Text:
    """Decompress a file once, like preflight, and record a seek point for each chunk."""
    trail, length, checksum, next_cut = SeekTrail(), 0, 0, DEFAULT_CHUNK_BYTES
    points: list[SeekPoint] = []
    with closing(_open(path)) as file:
        trail.begin(0, 0)
        file.seek(None, trail)
        for text in file.stream(0, None, PIECE_BYTES):
            length += len(text)
            checksum = zlib.crc32(text, checksum)
            while (byte := trail.first_from(next_cut)) is not None and byte <= length:
                point = trail.last_before(byte)
                assert point is not None, "a point lies there"  # noqa: S101
                if points:
                    points[-1] = replace(points[-1], until=trail.consumed)
                points.append(point)
                next_cut = byte + DEFAULT_CHUNK_BYTES
            trail.discard_before(length)
    cuts[:] = [(point.text, json.dumps(point.to_json())) for point in points]
    return length, checksum


def read_chunks(path: Path, cuts: list[Cut]) -> Text:
    """Decompress each chunk separately, like workers, and record points for a stop."""
    starts: list[tuple[int, str | None]] = [(0, None), *cuts]
    ends: list[int | None] = [*(byte for byte, _ in cuts), None]
    length = checksum = 0
    for (start, point), end in zip(starts, ends, strict=True):
        with closing(_open(path)) as file:
            begin = None if point is None else SeekPoint.from_json(json.loads(point))
            trail = SeekTrail()
            trail.begin(0, 0, begin)
            file.seek(begin, trail)
            for text in file.stream(start, end, PIECE_BYTES):
                length += len(text)
                checksum = zlib.crc32(text, checksum)
                trail.discard_before(length)
    return length, checksum


def continue_in_the_middle(path: Path, cuts: list[Cut]) -> int:
    """Read the first text after the middle seek point; return its length."""
    byte, point = cuts[len(cuts) // 2]
    with closing(_open(path)) as file:
        file.seek(SeekPoint.from_json(json.loads(point)), SeekTrail())
        return len(next(iter(file.stream(byte, None, PIECE_BYTES))))


def _open(path: Path) -> DecodedSource:
    return DecodedSource(open_local(str(path)), compression=GZIP)


def measure(path: Path, rounds: int) -> dict[str, float]:
    """Measure all variants; return the median CPU seconds of each."""
    cuts: list[Cut] = []
    texts = {make_index(path, cuts)}
    if not cuts:
        sys.exit("refused: the file has no seek points behind its first chunk")
    variants: dict[str, Callable[[], Text]] = {
        "zlib alone, once": lambda: bare_zlib(path),
        "with seek points (preflight)": lambda: make_index(path, cuts),
        "all chunks, each by itself (workers)": lambda: read_chunks(path, cuts),
    }
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    names = list(variants)
    for turn in range(rounds):
        for name in rotated(names, turn):
            begin = time.process_time()
            texts.add(variants[name]())
            seconds[name].append(time.process_time() - begin)
    if len(texts) != 1:
        sys.exit("refused: the variants disagree on the text")
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    begin = time.process_time()
    continue_in_the_middle(path, cuts)
    medians["continuation in the middle"] = time.process_time() - begin
    ((length, _),) = texts
    points = sum(len(point) for _, point in cuts)
    print(
        f"{length / 1e6:.0f} MB, {path.stat().st_size / 1e6:.0f} MB compressed;"
        f" {len(cuts) + 1} chunks, {points / 1e6:.1f} MB of seek points"
    )
    return medians


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure how gzip is read from seek points.")
    parser.add_argument("--megabytes", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--file", type=Path, help="a file of one member, instead of a made one")
    options = parser.parse_args()
    print(f"{described_machine()}, zlib {zlib.ZLIB_RUNTIME_VERSION}")
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "rows.csv.gz"
        if options.file is None:
            make_file(path, options.megabytes * 1_000_000, options.seed)
        medians = measure(path, options.rounds)
    alone = medians["zlib alone, once"]
    print(f"{'variant':40}{'CPU s':>8}{'x zlib':>8}")
    for name, taken in medians.items():
        print(f"{name:40}{taken:8.3f}{taken / alone:8.2f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"most memory: {peak / (1024 if sys.platform == 'linux' else 1 << 20):.0f} MB")


if __name__ == "__main__":
    main()
