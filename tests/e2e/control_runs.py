"""Runs against a table that counts, to be cancelled, limited, killed and frozen."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.cli.console import PROGRAM, Console, Ended
from tests.e2e.processes import Running, started
from tests.servers.counting_table import TABLE, CountingTable, counting_table

FILE = "rows.csv"


class ControlledRun:
    """A file, a ledger in a folder, and the commands on its run."""

    def __init__(self, console: Console, table: CountingTable, rows: int) -> None:
        self.console = console
        self.table = table
        self.ledger = console.folder / "ledger"
        lines = [f"{number},name of {number}\n" for number in range(rows)]
        console.write(FILE, "".join(["id,name\n", *lines]))

    def start(self, *options: str, run: str = "a") -> AbstractContextManager[Running]:
        """Start an import of two processes."""
        command = [PROGRAM, "import", FILE, TABLE, "--run-id", run, "--ledger", "ledger"]
        return started(self.console, [*command, "--processes", "2", "--quiet", *options])

    def resume(self, *options: str, run: str = "a") -> AbstractContextManager[Running]:
        """Start to resume a run."""
        command = [PROGRAM, "resume", run, "--ledger", "ledger", "--processes", "2", "--quiet"]
        return started(self.console, [*command, *options])

    def control(self, command: str, *options: str, run: str = "a") -> Ended:
        """Run `ddbload cancel` or `limit` to its end."""
        return self.console.ddbload(command, run, "--ledger", "ledger", *options)

    def report(self, run: str = "a") -> dict[str, Any]:
        """Read the run's report."""
        path = Path(self.ledger, "runs", run, "report.json")
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found

    def reaches(self, units: int, seconds: float = 60.0) -> None:
        """Wait until this many more units were consumed."""
        wanted, deadline = self.table.units + units, time.monotonic() + seconds
        while self.table.units < wanted:
            assert time.monotonic() < deadline, f"{self.table.units} units, not {wanted}"
            time.sleep(0.02)


@contextmanager
def controlled_run(folder: Path, rows: int, units_of_item: int = 1) -> Iterator[ControlledRun]:
    """Make a run in a new folder."""
    work = folder / "work"
    work.mkdir()
    with counting_table(units_of_item) as table:
        aws = {
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_DYNAMODB": table.url,
        }
        yield ControlledRun(Console(work, aws), table, rows)
