"""A file that was loaded is known again, and a run whose id was printed is known to the ledger."""

from __future__ import annotations

import json

from tests.cli.console import PROGRAM
from tests.cli.transcript import items, make_table
from tests.e2e.processes import started, until


def test_file_is_the_same_under_each_of_its_paths(console, dynamodb):
    make_table(dynamodb, "pathed", "id:N")
    console.write("a.csv", "id,n\n1,2\n")
    folder = console.path("a.csv").parent
    (folder / "below").mkdir()
    (folder / "latest.csv").symlink_to("a.csv")
    first = console.ddbload("import", "a.csv", "pathed", "--once", "--json")
    assert json.loads(first.out)["status"] == "SUCCEEDED"
    for path in ("./a.csv", "below/../a.csv", str(folder / "below/../a.csv"), "latest.csv"):
        again = console.ddbload("import", path, "pathed", "--once", "--json")
        assert json.loads(again.out)["status"] == "ALREADY_LOADED", path
        shown = console.ddbload("runs", "--source", path, "--json")
        runs = json.loads(shown.out)["runs"]
        assert [each["run"] for each in runs] == [json.loads(first.out)["run"]]
    resumed = console.ddbload("resume", json.loads(first.out)["run"])
    assert resumed.code == 0
    assert sum(1 for _ in items(dynamodb, "pathed")) == 1


def test_run_whose_id_was_printed_is_listed(console, dynamodb):
    make_table(dynamodb, "printed", "id:N")
    console.write("a.csv", "id,n\n1,2\n")
    command = [PROGRAM, "import", "a.csv", "printed", "--run-id", "seen"]
    with started(console, command) as running:
        until(lambda: "run seen " in running.err.read_text(), "no id is printed")
        running.kill()
        running.process.wait()
    assert [each["run"] for each in json.loads(console.ddbload("runs", "--json").out)["runs"]] == [
        "seen"
    ]
    limit = console.ddbload("limit", "seen", "--max-wcu", "5")
    assert limit.code == 2
    assert "run seen has ended (INTERRUPTED) before it began to write" in limit.err
    assert "ddbload resume seen starts it over" in limit.err
    resumed = console.ddbload("resume", "seen", "--json")
    assert json.loads(resumed.out)["rows"]["written"] == 1
