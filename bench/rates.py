"""Measure how ddbload uses and shares a table's capacity, beside boto3, in virtual time.

    python -m bench.rates [--seeds 5] [LOAD ...]

The rival is `Table.batch_writer()` in eight threads with `retries={"mode": "adaptive"}`, whose rate
limiter, retry quota and back-off are botocore's own classes. The time that boto3 computes is not
modelled, so the real one is slower. A LOAD is a part of a load's name; default: all.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from pathlib import Path

from tests.sim.pacing_loads import LOADS, Figures, MakeWriter, boto, ddbload
from tests.sim.writers import SchedulerWriter, Writer


def half(rng: random.Random, capacity: float | None) -> Writer:
    """Return ddbload with `--max-wcu 50%` of a table with 1,000 units per second."""
    return SchedulerWriter(16, rng, 500.0, capacity)


WRITERS: dict[str, MakeWriter] = {"ddbload": ddbload, "boto3": boto}
SHARES = ("used", "returned", "returned_before", "throttled", "failed")


def shown(figures: list[Figures]) -> str:
    """Format the medians, with minimum and maximum."""
    parts = []
    for name in figures[0]:
        values = sorted(each[name] for each in figures)
        if values[-1] == 0.0 and name == "used":
            continue
        times, digits = (100, 1) if name in SHARES else (1, 3 if name == "jain" else 2)
        median, least, most = (
            f"{times * value:.{digits}f}"
            for value in (statistics.median(values), values[0], values[-1])
        )
        sign = "%" if times == 100 else ""
        parts.append(f"{name} {median}{sign} ({least}-{most})")
    return "  ".join(parts)


def main(arguments: list[str] | None = None) -> None:
    """Measure every writer with every load, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.rates", description=__doc__)
    parser.add_argument("loads", nargs="*", metavar="LOAD", help="part of a name; default: all")
    parser.add_argument("--seeds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="file for all figures")
    args = parser.parse_args(arguments)
    results = []
    for load, measure in LOADS.items():
        if args.loads and not any(part in load for part in args.loads):
            continue
        print(load)
        writers = WRITERS | ({"ddbload --max-wcu 50%": half} if "serving" in load else {})
        for writer, make in writers.items():
            figures = [measure(make, seed) for seed in range(1, args.seeds + 1)]
            results.append({"load": load, "writer": writer, "figures": figures})
            print(f"  {writer:22}{shown(figures)}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
