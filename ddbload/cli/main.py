"""`ddbload`: the commands, and how any of them ends."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from ddbload import __version__
from ddbload.cli.demo.command import demo
from ddbload.cli.import_command import import_command
from ddbload.cli.ledger_commands import rejects_command, report_command, status_command
from ddbload.errors import DdbloadError, unexpected

EXIT_INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="ddbload")
def commands() -> None:
    """Load files and S3 objects into a DynamoDB table that exists, exact to the row.

    AWS settings come from where the AWS CLI takes them (AWS_PROFILE, AWS_REGION,
    AWS_ENDPOINT_URL_DYNAMODB, shared config and credentials); flags win.

    Exit status: 0 done, 1 failed, 2 wrong usage, 3 done with rejects, 130 interrupted.
    """


commands.add_command(import_command)
commands.add_command(status_command)
commands.add_command(report_command)
commands.add_command(rejects_command)
commands.add_command(demo)


def main() -> NoReturn:
    """Run a command. Errors are told in a line on stderr, never as a traceback."""
    try:
        result = commands.main(standalone_mode=False)
        sys.stdout.flush()
        code = result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("ddbload: interrupted", err=True)
        code = EXIT_INTERRUPTED
    except DdbloadError as error:
        click.echo(f"ddbload: {error.name}: {error.message}", err=True)
        code = error.exit_code
    except BrokenPipeError:
        # Whoever read our output has enough. Nothing may be written to it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:  # noqa: BLE001 - its text may hold row data: its place may not
        click.echo(f"ddbload: {unexpected(error, 'internal error').message}", err=True)
        code = 1
    sys.exit(code)
