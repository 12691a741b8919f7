"""Run the simulation for many seeds: python -m tests.sim SEEDS [--first N] [--replay SEED].

Print each seed that fails and the command that replays it. Exit with 1 if any seed fails.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.sim.import_simulation import ImportSimulation
from tests.sim.scenario import scenario_for


def failure(seed: int) -> str | None:
    """Run a seed; return its error, or None if it passes."""
    try:
        ImportSimulation(scenario_for(seed)).run()
    except Exception as error:  # noqa: BLE001 - any error of a seed is a finding
        return f"{type(error).__name__}: {error}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seeds", type=int, nargs="?", default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--replay", type=int, metavar="SEED")
    args = parser.parse_args()
    if args.replay is not None:
        scenario = scenario_for(args.replay)
        print(scenario)
        ImportSimulation(scenario, log=print).run()
        return 0
    failed, started = 0, time.monotonic()
    for seed in range(args.first, args.first + args.seeds):
        error = failure(seed)
        if error is not None:
            failed += 1
            print(f"seed {seed}: {error}; python -m tests.sim --replay {seed}", flush=True)
        if (seed + 1) % 10_000 == 0:
            seconds = time.monotonic() - started
            print(f"{seed + 1} done, {failed} failed, {seconds:.0f} s", file=sys.stderr)
    print(f"{args.seeds} seeds from {args.first} on, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
