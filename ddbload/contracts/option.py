"""Declaration of an option of users, beside the type and default of its field in the payload.

The command line, the environment's defaults, the payload's check and the identity of a load follow
from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, cast

GROUPS = INPUT, TYPES_AND_MAPPING, WRITING, RUN, DEPLOYMENT, OUTPUT, AWS = (
    *("Input", "Types and mapping", "Writing"),
    *("Run", "Deployment", "Output", "AWS"),
)
"""Titles of the groups that `--help` lists options in, in its order."""
_SAME: Any = object()
_KEY = "option"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option, as the command line has it."""

    field: str
    """Name of its field."""
    flag: str
    """Name as it is typed, such as `--delimiter`."""
    group: str
    help: str
    metavar: str | None = None
    typed: Any = None
    """Default on the command line, which may detect what a payload has to say."""
    default_text: str | None = None
    """Description of a default that is not a value."""
    choices: tuple[str, ...] = ()
    """Choices on the command line, where the payload has more."""
    common: bool = False
    """Listed by `--help`; all others by `--help-all` alone."""
    shared: bool = False
    """True if a variable such as DDBLOAD_MAX_WCU sets it for all commands."""
    decisive: bool = False
    """True if it determines which rows and items an object version gives."""
    delimited: bool = False
    """True if it applies to delimited text alone."""


def option(
    default: Any,
    help: str,
    *,
    group: str,
    flag: str = "",
    typed: Any = _SAME,
    **more: Any,
) -> Any:
    """Declare the field of an option. A type as its default makes a new value for each message."""
    is_type = isinstance(default, type)
    if typed is _SAME:
        typed = None if is_type else default
    metadata = {_KEY: {"flag": flag, "group": group, "help": help, "typed": typed, **more}}
    if is_type:
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


reading_option = partial(option, group=INPUT, decisive=True)
mapping_option = partial(option, group=TYPES_AND_MAPPING, decisive=True)
writing_option = partial(option, group=WRITING)
run_option = partial(option, group=RUN)


def declared(kind: type) -> Iterator[Option]:
    """Yield the options that the fields of a message declare."""
    for each in fields(cast("Any", kind)):
        settings = each.metadata.get(_KEY)
        if settings is not None:
            flag = settings["flag"] or "--" + each.name.replace("_", "-")
            yield Option(**{**settings, "field": each.name, "flag": flag})
