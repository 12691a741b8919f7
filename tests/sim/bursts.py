"""Simulate bursts of uploads in full size: python -m tests.sim.bursts [UPLOADS].

Print what each account made of them. Exit with 1 if a version was lost or loaded twice.
"""

from __future__ import annotations

import sys

from tests.sim.burst_simulation import Burst, Quotas, simulate

ACCOUNTS = {
    "most regions": Quotas(),
    "us-east-1, us-west-2, eu-west-1": Quotas(bucket=1300, refill=300),
    "StartExecution throttled most of the time": Quotas(lookup_seconds=(0.002, 0.01)),
    "new account, 10 concurrent functions": Quotas(functions=10),
    "larger files, more than 1,000 Map Runs": Quotas(import_seconds=(5.0, 30.0)),
    "Map Runs above the quota refused": Quotas(import_seconds=(5.0, 30.0), refuses_map_runs=True),
}
HISTORY_EVENTS = 25_000


def check(burst: Burst, versions: int) -> None:
    """Raise an AssertionError unless each version was loaded exactly once."""
    assert burst.lost(versions) == 0, f"{burst.lost(versions)} versions were lost"
    assert not burst.dead_letters, f"{len(burst.dead_letters)} uploads are dead letters"
    assert not burst.failed, f"{len(burst.failed)} executions failed"
    assert set(burst.runs.values()) == {1}, "a version was loaded twice"
    assert burst.most_history < HISTORY_EVENTS / 5


def main() -> int:
    versions = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    failed = 0
    for account, quotas in ACCOUNTS.items():
        burst = simulate(versions, quotas)
        outcome = "each loaded once"
        try:
            check(burst, versions)
        except AssertionError as error:
            outcome, failed = f"FAILED: {error}", failed + 1
        print(
            f"{versions:,} uploads in two minutes, {account}: {outcome}; {burst.seconds / 60:,.0f}"
            f" minutes, {burst.throttled_starts:,} starts and {burst.throttled_functions:,}"
            " invocations throttled, at most"
            f" {burst.most_receives} receives of {burst.most_waiting:,} messages that waited",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
