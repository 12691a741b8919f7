"""Changes of the source, the table or the ledger during a run."""

from __future__ import annotations

import json
import re
from itertools import count

import pytest

from tests.cli.transcript import items, make_table
from tests.e2e.awkward import COLUMNS, awkward
from tests.e2e.expected import by_key, expected, read_rejects
from tests.e2e.interrupted import FILE, ROWS, LongRun
from tests.oracle.csv_machine import read_rows

NUMBERS = count()


@pytest.fixture
def long(console, dynamodb):
    table = f"meanwhile-{next(NUMBERS)}"
    make_table(dynamodb, table, "id:N")
    return LongRun(console, dynamodb, table)


def test_import_fails_when_source_changes(long):
    with long.started() as running:
        long.reaches("chunks/*/*.json", running)
        with long.console.path(FILE).open("a") as file:
            file.write("9999,never seen by the checks\n")
        ended = running.ended()
    assert ended.code == 1
    assert ended.told.startswith("ddbload: SourceChanged: ")
    assert FILE in ended.err
    again = long.console.run([*map(str, long.command)])
    assert (again.code, again.out) == (1, "")
    assert again.told.startswith("ddbload: SourceChanged: run long began with another version")


def test_second_process_is_refused_when_run_is_running(long):
    """Segments are written once: rows that one process has settled are adopted by the other.

    The processes do not see each other's heartbeats, because a folder takes their place.
    """
    long.ledger.joinpath("runs", "long", "progress.json").mkdir(parents=True)
    with long.started() as running:
        long.reaches("manifest.json", running)
        found = long.continued()
        ended = running.ended()
    assert found["status"] == "SUCCEEDED"
    assert (ended.code, ended.told) == (0, "")
    assert f"{ROWS:,} read: {ROWS:,} written\n" in ended.out
    long.table_is_right()


def test_import_works_with_source_and_ledger_in_s3(console, dynamodb, s3):
    """Source and ledger are in S3, and two processes write the ledger."""
    make_table(dynamodb, "all-in-s3", "id:S")
    data = awkward(3, 400)
    wanted = expected(data, read_rows(data)[1:], COLUMNS)
    s3.create_bucket(Bucket="all-in-s3")
    s3.put_object(Bucket="all-in-s3", Key="in/awkward.csv", Body=data)
    console.env["DDBLOAD_LEDGER"] = "s3://all-in-s3/ledger"
    ended = console.ddbload(
        *("import", "s3://all-in-s3/in/awkward.csv", "all-in-s3", "--run-id", "s", "--json"),
        *("--processes", "2", "--chunk-bytes", "2000"),
    )
    assert ended.code == 3
    assert re.fullmatch(r"ddbload: warning: line \d+ has a CR .*\n", ended.told)
    found = json.loads(ended.out)
    assert found["rejects"] == "s3://all-in-s3/ledger/runs/s/rejects/"
    assert (found["rows"]["read"], found["rows"]["written"]) == (wanted.rows, len(wanted.items))
    assert by_key(items(dynamodb, "all-in-s3"), "id") == wanted.items
    assert read_rejects(console.ddbload("rejects", "s").out.splitlines()) == wanted.rejects
