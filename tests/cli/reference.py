"""Generate docs/cli.md from the commands' help: `python -m tests.cli.reference > docs/cli.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ddbload.cli.commands import commands

WIDTH = 98
"""Columns that click fills on a wide terminal: the maximum of 100, minus 2."""
HEAD = """\
# The command line

What `--help` says, of all commands. `python -m tests.cli.reference > docs/cli.md` writes this page,
and a test compares the two: edit the help in `ddbload/cli/`, not this.
"""


def reference() -> str:
    """Render the page."""
    return "\n".join([HEAD, *(_section(path, text) for path, text in helps())])


def helps() -> Iterator[tuple[str, str]]:
    """Yield each command as it is typed, with its help."""
    top = commands.make_context("ddbload", [], resilient_parsing=True, terminal_width=WIDTH)
    yield "ddbload", top.get_help()
    for name in commands.list_commands(top):
        command = commands.get_command(top, name)
        assert command is not None
        context = command.make_context(
            name, [], parent=top, resilient_parsing=True, terminal_width=WIDTH
        )
        yield f"ddbload {name}", context.get_help()


def _section(path: str, text: str) -> str:
    return f"## {path}\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
