"""Whole imports from versitygw, with the ledger in its bucket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.console import PROGRAM
from tests.cli.transcript import items, make_table
from tests.e2e.processes import started, until

ENGINES = ("sync", "threads", "async")
ROWS = 3000
LEDGER = ("--ledger", "s3://bucket/a ledger/here")
ODD = ("a b", "a+b", "a%2Fb", "é", "\U0001f600", "a&<b>'", 'q"', "a=b?c#d", "~", "*", "x;y", "[0]")
"""Names that have to be escaped in URLs, signatures or XML."""


def put(s3: Any, key: str, numbers: range) -> None:
    lines = "".join(f"{number},it's \u00e9{number}\n" for number in numbers)
    s3.put_object(Bucket="bucket", Key=key, Body=f"id,name\n{lines}".encode())


def table_is_right(dynamodb: Any, table: str, rows: int) -> None:
    assert {item["id"]["N"]: item for item in items(dynamodb, table)} == {
        str(number): {"id": {"N": str(number)}, "name": {"S": f"it's \u00e9{number}"}}
        for number in range(rows)
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_killed_import_with_its_ledger_in_the_bucket_is_resumed(console, dynamodb, s3, engine):
    table = f"gateway-{engine}"
    make_table(dynamodb, table, "id:N")
    put(s3, "in/long file.csv", range(ROWS))
    command = (PROGRAM, "import", "s3://bucket/in/long file.csv", table, "--run-id", "killed")
    more = (*LEDGER, "--engine", engine, "--chunk-bytes", "5000", "--processes", "2")
    with started(console, [*command, *more, "--max-wcu", "400"]) as running:
        until(lambda: len(list(items(dynamodb, table))) > 300, "nothing is written")
        running.kill()
        running.process.wait()
        until(lambda: not running.members(), "processes are left")
    assert len(list(items(dynamodb, table))) < ROWS
    ended = console.run([str(PROGRAM), "resume", "killed", *LEDGER, "--max-wcu", "none", "--json"])
    assert ended.code == 0, ended.err
    rows = json.loads(ended.out)["rows"]
    assert (rows["read"], rows["written"], rows["rejected"]) == (ROWS, ROWS, 0)
    table_is_right(dynamodb, table, ROWS)
    ledger = s3.list_objects_v2(Bucket="bucket", Prefix="a ledger/here/runs/killed/chunks/")
    assert ledger["KeyCount"] >= 10


@pytest.mark.parametrize("source", ["in/", "in/*.csv"])
def test_long_listing_has_every_object(console, dynamodb, s3, source):
    table = f"gateway-listing-{len(source)}"
    make_table(dynamodb, table, "id:N")
    names = [f"{number:04}" for number in range(1100)] + [f"odd {name}/{name}" for name in ODD]
    for number, name in enumerate(names):
        put(s3, f"in/{name}.csv", range(number, number + 1))
    for other in ("in.csv", "im/z.csv", "in0/a.csv", "in/empty/"):
        s3.put_object(Bucket="bucket", Key=other, Body=b"")
    chosen = len(names) if source == "in/" else len(names) - len(ODD)
    ended = console.ddbload("import", f"s3://bucket/{source}", table, *LEDGER, "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["rows"]["written"] == chosen
    table_is_right(dynamodb, table, chosen)
