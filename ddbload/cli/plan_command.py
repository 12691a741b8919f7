"""`ddbload plan`: check a source and estimate its import."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from ddbload.aws.clients import AwsSettings
from ddbload.cli import options
from ddbload.cli.payload import build_payload, check_order, import_options
from ddbload.cli.plan_page import show_plan
from ddbload.cli.progress import show_record
from ddbload.cli.run_setup import NewKeys, create_table_option, parse_table_keys, spooled
from ddbload.cli.terminal import Output, exit_status, live_reading, print_error, print_json
from ddbload.context import reading_context
from ddbload.contracts.column_mapping import join_names
from ddbload.contracts.source import AUTO
from ddbload.errors import InvalidUsage
from ddbload.planning.make_plan import Sample, make_plan

_TYPES = ("types", "infer_types")
"""Parameters that the plan's detected types replace in the ready command."""
_OF_THE_PLAN = ("as_json", "dry_run", "quiet")
"""Parameters that control the plan and its output; left out of the ready command."""


@options.command(
    "ddbload plan books.csv books",
    "ddbload plan s3://my-bucket/books/ books --sample 100000",
    "ddbload plan books.csv books --types year:number --json",
)
def plan_command(
    sources: tuple[str, ...] = options.sources_argument,
    table: str = options.argument(),
    sample: str | None = options.input_option(
        metavar="ROWS|P%",
        help="Read only the first rows, such as 100000 or 5%, and estimate the rest.",
        show_default="read everything",
    ),
    first: int | None = options.first_option,
    create_table: str | None = create_table_option,
    given: Mapping[str, Any] = import_options,
    processes: int | None = options.processes_option,
    aws: AwsSettings = options.aws_options,
    output: Output = options.output_options(
        show_all="Show all columns and rejects, the reasons for the dialect, and the price by"
        " service.",
        quiet="Do not draw progress.",
        verbose=True,
    ),
) -> int:
    """Check SOURCE and estimate its import into TABLE, without writing anything.

    SOURCE is the same as for ddbload import. Every row is read and checked as an import does. The
    plan shows rejected rows, duplicate keys, item sizes, write units, price, time, a comparison
    with AWS's own importers, warnings, and the command that imports the source.

    Exit status: 0 if every row would be loaded, 3 if some would be rejected, 1 if the import would
    fail.
    """
    wanted = _parse_sample(sample, first)
    keys = () if create_table is None else parse_table_keys(create_table)
    return plan_import(sources, table, processes, aws, output, given, sample=wanted, keys=keys)


def plan_import(
    sources: Sequence[str],
    table: str,
    processes: int | None,
    aws: AwsSettings,
    output: Output,
    given: Mapping[str, Any],
    *,
    sample: Sample | None = None,
    keys: NewKeys = (),
) -> int:
    """Make a plan and print it; return the exit status.

    Args:
        given: Values of the payload's options, by parameter name.
        keys: Keys of a table that does not exist yet; None to look the table up.
    """
    check_order(sources, table)
    payload = build_payload(sources, table, None, AUTO, given)
    output.step(f"looking at the source and table {table}")
    with spooled(payload), live_reading(output) as watch:
        plan = make_plan(
            payload,
            reading_context(aws),
            sample=sample,
            prewarm=given["prewarm"],
            watch=watch,
            begun=partial(show_record, output),
            processes=processes or options.cores(),
            make_context=partial(reading_context, aws),
            new_keys=keys,
        )
    if plan.survey is not None:
        output.step(f"rows read: {plan.survey.rows:,}, rejected: {plan.survey.rejected:,}")
    value = plan.to_json()
    if plan.error is None:
        value["command"] = import_command_line(value, sources, table)
    if sources[0] == "-":
        value["source"]["uri"] = sources[0]
    if output.as_json:
        print_json(value)
    else:
        show_plan(value, show_all=output.show_all)
    print_error(plan.error)
    return exit_status(plan.status)


def _parse_sample(text: str | None, first: int | None) -> Sample | None:
    if text is None:
        return None if first is None else Sample(rows=first, exact=True)
    if first is not None:
        raise InvalidUsage(
            "--first plans for the first rows alone, and --sample estimates all of them: give one"
        )
    sample = options.parse_sample(text, "rows", "10%")
    return Sample(share=sample) if text.endswith("%") else Sample(rows=int(sample))


def import_command_line(plan: Mapping[str, Any], sources: Sequence[str], table: str) -> str:
    """Return the command that imports the source of a plan.

    It repeats the plan's options, read from the current click context, and adds types that fit all
    rows read.
    """
    context = click.get_current_context()
    group = context.find_root().command
    assert isinstance(group, click.Group), "the command is one of ddbload's"  # noqa: S101
    known = {each.name for each in group.commands["import"].params} - {*_TYPES, *_OF_THE_PLAN}
    words = ["ddbload", "import", *sources, table]
    for each in context.command.params:
        if isinstance(each, click.Option) and each.name in known and options.is_given(each.name):
            words += _option(each, context.params[each.name])
    for text in context.params["types"]:
        words += ["--types", text]
    found = found_types(plan)
    if found:
        words += ["--types", join_names(f"{name}={kind}" for name, kind in found.items())]
    return shlex.join(words)


def found_types(plan: Mapping[str, Any]) -> dict[str, str]:
    """Return the types detected for columns that neither the user nor a key has typed."""
    return {
        each["name"]: each["inferred"]["type"]
        for each in plan["columns"]
        if each["column"] is not None
        and not each["declared"]
        and each["key"] is None
        and each.get("inferred")
        and each["inferred"]["type"] != "S"
    }


def _option(option: click.Option, value: Any) -> list[str]:
    if option.is_flag:
        names = option.opts if value else option.secondary_opts
        return names[:1]
    name = option.opts[0]
    if option.multiple:
        return [word for each in value for word in (name, str(each))]
    return [] if value is None else [name, str(value)]
