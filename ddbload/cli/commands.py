"""Define the `ddbload` command group and map errors to exit statuses."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import click

from ddbload import __version__
from ddbload.cli.convert_command import convert_command
from ddbload.cli.demo.command import demo
from ddbload.cli.import_command import import_command
from ddbload.cli.ledger_commands import report_command, status_command
from ddbload.cli.ls_command import ls_command
from ddbload.cli.options import refuse_two_values
from ddbload.cli.output import EXIT_FAILED, EXIT_INTERRUPTED, tell, telling
from ddbload.cli.plan_command import plan_command
from ddbload.cli.rejects_command import rejects_command
from ddbload.cli.resume_command import resume_command
from ddbload.cli.start_command import start_command
from ddbload.errors import DdbloadError, unexpected


class Commands(click.Group):
    """The commands, none of which takes two values for an option that has one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is named. Raises `InvalidUsage`."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            refuse_two_values(command, click.Context(command, parent=ctx), rest)
        return name, command, rest


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="ddbload")
def commands() -> None:
    """Load files and S3 objects into a DynamoDB table that exists, exact to the row.

    AWS settings come from where the AWS CLI takes them (AWS_PROFILE, AWS_REGION,
    AWS_ENDPOINT_URL_DYNAMODB, shared config and credentials); flags win.

    Exit status: 0 done, 1 failed, 2 wrong usage, 3 done with rejects, 130 interrupted.
    """


commands.add_command(import_command)
commands.add_command(plan_command)
commands.add_command(start_command)
commands.add_command(resume_command)
commands.add_command(status_command)
commands.add_command(report_command)
commands.add_command(rejects_command)
commands.add_command(convert_command)
commands.add_command(ls_command)
commands.add_command(demo)


def run(arguments: Sequence[str], interrupted: Callable[[], bool]) -> int:
    """Run a command; its exit status. Raises KeyboardInterrupt, and nothing else.

    `interrupted`: whether one was raised, whatever it looks like here.
    """
    try:
        result = commands.main(list(arguments), prog_name="ddbload", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        with telling():
            error.show()
        return error.exit_code
    except click.Abort:
        # How click hands on Ctrl-C.
        tell("ddbload: interrupted")
        return EXIT_INTERRUPTED
    except DdbloadError as error:
        tell(f"ddbload: {error.name}: {error.message}")
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - its text may hold row data: its place may not
        if interrupted():
            raise KeyboardInterrupt from None
        failed = _output_failed()
        if failed is None:
            tell(f"ddbload: {unexpected(error, 'internal error').message}")
        elif not isinstance(failed, BrokenPipeError):
            tell(f"ddbload: standard output: {failed.strerror}")
        return EXIT_FAILED


def _output_failed() -> OSError | None:
    """Why standard output takes nothing, if that is so: a full disk, a reader that has enough.

    Then nothing may be written to it at exit either.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None
