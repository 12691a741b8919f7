"""Measure `ddbload convert`: CPU against one thread of DuckDB, wall time of several processes.

    python -m bench.convert [--megabytes 200] [--rounds 3] [--shapes ngrams,wide] [--processes 2]

DuckDB writes the same items: a struct with the type of each attribute, as JSON lines. Variants take
turns. The run ends with an error if a round of ddbload gives other lines than the first, or if
DuckDB writes another number of lines. CPU seconds include all processes of a variant and their
start.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import sys
import tempfile
from pathlib import Path

from bench.clients import RIVALS_PYTHON
from bench.rounds import (
    TIMEOUT_SECONDS,
    Cores,
    ResourceUsage,
    described_machine,
    rotated,
    run_measured,
)
from bench.shapes import SHAPES, Shape

_SAMPLE_ROWS = 20_000
_DUCKDB = """
import sys, duckdb
connection = duckdb.connect(config={"threads": 1})
connection.execute("SET enable_progress_bar = false")
connection.execute(sys.argv[1])
"""


def query(shape: Shape, source: Path, out: Path) -> str:
    """Return the SQL with which DuckDB writes a file's items."""
    columns = ", ".join(f"'{name}': 'VARCHAR'" for name in shape.columns)
    items = ", ".join(
        f"'{name}': CASE WHEN \"{name}\" IS NULL THEN NULL ELSE"
        f" struct_pack({kind} := {_value(name, kind)}) END"
        for name, kind in shape.columns.items()
    )
    header = str(shape.header).lower()
    form = f"delim='{shape.delimiter}', header={header}, quote='\"', escape='\"'"
    rows = f"read_csv('{source}', {form}, columns={{{columns}}})"
    copied = f"SELECT {{{items}}} AS Item FROM {rows}"  # noqa: S608 - of our own names alone
    return f"COPY ({copied}) TO '{out}' (FORMAT json)"


def _value(name: str, kind: str) -> str:
    return f"(\"{name}\" = 'true')" if kind == "BOOL" else f'"{name}"'


def ddbload(shape: Shape, source: Path, out: Path, processes: int) -> list[str]:
    """Return the command that converts a file."""
    types = ",".join(f"{name}={kind}" for name, kind in shape.columns.items() if kind != "S")
    columns = [] if shape.header else ["--no-header", "--columns", ",".join(shape.columns)]
    return [
        *(sys.executable, "-m", "ddbload", "convert", str(source), str(out), "--types", types),
        *(*columns, "--processes", str(processes), "--quiet"),
    ]


def run(command: list[str], folder: Path) -> ResourceUsage:
    """Run a command to its end, and measure it including its child processes."""
    cores = Cores(None, None)
    return run_measured(command, dict(os.environ), folder, cores, TIMEOUT_SECONDS)[0]


def measure(shape: Shape, options: argparse.Namespace, folder: Path) -> None:
    """Measure all variants on a file of a shape, and print a table."""
    source = folder / f"source{shape.suffix}"
    shape.write(source, _SAMPLE_ROWS, options.seed)
    rows = int(_SAMPLE_ROWS * options.megabytes * 1e6 / source.stat().st_size)
    shape.write(source, rows, options.seed)
    several = f"ddbload, {options.processes} processes"
    names = ["DuckDB, 1 thread", "ddbload, 1 process", several]
    taken: dict[str, list[ResourceUsage]] = {name: [] for name in names}
    digests: set[str] = set()
    for turn in range(options.rounds):
        for name in rotated(names, turn):
            out = folder / "out.json"
            out.unlink(missing_ok=True)
            if name == names[0]:
                text = query(shape, source, out)
                taken[name].append(run([str(RIVALS_PYTHON), "-c", _DUCKDB, text], folder))
                with out.open("rb") as lines:
                    count = sum(1 for _ in lines)
                if count != rows:
                    sys.exit(f"refused: DuckDB wrote {count} items of {rows}")
                continue
            count = 1 if name == names[1] else options.processes
            taken[name].append(run(ddbload(shape, source, out, count), folder))
            with out.open("rb") as file:
                digests.add(hashlib.file_digest(file, "sha256").hexdigest())
            if len(digests) > 1:
                sys.exit(f"refused: {name} wrote other bytes")
    base = statistics.median(each.cpu for each in taken[names[0]])
    alone = statistics.median(each.wall for each in taken[names[1]])
    megabytes = source.stat().st_size / 1e6
    print(f"{shape.name}: {megabytes:.0f} MB, {rows:,} rows")
    print(f"{'':24}{'CPU s':>8}{'/ DuckDB':>10}{'wall s':>8}{'speed-up':>10}{'MB':>6}")
    for name in names:
        cpu = statistics.median(each.cpu for each in taken[name])
        wall = statistics.median(each.wall for each in taken[name])
        memory = max(each.peak_mb for each in taken[name])
        speed = f"{alone / wall:.2f}" if name == several else ""
        print(f"{name:24}{cpu:8.2f}{cpu / base:10.2f}{wall:8.2f}{speed:>10}{memory:6.0f}")


def main() -> None:
    """Measure each shape."""
    parser = argparse.ArgumentParser(description="Measure ddbload convert beside DuckDB.")
    parser.add_argument("--megabytes", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="default: %(default)s")
    parser.add_argument("--processes", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    options = parser.parse_args()
    print(described_machine())
    for name in options.shapes.split(","):
        with tempfile.TemporaryDirectory(prefix="ddbload-bench-") as folder:
            measure(SHAPES[name], options, Path(folder))


if __name__ == "__main__":
    main()
