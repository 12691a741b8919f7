"""The command line as people type it: names of types, hints, examples, defaults, completion."""

from __future__ import annotations

import io
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from ddbload.cli.commands import _OTHER_NAMES, command_hint, commands, run
from ddbload.cli.environment import variable_names
from ddbload.cli.hints import _OPTIONS
from ddbload.cli.payload import build_payload
from ddbload.cli.start_command import _followed
from ddbload.cli.terminal import Output, ask_to_agree
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Report
from ddbload.contracts.row_counts import WorkTotals
from ddbload.contracts.run_record import Cursor
from ddbload.errors import InvalidPayload, InvalidUsage
from ddbload.runs.progress import ChunkStates, RunProgress
from ddbload.runs.run_location import Deployed
from tests.cli.console import PROGRAM
from tests.unit.contracts.message_samples import RECORD

EXAMPLES = [(name, each) for name in commands.commands for each in commands.commands[name].examples]


def parse(*arguments: str) -> dict[str, Any]:
    """Parse arguments of a command, without running it; return its parameters."""
    top = commands.make_context("ddbload", [], resilient_parsing=True)
    name, command, rest = commands.resolve_command(top, list(arguments))
    assert command is not None
    return command.make_context(name, list(rest), parent=top).params


def payload(*options: str) -> dict[str, Any]:
    given = parse("import", "books.csv", "books", *options)
    return build_payload(["books.csv"], "books", None, 1, given)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run a command; return its exit status and standard error."""
    status = run(arguments, lambda: False)
    return status, capsys.readouterr().err


def test_unknown_type_is_answered_with_the_nearest():
    with pytest.raises(InvalidUsage, match=r"'--types year' must be one of S, N, BOOL") as one:
        payload("--types", "year=nubmer")
    assert one.value.message.endswith("not 'nubmer' (did you mean number?)")
    with pytest.raises(InvalidUsage, match="not 'b:N'"):
        payload("--types", "a=b:N")
    for wrong in ("year", "=N", ":N", "year=", "year:"):
        with pytest.raises(InvalidUsage, match="is not of the form column=TYPE"):
            payload("--types", wrong)
    with pytest.raises(InvalidPayload, match=r"not 'zzz'$"):
        Payload.from_json(
            {"source": {"path": "a"}, "target": {"table": "books"}, "types": {"a": "zzz"}}
        )


def test_options_of_other_tools_are_answered_with_a_hint(capsys):
    books = ("import", "books.csv", "books")
    assert told(capsys, *books, "--sep", ",") == (
        2,
        "ddbload: InvalidUsage: no such option --sep; for the delimiter use --delimiter\n",
    )
    assert "use --processes" in told(capsys, *books, "--workers", "4")[1]
    assert "use --workers" in told(capsys, "start", "s3://b/k", "books", "--processes", "4")[1]
    assert "the table is the last argument" in told(capsys, *books[:2], "--table", "books")[1]
    assert "No such option '--sep'" in told(capsys, "status", "run", "--sep", ",")[1]
    # click's own answer to a slip of the keyboard.
    assert "'--delimiter'" in told(capsys, *books, "--delimter", ",")[1]


def test_hints_name_options_and_commands_that_exist():
    parameters = [each for command in commands.commands.values() for each in command.params]
    known = {text for each in parameters for text in (*each.opts, *each.secondary_opts)}
    known |= {"--first", "--verbose", "--dry-run"}
    for word, hint in _OPTIONS.items():
        named = [each.strip("(),;:") for each in hint.split() if each.startswith("--")]
        assert not set(named) - known, (word, hint)
    for command, words in _OTHER_NAMES.items():
        assert command in commands.commands or command == "--help"
        assert not set(words.split()) & set(commands.commands)
        assert all(command in (command_hint(word) or "") for word in words.split())


def test_commands_of_other_tools_are_answered_with_a_hint(capsys):
    code, err = told(capsys, "load", "books.csv", "books")
    assert (code, err) == (
        2,
        "ddbload: InvalidUsage: no such command load; did you mean ddbload import?\n",
    )
    assert "does not read tables" in told(capsys, "export", "books")[1]
    assert "No such command 'no-such'" in told(capsys, "no-such")[1]


@pytest.mark.parametrize(("name", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_examples_of_the_help_are_true(name, line):
    program, command, *arguments = shlex.split(line.partition(" > ")[0])
    assert (program, command) == ("ddbload", name)
    given = parse(command, *arguments)
    if "max_row_bytes" in given:
        build_payload(given["sources"], given.get("table") or "books", None, 1, given)


def test_each_command_has_three_examples():
    counts = {name: len(commands.commands[name].examples) for name in commands.commands}
    assert counts == dict.fromkeys(counts, 3)


@pytest.mark.parametrize("name", list(commands.commands))
def test_command_without_arguments_shows_usage_and_an_example(name, capsys):
    command = commands.commands[name]
    if not any(each.required for each in command.params):
        return
    code, err = told(capsys, name)
    assert code == 2
    assert err.startswith(f"Usage: ddbload {name} ")
    assert f"\nExample: {command.examples[0]}\n" in err


def options_of(name: str) -> list[click.Option]:
    return [each for each in commands.commands[name].params if isinstance(each, click.Option)]


def test_each_option_has_a_variable_of_its_own():
    for name in commands.commands:
        own = [variable_names(name, each)[0] for each in options_of(name)]
        assert len(set(own)) == len(own)
        assert all(each.startswith(f"DDBLOAD_{name.upper()}_") for each in own)


def test_environment_gives_defaults_and_flags_win(monkeypatch):
    monkeypatch.setenv("DDBLOAD_MAX_WCU", "300")
    assert parse("import", "a", "books")["max_wcu"] == 300
    assert parse("import", "a", "books", "--max-wcu", "7")["max_wcu"] == 7
    monkeypatch.setenv("DDBLOAD_IMPORT_MAX_WCU", "50%")
    assert parse("import", "a", "books")["max_wcu"] == "50%"
    assert parse("plan", "a", "books")["max_wcu"] == 300
    monkeypatch.setenv("DDBLOAD_IMPORT_MAX_WCU", "")
    assert parse("import", "a", "books")["max_wcu"] == 300
    monkeypatch.setenv("DDBLOAD_IMPORT_HEADER", "no")
    monkeypatch.setenv("DDBLOAD_IMPORT_SET", "pk=USER {id}\nkind=a b")
    monkeypatch.setenv("DDBLOAD_IMPORT_ONCE", "true")
    given = parse("import", "a", "books", "--header")
    assert (given["header"], given["once"]) == (True, True)
    assert given["set"] == ("pk=USER {id}", "kind=a b")
    assert parse("import", "a", "books")["header"] is False
    assert parse("import", "a", "books", "--set", "x=y")["set"] == ("x=y",)


def test_run_that_has_begun_takes_no_shared_defaults(monkeypatch):
    for name in ("MAX_WCU", "MAX_COST", "MAX_REJECTS", "WORKERS", "PROCESSES", "LEDGER", "STACK"):
        monkeypatch.setenv(f"DDBLOAD_{name}", "9")
    given = parse("resume", "run")
    wanted = ("max_wcu", "max_cost", "max_rejects", "workers", "processes", "ledger", "stack")
    assert {name: given[name] for name in wanted} == dict.fromkeys(wanted)
    assert parse("limit", "run")["max_wcu"] is None
    monkeypatch.setenv("DDBLOAD_RESUME_MAX_WCU", "9")
    assert parse("resume", "run")["max_wcu"] == 9


def test_variable_that_changes_items_is_of_one_command_alone(monkeypatch):
    for name in ("TYPES", "MODE", "DELIMITER", "NULL", "TABLE", "RUN_ID", "FORMAT", "YES"):
        monkeypatch.setenv(f"DDBLOAD_{name}", "x")
    given = parse("import", "a", "books")
    assert build_payload(["a"], "books", None, 1, given) == build_payload(
        ["a"], "books", None, 1, parse("import", "a", "books")
    )
    assert (given["types"], given["mode"], given["run_id"], given["yes"]) == (
        (),
        "put",
        None,
        False,
    )


def test_bad_default_is_refused_with_the_name_of_its_variable(capsys, monkeypatch):
    monkeypatch.setenv("DDBLOAD_MAX_WCU", "many")
    code, err = told(capsys, "import", "a", "books")
    assert (code, "(environment variable DDBLOAD_MAX_WCU)" in err) == (2, True)
    monkeypatch.setenv("DDBLOAD_MAX_WCU", "5")
    monkeypatch.setenv("DDBLOAD_IMPORT_TYPES", "year=Q")
    code, err = told(capsys, "import", "a", "books")
    assert code == 2
    assert "(--types is from DDBLOAD_IMPORT_TYPES)" in err


def complete(line: str) -> list[str]:
    """Complete the last word of a line in bash, by the script that the command prints."""
    words = [*shlex.split(line), ""] if line.endswith(" ") else shlex.split(line)
    script = subprocess.run(
        [
            "bash",
            "--norc",
            "-c",
            COMPLETE_LINE.format(words=shlex.join(words), last=len(words) - 1),
        ],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": f"{PROGRAM.parent}:/usr/bin:/bin", "PYTHONPATH": str(Path.cwd())},
    )
    assert script.stderr == ""
    return script.stdout.split()


COMPLETE_LINE = f"""
source <({PROGRAM} completion bash)
COMP_WORDS=({{words}}); COMP_CWORD={{last}}; COMPREPLY=()
_ddbload_completion ddbload
printf '%s\\n' "${{{{COMPREPLY[@]}}}}"
"""


def test_bash_completes_commands_and_options():
    assert complete("ddbload con") == ["convert"]
    assert complete("ddbload import books.csv books --max-r") == [
        "--max-row-bytes",
        "--max-rejects",
    ]


def test_start_prints_each_step_once_it_has_a_record(monkeypatch, capsys):
    found = Payload.from_json({"source": {"path": "a"}, "target": {"table": "books"}})
    record = replace(
        RECORD,
        payload=found,
        size=9,
        data_start=Cursor(3, 2),
        columns=("CANARY",),
        types=("S",),
    )
    chunks = ChunkStates(1)
    records = iter([None, record])

    def follow(*given: Any) -> Any:
        for _ in range(2):
            given[-1](RunProgress("importing", WorkTotals(), 9, chunks, 0))
        return SimpleNamespace(seconds=1.0, failure=None, status="SUCCEEDED")

    monkeypatch.setattr(Deployed, "follow", follow)
    failed = Report("run", "FAILED")
    monkeypatch.setattr("ddbload.cli.start_command.attempt_report", lambda *_: failed)
    ledger = SimpleNamespace(find_record=lambda: next(records))
    context: Any = SimpleNamespace(ledger=lambda _: ledger)
    there = Deployed(context, stack=None, executions=None)
    _followed("run", "arn", there, Output(quiet=True, verbose=True))
    err = capsys.readouterr().err
    assert "found 1 object, 9 bytes" in err
    assert "cut into 1 chunk" in err
    assert "CANARY" not in err


@pytest.mark.parametrize("stdin", [None, io.StringIO("y\n")], ids=["closed", "no terminal"])
def test_nobody_is_asked_without_a_terminal(stdin, monkeypatch):
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(InvalidUsage, match=r"^give --yes$"):
        ask_to_agree("Go on?", unasked="give --yes", declined="declined")
