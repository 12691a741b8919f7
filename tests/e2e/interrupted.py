"""Run that is slow enough to be interrupted and resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.console import PROGRAM, Console
from tests.cli.transcript import items
from tests.e2e.processes import Running, started, until

ROWS = 1200
FILE, ARRAY = "long.csv", "long.json"
SLOWLY = ("--max-wcu", "400")
"""Options that make the import take three seconds on any machine."""


class LongRun:
    """Slow run: its file, table and run id."""

    def __init__(
        self, console: Console, dynamodb: Any, table: str, rows: int = ROWS, file: str = FILE
    ) -> None:
        self.rows = rows
        self.console = console
        self.dynamodb = dynamodb
        self.table = table
        self.ledger = console.folder / "ledger"
        self.command = [
            *(PROGRAM, "import", file, table, "--run-id", "long", "--ledger", "ledger"),
            *("--chunk-bytes", "1500"),
        ]
        if file == ARRAY:
            values = [{"id": number, "name": f"name of {number}"} for number in range(rows)]
            console.write(file, json.dumps(values, indent=1))
            return
        lines = [f"{number},name of {number}\n" for number in range(rows)]
        console.write(file, "".join(["id,name\n", *lines]))

    @contextmanager
    def started(
        self, *options: str, processes: int = 2, slowly: Sequence[str] = SLOWLY, **env: str
    ) -> Iterator[Running]:
        """Start the import, slowly and with two processes."""
        command = [*self.command, *slowly, "--processes", str(processes), *options]
        with started(self.console, command, **env) as running:
            yield running

    def reaches(self, name: str, running: Running) -> None:
        """Wait until the ledger has an object such as `run.json` or `chunks/*/*.json`."""
        folder = Path(self.ledger, "runs", "long")
        until(
            lambda: next(folder.glob(name), None) or running.process.poll() is not None,
            f"there is no {name}",
        )
        assert running.process.poll() is None, "it ended too soon"

    def continued(self, told: str = "") -> dict[str, Any]:
        """Repeat the command, check the result and what it tells, and return its JSON."""
        arguments = [*map(str, self.command[1:]), "--processes", "1", "--json"]
        ended = self.console.ddbload(*arguments)
        assert (ended.code, ended.told) == (0, told)
        found: dict[str, Any] = json.loads(ended.out)
        rows = found["rows"]
        assert (rows["read"], rows["written"]) == (self.rows, self.rows)
        self.table_is_right()
        return found

    def table_is_right(self) -> None:
        """Check that the table has exactly the rows of the file."""
        found = {item["id"]["N"]: item for item in items(self.dynamodb, self.table)}
        assert found == {
            str(number): {"id": {"N": str(number)}, "name": {"S": f"name of {number}"}}
            for number in range(self.rows)
        }
