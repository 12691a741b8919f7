"""Names and cells of files do not control the terminal, whatever command shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ddbload.cli.commands import run
from tests.cli.console import Console
from tests.cli.transcript import make_table

# Set the title, clear the screen, go up, colour by a C1 control, delete, turn text around.
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[9A\r\x9b31m\x08\x7f\u202e\u2028"
HOSTILE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
FILE = f"in{ESCAPES}.csv"
CONTENT = (
    f'id,"n{ESCAPES}","t{ESCAPES}"\n'
    f'1,5,"good{ESCAPES}"\n'
    f'2,"bad{ESCAPES}",x\n'
    f'"{"k" * 3000}{ESCAPES}",7,x\n'
    "4\n"
)


@pytest.fixture
def hostile(console: Console, monkeypatch, dynamodb) -> Console:
    make_table(dynamodb, "hostile", "id:S")
    console.write(FILE, CONTENT)
    for name, value in console.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(console.folder)
    return console


def test_output_of_each_command_has_no_control_character(hostile, capfd):
    ledger = ["--ledger", "led"]
    commands = {
        "import": ["import", FILE, "hostile", "--run-id", "r", "--processes", "1", *ledger],
        "again": ["import", FILE, "hostile", "--run-id", "r", *ledger],
        "status": ["status", "r", *ledger],
        "report": ["report", "r", *ledger],
        "rejects": ["rejects", "r", *ledger],
        "summary": ["rejects", "r", "--summary", *ledger],
        "runs": ["runs", *ledger],
        "runs of a source": ["runs", "--source", FILE, *ledger],
        "plan": ["plan", FILE, "hostile"],
        "plan as JSON": ["plan", FILE, "hostile", "--json"],
        "convert": ["convert", FILE, "out.jsonl", "--max-rejects", "9"],
        "convert to stdout": ["convert", FILE, "-", "--max-rejects", "9"],
        "types of no column": ["convert", FILE, "-", "--types", f"{ESCAPES}=N"],
        "a key that is missing": ["import", FILE, "hostile", "--drop", "id", *ledger],
        "no such file": ["convert", f"no{ESCAPES}", "-"],
        "no such table": ["import", FILE, f"table{ESCAPES}", *ledger],
        "no such run": ["status", f"run{ESCAPES}", *ledger],
        "no such option": ["convert", f"--no{ESCAPES}", "x", "-"],
        "no such command": [f"no{ESCAPES}"],
        "a ledger in the way": ["status", "r", "--ledger", FILE],
        "a bad delimiter": ["convert", FILE, "-", "--delimiter", f"a\n{ESCAPES}"],
        "no such object": ["import", f"s3://{ESCAPES}/x", "hostile", *ledger],
        "no such export": ["convert", ".", "-", "--format", "dynamodb-export"],
        "no such manifest": ["convert", "-", "-", "--manifest", f"m{ESCAPES}"],
    }
    codes, wrong = {}, []
    for name, command in commands.items():
        codes[name] = run(command, lambda: False)
        captured = capfd.readouterr()
        for stream in ("out", "err"):
            found = HOSTILE.search(getattr(captured, stream))
            # Items on stdout are data, like those of `cat`.
            if found is not None and (name, stream) != ("convert to stdout", "out"):
                near = getattr(captured, stream)[max(0, found.start() - 60) : found.end() + 20]
                wrong.append(f"{name}, std{stream}: {near!r}")
        assert captured.out or captured.err, name
    assert not wrong, "\n".join(wrong)
    assert (codes["import"], codes["plan"], codes["convert"]) == (3, 3, 3)


def test_all_output_goes_through_one_module():
    """`click.echo` does not escape, so only the module that escapes calls it."""
    folder = Path(__file__).parents[2] / "ddbload" / "cli"
    allowed = {folder / "terminal.py"}
    callers = [
        path
        for path in sorted(folder.rglob("*.py"))
        if path not in allowed and re.search(r"click\.s?echo|(?<!\.)\bprint\(", path.read_text())
    ]
    assert callers == []
