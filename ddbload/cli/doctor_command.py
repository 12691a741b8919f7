"""`ddbload doctor`: check what commands need, without changing anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime

import click

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.cli.options import (
    GroupedCommand,
    aws_options,
    json_option,
    ledger_option,
    stack_option,
)
from ddbload.cli.output import EXIT_DONE, EXIT_FAILED, print_json, print_stdout
from ddbload.doctor.checks import FAIL, Check, check_aws, check_machine
from ddbload.runs.deployed import DEFAULT_STACK
from ddbload.runs.local_settings import default_ledger


@click.command(
    "doctor",
    cls=GroupedCommand,
    examples=(
        "ddbload doctor",
        "ddbload doctor books",
        "ddbload doctor books s3://my-bucket/in/ --profile staging",
    ),
)
@click.argument("table", required=False)
@click.argument("source", required=False)
@ledger_option
@stack_option
@aws_options
@json_option
def doctor_command(
    *,
    table: str | None,
    source: str | None,
    ledger: str | None,
    stack: str | None,
    aws: AwsSettings,
    as_json: bool,
) -> int:
    """Check what commands need: one line each, with what to do about it.

    Without TABLE and SOURCE it looks at this machine, the credentials, the account's quotas and the
    stack. Nothing is written, not even to try a permission: these are simulated by IAM where that
    is allowed, and otherwise named as not checked.

    Exit status: 0 if nothing failed, also with warnings; 1 if a check failed.
    """
    if table is not None and table.startswith("s3://"):
        table, source = source, table
    checks: list[Check] = []
    for check in _checks(table, source, ledger, stack, aws):
        checks.append(check)
        if not as_json:
            print_stdout(f"{check.status:4}  {check.name:13} {check.message}")
            if check.advice is not None:
                print_stdout(f"{'':20}-> {check.advice}")
    failed = any(check.status == FAIL for check in checks)
    if as_json:
        print_json({"ok": not failed, "checks": [check.to_json() for check in checks]})
    return EXIT_FAILED if failed else EXIT_DONE


def _checks(
    table: str | None,
    source: str | None,
    ledger: str | None,
    stack: str | None,
    aws: AwsSettings,
) -> Iterator[Check]:

    yield from check_machine(source=source, ledger=ledger or default_ledger())
    yield from check_aws(
        Clients(aws),
        table=table,
        source=source,
        stack=stack or os.environ.get("DDBLOAD_STACK") or DEFAULT_STACK,
        now=lambda: datetime.now(UTC),
    )
