"""`ddbload plan`: check a source and estimate its import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from ddbload.aws.boto_clients import AwsSettings
from ddbload.cli.options import (
    GroupedCommand,
    aws_options,
    cores,
    first_option,
    input_option,
    json_option,
    output_option,
    processes_option,
    sources_argument,
    verbose_option,
)
from ddbload.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_REJECTS,
    live_reading,
    print_json,
    print_stderr,
)
from ddbload.cli.payload import build_payload, check_order, import_options
from ddbload.cli.plan_page import show_plan
from ddbload.cli.ready_command import (
    NewKeys,
    create_table_command,
    import_command_line,
    parse_table_keys,
)
from ddbload.cli.spooling import spooled
from ddbload.cli.steps import Steps
from ddbload.context import reading_context
from ddbload.contracts.source import AUTO
from ddbload.errors import InvalidUsage
from ddbload.plan.make_plan import Sample, make_plan
from ddbload.plan.plan import FAILS, FINE


@click.command(
    "plan",
    cls=GroupedCommand,
    examples=(
        "ddbload plan books.csv books",
        "ddbload plan s3://my-bucket/books/ books --sample 100000",
        "ddbload plan books.csv books --types year:number --json",
    ),
)
@sources_argument
@click.argument("table")
@input_option(
    "--sample",
    metavar="ROWS|P%",
    help="Read only the first rows, such as 100000 or 5%, and estimate the rest.",
    show_default="read everything",
)
@first_option
@input_option(
    "--create-table",
    metavar="KEYS",
    help="For a table that does not exist: plan for a new on-demand one with these keys, such as"
    " isbn:S or id:S,year:N, and print the command that makes it.",
)
@import_options
@processes_option
@aws_options
@json_option
@output_option(
    "--all",
    "show_all",
    is_flag=True,
    help="Show all columns and rejects, the reasons for the dialect, and the price by service.",
)
@output_option("--quiet", is_flag=True, help="Do not draw progress.")
@verbose_option
def plan_command(
    sources: tuple[str, ...],
    table: str,
    sample: str | None,
    first: int | None,
    create_table: str | None,
    processes: int | None,
    aws: AwsSettings,
    as_json: bool,
    show_all: bool,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> int:
    """Check SOURCE and estimate its import into TABLE, without writing anything.

    SOURCE is the same as for ddbload import. Every row is read and checked as an import does. The
    plan shows rejected rows, duplicate keys, item sizes, write units, price, time, AWS's own
    importers, advice, and the command that imports the source.

    Exit status: 0 if every row would be loaded, 3 if some would be rejected, 1 if the import would
    fail.
    """
    wanted = _parse_sample(sample, first)
    keys = () if create_table is None else parse_table_keys(create_table)
    return plan_import(
        *(sources, table, processes, aws, given, wanted, keys),
        as_json=as_json,
        show_all=show_all,
        quiet=quiet,
        verbose=verbose,
    )


def plan_import(
    sources: Sequence[str],
    table: str,
    processes: int | None,
    aws: AwsSettings,
    given: Mapping[str, Any],
    sample: Sample | None = None,
    keys: NewKeys = (),
    *,
    as_json: bool,
    show_all: bool = False,
    quiet: bool,
    verbose: bool = False,
) -> int:
    """Make a plan and print it; return the exit status.

    `given`: options of the payload; `keys`: those of a table that is still to be made.
    """
    check_order(sources, table)
    payload = build_payload(sources, table, None, AUTO, given)
    context = reading_context(aws)
    steps = Steps(enabled=verbose)
    steps.say(f"looking at the source and table {table}")
    with spooled(payload), live_reading(enabled=not (quiet or verbose)) as draw:

        def watch(read: int, size: int, rows: int) -> None:
            draw(read, size, rows)
            steps.show_reading(read, size, rows)

        plan = make_plan(
            *(payload, context),
            sample=sample,
            prewarm=given["prewarm"],
            watch=watch,
            begun=steps.show_record,
            processes=processes or cores(),
            make_context=partial(reading_context, aws),
            new_keys=keys,
        )
    if plan.survey is not None:
        steps.say(f"rows read: {plan.survey.rows:,}, rejected: {plan.survey.rejected:,}")
    value = plan.to_json()
    if plan.error is None:
        value["command"] = import_command_line(value, sources, table)
    if plan.error is None and plan.is_new and plan.facts is not None:
        value["create_table"] = create_table_command(table, keys, plan.facts.region, aws)
    if sources[0] == "-":
        value["source"]["uri"] = sources[0]
    if as_json:
        print_json(value)
    else:
        show_plan(value, show_all=show_all)
    if plan.error is not None:
        print_stderr(f"ddbload: {plan.error.name}: {plan.error.message}")
    return {FINE: EXIT_DONE, FAILS: EXIT_FAILED}.get(plan.status, EXIT_REJECTS)


def _parse_sample(text: str | None, first: int | None) -> Sample | None:

    if text is None:
        return None if first is None else Sample(rows=first, exact=True)
    if first is not None:
        raise InvalidUsage(
            "--first plans for the first rows alone, and --sample estimates all of them: give one"
        )
    try:
        if text.endswith("%"):
            share = float(text[:-1]) / 100
            if 0 < share <= 1:
                return Sample(share=share)
        elif int(text) > 0:
            return Sample(rows=int(text))
    except ValueError:
        pass
    raise InvalidUsage(f"--sample {text!r}: write a number of rows, or a share such as 10%")
