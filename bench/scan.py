"""Measure the speed of finding row ends, compared with the standard library's csv.reader.

    python -m bench.scan [--megabytes 64] [--rounds 5] [--seed 1]

Measures CPU seconds of this process: the median of all rounds, which run in rotated order. Variants
that disagree on the number of rows end the run with an error.
"""

from __future__ import annotations

import argparse
import csv
import io
import random
import statistics
import sys
import time
from collections.abc import Callable

from bench.rounds import described_machine, rotated
from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.run_record import Cursor
from ddbload.rows.blocks import BlockSplitter, count_line_ends
from ddbload.rows.columns import RowParser
from ddbload.rows.dialect_grammar import dialect_boundaries

Measured = Callable[[bytes, Dialect], int]


def cut(data: bytes, dialect: Dialect) -> int:
    """Cut data into blocks of whole rows, like preflight. Return the number of lines."""
    cutter = BlockSplitter(dialect_boundaries(dialect), Cursor(0, 1), 1 << 24)
    for start in range(0, len(data), cutter.piece_bytes):
        piece = data[start : start + cutter.piece_bytes]
        cutter.feed(piece, final=start + cutter.piece_bytes >= len(data))
    return cutter.at.line - 1


def read(data: bytes, dialect: Dialect) -> int:
    """Cut data into blocks and parse every field, like an import. Return the number of lines."""
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
    """Read decoded text with csv.reader, like a simple importer. Return the number of lines.

    csv.reader supports neither comments nor delimiters of several characters; it gets the first
    character.
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
    """Count line ends regardless of quotes, as the lower bound. Return the number of lines."""
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
    """Generate about `size` bytes of rows."""
    rng = random.Random(seed)
    row = SHAPES[shape][0]
    sample = "".join(row(rng, number) for number in range(20_000)).encode()
    return sample * max(1, size // len(sample))


def main() -> None:
    """Measure all variants, and print a table."""
    parser = argparse.ArgumentParser(description="Measure how fast row ends are found.")
    parser.add_argument("--megabytes", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    options = parser.parse_args()
    print(f"{described_machine()}, seed {options.seed}")
    print(f"{'shape':8}{'variant':30}{'CPU s':>8}{'MB/CPU s':>10}")
    for shape, (_, dialect) in SHAPES.items():
        data = make(shape, options.megabytes * 1_000_000, options.seed)
        seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
        lines: set[int] = set()
        names = list(VARIANTS)
        for turn in range(options.rounds):
            for name in rotated(names, turn):
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
