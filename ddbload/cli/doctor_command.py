"""`ddbload doctor` and `ddbload completion`: check the environment; complete in a shell."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain

import click
from click.shell_completion import ShellComplete, get_completion_class

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.cli import COMPLETE_VARIABLE, options
from ddbload.cli.payload import is_data_file
from ddbload.cli.terminal import EXIT_DONE, EXIT_FAILED, Output, print_json, print_stdout
from ddbload.doctor.checks import FAIL, Check, check_aws, check_machine
from ddbload.errors import InvalidUsage
from ddbload.runs.run_location import stack_name


@options.command(
    "ddbload doctor",
    "ddbload doctor books",
    "ddbload doctor books s3://my-bucket/in/ --profile staging",
)
def doctor_command(
    table: str | None = options.argument(required=False),
    source: str | None = options.argument(required=False),
    stack: str | None = options.stack_option,
    aws: AwsSettings = options.aws_options,
    output: Output = options.output_options(),
) -> int:
    """Check the prerequisites of ddbload's commands, and print how to fix those that fail.

    Without TABLE and SOURCE it checks Node.js, the credentials, the account's quotas and the stack.
    Nothing is written: permissions are simulated by IAM if that is allowed, and otherwise reported
    as not checked.

    Exit status: 0 if nothing failed, also with warnings; 1 if a check failed.
    """
    if table is not None and (table.startswith("s3://") or is_data_file(table)):
        table, source = source, table
    if source is not None and not source.startswith("s3://"):
        raise InvalidUsage(
            f"doctor checks tables and s3:// sources, and {source} is neither: ddbload plan"
            f" {source} {table or 'TABLE'} checks a file"
        )
    wanted = chain(
        check_machine(),
        check_aws(Clients(aws), table=table, source=source, stack=stack_name(stack)),
    )
    checks: list[Check] = []
    for check in wanted:
        checks.append(check)
        if not output.as_json:
            print_stdout(f"{check.status:4}  {check.check:13} {check.message}")
            if check.advice is not None:
                print_stdout(f"{'':20}-> {check.advice}")
    failed = any(check.status == FAIL for check in checks)
    if output.as_json:
        print_json({"ok": not failed, "checks": [asdict(check) for check in checks]})
    return EXIT_FAILED if failed else EXIT_DONE


@options.command(
    "ddbload completion bash > ~/.local/share/bash-completion/completions/ddbload",
    "ddbload completion zsh > ~/.zfunc/_ddbload",
    "ddbload completion fish > ~/.config/fish/completions/ddbload.fish",
)
def completion_command(
    shell: str = options.argument(type=click.Choice(["bash", "zsh", "fish"])),
) -> None:
    """Print the script that completes ddbload's commands, options and files in SHELL.

    To try it in this bash: source <(ddbload completion bash). New shells find it in the folders of
    the examples. With zsh, ~/.zfunc must be in fpath before compinit is called.
    """
    kind = get_completion_class(shell) or ShellComplete
    root = click.get_current_context().find_root().command
    complete = kind(root, {}, "ddbload", COMPLETE_VARIABLE)
    # Not click's class for bash, which runs bash to warn about old versions.
    print_stdout(*ShellComplete.source(complete).split("\n"))
