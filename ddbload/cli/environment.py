"""Defaults of options in the environment: `DDBLOAD_IMPORT_MAX_WCU`, or `DDBLOAD_MAX_WCU`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

import click  # noqa: TC002 - loaded already

from ddbload.contracts.messages import declared
from ddbload.contracts.options import Options

_PREFIX = "DDBLOAD_"
_AWS = frozenset({"PROFILE", "REGION", "ENDPOINT_URL", "REQUESTER_PAYS"})
SHARED = (
    _AWS
    | {"PROCESSES", "WORKERS", "QUIET", "VERBOSE"}
    | {each.field.upper() for each in declared(Options) if each.shared}
)
"""Options with a variable for all commands: settings and limits, which change no item.

`--ledger` and `--stack` have variables of the same form, which are read where they are used: a run
is looked up in several places unless one of the options is given.
"""
_OTHERS = frozenset({f"{_PREFIX}{name}" for name in ("LEDGER", "STACK", "ALLOW_HTTP", "HMAC_KEY")})
"""Variables that are no option's default by the rule of this module."""
_ALIKE = 0.9
"""Similarity from which on a variable is taken for a misspelt one."""
_OF_A_BEGUN_RUN = frozenset({"resume", "limit"})
"""Commands whose options change a run. They take no default from the variables for all commands,
which would give the run other limits than it began with."""


def variable_names(command: str, option: click.Option) -> list[str]:
    """Return the variables that hold an option's default; the first that is set counts."""
    long = next(each for each in option.opts if each.startswith("--"))
    name = long.lstrip("-").replace("-", "_").upper()
    names = [f"{_PREFIX}{command.upper()}_{name}"]
    if name in (_AWS if command in _OF_A_BEGUN_RUN else SHARED):
        names.append(f"{_PREFIX}{name}")
    return names


def unread_variables(command: str, commands: Mapping[str, Sequence[click.Option]]) -> Iterator[str]:
    """Yield a warning for each variable that was likely meant for a command, and is not read.

    Either it names an option that has a variable for each command alone, or it is misspelt.
    `commands`: options of all commands.
    """
    set_ = [name for name, value in os.environ.items() if value and name.startswith(_PREFIX)]
    if not set_:
        return

    known = {
        name: {text for option in options for text in variable_names(name, option)}
        for name, options in commands.items()
    }
    own, all_known = known[command], set().union(_OTHERS, *known.values())
    for name in sorted(set(set_) - all_known):
        meant = f"{_PREFIX}{command.upper()}_{name.removeprefix(_PREFIX)}"
        if meant in own:
            yield f"{name} is not read: for ddbload {command} set {meant}"
            continue
        for near in get_close_matches(name, own, 1, _ALIKE):
            yield f"{name} is not read; did you mean {near}?"


def find_variable(command: str, option: click.Option) -> str | None:
    """Return the variable that an option takes its default from; None if none is set."""
    return next((name for name in variable_names(command, option) if os.environ.get(name)), None)


def variable_value(command: str, option: click.Option) -> str | list[str] | None:
    """Return an option's default from the environment; for a repeatable option one a line."""
    name = find_variable(command, option)
    if name is None:
        return None
    value = os.environ[name]
    if option.multiple:
        return [line for line in value.split("\n") if line]
    return value
