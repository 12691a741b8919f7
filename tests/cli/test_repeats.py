"""Repeated options: lists and maps add up, and no value is dropped silently."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

from ddbload.cli.commands import commands, run

COMMANDS: dict[str, click.Command] = dict(commands.commands)
LOADING = ["convert", "import", "plan", "start"]


VALUED = [
    (name, option)
    for name, command in sorted(COMMANDS.items())
    for option in command.params
    if isinstance(option, click.Option) and not option.multiple and not option.is_flag
]
"""Options that take one value, with their commands."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> None:
    """Run in a temporary folder, where a command that is not refused may write files."""
    monkeypatch.chdir(tmp_path)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the message of a command that is refused."""
    assert run(arguments, lambda: False) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


def converted(capfdbinary: Any, tmp_path: Any, *arguments: str) -> list[dict[str, Any]]:
    """Convert a file of one row; return its items."""
    source = tmp_path / "source.csv"
    source.write_text("a,b,c\n1,2,3\n")
    assert run(["convert", str(source), "-", "--quiet", *arguments], lambda: False) == 0
    return [json.loads(line)["Item"] for line in capfdbinary.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("name", "option"), VALUED, ids=[f"{name} {option.opts[0]}" for name, option in VALUED]
)
def test_single_value_options_refuse_two_values(capsys, name, option):
    flag = option.opts[0]
    err = said(capsys, name, "source", "target", flag, "1", flag, "2")
    assert err == (
        f"ddbload: InvalidUsage: {flag} is given twice, as '1' and as '2': give it once\n"
    )


@pytest.mark.parametrize("name", LOADING)
@pytest.mark.parametrize("given", [["--header", "--no-header"], ["--no-header", "--header"]])
def test_flag_and_its_opposite_are_refused(capsys, name, given):
    err = said(capsys, name, "s3://bucket/key", "books", *given)
    assert "--header and --no-header contradict each other: give one" in err


@pytest.mark.parametrize(
    ("given", "item"),
    [
        ("--types a=N --types b=N,c=N", {"a": {"N": "1"}, "b": {"N": "2"}, "c": {"N": "3"}}),
        ("--types a=N --types a=n,a=N", {"a": {"N": "1"}, "b": {"S": "2"}, "c": {"S": "3"}}),
        ("--rename a=x --rename b=a", {"x": {"S": "1"}, "a": {"S": "2"}, "c": {"S": "3"}}),
        ("--rename a=x,a=x --rename a=x", {"x": {"S": "1"}, "b": {"S": "2"}, "c": {"S": "3"}}),
        ("--drop a --drop b", {"c": {"S": "3"}}),
        ("--drop a,a --drop a", {"b": {"S": "2"}, "c": {"S": "3"}}),
        ("--drop a,b --set a=x --set a=x", {"a": {"S": "x"}, "c": {"S": "3"}}),
        ("--null 1 --null 2 --null 1", {"c": {"S": "3"}}),
    ],
)
def test_repeatable_options_add_up(capfdbinary, tmp_path, given, item):
    assert converted(capfdbinary, tmp_path, *given.split()) == [item]


@pytest.mark.parametrize("name", LOADING)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("--types a=N --types a=S", "--types names 'a' twice, with 'N' and with 'S'"),
        ("--types a=N,b=S,a=BOOL", "--types names 'a' twice, with 'N' and with 'BOOL'"),
        ("--rename a=b --rename a=c", "--rename names 'a' twice, with 'b' and with 'c'"),
        ("--rename a=x --rename b=x", "'a' and 'b' are both renamed to 'x'"),
        ("--rename a=x --drop b --drop a", "'a' is both renamed and dropped"),
        ("--rename a=x --set x=1", "'a' is renamed to 'x', which the mapping also sets"),
        ("--set x=1 --set x=2", "--set names 'x' twice, with '1' and with '2'"),
    ],
)
def test_contradictions_are_refused(capsys, name, given, words):
    assert words in said(capsys, name, "s3://bucket/key", "books", *given.split())
