"""Memory of an import that writes 500 units a second for a long time.

SOAK_SECONDS says how long: 7200 before a release. The sink counts the items and keeps none.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest

from bench.rounds import SinkProcess
from tests.cli.console import PROGRAM, Console
from tests.e2e.processes import Running, started

SECONDS = float(os.environ.get("SOAK_SECONDS", "900"))
WARM_UP_SECONDS = min(600.0, SECONDS / 2)
WCU = 500
MOST_GROWTH = 10 * 2**20
"""Bytes that all processes together may grow after the warm-up."""
SAMPLE_SECONDS = 5.0


def resident_bytes(pids: list[int]) -> int:
    """Add up the resident memory that is each process's own."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
        except OSError:
            continue
        private = [line.split()[1] for line in lines if line.startswith("Private_")]
        total += 1024 * sum(map(int, private))
    return total


def samples(running: Running) -> list[tuple[float, int]]:
    """Measure the memory of a run until it ends."""
    found, began = [], time.monotonic()
    while running.process.poll() is None:
        found.append((time.monotonic() - began, resident_bytes(running.members())))
        time.sleep(SAMPLE_SECONDS)
    return found


@pytest.mark.timeout(0)
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_of_a_long_import_does_not_grow(console: Console, tmp_path: Path):
    rows = int(WCU * SECONDS)
    with console.path("soak.csv").open("w") as file:
        file.write("id,name\n")
        file.writelines(f"{number},name of {number}\n" for number in range(rows))
    sink = SinkProcess(tmp_path)
    try:
        table = json.dumps({"table": "soak", "keys": {"id": "S"}}).encode()
        with urllib.request.urlopen(sink.ready["http"] + "/reset", table):
            pass
        command = [PROGRAM, "import", "soak.csv", "soak", "--max-wcu", str(WCU)]
        options = ["--processes", "2", "--chunk-bytes", "1000000", "--json"]
        environment = {"AWS_ENDPOINT_URL_DYNAMODB": sink.ready["http"]}
        with started(console, [*command, *options], **environment) as running:
            measured = samples(running)
            ended = running.ended()
        counters = sink.counters()
    finally:
        sink.close()
    assert ended.code == 0, ended
    assert json.loads(ended.out)["rows"]["written"] == rows
    # Rows that were written ahead of a cut are written again.
    assert rows <= counters["items"] < 1.05 * rows
    # The last samples may be of processes that end.
    warm = [size for second, size in measured[:-2] if second >= WARM_UP_SECONDS]
    assert len(warm) > 10
    growth = max(warm) - warm[0]
    assert growth <= MOST_GROWTH, f"grew by {growth:,} bytes from {warm[0]:,}"
    assert all(later[0] > earlier[0] for earlier, later in pairwise(measured))
