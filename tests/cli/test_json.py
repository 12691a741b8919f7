"""`--json` prints exactly the fields and types that scripts rely on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddbload.cli.commands import run
from tests.cli.console import Console, Ended
from tests.cli.transcript import make_table

OBJECT = {
    "run": str,
    "status": str,
    "rows": dict,
    "bytes": int,
    "seconds": float,
    "rows_per_second": float,
    "consumed_wcu": float,
    "requests": int,
    "throttled": int,
    "retries": int,
    "rejects": (str, type(None)),
    "error": (dict, type(None)),
    "dollars": (float, type(None)),
    "write_price": (dict, type(None)),
    "uncertain": int,
}
ROWS = ("read", "written", "rejected", "superseded", "skipped", "filtered")


def checked(ended: Ended) -> dict:
    """Check that stdout is one JSON object on one line; return it."""
    assert ended.out.endswith("}\n")
    assert ended.out.count("\n") == 1
    found = json.loads(ended.out)
    found.pop("repeated", None)
    assert list(found) == list(OBJECT)
    for name, kind in OBJECT.items():
        assert isinstance(found[name], kind), name
    assert tuple(found["rows"]) == ROWS
    assert all(type(count) is int for count in found["rows"].values())
    rows = found["rows"]
    assert rows["read"] == sum(rows[name] for name in ROWS[1:])
    return found


@pytest.fixture(scope="module")
def table(dynamodb):
    make_table(dynamodb, "json", "id:N")
    return "json"


def test_json_of_successful_import(console: Console, table):
    console.write("a.csv", "id,name\n1,one\n1,uno\n2,two\n")
    ended = console.ddbload("import", "a.csv", table, "--json", "--run-id", "j")
    found = checked(ended)
    assert (ended.code, ended.told) == (0, "")
    assert (found["run"], found["status"], found["error"]) == ("j", "SUCCEEDED", None)
    assert found["rows"] == dict(zip(ROWS, (3, 2, 0, 1, 0, 0), strict=True))
    # A row whose key comes twice does not go with those whose keys do not.
    assert (found["bytes"], found["requests"], found["consumed_wcu"]) == (26, 2, 2.0)
    assert (found["throttled"], found["retries"], found["rejects"]) == (0, 0, None)
    assert 0 < found["seconds"] < 60
    assert found["rows_per_second"] == pytest.approx(3 / found["seconds"], rel=0.1)

    reported = checked(console.ddbload("report", "j", "--json"))
    told_apart = ("seconds", "rows_per_second")
    assert {k: v for k, v in reported.items() if k not in told_apart} == {
        k: v for k, v in found.items() if k not in told_apart
    }


def test_json_of_a_damaged_ledger(console: Console, table, monkeypatch, capsys):
    console.write("a.csv", "id,name\n1,one\n")
    console.ddbload("import", "a.csv", table, "--run-id", "d", "--ledger", "kept")
    console.path("kept/runs/d/manifest.json").write_text("{")
    monkeypatch.chdir(console.folder)
    code = run(["report", "d", "--ledger", "kept", "--json"], lambda: False)
    told = capsys.readouterr()
    found = checked(Ended(code, told.out, told.err))
    assert (code, found["status"], found["error"]["name"]) == (1, "FAILED", "LedgerDamaged")
    assert told.err.startswith("ddbload: LedgerDamaged: ")


def test_json_of_import_with_rejects(console: Console, table):
    console.write("a.csv", "id,name\n1,one\nx,none\n")
    ended = console.ddbload("import", "a.csv", table, "--json")
    found = checked(ended)
    assert (ended.code, found["status"], found["error"]) == (3, "SUCCEEDED_WITH_REJECTS", None)
    lines = Path(found["rejects"]).read_text("utf-8").splitlines()
    assert [json.loads(line)["line"] for line in lines] == [3]
