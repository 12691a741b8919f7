"""Load tables with limits over real sockets: `ddbload import` beside boto3's adaptive retries.

    python -m bench.sockets [--rounds 1] [--latency 7.5] [--rows 40000] [LOAD ...]

The server (`bench/throttled_table.py`) is a process of its own on 127.0.0.1, without TLS. The rival
is `batch_writer()` in eight threads of one client with `retries={"mode": "adaptive"}`. A load ends
with an error after 90 seconds, or if not exactly the file's items arrived. A LOAD is a part of a
load's name; default: all.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.checksum import expected_checksum
from bench.clients import TABLE, Client
from bench.rounds import Cores, Scenario, SinkProcess, run, sink
from bench.shapes import Shape

LIMIT_SECONDS = 90.0
"""Longest time of one load."""
STEADY = 5
"""Second of writing from which on the use of the capacity is measured."""


@dataclass(frozen=True, slots=True)
class AdaptiveThreads(Client):
    """boto3's `batch_writer()` in threads of one client with adaptive retries."""

    def command(self, file: Path, shape: Shape, folder: Path) -> list[str]:
        """Build the command that imports a file."""
        del folder
        settings = json.dumps(self.settings(shape))
        return [sys.executable, "-m", "bench.rivals.adaptive", str(file), TABLE, settings]


CLIENTS = {
    "ddbload import": Client.parse("async"),
    "boto3, 8 threads": AdaptiveThreads("adaptive", 8),
}
"""ddbload, in one process, and its rival."""


@dataclass(frozen=True, slots=True)
class Load:
    """Rows, and the table that they are written to."""

    rows: int
    limit: float = 4000.0
    """Units a second of the whole table."""
    rows_of_key: int = 1
    """Consecutive rows with the same partition key."""
    rules: dict[str, Any] = field(default_factory=dict)
    """Further fields of `tests.sim.metered_table.Rules`."""

    def shape(self, name: str) -> Shape:
        """Describe the file of this load."""

        def rows(rng: random.Random) -> Iterator[str]:
            number = 0
            while True:
                key = number // self.rows_of_key
                yield f"key-{key:07},{number},{rng.getrandbits(64):016x}\n"
                number += 1

        columns = {"key": "S", "number": "N", "text": "S"}
        return Shape(name, columns, ("key", "number"), ",", header=True, rows=rows)


LOADS = {
    "fixed 4,000": Load(40_000),
    "provisioned 500, nothing saved": Load(20_000, 500.0, rules={"partitions": 1}),
    "collections of 30": Load(40_000, rows_of_key=30),
    "collections of 1,000": Load(30_000, rows_of_key=1000),
}


def measure(
    name: str, load: Load, client: Client, turn: int, latency: float, process: SinkProcess
) -> dict[str, Any]:
    """Run one client once, and return its figures."""
    shape = load.shape(name)
    limits = {"limit": load.limit, "salt": turn, **load.rules}
    scenario = Scenario(shape, tls=False, latency=latency, limits=limits)
    with tempfile.TemporaryDirectory(prefix="ddbload-bench-") as folder:
        file = Path(folder, f"rows{shape.suffix}")
        shape.write(file, load.rows, turn)
        due = expected_checksum(file, shape)
        # Both processes may use every core, as they come.
        cost = run(client, scenario, file, due, process, Cores(None, None), LIMIT_SECONDS)
    counters = process.counters()
    accepted, returned = counters["accepted"], counters["returned"]
    first = next(second for second, units in enumerate(accepted) if units)
    steady = accepted[first + STEADY : -1]
    return {
        "load": name,
        "client": client.label,
        "wall": cost.wall,
        "writing": cost.sending,
        "used": statistics.fmean(steady) / load.limit if steady else None,
        "returned": sum(returned) / (sum(returned) + sum(accepted)),
        "requests": cost.requests,
        "cpu": cost.cpu,
    }


def line(label: str, figures: list[dict[str, Any]]) -> str:
    """Write the medians of a client's rounds."""
    wall, writing, returned, requests, cpu = (
        statistics.median(each[name] for each in figures)
        for name in ("wall", "writing", "returned", "requests", "cpu")
    )
    used = [each["used"] for each in figures if each["used"] is not None]
    share = f"{statistics.median(used):.1%}" if used else "-"
    return (
        f"  {label:18}{wall:>8.1f}{writing:>10.1f}{share:>8}{returned:>10.1%}"
        f"{requests:>10,.0f}{cpu:>8.1f}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure both clients with every load, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.sockets", description=__doc__)
    parser.add_argument("loads", nargs="*", metavar="LOAD", help="part of a name; default: all")
    parser.add_argument("--rounds", type=int, default=1, help="default: %(default)s")
    parser.add_argument(
        "--latency", type=float, default=7.5, help="milliseconds; default: %(default)s"
    )
    parser.add_argument("--rows", type=int, default=40_000, help="at most; default: %(default)s")
    parser.add_argument("--json", type=Path, help="file for all figures")
    args = parser.parse_args(arguments)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    print(f"{python}, {platform.machine()}, answers after {args.latency:g} ms")
    print(
        f"  {'':18}{'wall s':>8}{'writing s':>10}{'used':>8}{'returned':>10}"
        f"{'requests':>10}{'CPU s':>8}"
    )
    results = []
    with sink(Cores(None, None)) as process:
        for client in CLIENTS.values():
            # The first start compiles the modules.
            measure("start", Load(25), client, 0, 0.0, process)
        for name, load in LOADS.items():
            if args.loads and not any(part in name for part in args.loads):
                continue
            smaller = Load(min(load.rows, args.rows), load.limit, load.rows_of_key, load.rules)
            print(f"{name}, {smaller.rows:,} rows", flush=True)
            found: dict[str, list[dict[str, Any]]] = {label: [] for label in CLIENTS}
            for turn in range(args.rounds):
                labels = list(CLIENTS) if turn % 2 == 0 else list(CLIENTS)[::-1]
                for label in labels:
                    client = CLIENTS[label]
                    figures = measure(name, smaller, client, turn, args.latency / 1000, process)
                    found[label].append(figures)
                    results.append(figures)
            for label, rounds in found.items():
                print(line(label, rounds))
            ratios = [
                own["wall"] / rival["wall"] for own, rival in zip(*found.values(), strict=True)
            ]
            median, most = statistics.median(ratios), max(ratios)
            print(f"  ddbload's time beside boto3's: {median:.2f} (at most {most:.2f})", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
