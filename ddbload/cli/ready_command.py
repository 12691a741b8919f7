"""Write out the commands that follow a plan: the import, and the table that it needs."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ddbload.aws.boto_clients import AwsSettings
from ddbload.cli.options import is_given
from ddbload.errors import InvalidUsage

_KEY_TYPES = ("S", "N", "B")
_TYPES = ("types", "infer_types")
"""Parameters that the found types replace."""
_PLAIN = re.compile(r"[\w.-]+", re.ASCII)
_OF_THE_PLAN = ("as_json", "dry_run", "quiet")
"""Parameters of both commands that are about the plan and its output."""

NewKeys = tuple[tuple[str, str], ...]


def parse_table_keys(text: str) -> NewKeys:
    """Parse the `KEY:TYPE,SORT:TYPE` of --create-table. Raises `InvalidUsage`."""
    keys: list[tuple[str, str]] = []
    for part in text.split(","):
        name, colon, kind = part.rpartition(":")
        if not colon or not name or kind.upper() not in _KEY_TYPES:
            raise InvalidUsage(f"--create-table: {part!r} is not of the form key:S, key:N or key:B")
        keys.append((name, kind.upper()))
    if len(keys) > 2 or len({name for name, _ in keys}) < len(keys):
        raise InvalidUsage("--create-table: one partition key, and at most one other as sort key")
    return tuple(keys)


def create_table_command(table: str, keys: NewKeys, region: str, aws: AwsSettings) -> str:
    """Return the command that creates a table on demand with these keys."""
    definitions = [{"AttributeName": name, "AttributeType": kind} for name, kind in keys]
    schema = [
        {"AttributeName": name, "KeyType": role}
        for (name, _), role in zip(keys, ("HASH", "RANGE"), strict=False)
    ]
    words = ["aws", "dynamodb", "create-table", "--table-name", table]
    words += ["--billing-mode", "PAY_PER_REQUEST"]
    words += ["--attribute-definitions", *_shorthand(definitions)]
    words += ["--key-schema", *_shorthand(schema), "--region", region]
    for option, value in (("--profile", aws.profile), ("--endpoint-url", aws.endpoint_url)):
        words += [] if value is None else [option, value]
    return shlex.join(words)


def _shorthand(values: Sequence[Mapping[str, str]]) -> list[str]:
    """Write values for the AWS CLI, as JSON where a name would need quotes."""
    if all(_PLAIN.fullmatch(each) for value in values for each in value.values()):
        return [",".join(f"{name}={each}" for name, each in value.items()) for value in values]
    return [json.dumps(values)]


def import_command_line(plan: Mapping[str, Any], sources: Sequence[str], table: str) -> str:
    """Return the import of a plan: the plan's options, and the types that all rows read fit.

    Called within the plan's command, whose parameters it repeats.
    """
    context = click.get_current_context()
    group = context.find_root().command
    assert isinstance(group, click.Group), "the command is one of ddbload's"  # noqa: S101
    known = {each.name for each in group.commands["import"].params} - {*_TYPES, *_OF_THE_PLAN}
    words = ["ddbload", "import", *sources, table]
    for each in context.command.params:
        if isinstance(each, click.Option) and each.name in known and is_given(each.name):
            words += _option(each, context.params[each.name])
    for text in context.params["types"]:
        words += ["--types", text]
    found = found_types(plan)
    if found:
        words += ["--types", _joined([f"{name}={kind}" for name, kind in found.items()])]
    return shlex.join(words)


def found_types(plan: Mapping[str, Any]) -> dict[str, str]:
    """Return the types that columns could have, where neither the user nor a key says one."""
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


def _joined(entries: Sequence[str]) -> str:
    """Write entries as one row of CSV, as options with several names are read."""
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(entries)
    return row.getvalue()
