"""Options that are given more than once: what takes one value must not be given two.

To let the last one win, as is the custom, would lose what the others say without a word, and most
options decide what is read or where it is written.
"""

from __future__ import annotations

import copy
import csv
import io
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import click

from ddbload.contracts.payload import TYPES, check_run_id
from ddbload.errors import InvalidPayload, InvalidUsage


def refuse_two_values(
    command: click.Command, context: click.Context, arguments: Sequence[str]
) -> None:
    """Raise `InvalidUsage` where an option that takes one value is given two different ones.

    What else is wrong with the arguments is left to the command itself.
    """
    # The same command, but one that keeps all that is given.
    keeping = copy.copy(command)
    keeping.params = [_keeping(each) for each in command.params]
    try:
        given, _, _ = keeping.make_parser(context).parse_args(list(arguments))
    except click.UsageError:
        return
    for parameter in command.params:
        values = given.get(parameter.name or "")
        if not isinstance(parameter, click.Option) or parameter.multiple or not values:
            continue
        other = next((each for each in values if each != values[0]), None)
        if other is None:
            continue
        if parameter.is_flag:
            yes, no = parameter.opts[0], parameter.secondary_opts[0]
            raise InvalidUsage(f"{yes} and {no} contradict each other: give one")
        raise InvalidUsage(
            f"{parameter.opts[0]} is given twice, as {values[0]!r} and as {other!r}: give it once"
        )


def _keeping(parameter: click.Parameter) -> click.Parameter:
    if not isinstance(parameter, click.Option):
        return parameter
    made = copy.copy(parameter)
    made.multiple = True
    return made


F = TypeVar("F", bound=Callable[..., Any])
_FIELD = re.compile(r"'(?:options|source)\.(\w+)'")


def aws_options(command: F) -> F:
    """--profile, --region, --endpoint-url."""
    for option in (
        click.option(
            "--endpoint-url",
            metavar="URL",
            help="Endpoint of DynamoDB and S3 alike, for emulators.",
        ),
        click.option("--region", metavar="NAME", help="AWS region."),
        click.option("--profile", metavar="NAME", help="Profile of the shared AWS config."),
    ):
        command = option(command)
    return command


def ledger_option(command: F) -> F:
    """--ledger."""
    return click.option(
        "--ledger",
        metavar="PLACE",
        help="Folder or s3://bucket/prefix that runs are kept in."
        " [default: $DDBLOAD_LEDGER, or ~/.local/state/ddbload]",
    )(command)


def run_argument(command: F) -> F:
    """RUN."""
    return click.argument("run", callback=lambda _context, _parameter, run: _run_id(run))(command)


def _run_id(run: str) -> str:
    try:
        return check_run_id(run)
    except InvalidPayload as error:
        raise InvalidUsage(f"RUN {run!r}: {error.message}") from None


def stack_option(command: F) -> F:
    """--stack."""
    return click.option(
        "--stack",
        metavar="NAME",
        help="The deployed stack. [default: $DDBLOAD_STACK, or ddbload]",
    )(command)


def names_list(text: str) -> list[str]:
    """`a,b`; a name with a comma, a quote or a line end is quoted as in CSV."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise InvalidUsage(f"{text!r} is no list of names: {error}") from None
    if len(rows) > 1:
        raise InvalidUsage(f"{text!r} is no list of names: it has {len(rows)} lines")
    return rows[0] if rows else []


def names_set(texts: Sequence[str]) -> list[str]:
    """`a,b` of an option that may be repeated: each name once."""
    return list(dict.fromkeys(name for text in texts for name in names_list(text)))


def types_map(texts: Sequence[str]) -> dict[str, str]:
    """`year=N,ok=BOOL` of an option that may be repeated."""
    known = {kind.upper(): kind for kind in TYPES}
    return names_map(texts, "--types", "column=TYPE", lambda kind: known.get(kind.upper(), kind))


def names_map(
    texts: Sequence[str], option: str, form: str, read: Callable[[str], str] = str
) -> dict[str, str]:
    """`a=b,c=d` of an option that may be repeated: names, and what each is given.

    `option` and `form` are for messages; `read` makes values of their texts.
    """
    found: dict[str, str] = {}
    for entry in (entry for text in texts for entry in names_list(text)):
        name, equals, value = entry.rpartition("=")
        if not equals or not name or not value:
            raise InvalidUsage(f"{option}: {entry!r} is not of the form {form}")
        _add(found, name, read(value), option)
    return found


def settings_map(texts: Sequence[str]) -> dict[str, str]:
    """`pk=USER#{id}`, one by one: names, and what they are set to."""
    found: dict[str, str] = {}
    for each in texts:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise InvalidUsage(f"--set: {each!r} is not of the form attribute=text")
        _add(found, name, value, "--set")
    return found


def _add(found: dict[str, str], name: str, value: str, option: str) -> None:
    """Add an entry of a map. Raises `InvalidUsage` where it contradicts an earlier one."""
    if found.setdefault(name, value) != value:
        raise InvalidUsage(
            f"{option} names {name!r} twice, with {found[name]!r} and with {value!r}: give one"
        )


def refuse_contradictions(
    rename: Mapping[str, str], drop: Collection[str], settings: Mapping[str, str]
) -> None:
    """Raise `InvalidUsage` for what --rename, --drop and --set do not let one another do."""
    sources: dict[str, str] = {}
    for old, new in rename.items():
        if old in drop:
            raise InvalidUsage(f"--rename and --drop both name column {old!r}: give one")
        if new in sources:
            raise InvalidUsage(
                f"--rename gives both {sources[new]!r} and {old!r} the name {new!r}; one would"
                " overwrite the other"
            )
        if new in settings:
            raise InvalidUsage(
                f"--rename gives {old!r} the name {new!r}, which --set sets, too; one would"
                " overwrite the other: drop the column, or set another attribute"
            )
        sources[new] = old


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def character(text: str) -> str:
    r"""A delimiter or quote: itself, or `\t` or `tab`."""
    return "\t" if text in ("\\t", "tab") else text


def as_usage(error: InvalidPayload) -> InvalidUsage:
    """What the payload's check says, in the words of the command line's options."""
    message = error.message.replace("'source.path'", "'SOURCE'")
    message = message.replace("'target.table'", "'TABLE'").replace("'run.id'", "'--run-id'")
    message = message.replace("'types.", "'--types ")
    return InvalidUsage(_FIELD.sub(lambda field: f"'--{field[1].replace('_', '-')}'", message))
