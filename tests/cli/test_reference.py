"""`--help` of each command, and docs/cli.md."""

from __future__ import annotations

import re

import click
import pytest

from ddbload import __version__
from ddbload.cli.commands import SECTIONS, commands
from ddbload.cli.environment import SHARED
from tests.cli.console import ROOT

PAGE = (ROOT / "docs" / "cli.md").read_text("utf-8")
MOST_LINES = 100


@pytest.mark.parametrize("name", commands.commands)
def test_help_is_a_page_with_examples_first(console, name):
    ended = console.ddbload(name, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("\n") <= MOST_LINES
    assert ended.out.startswith(f"Usage: ddbload {name} ")
    assert ended.out.index("Examples:") < ended.out.index("  -h, --help")
    assert console.ddbload(name, "-h").out == ended.out


@pytest.mark.parametrize("name", commands.commands)
def test_all_options_are_listed(console, name):
    command = commands.commands[name]
    ended = console.ddbload(name, "--help")
    if "--help-all" in ended.out:
        ended = console.ddbload(name, "--help-all")
    assert (ended.code, ended.err) == (0, "")
    options = {each.opts[0] for each in command.params if isinstance(each, click.Option)}
    assert options <= set(re.findall(r"(?m)^  (?:-\w, )?(--[a-z-]+)", ended.out))


def test_commands_stand_in_sections(console):
    ended = console.ddbload("--help")
    assert (ended.code, ended.err) == (0, "")
    for title, section in SECTIONS.items():
        _, found, text = ended.out.partition(f"\n{title}:\n")
        assert found
        names = [line.split()[0] for line in text.partition("\n\n")[0].splitlines()]
        assert names == list(section)


def test_page_names_all_commands_and_variables():
    for section in SECTIONS.values():
        for name, (_, short_help) in section.items():
            line = rf"\| `ddbload {name}\b[^`]*` \| {re.escape(short_help)} \|"
            assert re.search(line, PAGE)
    for name in SHARED:
        assert f"`DDBLOAD_{name}`" in PAGE


def test_version_is_printed(console):
    ended = console.ddbload("--version")
    assert (ended.code, ended.err, ended.out) == (0, "", f"ddbload, version {__version__}\n")


def test_python_m_ddbload_runs_command(console):
    ended = console.shell("python -m ddbload status no-such-run")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("ddbload: RunNotFound: ")
