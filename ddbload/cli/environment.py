"""Defaults of options from the environment: `DDBLOAD_IMPORT_MAX_WCU` or `DDBLOAD_MAX_WCU`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

import click

from ddbload.contracts.messages import declared
from ddbload.contracts.options import Options

_PREFIX = "DDBLOAD_"
_AWS = frozenset({"PROFILE", "REGION", "ENDPOINT_URL", "REQUESTER_PAYS"})
SHARED = (
    _AWS
    | {"PROCESSES", "WORKERS", "QUIET", "VERBOSE"}
    | {each.field.upper() for each in declared(Options) if each.shared}
)
"""Options that also have a variable for all commands. None of them changes an item.

`--ledger` and `--stack` have variables of the same form, but other modules read them: a run is
looked up in several places unless one of the two options is given.
"""
_OTHERS = frozenset({f"{_PREFIX}{name}" for name in ("LEDGER", "STACK", "ALLOW_HTTP", "HMAC_KEY")})
"""Variables of ddbload that are not defaults of options by this module's rule."""
_ALIKE = 0.9
"""Similarity (0 to 1) above which a variable counts as misspelt."""
_OF_A_BEGUN_RUN = frozenset({"resume", "limit"})
"""Commands that change an existing run.

They ignore the variables for all commands, which would change limits that the run started with.
"""


def variable_names(command: str, option: click.Option) -> list[str]:
    """Return the variables that hold an option's default, in order of precedence."""
    long = next(each for each in option.opts if each.startswith("--"))
    name = long.lstrip("-").replace("-", "_").upper()
    names = [f"{_PREFIX}{command.upper()}_{name}"]
    if name in (_AWS if command in _OF_A_BEGUN_RUN else SHARED):
        names.append(f"{_PREFIX}{name}")
    return names


def unread_variables(
    command: click.Command, others: Callable[[], Iterable[click.Command]]
) -> Iterator[str]:
    """Yield a warning for each variable that was probably meant for a command but is not read.

    A variable is reported if it is misspelt, or if its option has variables for single commands
    only. `others` returns the other commands; it is called only if the answer depends on them.
    """
    name, own = command.name or "", _all_variables(command)
    left = {each for each, value in os.environ.items() if value and each.startswith(_PREFIX)}
    left -= _OTHERS | own
    if left:
        left = left.difference(*map(_all_variables, others()))
    for each in sorted(left):
        meant = f"{_PREFIX}{name.upper()}_{each.removeprefix(_PREFIX)}"
        if meant in own:
            yield f"{each} is not read: for ddbload {name} set {meant}"
            continue
        for near in get_close_matches(each, own, 1, _ALIKE):
            yield f"{each} is not read; did you mean {near}?"


def _all_variables(command: click.Command) -> set[str]:
    options = (each for each in command.params if isinstance(each, click.Option))
    return {name for each in options for name in variable_names(command.name or "", each)}


def find_variable(command: str, option: click.Option) -> str | None:
    """Return the variable that sets an option's default; None if no variable is set."""
    return next((name for name in variable_names(command, option) if os.environ.get(name)), None)


def variable_value(command: str, option: click.Option) -> str | list[str] | None:
    """Return an option's default from the environment; one value a line if repeatable."""
    name = find_variable(command, option)
    if name is None:
        return None
    value = os.environ[name]
    if option.multiple:
        return [line for line in value.split("\n") if line]
    return value
