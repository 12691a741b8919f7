"""Define the `ddbload` command group and map errors to exit statuses."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence

import click

from ddbload import __version__
from ddbload.cli.completion_command import (
    COMPLETE_VARIABLE,
    answer_completion,
    completion_command,
)
from ddbload.cli.control_commands import cancel_command, limit_command
from ddbload.cli.convert_command import convert_command
from ddbload.cli.demo.command import demo
from ddbload.cli.deploy_command import deploy_command
from ddbload.cli.destroy_command import destroy_command
from ddbload.cli.doctor_command import doctor_command
from ddbload.cli.hints import command_hint
from ddbload.cli.import_command import import_command
from ddbload.cli.ledger_commands import report_command, status_command
from ddbload.cli.listing_commands import runs_command
from ddbload.cli.logs_command import logs_command
from ddbload.cli.ls_command import ls_command
from ddbload.cli.options import refuse_two_values
from ddbload.cli.output import (
    EXIT_BROKEN_PIPE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    print_stderr,
    report_stdout_error,
    stdout_error,
)
from ddbload.cli.plan_command import plan_command
from ddbload.cli.rejects_command import rejects_command
from ddbload.cli.resume_command import resume_command
from ddbload.cli.start_command import start_command
from ddbload.cli.verify_command import verify_command
from ddbload.errors import DdbloadError, InvalidUsage, unexpected


class Commands(click.Group):
    """Group of the commands, which refuse two values for an option that takes one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the named command, and check its arguments. Raises `InvalidUsage`."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            hint = command_hint(args[0])
            if hint is not None:
                raise InvalidUsage(hint)
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            refuse_two_values(command, click.Context(command, parent=ctx), rest)
        return name, command, rest

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """List commands in the order of use, not of the alphabet."""
        return list(self.commands)


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
    141 nobody reads standard output (as after `| head`).
    """  # noqa: D301 - click's mark for lines that stay apart is a backspace


for _command in (
    *(import_command, plan_command, start_command, verify_command),
    *(cancel_command, limit_command),
    *(resume_command, status_command, report_command, rejects_command, logs_command),
    *(runs_command, convert_command, ls_command),
    *(doctor_command, deploy_command, destroy_command, demo, completion_command),
):
    commands.add_command(_command)


def run(arguments: Sequence[str], interrupted: Callable[[], bool]) -> int:
    """Run a command; return its exit status. Raises KeyboardInterrupt, and nothing else.

    `interrupted` tells whether KeyboardInterrupt was raised, even if another exception came of it.
    """
    stdout = sys.stdout
    try:
        asked = os.environ.get(COMPLETE_VARIABLE)
        if asked:
            return answer_completion(commands, asked)
        result = commands.main(list(arguments), prog_name="ddbload", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        # The message may quote an argument, such as the name of a file.
        shown = io.StringIO()
        error.show(shown)
        print_stderr(*shown.getvalue().rstrip("\n").split("\n"))
        return error.exit_code
    except SystemExit:
        # click ends so if a pipe is broken, after replacing standard output.
        sys.stdout = stdout
        stdout_error()
        return EXIT_BROKEN_PIPE
    except click.Abort:
        # click turns KeyboardInterrupt into Abort.
        print_stderr("ddbload: interrupted")
        return EXIT_INTERRUPTED
    except DdbloadError as error:
        print_stderr(f"ddbload: {error.name}: {error.message}")
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - its text may quote row data: only its place is shown
        if interrupted():
            raise KeyboardInterrupt from None
        failed = stdout_error()
        if failed is not None:
            return report_stdout_error(failed)
        print_stderr(f"ddbload: {unexpected(error, 'internal error').message}")
        return EXIT_FAILED
