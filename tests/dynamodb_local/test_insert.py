"""Whole imports in mode `insert` against DynamoDB Local: counts, and the table."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ENGINES = ("sync", "threads", "async")
ROWS = 3000


def command(endpoint: str, table: str, file: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "ddbload", "import", str(file), table, "--mode", "insert"),
        *("--endpoint-url", endpoint, "--region", "us-east-1", "--json", *more),
    ]


def imported(*words: Any) -> dict[str, Any]:
    run = subprocess.run(command(*words), capture_output=True, check=False)
    assert run.returncode in (0, 3), run.stderr.decode()[-2000:]
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def table_of(local: Any, table: str) -> dict[str, Any]:
    pages = local.get_paginator("scan").paginate(TableName=table)
    return {item["pk"]["S"]: item for page in pages for item in page["Items"]}


@pytest.fixture
def file(tmp_path) -> Path:
    made = tmp_path / "rows.csv"
    lines = [f"k{number:05d},{number},it's \u00e9{number}\n" for number in range(ROWS)]
    made.write_text("pk,n,it's\n" + "".join(lines), encoding="utf-8")
    return made


def expected() -> dict[str, Any]:
    keys = ((f"k{number:05d}", number) for number in range(ROWS))
    return {
        key: {"pk": {"S": key}, "n": {"N": str(number)}, "it's": {"S": f"it's \u00e9{number}"}}
        for key, number in keys
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_empty_table_takes_few_requests(endpoint, local, make_table, file, tmp_path, engine):
    table = make_table(local)
    more = ("--types", "n=N", "--engine", engine, "--ledger", str(tmp_path / "runs"))
    report = imported(endpoint, table, file, *more)
    assert report["rows"]["written"] == ROWS
    # While the table's rate is unknown, and on a slow machine, some requests have fewer rows.
    assert report["requests"] <= 1.5 * ROWS / 25
    assert table_of(local, table) == expected()
    again = imported(endpoint, table, file, *more, "--run-id", "again")
    assert again["rows"]["skipped"] == ROWS
    assert again["requests"] <= 1.5 * ROWS
    assert table_of(local, table) == expected()
    stored = json.loads((tmp_path / "runs/runs/again/report.json").read_text())
    assert stored["identical"] == ROWS


def test_existing_items_stay_and_are_counted(endpoint, local, make_table, file, tmp_path):
    table = make_table(local)
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
    more = ("--types", "n=N", "--run-id", "some", "--ledger", str(tmp_path / "runs"))
    report = imported(endpoint, table, file, *more)
    assert report["rows"]["skipped"] == same + theirs
    assert report["rows"]["written"] == ROWS - same - theirs
    stored = json.loads((tmp_path / "runs/runs/some/report.json").read_text())
    assert stored["identical"] == same
    assert table_of(local, table) == due
    # Each row that found an item goes once more.
    assert report["requests"] < ROWS / 25 + 1.5 * (same + theirs) + 20


def test_json_rows_of_any_names_are_inserted(endpoint, local, make_table, tmp_path):
    table = make_table(local)
    rng = random.Random(6)
    names = ["it's", 'a "b"', "back\\slash", "new\nline", "é", "n" * 9000, "x"]
    rows = []
    for number in range(400):
        some = rng.sample(names, rng.randrange(len(names)))
        rows.append({"pk": f"k{number}", **dict.fromkeys(some, "v")})
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    report = imported(endpoint, table, file, "--ledger", str(tmp_path / "runs"))
    assert report["rows"]["written"] == 400
    assert table_of(local, table) == {
        row["pk"]: {name: {"S": text} for name, text in row.items()} for row in rows
    }
