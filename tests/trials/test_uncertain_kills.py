"""SIGKILL at many moments of `insert` and of a condition: the rows they wrote lie within bounds.

KILL_POINTS says how many kills of each case, KILL_SEED which moments.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.cli.console import Console
from tests.cli.transcript import make_table
from tests.e2e.interrupted import LongRun
from tests.e2e.processes import until

POINTS = int(os.environ.get("KILL_POINTS", "100"))
SEED = int(os.environ.get("KILL_SEED", "1"))
CASES = 6
ROWS = 3000
NUMBERS = count()
INSERT = ("--mode", "insert")
CONDITION = ("--condition", "attribute_not_exists(id)")


def new_item(number: int) -> dict[str, Any]:
    return {"id": {"N": str(number)}, "name": {"S": f"name of {number}"}}


class Uncertain(LongRun):
    """Run into a table that already has the items of every `nth` row; of none if it is 0."""

    def __init__(self, console: Console, dynamodb: Any, options: tuple[str, ...], nth: int) -> None:
        table = f"uncertain-{next(NUMBERS)}"
        make_table(dynamodb, table, "id:N")
        super().__init__(console, dynamodb, table, rows=ROWS)
        self.command[self.command.index("1500")] = "60000"
        self.command += options
        held = [new_item(number) for number in range(0, ROWS, nth)] if nth else []
        self.truth = ROWS - len(held)
        for first in range(0, len(held), 25):
            puts = [{"PutRequest": {"Item": item}} for item in held[first : first + 25]]
            dynamodb.batch_write_item(RequestItems={table: puts})

    def killed(self, rng: random.Random) -> bool:
        """Start, and kill while it starts or, mostly, while it writes; False if it had ended."""
        attempts = Path(self.ledger, "runs", "long", "attempts")
        with self.started(processes=1, slowly=()) as running:
            before = len(list(attempts.glob("*/*")))
            if rng.random() < 0.8:
                until(
                    lambda: (
                        len(list(attempts.glob("*/*"))) > before
                        or running.process.poll() is not None
                    ),
                    "nothing is sent",
                )
            time.sleep(rng.uniform(0.0, 1.0))
            running.kill()
            code = running.process.wait()
            until(lambda: not running.members(), "processes are left")
        assert code in (0, -signal.SIGKILL), code
        return code != 0

    def result(self) -> dict[str, Any]:
        """Repeat the command, and return its JSON."""
        ended = self.console.run([*map(str, self.command), "--processes", "1", "--json"])
        assert ended.code == 0, ended
        return dict(json.loads(ended.out))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("nth", [1, 2, 0], ids=["full", "half", "empty"])
@pytest.mark.parametrize("options", [INSERT, CONDITION], ids=["insert", "condition"])
def test_written_rows_lie_within_bounds_after_kills(console, dynamodb, options, nth):
    rng = random.Random(f"{SEED} {options} {nth}")
    killed = 0
    while killed < POINTS / CASES:
        run = Uncertain(console, dynamodb, options, nth)
        kills = 0
        while kills < rng.choice((1, 3, 6)) and run.killed(rng):
            kills += 1
        found = run.result()
        rows, uncertain = found["rows"], found.get("uncertain", 0)
        print(options, nth, kills, rows, uncertain, flush=True)  # noqa: T201 - figures of the trial
        assert rows["read"] == rows["written"] + rows["skipped"] == ROWS
        assert 0 <= uncertain <= rows["written"]
        assert rows["written"] - uncertain <= run.truth <= rows["written"]
        assert uncertain == 0 or kills
        if nth == 0:
            run.table_is_right()
        killed += kills
        shutil.rmtree(run.ledger)
        dynamodb.delete_table(TableName=run.table)
