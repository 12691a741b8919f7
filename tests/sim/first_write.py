"""Time until the first write of one file on the deployed stack, in virtual time.

    python -m tests.sim.first_write

Preflight is ddbload's own code over simulated S3, with the assumptions of docs/scale.md, by a scan
of the whole file and by edges. *At best* is the file's first chunk alone: preflight could hand out
no chunk sooner, whatever it scans next. Prints the tables of decision 0013 (docs/contributing).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from ddbload.contracts.options import DEFAULT_CHUNK_BYTES
from tests.sim import scale_aws
from tests.sim.scale import ROW_BYTES, Scenario, simulate
from tests.sim.scale_aws import SimulatedObjects

MB = 1 << 20
SIZES = tuple(size * MB for size in (64, 256, 1024, 2048, 10_240, 102_400))
MOST_WHOLE = 10_240 * MB
"""Largest file that is scanned whole here: a larger one takes this machine minutes."""
RATES = (4_000, 40_000)
"""Write units a second: of a new on-demand table, and of a table's default quota."""
HEADER = b"id,a,b,c,d,e\n"
KINDS = {
    "some cells quoted": b'%07d,"some text, with a delimiter","two\nlines of text",12.5,abc,def\n',
    "no quotes": b"%07d,some text without any quotes at all,1234.5,abcdefghijklmnop,qrstuv,01\n",
}
"""Rows of the files, by what is quoted in them; all rows of a file have one length."""
BLOCK_ROWS = 20_000


@dataclass(frozen=True)
class FirstWrites:
    """Seconds until the first write of a file."""

    size: int
    whole: float | None
    edges: float
    at_best: float

    @property
    def usual(self) -> float:
        """Seconds with `--scan auto`."""
        return self.edges if self.size > 2048 * MB or self.whole is None else self.whole

    def saved_share(self, rate: int) -> float:
        """Share of the whole load that chunks sent while scanning could save, at best."""
        load = self.size / ROW_BYTES / rate
        return max(0.0, self.usual - self.at_best) / (self.usual + load)


def first_write(kind: str, size: int, scan: str, *, counts_processor: bool = True) -> float:
    """Simulate preflight of one file; return the seconds until the first write."""
    row = KINDS[kind]
    block = b"".join(row % number for number in range(BLOCK_ROWS))
    whole_rows = (size - len(HEADER)) // len(row % 0) * len(row % 0)
    content = scale_aws.repeated(HEADER, block)
    objects = SimulatedObjects(1, len(HEADER) + whole_rows, content)
    scenario = Scenario(kind, objects, 0.0)
    return simulate(scenario, scan, counts_processor=counts_processor).first_write


def measure(kind: str, size: int, *, counts_processor: bool = True) -> FirstWrites:
    """Simulate both scans of a file, and its first chunk alone."""

    def seconds(size: int, scan: str) -> float:
        return first_write(kind, size, scan, counts_processor=counts_processor)

    whole = seconds(size, "whole") if size <= MOST_WHOLE else None
    first = seconds(min(size, DEFAULT_CHUNK_BYTES), "whole")
    return FirstWrites(size, whole, seconds(size, "edges"), first)


def table(kind: str, found: list[FirstWrites]) -> str:
    """Render the table of one kind of file."""
    lines = [
        f"| {kind}, MB | `whole` | `edges` | at best | saved at 4,000 units/s | at 40,000 |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for each in found:
        whole = "-" if each.whole is None else f"{each.whole:.1f} s"
        saved = " | ".join(f"{each.saved_share(rate):.1%}" for rate in RATES)
        lines.append(
            f"| {each.size // MB:,} | {whole} | {each.edges:.1f} s | {each.at_best:.1f} s |"
            f" {saved} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for kind in KINDS:
        print(table(kind, [measure(kind, size) for size in SIZES]), end="\n\n")  # noqa: T201


if __name__ == "__main__":
    main()
