"""Options that are given more than once: what takes one value must not be given two.

To let the last one win, as is the custom, would lose what the others say without a word, and most
options decide what is read or where it is written.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import click

from ddbload.errors import InvalidUsage


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
