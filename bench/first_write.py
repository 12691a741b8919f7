"""Measure the time until the first write: a scan of the whole source against one by edges.

    python -m bench.first_write [--megabytes 64,256,1024,2048] [--rounds 3] [--folder DIR]

Each `ddbload import` reads a file of this machine and writes to the sink. It is ended when its
first write arrives, so a file is never imported. The time counts from the start of the command;
that of the file of 1 MB is what the command takes for everything but the scan. Files lie in a
temporary folder (in `--folder`), and stay in the system's cache as far as it goes: S3 is slower.
`python -m tests.sim.first_write` simulates the deployed functions.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.clients import ROOT, TABLE
from bench.rounds import Cores, Scenario, SinkProcess, sink
from bench.shapes import Shape

MB = 1 << 20
SCANS = ("whole", "edges")
LIMIT_SECONDS = 600.0
_POLL_SECONDS = 0.005
_BLOCK_ROWS = 10_000
_ANSWER_SECONDS = 30.0
"""Latency of the sink: nothing is written after the first requests."""
COLUMNS = {"id": "S", "text": "S", "number": "N", "code": "S"}
ROWS: dict[str, Callable[[int], str]] = {
    "no quotes": lambda n: (
        f"{n:08},some text without any quotes at all,{n % 997}.5,abcdefghijklmn\n"
    ),
    "some cells quoted": lambda n: (
        f'{n:08},"text, with a delimiter","{n % 997}.5",abcdefghijklmnop\n'
    ),
}
"""Rows of about 70 bytes."""
SHAPE = Shape("first-write", COLUMNS, ("id",), ",", header=True, rows=lambda _: iter(()))


@dataclass(frozen=True, slots=True)
class FirstWrite:
    """Time until the first write of one import, and the CPU seconds until then."""

    seconds: float
    cpu: float


def make_file(path: Path, size: int, row: Callable[[int], str]) -> None:
    """Write a file of at least `size` bytes: a header, and the same rows again and again."""
    block = "".join(map(row, range(_BLOCK_ROWS))).encode()
    with path.open("wb") as file:
        file.write((",".join(COLUMNS) + "\n").encode())
        while file.tell() < size:
            file.write(block)


def first_write(file: Path, scan: str, server: SinkProcess, folder: Path) -> FirstWrite:
    """Import a file until its first write arrives. Raises `RuntimeError` if none does."""
    scenario = Scenario(SHAPE, tls=False, latency=_ANSWER_SECONDS)
    server.reset(scenario)
    command = [sys.executable, "-m", "ddbload", "import", str(file), TABLE, "--scan", scan]
    command += ["--processes", "1", "--json", "--ledger", str(folder)]
    begin = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=server.environment(scenario),
        cwd=ROOT,
    )
    try:
        while not server.counters()["requests"]:
            if process.poll() is not None or time.monotonic() - begin > LIMIT_SECONDS:
                raise RuntimeError(f"{file.name}, {scan}: ended or stuck without a write")
            time.sleep(_POLL_SECONDS)
        seconds = time.monotonic() - begin
    finally:
        process.kill()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return FirstWrite(seconds, used.ru_utime + used.ru_stime)


def measure(sizes: Sequence[int], rounds: int, folder: Path, server: SinkProcess) -> list[str]:
    """Measure all files with both scans in turn; return the lines of a table."""
    lines = [
        "| file | MB | whole: first write, s | edges | whole: CPU s until then | edges |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    file = folder / "rows.csv"
    # The first command compiles ddbload.
    make_file(file, MB, ROWS["no quotes"])
    with tempfile.TemporaryDirectory(dir=folder) as ledger:
        first_write(file, "edges", server, Path(ledger))
    for name, row in ROWS.items():
        for size in sizes:
            make_file(file, size, row)
            found: dict[str, list[FirstWrite]] = {scan: [] for scan in SCANS}
            for turn in range(rounds):
                for scan in SCANS if turn % 2 else SCANS[::-1]:
                    with tempfile.TemporaryDirectory(dir=folder) as ledger:
                        found[scan].append(first_write(file, scan, server, Path(ledger)))
            seconds = [statistics.median(each.seconds for each in found[scan]) for scan in SCANS]
            cpu = [statistics.median(each.cpu for each in found[scan]) for scan in SCANS]
            cells = " | ".join(f"{value:.2f}" for value in (*seconds, *cpu))
            lines.append(f"| {name} | {size // MB:,} | {cells} |")
            print(lines[-1], file=sys.stderr, flush=True)
            file.unlink()
    return lines


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure the time until the first write.")
    parser.add_argument(
        "--megabytes",
        type=lambda text: [int(each) for each in text.split(",")],
        default=[1, 64, 256, 1024, 2048],
        help="sizes of the files, of 1,048,576 bytes; default: 1,64,256,1024,2048",
    )
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--folder", type=Path, help="folder for the files; default: the system's")
    options = parser.parse_args(words)
    cores = Cores(None, None)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, sink(cores) as server:
        sizes = [size * MB for size in options.megabytes]
        print("\n".join(measure(sizes, options.rounds, Path(folder), server)))


if __name__ == "__main__":
    main()
