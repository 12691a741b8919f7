"""Standard streams: output that is closed early or full, and input of a cancelled run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from ddbload.cli import import_command
from ddbload.cli.commands import run
from tests.cli.console import PROGRAM, SECONDS, Ended
from tests.cli.transcript import items, make_table

WIDE = "x" * 500


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
    assert (ended.code, ended.err) == (1, "")


def test_command_fails_quietly_when_pipe_has_no_reader(console, rejected, table):
    for command in ("--help", "--version", "rejects r", "status r", f"import a.csv {table} --json"):
        ours, theirs = os.pipe()
        os.close(ours)
        try:
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
        finally:
            os.close(theirs)
        told = Ended(ended.returncode, "", ended.stderr.decode())
        assert told.code == 1, command
        assert (told.told if command.startswith("import") else told.err) == "", command


def test_import_is_reported_when_stdout_is_full(console, dynamodb):
    make_table(dynamodb, "unheard", "id:N")
    console.write("a.csv", "id,name\n1,one\n")
    ended = console.shell("ddbload import a.csv unheard --run-id r > /dev/full")
    assert (ended.code, ended.told) == (1, "ddbload: standard output: No space left on device\n")
    assert list(items(dynamodb, "unheard")) == [{"id": {"N": "1"}, "name": {"S": "one"}}]
    assert console.ddbload("report", "r").code == 0


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

        def raise_overtaken(self) -> None:
            pass

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_command, "_spool_heartbeat", lambda *_: Heart())
    Path("rows.csv").write_text("id\n1\n")
    with Path("rows.csv").open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        given = ["import", "-", "books", "--run-id", "r1", "--ledger", "kept", "--unit-price", "1"]
        assert run(given, lambda: False) == 130
    assert "Cancelled" in capsys.readouterr().err
    assert not Path("kept").exists()
