"""Load tables with limits over real sockets: `ddbload import` beside boto3's adaptive retries.

    python -m bench.sockets [--rounds 3] [--load NAME] [--model buckets,metered] [--client ddbload]

The server (`bench/throttled_table.py`) is a process of its own on 127.0.0.1, without TLS. The rival
is `batch_writer()` in eight threads of one client with `retries={"mode": "adaptive"}`. A load ends
with an error after two minutes, or if not exactly the files' items arrived.

Columns: seconds with start-up, and beside those of the table's capacity; capacity used from the
fifth second until a writer ends; units returned; requests; CPU seconds of the client; CPU share of
the server, which is not the limit below 70 %; Jain's index of the writers' units from second 20 on;
calls of the application that were throttled at least once, and those that failed.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.rounds import SinkProcess, described_machine, rotated, sink
from bench.socket_loads import (
    ANY_CORES,
    CLIENTS,
    LOADS,
    MODELS,
    OWN,
    RIVAL,
    Figures,
    Load,
    Table,
    measure,
    median_of,
)

BUSY_SERVER = 0.7
"""CPU share of the server above which the server may be the bottleneck."""
LATE_CALLS = 0.01
"""Share of the application's calls that may start late."""
COLUMNS: dict[str, tuple[str, str]] = {
    "wall": ("seconds", "8.1f"),
    "of_ideal": ("of ideal", "9.2f"),
    "used": ("used", "8.1%"),
    "returned": ("returned", "9.1%"),
    "requests": ("requests", "9,.0f"),
    "cpu": ("CPU s", "7.1f"),
    "server": ("server", "7.0%"),
    "jain": ("Jain", "7.3f"),
    "retried": ("throttled", "10.1%"),
    "failed": ("failed", "8.2%"),
}
"""Title and format of each figure."""


def heading() -> str:
    """Return the titles of the columns."""
    widths = {name: shape.partition(".")[0].strip(",") for name, (_, shape) in COLUMNS.items()}
    titles = (f"{title:>{widths[name]}}" for name, (title, _) in COLUMNS.items())
    return f"  {'':22}{''.join(titles)}"


def line(label: str, rounds: Sequence[Figures]) -> str:
    """Return the medians of a client's rounds as a line."""
    parts = []
    for name, (_, shape) in COLUMNS.items():
        value = median_of(rounds, name)
        width = shape.partition(".")[0].strip(",")
        parts.append(f"{'':>{width}}" if value is None else f"{value:{shape}}")
    return f"  {label:22}{''.join(parts).rstrip()}"


def measure_rounds(
    name: str, load: Load, model: str, labels: Sequence[str], args: Any, process: SinkProcess
) -> list[Figures]:
    """Run each client for all rounds, in turn, and print the medians."""
    print(f"{name}, {model}", flush=True)
    found: dict[str, list[Figures]] = {label: [] for label in labels}
    for turn in range(args.rounds):
        for label in rotated(labels, turn):
            figures = measure(
                *(name, load, CLIENTS[label], model, turn), args.latency / 1000, process
            )
            found[label].append({**figures, "label": label})
    for label, rounds in found.items():
        print(line(label, rounds), flush=True)
    if OWN in found and RIVAL in found:
        both = zip(found[OWN], found[RIVAL], strict=True)
        ratios = [own["wall"] / rival["wall"] for own, rival in both]
        median, most = statistics.median(ratios), max(ratios)
        print(f"  ddbload's time beside boto3's: {median:.2f} (at most {most:.2f})", flush=True)
    everything = [figures for rounds in found.values() for figures in rounds]
    if max(each["server"] for each in everything) > BUSY_SERVER:
        print("  the server may have been the limit", flush=True)
    if max(each.get("late", 0.0) for each in everything) > LATE_CALLS:
        print("  the application could not keep up its rate", flush=True)
    return everything


def main(arguments: list[str] | None = None) -> None:
    """Measure all clients with every load, and print the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.sockets",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--load", action="append", metavar="NAME", help="part of a name; may be repeated"
    )
    parser.add_argument("--model", default=",".join(MODELS), help="default: %(default)s")
    parser.add_argument("--client", default="", help="part of a name; default: all")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument(
        "--latency", type=float, default=7.5, help="milliseconds; default: %(default)s"
    )
    parser.add_argument("--json", type=Path, help="file for all figures")
    args = parser.parse_args(arguments)
    loads = {
        name: load
        for name, load in LOADS.items()
        if not args.load or any(part in name for part in args.load)
    }
    if not loads:
        parser.error(f"no such load; there are: {'; '.join(LOADS)}")
    print(f"{described_machine()}; answers after {args.latency:g} ms")
    print(heading())
    results = []
    with sink(ANY_CORES) as process:
        for client in CLIENTS.values():
            # The first start compiles the modules.
            measure("start", Load(25, Table(1000, 1)), client, MODELS[0], 0, 0.0, process)
        for name, load in loads.items():
            for model in args.model.split(","):
                labels = [label for label in load.clients if args.client in label]
                if not labels:
                    continue
                results += measure_rounds(name, load, model, labels, args, process)
                if args.json:
                    args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
