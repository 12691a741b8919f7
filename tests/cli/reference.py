"""Generate docs/cli.md from the commands' help: `python -m tests.cli.reference > docs/cli.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ddbload.cli.commands import commands
from ddbload.cli.environment import SHARED

WIDTH = 98
"""Columns that click fills on a wide terminal: the maximum of 100, minus 2."""
HEAD = """\
# The command line

What `--help` says, of all commands. `python -m tests.cli.reference > docs/cli.md` writes this page,
and a test compares the two: edit the help in `ddbload/cli/`, not this.

## Defaults in the environment

A variable named after command and option gives each option a default: `DDBLOAD_IMPORT_TYPES` is
`--types` of `ddbload import`. Settings and limits, which change no item, also have a variable for
all commands: {shared}; so have
`--ledger` and `--stack`. What is typed wins over both, and the command's own variable over that for
all commands.

- An empty variable counts as unset. A flag is `1`, `true` or `yes`, or `0`, `false` or `no`. An
  option that may be repeated has one value a line.
- `ddbload resume` and `ddbload limit` change a run that has begun, so they take only their own
  variables (`DDBLOAD_RESUME_MAX_WCU`) and those for AWS: a default for all commands would give the
  run other limits.
- An error names the variable that a wrong value came from. Functions and worker processes read none
  of them.

## Completion in the shell

`ddbload completion` prints a script that completes commands, options and files.

| shell | to install it |
|---|---|
| bash | `source <(ddbload completion bash)` in `~/.bashrc` |
| zsh | `ddbload completion zsh > ~/.zfunc/_ddbload`, a folder in `fpath` before `compinit` |
| fish | `ddbload completion fish > ~/.config/fish/completions/ddbload.fish` |
"""


def reference() -> str:
    """Render the page."""
    shared = ", ".join(f"`DDBLOAD_{name}`" for name in sorted(SHARED))
    return "\n".join(
        [HEAD.format(shared=shared), *(_section(path, text) for path, text in helps())]
    )


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
