"""Whole imports in mode `insert` against DynamoDB Local: counts, and the table."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.cli.console import Console
from tests.cli.transcript import items

ENGINES = ("sync", "threads", "async")
ROWS = 3000


def imported(console: Console, file: str, table: str, *more: str) -> tuple[dict[str, Any], int]:
    """Import a file; return the result, and the number of rows whose item was identical."""
    words = ("import", file, table, "--mode", "insert", "--ledger", "ledger")
    ended = console.ddbload(*words, "--json", *more)
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    report = console.path(f"ledger/runs/{result['run']}/report.json").read_text()
    return result, json.loads(report)["identical"]


def table_of(local: Any, table: str) -> dict[str, Any]:
    return {item["pk"]["S"]: item for item in items(local, table)}


@pytest.fixture
def rows(console) -> str:
    lines = [f"k{number:05d},{number},it's \u00e9{number}\n" for number in range(ROWS)]
    return console.write("rows.csv", "pk,n,it's\n" + "".join(lines))


def expected() -> dict[str, Any]:
    keys = ((f"k{number:05d}", number) for number in range(ROWS))
    return {
        key: {"pk": {"S": key}, "n": {"N": str(number)}, "it's": {"S": f"it's \u00e9{number}"}}
        for key, number in keys
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_empty_table_takes_few_requests(console, local, new_table, rows, engine):
    table = new_table("pk:S")
    more = ("--types", "n=N", "--engine", engine)
    report, _ = imported(console, rows, table, *more)
    assert report["rows"]["written"] == ROWS
    # While the table's rate is unknown, and on a slow machine, some requests have fewer rows.
    assert report["requests"] <= 1.5 * ROWS / 25
    assert table_of(local, table) == expected()
    again, identical = imported(console, rows, table, *more)
    assert again["rows"]["skipped"] == identical == ROWS
    assert again["requests"] <= 1.5 * ROWS
    assert table_of(local, table) == expected()


def test_existing_items_stay_and_are_counted(console, local, new_table, rows):
    table = new_table("pk:S")
    due = expected()
    rng = random.Random(5)
    same = theirs = 0
    for key in rng.sample(sorted(due), 90):
        item = due[key]
        if rng.random() < 0.5:
            item = due[key] = {"pk": {"S": key}, "n": {"N": "-1"}}
            theirs += 1
        else:
            same += 1
        local.put_item(TableName=table, Item=item)
    report, identical = imported(console, rows, table, "--types", "n=N")
    assert report["rows"]["skipped"] == same + theirs
    assert report["rows"]["written"] == ROWS - same - theirs
    assert identical == same
    assert table_of(local, table) == due
    # Each row that found an item goes once more.
    assert report["requests"] < 1.5 * (ROWS / 25 + same + theirs) + 20


def test_json_rows_of_any_names_are_inserted(console, local, new_table):
    table = new_table("pk:S")
    rng = random.Random(6)
    names = ["it's", 'a "b"', "back\\slash", "new\nline", "é", "n" * 9000, "x"]
    rows = []
    for number in range(400):
        some = rng.sample(names, rng.randrange(len(names)))
        rows.append({"pk": f"k{number}", **dict.fromkeys(some, "v")})
    file = console.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    report, _ = imported(console, file, table)
    assert report["rows"]["written"] == 400
    assert table_of(local, table) == {
        row["pk"]: {name: {"S": text} for name, text in row.items()} for row in rows
    }
