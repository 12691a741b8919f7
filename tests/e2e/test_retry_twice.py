"""`rejects RUN --retry` a second time writes nothing, and says what the first did."""

from __future__ import annotations

import json
import signal
import time
from contextlib import ExitStack
from itertools import count

from tests.cli.console import PROGRAM
from tests.cli.transcript import items, make_table
from tests.e2e.processes import started, until

NUMBERS = count()
ROWS = 1200


def test_second_retry_writes_nothing_and_says_how_to_finish_the_first(console, dynamodb):
    table = f"retried-{next(NUMBERS)}"
    make_table(dynamodb, table, "id:N")
    rows = "".join(f"{number},x\n" for number in range(ROWS))
    console.write("a.csv", f"id,n\n{rows}")
    options = ("--types", "n=N", "--max-wcu", "200", "--max-rejects", "9999", "--ledger", "ledger")
    assert console.ddbload("import", "a.csv", table, *options, "--run-id", "bad").code == 1
    rejects = console.ddbload("rejects", "bad", "--ledger", "ledger").out
    console.write("mended.jsonl", rejects.replace(",x", ",7"))
    retry = ("rejects", "bad", "--retry", "mended.jsonl", "--ledger", "ledger")

    with started(console, [PROGRAM, *retry, "--run-id", "first"]) as running:
        until(lambda: sum(1 for _ in items(dynamodb, table)), "nothing is written")
        time.sleep(0.3)
        running.kill()
        assert running.process.wait() == -signal.SIGKILL
    before = sum(1 for _ in items(dynamodb, table))
    assert 0 < before < ROWS
    again = console.ddbload(*retry, "--run-id", "second")
    assert (again.code, again.out) == (1, "")
    assert again.err == (
        "ddbload: IncompleteRun: run first began to import these rejects, and is not done, so"
        " nothing was written now: ddbload status first --ledger ledger shows it, ddbload resume"
        " first --ledger ledger completes it\n"
    )
    assert sum(1 for _ in items(dynamodb, table)) == before

    assert console.ddbload("resume", "first", "--ledger", "ledger").code == 0
    assert sum(1 for _ in items(dynamodb, table)) == ROWS
    again = console.ddbload(*retry, "--json")
    found = json.loads(again.out)
    assert (again.code, found["run"], found["status"]) == (0, "first", "SUCCEEDED")
    assert found["rows"]["written"] == ROWS
    assert again.told.startswith("ddbload: run first imported these rejects before: nothing was")
    runs = {path.name for path in console.path("ledger").glob("runs/*")}
    assert runs == {"bad", "first"}


def test_retries_at_the_same_time_import_once(console, dynamodb):
    table = f"retried-{next(NUMBERS)}"
    make_table(dynamodb, table, "id:N")
    rows = "".join(f"x,{number}\n" for number in range(40))
    console.write("a.csv", f"id,n\n0,0\n{rows}")
    assert console.ddbload("import", "a.csv", table, "--run-id", "bad3").code == 3
    lines = console.ddbload("rejects", "bad3").out.splitlines()
    mended = [line.replace("x,", f"{number},") for number, line in enumerate(lines, 1)]
    console.write("mended.jsonl", "".join(f"{line}\n" for line in mended))
    command = [PROGRAM, "rejects", "bad3", "--retry", "mended.jsonl", "--json"]
    with ExitStack() as stack:
        several = [stack.enter_context(started(console, command)) for _ in range(3)]
        codes = [each.process.wait() for each in several]
    assert set(codes) <= {0, 1}
    assert 0 in codes
    runs = json.loads(console.ddbload("runs", "--json").out)["runs"]
    assert [each["rows"]["written"] for each in runs if each["retry_of"] == "bad3"] == [40]
    again = console.ddbload(*command[1:])
    assert (again.code, json.loads(again.out)["rows"]["written"]) == (0, 40)
