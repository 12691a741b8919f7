"""docs/cli.md equals `--help`."""

from __future__ import annotations

import pytest

from ddbload import __version__
from tests.cli.console import ROOT
from tests.cli.reference import helps, reference

HELPS = list(helps())
PAGE = ROOT / "docs" / "cli.md"


def test_cli_page_is_up_to_date():
    assert PAGE.read_text("utf-8") == reference(), "python -m tests.cli.reference > docs/cli.md"


@pytest.mark.parametrize(("path", "text"), HELPS, ids=[path for path, _ in HELPS])
def test_help_equals_cli_page(console, path, text):
    for flag in ("--help", "-h"):
        ended = console.ddbload(*path.split()[1:], flag, COLUMNS="200")
        assert (ended.code, ended.err, ended.out) == (0, "", f"{text}\n")


def test_version_is_printed(console):
    ended = console.ddbload("--version")
    assert (ended.code, ended.err, ended.out) == (0, "", f"ddbload, version {__version__}\n")


def test_python_m_ddbload_runs_command(console):
    ended = console.shell("python -m ddbload status no-such-run")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("ddbload: RunNotFound: ")
