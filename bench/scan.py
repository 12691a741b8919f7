"""How fast row ends are found, beside the standard library's reader, in one run.

    python -m bench.scan [--megabytes 64] [--rounds 5] [--seed 1]

CPU seconds of this process, rounds in rotated order, the median of each. All must see the same
number of rows, or the run is refused.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable

from ddbload.contracts.run_record import Cursor
from ddbload.rows.block_splitter import BlockSplitter
from ddbload.rows.boundaries.plain_boundaries import dialect_boundaries
from ddbload.rows.boundaries.row_boundaries import count_line_ends
from ddbload.rows.dialect import Dialect
from ddbload.rows.row_parser import RowParser

Measured = Callable[[bytes, Dialect], int]


def cut(data: bytes, dialect: Dialect) -> int:
    """What preflight does: blocks of whole rows, with lines counted. Gives the lines."""
    cutter = BlockSplitter(dialect_boundaries(dialect), Cursor(0, 1), 1 << 24)
    for start in range(0, len(data), cutter.piece_bytes):
        piece = data[start : start + cutter.piece_bytes]
        cutter.feed(piece, final=start + cutter.piece_bytes >= len(data))
    return cutter.at.line - 1


def read(data: bytes, dialect: Dialect) -> int:
    """What an import does: the same blocks, and every field of them. Gives the lines."""
    ends = dialect_boundaries(dialect)
    cutter = BlockSplitter(ends, Cursor(0, 1), 1 << 24)
    parser = RowParser(dialect, ends)
    for start in range(0, len(data), cutter.piece_bytes):
        piece = data[start : start + cutter.piece_bytes]
        block = cutter.feed(piece, final=start + cutter.piece_bytes >= len(data))
        if block is not None:
            parser.parse(block)
    return cutter.at.line - 1


def csv_reader(data: bytes, dialect: Dialect) -> int:
    """The rival: csv.reader over decoded text, as a plain importer would. Gives the lines.

    It knows no comments, and delimiters of one character: of longer ones it gets the first.
    """
    reader = csv.reader(
        io.StringIO(data.decode(), newline=""),
        delimiter=dialect.delimiter[0],
        escapechar=dialect.escape,
    )
    for _ in reader:
        pass
    return reader.line_num


def count_newlines(data: bytes, _: Dialect) -> int:
    """The floor: line ends, without a look at quotes. Gives the lines."""
    return count_line_ends(data)


def _narrow(rng: random.Random, number: int) -> str:
    return f"word{number}\t{rng.randint(1800, 2019)}\t{rng.randint(1, 10**5)}\t{number}\n"


def _quoted(rng: random.Random, number: int) -> str:
    words = " ".join(rng.choices(("alpha", "beta", '""gamma""', "delta,", "two\nlines"), k=6))
    return f'{number},"{words}","{number} times",{rng.random():.6f}\n'


def _wide(rng: random.Random, number: int) -> str:
    return ",".join([str(number), *(f"{rng.random():.8f}" for _ in range(19))]) + "\n"


def _escaped(rng: random.Random, number: int) -> str:
    return _quoted(rng, number).replace('""gamma""', '\\"gamma\\"')


def _long(rng: random.Random, number: int) -> str:
    return _quoted(rng, number).replace(",", "||")


SHAPES = {
    "narrow": (_narrow, Dialect("\t")),
    "quoted": (_quoted, Dialect()),
    "wide": (_wide, Dialect()),
    "escaped": (_escaped, Dialect(escape="\\", comment="#")),
    "long": (_long, Dialect("||")),
}
VARIANTS: dict[str, Measured] = {
    "cut into blocks (preflight)": cut,
    "cut and parse (import)": read,
    "csv.reader alone": csv_reader,
    "line ends alone": count_newlines,
}


def make(shape: str, size: int, seed: int) -> bytes:
    """A file of about `size` bytes."""
    rng = random.Random(seed)
    row = SHAPES[shape][0]
    sample = "".join(row(rng, number) for number in range(20_000)).encode()
    return sample * max(1, size // len(sample))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="How fast row ends are found.")
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    print(f"{python}, {platform.machine()}, {os.cpu_count()} cores, seed {asked.seed}")
    print(f"{'shape':8}{'variant':30}{'CPU s':>8}{'MB/CPU s':>10}")
    for shape, (_, dialect) in SHAPES.items():
        data = make(shape, asked.megabytes * 1_000_000, asked.seed)
        seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
        lines: set[int] = set()
        names = list(VARIANTS)
        for turn in range(asked.rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                begin = time.process_time()
                lines.add(VARIANTS[name](data, dialect))
                seconds[name].append(time.process_time() - begin)
        if len(lines) != 1:
            sys.exit(f"refused: the variants disagree on {shape}: {sorted(lines)} lines")
        for name in names:
            taken = statistics.median(seconds[name])
            print(f"{shape:8}{name:30}{taken:8.2f}{len(data) / 1e6 / taken:10.0f}")


if __name__ == "__main__":
    main()
