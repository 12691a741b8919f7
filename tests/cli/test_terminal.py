"""Output that is drawn on a terminal, and nowhere else."""

from __future__ import annotations

import re

import pytest

from tests.cli.console import Console
from tests.cli.terminal import on_terminal
from tests.cli.transcript import make_table

COLOUR = re.compile(r"\x1b\[[0-9;]*(?:3[0-9]|4[0-9]|9[0-7])(?:;[0-9;]*)?m")
MOVES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")

ROWS = "".join(f"{n},name {n}\n" for n in range(100))


@pytest.fixture(scope="module")
def table(dynamodb):
    make_table(dynamodb, "terminal", "id:N")
    return "terminal"


@pytest.fixture
def books(console: Console) -> Console:
    console.write("books.csv", f"id,name\n{ROWS}x,none\n")
    return console


def plain(text):
    return MOVES.sub("", text)


def test_import_draws_progress_on_terminal(books, table):
    # So slow that it is drawn more than once.
    limit = ("--processes", "1", "--max-wcu", "50")
    ended = on_terminal(books, "import", "books.csv", table, *limit, streams="err")
    assert ended.code == 3
    assert ended.out.startswith("run ")
    assert "\x1b" not in ended.out
    assert COLOUR.search(ended.err)
    assert re.search(r"importing ━+.* \d+ %", plain(ended.err))
    assert re.search(r"101 rows, .*1 rejected", plain(ended.err))
    # The view is taken away again, and the cursor is there again.
    assert ended.err.endswith("\x1b[2K")
    assert ended.err.count("\x1b[?25l") == ended.err.count("\x1b[?25h") == 1


def test_import_draws_progress_without_colour_when_no_color_is_set(books, table):
    ended = on_terminal(books, "import", "books.csv", table, streams="err", NO_COLOR="1")
    assert ended.code == 3
    assert " rows, " in ended.err
    assert not COLOUR.search(ended.err)


def test_import_draws_progress_in_ascii_locale(books, table):
    ended = on_terminal(
        books,
        *("import", "books.csv", table),
        streams="err",
        LC_ALL="C",
        PYTHONUTF8="0",
        PYTHONCOERCECLOCALE="0",
    )
    assert ended.code == 3
    assert " rows, " in ended.err
    assert ended.err.isascii()


def test_json_is_alone_on_stdout_when_progress_is_drawn(books, table):
    ended = on_terminal(books, "import", "books.csv", table, "--json", streams="err")
    assert ended.code == 3
    assert ended.out.startswith('{"run": ')
    assert ended.out.endswith("}\n")


@pytest.fixture
def rejected(console: Console, table: str) -> Console:
    bad = 'x,"é\n\x1b[2J",a\n1,b\n\tz,b\tb,c\n2,\udc9b,d\n'.encode("utf-8", "surrogateescape")
    console.write("bad.csv", 'id,"na\x1b[5mme",ö\n'.encode() + bad + 55 * b"y,y,y\n")
    assert console.ddbload("import", "bad.csv", table, "--run-id", "r").code == 1
    return console


TABLE = r"""
line  byte  column       cause         row
2     17    id           not_a_number  x,"é\n\x1b[2J",a
4     31    -            field_count   1,b
5     35    id           not_a_number  \tz,b\tb,c
6     44    na\x1b[5mme  bad_encoding  2,\udc9b,d
7     50    id           not_a_number  y,y,y
"""


def test_rejects_draws_table_on_terminal(rejected):
    ended = on_terminal(rejected, "rejects", "r", streams="out")
    assert (ended.code, ended.err) == (0, "")
    lines = [line.rstrip() for line in plain(ended.out).splitlines()]
    assert lines[:6] == TABLE.strip().splitlines()
    assert lines[-4:] == [
        "... and 9 more; --json, or a pipe, shows all",
        "       57 not_a_number in id",
        r"        1 bad_encoding in na\x1b[5mme",
        "        1 field_count in the row",
    ]
    # Nothing in the file moves the terminal.
    assert "\x1b[2J" not in ended.out
    assert "\x1b[5m" not in ended.out


HOSTILE = 'id,"na\x1b[5mme",ö\n1,\x1b[2J,é\nx,\x1b[2J,b\n'


def test_plan_draws_page_on_terminal(console, table):
    console.write("bad.csv", HOSTILE)
    ended = on_terminal(console, "plan", "bad.csv", table, streams="out")
    assert (ended.code, ended.err) == (3, "")
    assert COLOUR.search(ended.out)
    shown = plain(ended.out)
    assert "outcome  1 of 2 rows would be rejected" in shown
    assert r"na\x1b[5mme" in shown
    assert max(map(len, shown.splitlines())) <= 100
    # Nothing in the file moves the terminal.
    assert "\x1b[2J" not in ended.out
    assert "\x1b[5m" not in ended.out


def test_plan_draws_progress_on_terminal(console, table):
    console.write("books.csv", "id,name\n" + "".join(f"{n},name {n}\n" for n in range(60_000)))
    ended = on_terminal(console, "plan", "books.csv", table, "--json", streams="err")
    assert ended.out.startswith('{"status": "FINE"')
    assert re.search(r"[\d,]+ rows", plain(ended.err))
    assert ended.err.count("\x1b[?25l") == ended.err.count("\x1b[?25h") == 1
