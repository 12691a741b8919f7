"""`ddbload plan`: check a source and estimate its import."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click

from ddbload.aws.clients import AwsSettings
from ddbload.cli import options
from ddbload.cli.payload import build_payload, check_order, import_options
from ddbload.cli.plan_page import show_plan
from ddbload.cli.progress import show_record
from ddbload.cli.run_location import option_words
from ddbload.cli.run_setup import spooled
from ddbload.cli.terminal import Output, exit_status, live_reading, print_error, print_json
from ddbload.context import reading_context
from ddbload.contracts.column_mapping import join_names
from ddbload.contracts.source import AUTO
from ddbload.errors import InvalidUsage
from ddbload.planning.make_plan import Sample, make_plan

_TYPES = ("types", "infer_types")
"""Parameters that the plan's detected types replace in the ready command."""
_PLAIN = re.compile(r"[\w.-]+", re.ASCII)
_OF_THE_PLAN = ("as_json", "dry_run", "quiet")
"""Parameters that control the plan and its output; left out of the ready command."""

NewKeys = tuple[tuple[str, str], ...]
"""Name and type of the partition key, followed by those of the sort key, if any."""


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
    create_table: str | None = options.input_option(
        metavar="KEYS",
        help="For a table that does not exist: plan for a new on-demand one with these keys, such"
        " as isbn:S or id:S,year:N, and print the command that makes it.",
    ),
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
    if plan.error is None and plan.is_new and plan.facts is not None:
        value["create_table"] = create_table_command(table, keys, plan.facts.region, aws)
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


def parse_table_keys(
    text: str,
    option: str = "--create-table",
    form: str = "key:S, key:N or key:B",
    kinds: Collection[str] = ("S", "N", "B"),
    default: str = "",
) -> NewKeys:
    """Parse the `KEY:TYPE,SORT:TYPE` of an option. Raises `InvalidUsage`.

    `default`: type of a key that is given without one.
    """
    keys: list[tuple[str, str]] = []
    for part in text.split(","):
        name, colon, kind = part.rpartition(":")
        if not colon:
            name, kind = part, default
        if not name or kind.upper() not in kinds:
            raise InvalidUsage(f"{option}: {part!r} is not of the form {form}")
        keys.append((name, kind.upper()))
    if len(keys) > 2 or len({name for name, _ in keys}) < len(keys):
        raise InvalidUsage(f"{option}: one partition key, and at most one other as sort key")
    return tuple(keys)


def table_schema(keys: NewKeys) -> tuple[list[Any], list[Any]]:
    """Return the AttributeDefinitions and the KeySchema of a table with these keys."""
    return (
        [{"AttributeName": name, "AttributeType": kind} for name, kind in keys],
        [
            {"AttributeName": name, "KeyType": role}
            for (name, _), role in zip(keys, ("HASH", "RANGE"), strict=False)
        ],
    )


def create_table_command(table: str, keys: NewKeys, region: str, aws: AwsSettings) -> str:
    """Return an AWS CLI command that creates an on-demand table with these keys."""
    definitions, schema = table_schema(keys)
    words = ["aws", "dynamodb", "create-table", "--table-name", table]
    words += ["--billing-mode", "PAY_PER_REQUEST"]
    words += ["--attribute-definitions", *_shorthand(definitions)]
    words += ["--key-schema", *_shorthand(schema), "--region", region]
    words += option_words(replace(aws, region=None))
    return shlex.join(words)


def _shorthand(values: Sequence[Mapping[str, str]]) -> list[str]:
    """Format values for the AWS CLI; as JSON if a name would need quotes."""
    if all(_PLAIN.fullmatch(each) for value in values for each in value.values()):
        return [",".join(f"{name}={each}" for name, each in value.items()) for value in values]
    return [json.dumps(values)]


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
