"""Run the simulation for many seeds: python -m tests.sim SEEDS [--first N] [--replay SEED].

Prints the seeds that fail, and how to see each of them step by step. Exit 1 where any fails.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.sim.run import Simulation
from tests.sim.world import world_of


def failure(seed: int) -> str | None:
    """What goes wrong with a seed."""
    try:
        Simulation(world_of(seed)).run()
    except Exception as error:  # noqa: BLE001 - whatever a seed brings up is a finding
        return f"{type(error).__name__}: {error}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seeds", type=int, nargs="?", default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--replay", type=int, metavar="SEED")
    args = parser.parse_args()
    if args.replay is not None:
        world = world_of(args.replay)
        print(world)
        Simulation(world, log=print).run()
        return 0
    failed, started = 0, time.monotonic()
    for seed in range(args.first, args.first + args.seeds):
        words = failure(seed)
        if words is not None:
            failed += 1
            print(f"seed {seed}: {words}; python -m tests.sim --replay {seed}", flush=True)
        if (seed + 1) % 10_000 == 0:
            seconds = time.monotonic() - started
            print(f"{seed + 1} done, {failed} failed, {seconds:.0f} s", file=sys.stderr)
    print(f"{args.seeds} seeds from {args.first} on, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
