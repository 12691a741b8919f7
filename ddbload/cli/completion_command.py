"""`ddbload completion`: complete commands, options and files in the shell."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class, shell_complete

from ddbload.cli import COMPLETE_VARIABLE
from ddbload.cli.options import GroupedCommand
from ddbload.cli.output import EXIT_DONE, print_stdout

PROGRAM = "ddbload"


@click.command(
    "completion",
    cls=GroupedCommand,
    examples=(
        "ddbload completion bash > ~/.local/share/bash-completion/completions/ddbload",
        "ddbload completion zsh > ~/.zfunc/_ddbload",
        "ddbload completion fish > ~/.config/fish/completions/ddbload.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> int:
    """Print the script that completes ddbload's commands, options and files in SHELL.

    To try it in this bash: source <(ddbload completion bash). New shells find it in the folders of
    the examples. With zsh, ~/.zfunc must be in fpath before compinit is called.
    """
    kind = get_completion_class(shell) or ShellComplete
    complete = kind(context.find_root().command, {}, PROGRAM, COMPLETE_VARIABLE)
    # Not the class's own: that of bash runs a bash, to warn of old versions.
    print_stdout(*ShellComplete.source(complete).split("\n"))
    return EXIT_DONE


def answer_completion(commands: click.Command, instruction: str) -> int:
    """Print the completions that a script asks for; return the exit status."""
    return shell_complete(commands, {}, PROGRAM, COMPLETE_VARIABLE, instruction)
