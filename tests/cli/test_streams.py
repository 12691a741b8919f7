"""Standard streams: output that is closed early or full, and input of a cancelled run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from ddbload.cli import import_command, terminal
from ddbload.cli.commands import commands, run
from tests.cli.console import PROGRAM, SECONDS, Ended
from tests.cli.transcript import items, make_table

WIDE = "x" * 500
FULL = "OutputUnwritable: standard output: No space left on device"
CLOSED = "OutputUnwritable: standard output: Bad file descriptor"


@pytest.fixture(scope="module")
def table(dynamodb):
    make_table(dynamodb, "unread", "id:N")
    return "unread"


@pytest.fixture
def rejected(console, table):
    """Import a file with more rejects than a pipe buffers."""
    console.write("a.csv", "id,name\n1,one\n" + 500 * f"x,{WIDE}\n")
    assert console.ddbload("import", "a.csv", table, "--run-id", "r", "--quiet").code == 3


def test_command_ends_quietly_when_reader_closes_pipe(console, rejected):
    ended = console.shell("set -o pipefail; ddbload rejects r | head -n 1")
    assert ended.out == next(iter(console.ddbload("rejects", "r").out.splitlines(keepends=True)))
    assert (ended.code, ended.err) == (141, "")


WRITERS = (
    "convert a.csv - --quiet --processes 1",
    "plan a.csv {table} --json --quiet",
    "plan a.csv {table} --quiet",
    *("report r", "report r --json", "report r --html -", "status r", "status r --json"),
    *("rejects r", "rejects r --summary", "rejects r --summary --json"),
    *("runs", "runs --json", "--help", "--version", "plan --help"),
)
"""Commands that write to standard output."""


@contextmanager
def broken_stdout(kind: str) -> Iterator[int]:
    """Yield a descriptor to which nothing can be written."""
    if kind == "unread":
        ours, theirs = os.pipe()
        os.close(ours)
    else:
        path, mode = {"full": ("/dev/full", os.O_WRONLY), "closed": (os.devnull, os.O_RDONLY)}[kind]
        theirs = os.open(path, mode)
    try:
        yield theirs
    finally:
        os.close(theirs)


def test_commands_say_that_stdout_cannot_be_written(console, rejected, table, monkeypatch, capsys):
    monkeypatch.chdir(console.folder)
    for name, value in console.env.items():
        monkeypatch.setenv(name, value)
    for kind, status, reason in (
        ("full", 1, FULL),
        ("closed", 1, CLOSED),
        ("unread", 141, None),
    ):
        told = "" if reason is None else f"ddbload: {reason}\n"
        for command in WRITERS:
            with broken_stdout(kind) as descriptor, monkeypatch.context() as patch:
                patch.setattr(sys, "stdout", sys.stdout)
                patch.setattr(terminal, "STDOUT", descriptor)
                terminal.buffer_stdout()
                ended = run(command.format(table=table).split(), lambda: False)
                sys.stdout.close()
                assert (ended, capsys.readouterr().err) == (status, told), (kind, command)


def test_command_fails_quietly_when_pipe_has_no_reader(console, rejected, table):
    for command in ("--help", "rejects r", f"import a.csv {table} --json"):
        with broken_stdout("unread") as theirs:
            ended = subprocess.run(
                [PROGRAM, *command.split()],
                cwd=console.folder,
                env=console.env,
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=subprocess.PIPE,
                timeout=SECONDS,
                check=False,
            )
        told = Ended(ended.returncode, "", ended.stderr.decode())
        assert told.code == 141, command
        assert (told.told if command.startswith("import") else told.err) == "", command


def test_import_is_reported_when_stdout_is_full(console, dynamodb):
    make_table(dynamodb, "unheard", "id:N")
    console.write("a.csv", "id,name\n1,one\n")
    ended = console.shell("ddbload import a.csv unheard --run-id r > /dev/full")
    not_affected = "the run itself is not affected: it ended SUCCEEDED (ddbload report r)"
    assert (ended.code, ended.told) == (1, f"ddbload: {FULL}; {not_affected}\n")
    assert list(items(dynamodb, "unheard")) == [{"id": {"N": "1"}, "name": {"S": "one"}}]
    assert console.ddbload("report", "r").code == 0


@pytest.mark.parametrize("unbuffered", [None, "1"])
@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_conversion_fails_when_stdout_cannot_be_written(console, to, unbuffered):
    """A closed standard output was replaced by one that takes everything, and the command ended
    with 0; an unbuffered one that is full was an internal error.
    """
    console.write("a.csv", "id\n1\n")
    for command, rest in (
        ("convert a.csv -", ""),
        ("convert a.csv out.jsonl", "; out.jsonl is whole"),
    ):
        ended = console.shell(f"ddbload {command} {to}", PYTHONUNBUFFERED=unbuffered)
        told = f"ddbload: {FULL if to == '>/dev/full' else CLOSED}{rest}\n"
        assert (ended.code, told in ended.err) == (1, True), ended.err


def test_run_that_was_cancelled_while_its_input_was_copied_imports_nothing(
    tmp_path, monkeypatch, capsys
):
    class Heart:
        cancelled = True

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def look(self) -> None:
            pass

        def beat(self) -> None:
            pass

        def raise_overtaken(self) -> None:
            pass

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_command, "HeartbeatWriter", lambda *_: Heart())
    Path("rows.csv").write_text("id\n1\n")
    with Path("rows.csv").open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        given = ["import", "-", "books", "--run-id", "r1", "--ledger", "kept", "--unit-price", "1"]
        assert run(given, lambda: False) == 130
    assert "Cancelled" in capsys.readouterr().err
    request = json.loads(Path("kept/runs/r1/request.json").read_text())
    assert (request["payload"]["source"]["path"], request["failure"]["name"]) == (
        *("-", "Cancelled"),
    )
    assert not Path("kept/runs/r1/run.json").exists()


def test_text_of_an_unexpected_error_is_not_printed(monkeypatch, capsys):
    def fail(*_: object, **_options: object) -> None:
        raise ValueError("a cell of a row")

    monkeypatch.setattr(commands, "main", fail)
    assert run(["runs"], lambda: False) == 1
    told = capsys.readouterr().err
    assert "internal error: ValueError at test_streams.py:" in told
    assert "cell" not in told
