"""Define the `ddbload` command group and map errors to exit statuses."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ddbload import __version__
from ddbload.cli import COMPLETE_VARIABLE, terminal
from ddbload.errors import DdbloadError, InvalidUsage, unexpected

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Load": {
        "import": ("import_command", "Import files or S3 objects into a table."),
        "plan": ("plan_command", "Check a source, and estimate price and time; no writes."),
        "verify": ("verify_command", "Compare a source's items with a table's; no writes."),
        "convert": ("convert_command", "Write a source's items as DynamoDB JSON lines."),
        "run": ("job_file", "Run the loads of a job file."),
        "ls": ("listing_commands", "List objects in S3, in parallel."),
    },
    "Runs": {
        "status": ("run_commands", "Show the progress of a run."),
        "report": ("run_commands", "Check a run's ledger, and show the run's result."),
        "rejects": ("rejects_command", "Show rejected rows, or import corrected ones."),
        "resume": ("start_command", "Resume a run that was interrupted, killed or failed."),
        "cancel": ("run_commands", "Stop a run and all of its workers."),
        "limit": ("run_commands", "Change the limits of a run."),
        "runs": ("listing_commands", "List runs, the newest first."),
    },
    "Stack on AWS": {
        "deploy": ("deploy_command", "Deploy the pipeline to AWS, or update it."),
        "start": ("start_command", "Import S3 objects on the deployed stack."),
        "logs": ("listing_commands", "Show what the functions of a run logged."),
        "destroy": ("deploy_command", "Remove the stack that deploy made."),
    },
    "More": {
        "demo": ("demo_command", "Try the whole pipeline here, without an AWS account."),
        "doctor": ("doctor_command", "Check credentials, permissions, quotas, table and bucket."),
        "completion": ("doctor_command", "Print a script that completes commands in a shell."),
    },
}
"""Module and short help of each command, in the sections of `ddbload --help`."""
_COMMANDS = {name: each for section in SECTIONS.values() for name, each in section.items()}
_OTHER_NAMES = {
    "import": "load upload copy put write ingest insert push",
    "plan": "check validate estimate dry-run dryrun preview",
    "convert": "export dump transform to-json",
    "verify": "compare diff reconcile audit",
    "start": "launch submit",
    "cancel": "stop kill abort",
    "resume": "continue retry restart recover",
    "status": "progress show info describe",
    "rejects": "errors failures bad",
    "logs": "log tail",
    "runs": "jobs list executions history loads loaded",
    "limit": "throttle set-limit",
    "--help": "help usage man",
    "completion": "completions autocomplete complete",
}
"""Names that other tools use for each command."""
_EXPORTS = "; ddbload does not read tables: aws dynamodb export-table-to-point-in-time does"


def command_hint(word: str) -> str | None:
    """Return a message that names the command meant by a wrong word; None if there is no hint."""
    names = (name for name, words in _OTHER_NAMES.items() if word.lower() in words.split())
    command = next(names, None)
    if command is not None:
        more = _EXPORTS if word in ("export", "dump") else ""
        return f"no such command {word}; did you mean ddbload {command}?{more}"
    if word.startswith("s3://") or Path(word).is_file():
        return f"{word} is no command: ddbload import SOURCE TABLE, ddbload plan SOURCE TABLE"
    return None


class LoadedCommands(Mapping[str, click.Command]):
    """Mapping of commands by name that imports a command's module on first use."""

    def __getitem__(self, name: str) -> click.Command:
        module = import_module(f"ddbload.cli.{_COMMANDS[name][0]}")
        command: click.Command = getattr(module, f"{name}_command")
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)

    def __contains__(self, name: object) -> bool:
        return name in _COMMANDS


class Commands(click.Group):
    """Click group that lists its commands in sections."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the named command. Raises `InvalidUsage` with a hint for other tools' names."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            if args[0] == "help" and args[1:] and args[1] in self.commands:
                raise InvalidUsage(f"did you mean ddbload {args[1]} --help?")
            hint = command_hint(args[0])
            if hint is not None:
                raise InvalidUsage(hint)
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the commands in sections, without importing their modules."""
        width = max(map(len, _COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", each[1]) for name, each in section.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names without importing the commands' modules."""
        from click.shell_completion import CompletionItem

        named = {name: each for name, each in _COMMANDS.items() if name.startswith(incomplete)}
        return [
            *(CompletionItem(name, help=each[1]) for name, each in named.items()),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="ddbload")
def commands() -> None:
    """Load files and S3 objects into an existing DynamoDB table, exact to the row.

    \b
    Try it without AWS:        ddbload demo
    Check and estimate:        ddbload plan books.csv books
    Import from this machine:  ddbload import books.csv books --types year=N
    Import on AWS:             ddbload start s3://bucket/books.csv books

    Environment variables give options a default, which typed options override:
    DDBLOAD_IMPORT_MODE for --mode of ddbload import, and so for each option of each command.
    Limits, engine and AWS settings also have one for all commands, such as DDBLOAD_MAX_WCU.

    AWS settings are found like those of the AWS CLI (AWS_PROFILE, AWS_REGION,
    AWS_ENDPOINT_URL_DYNAMODB, shared config and credentials); options override them.

    Exit status: 0 done, 1 failed, 2 wrong usage, 3 done with rejects, 130 interrupted,
    141 standard output closed early (as by `| head`).
    """  # noqa: D301 - click's mark for lines that stay apart is a backspace


commands.commands = LoadedCommands()  # type: ignore[assignment]


def run(arguments: Sequence[str], interrupted: Callable[[], bool]) -> int:
    """Run a command and return its exit status. Raises only `KeyboardInterrupt`.

    `interrupted` returns true once a signal raised `KeyboardInterrupt`. Another exception may have
    replaced it by then.
    """
    stdout = sys.stdout
    try:
        asked = os.environ.get(COMPLETE_VARIABLE)
        if asked:
            from click.shell_completion import shell_complete

            return shell_complete(commands, {}, "ddbload", COMPLETE_VARIABLE, asked)
        result = commands.main(list(arguments), prog_name="ddbload", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        # The message may quote an argument, such as the name of a file.
        shown = io.StringIO()
        error.show(shown)
        terminal.print_stderr(*shown.getvalue().rstrip("\n").split("\n"))
        return error.exit_code
    except SystemExit:
        # click ends so if a pipe is broken, after replacing standard output.
        sys.stdout = stdout
        terminal.stdout_error()
        return terminal.EXIT_BROKEN_PIPE
    except click.Abort:
        # click turns KeyboardInterrupt into Abort.
        terminal.print_stderr("ddbload: interrupted")
        return terminal.EXIT_INTERRUPTED
    except DdbloadError as error:
        terminal.print_error(error)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - its text may quote row data: only its place is shown
        if interrupted():
            raise KeyboardInterrupt from None
        failed = terminal.stdout_error()
        if failed is not None:
            return terminal.report_stdout_error(failed)
        terminal.print_stderr(f"ddbload: {unexpected(error, 'internal error').message}")
        return terminal.EXIT_FAILED
