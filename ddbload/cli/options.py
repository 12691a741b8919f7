"""Options shared by several commands, and `--help` with options by group."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import signature
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from ddbload.aws.clients import AwsSettings
from ddbload.cli.environment import find_variable, unread_variables, variable_value
from ddbload.cli.hints import option_hint
from ddbload.cli.terminal import Output, print_stderr, print_stdout
from ddbload.contracts.control import UNLIMITED
from ddbload.contracts.messages import INPUT, RUN, TYPES_AND_MAPPING, WRITING
from ddbload.contracts.options import MAX_WORKERS, parse_percent, parse_share
from ddbload.contracts.source import AUTO
from ddbload.errors import InvalidUsage
from ddbload.records import Record

DEPLOYMENT, OUTPUT, AWS = ("Deployment", "Output", "AWS")
GROUPS = (INPUT, TYPES_AND_MAPPING, WRITING, RUN, DEPLOYMENT, OUTPUT, AWS)
"""Groups of options, in the order of `--help`."""


class GroupedOption(click.Option):
    """Option that `--help` lists in a group, and that refuses two different values.

    click keeps the last value by default and drops the others silently. Most options here decide
    what is read or written, so a dropped value could load the wrong data.
    """

    def __init__(
        self,
        *arguments: Any,
        group: str = OUTPUT,
        common: bool = True,
        hints: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """Make an option.

        Args:
            group: Heading in `--help`; one of `GROUPS`.
            common: List the option in `--help`, not only in `--help-all`.
            hints: Messages for values of a choice that other tools use, by value.
        """
        super().__init__(*arguments, **settings)
        self.group, self.common, self.hints = group, common, hints or {}

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Show a described default without parentheses, and a range with the metavar N."""
        extra = super().get_help_extra(ctx)
        if isinstance(self.show_default, str):
            extra["default"] = self.show_default
        if "range" in extra:
            extra["range"] = extra["range"].replace("x", "N")
        return extra

    def value_from_envvar(self, ctx: click.Context) -> Any:
        """Return the option's default from the environment; None if it is not set."""
        return variable_value(ctx.info_name or "", self)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Make the parser collect all values of the option."""
        multiple, self.multiple = self.multiple, True
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.multiple = multiple

    def _one_value(self, values: Sequence[Any], ctx: click.Context) -> Any:
        last = values[-1]
        other = next((each for each in values if each != last), last)
        if other == last or ctx.resilient_parsing:
            return last
        if self.is_flag:
            yes, no = self.opts[0], self.secondary_opts[0]
            raise InvalidUsage(f"{yes} and {no} contradict each other: give one")
        raise InvalidUsage(
            f"{self.opts[0]} is given twice, as {other!r} and as {last!r}: give it once"
        )

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Parse the value. An error in one from the environment names the variable."""
        parameter, variable = self.name or "", None
        if parameter in opts and not self.multiple:
            opts = {**opts, parameter: self._one_value(opts[parameter], ctx)}
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.BadParameter as error:
            text, value = error.message.rstrip("."), opts.get(parameter)
            if self in _from_environment(ctx):
                variable = find_variable(ctx.info_name or "", self)
                value = self.value_from_envvar(ctx)
            hint = self.hints.get(str(value).lower())
            if not (hint or variable):
                raise
            text += f"; {hint}" if hint else ""
            text += f" (environment variable {variable})" if variable else ""
            raise click.BadParameter(f"{text}.", ctx, self) from None


class GroupedCommand(click.Command):
    """Command whose `--help` shows examples first, and its options by group.

    Options take defaults from the environment. Options of other tools are answered with a hint.
    `examples`: command lines, each as a user would type it.
    """

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments. Raises `InvalidUsage` with an example if one is missing."""
        try:
            # click takes arguments out of the list.
            return super().parse_args(ctx, list(args))
        except click.MissingParameter as error:
            raise click.UsageError(self._missing(ctx, error, args), ctx) from None
        except click.NoSuchOption as error:
            hint = self._hint(ctx, error.option_name)
            if hint is None:
                raise
            raise InvalidUsage(hint) from None

    def _missing(
        self, ctx: click.Context, error: click.MissingParameter, args: Sequence[str]
    ) -> str:
        message = error.format_message()
        last = next(each for each in reversed(self.params) if isinstance(each, click.Argument))
        given, _, _ = self.make_parser(ctx).parse_args(list(args))
        if error.param is not last and isinstance(given.get(last.name or ""), str):
            # click assigned the only argument to TABLE.
            message = f"Missing argument '{(last.name or '').upper()}'."
        return message + (f"\nExample: {self.examples[0]}" if self.examples else "")

    def _warn_of_variables(self, ctx: click.Context) -> None:
        if ctx.params.get("quiet"):
            return
        for warning in unread_variables(self, lambda: self._all(ctx).values()):
            print_stderr(f"ddbload: warning: {warning}")

    def _all(self, ctx: click.Context) -> dict[str, click.Command]:
        root = ctx.find_root().command
        return {**(root.commands if isinstance(root, click.Group) else {}), self.name or "": self}

    def _hint(self, ctx: click.Context, option: str) -> str | None:
        own = {
            name: {text for each in command.params for text in (*each.opts, *each.secondary_opts)}
            for name, command in self._all(ctx).items()
        }
        arguments = [each.name or "" for each in self.params if isinstance(each, click.Argument)]
        return option_hint(option, own, self.name or "", arguments)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An error about an option adds that the environment set it."""
        self._warn_of_variables(ctx)
        try:
            return super().invoke(ctx)
        except InvalidUsage as error:
            causes = [
                f"{option} is from {find_variable(ctx.info_name or '', each)}"
                for each in _from_environment(ctx)
                for option in each.opts
                if re.search(rf"{re.escape(option)}(?![\w-])", error.message)
            ]
            if not causes:
                raise
            raise InvalidUsage(f"{error.message} ({', '.join(causes)})") from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; with --help-all if --help leaves options out."""
        params = super().get_params(ctx)
        if any(_is_rare(each) for each in params):
            params.append(_HELP_ALL)
        return params

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage, the examples, the description, and the options by group."""
        self.format_usage(ctx, formatter)
        with formatter.section("Examples"):
            # Not wrapped, so that users can copy a whole command line.
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
        self.format_help_text(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group that has options."""
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for parameter in self.get_params(ctx):
            is_left_out = _is_rare(parameter) and not ctx.meta.get(_ALL)
            if isinstance(parameter, click.Option) and not is_left_out:
                row = parameter.get_help_record(ctx)
                if row is not None:
                    groups[getattr(parameter, "group", OUTPUT)].append(row)
        for title, rows in groups.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


_ALL = "ddbload.help_all"


def _is_rare(parameter: click.Parameter) -> bool:
    return not getattr(parameter, "common", True)


def _show_all(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001 - click's signature
    if value and not context.resilient_parsing:
        context.meta[_ALL] = True
        print_stdout(*context.get_help().split("\n"))
        context.exit()


_HELP_ALL = GroupedOption(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show all options, and exit.",
)


def _from_environment(ctx: click.Context) -> list[click.Option]:
    """Return the options whose values are from the environment."""
    return [
        each
        for each in ctx.command.params
        if isinstance(each, click.Option)
        and ctx.get_parameter_source(each.name or "") is ParameterSource.ENVIRONMENT
    ]


class FiniteRange(click.FloatRange):
    """Range of numbers that refuses infinity and NaN. click's range accepts NaN."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert the text; fail for infinity and NaN."""
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return found


def _number_or(
    number: Callable[[Any], Any],
    *words: str,
    share: Callable[[str], float | None] | None = None,
    shares: str = "",
) -> Callable[[Any], Any]:
    """Make the type of a number or one of some words. A share such as `50%` stays text."""

    def convert(value: Any) -> Any:
        if value in words:
            return value
        if share is not None and isinstance(value, str) and value.endswith("%"):
            if share(value) is None:
                raise click.BadParameter(f"{value!r} is not a share {shares}")
            return value
        return number(value)

    return convert


WORKERS = _number_or(click.IntRange(1, MAX_WORKERS), AUTO)
DOLLARS = FiniteRange(0, min_open=True)
MAX_WCU = _number_or(FiniteRange(1), share=parse_percent, shares="from above 0% to 100%")
MAX_REJECTS = _number_or(click.IntRange(0), share=parse_share, shares="from 0% to 100%")


class Gathered(Record):
    """Several parameters of the command line that a command receives as one value.

    `kind` is called with the values of `parts`, by name, and returns that value.
    """

    kind: Callable[..., Any]
    parts: Mapping[str, Any]

    def value(self, given: Mapping[str, Any]) -> Any:
        """Return the value made from the parameters `given` on the command line."""
        values = {
            name: each.value(given) if isinstance(each, Gathered) else given[name]
            for name, each in self.parts.items()
        }
        return self.kind(**values)

    def parameters(self) -> Iterator[click.Parameter]:
        """Make the click parameters of all parts."""
        for name, each in self.parts.items():
            yield from each.parameters() if isinstance(each, Gathered) else (each(name),)


def command(*examples: str) -> Callable[[Callable[..., Any]], GroupedCommand]:
    """Make a click command from a function `NAME_command`, whose docstring is its help text.

    The defaults of the function's parameters declare its arguments and options. Each default makes
    one click parameter from the parameter's name, or several if it is `Gathered`.
    """

    def make(function: Callable[..., Any]) -> GroupedCommand:
        parts = {name: each.default for name, each in signature(function).parameters.items()}
        declared = Gathered(function, parts)
        return GroupedCommand(
            function.__name__.removesuffix("_command"),
            callback=lambda **given: declared.value(given),
            params=[*declared.parameters()],
            help=function.__doc__,
            examples=examples,
        )

    return make


def _declare(group: str, *flags: str, **settings: Any) -> Any:
    """Declare an option of a command; `--name` for the parameter `name` unless named otherwise."""

    def make(name: str) -> click.Option:
        named = flags or (f"--{name.replace('_', '-')}",)
        return GroupedOption([*named, name], group=group, **settings)

    return make


def argument(**settings: Any) -> Any:
    """Declare an argument of a command."""
    return lambda name: click.Argument([name], **settings)


input_option = partial(_declare, INPUT)
types_option = partial(_declare, TYPES_AND_MAPPING)
writing_option = partial(_declare, WRITING)
run_option = partial(_declare, RUN)
deployment_option = partial(_declare, DEPLOYMENT)
output_option = partial(_declare, OUTPUT)
_aws_option = partial(_declare, AWS)

first_option = input_option(
    metavar="N",
    type=click.IntRange(1),
    help="Read only the first N rows, of those that --where takes, as if the source ended there.",
    show_default="all rows",
)
dry_run_option = run_option(
    is_flag=True,
    help="Write nothing: check the source and estimate the import, as ddbload plan does.",
)


new_max_wcu = writing_option(
    "--max-wcu",
    metavar="N|N%|none",
    type=_number_or(MAX_WCU, UNLIMITED),
    help="Use at most N write capacity units a second, or N percent of the table's capacity.",
    show_default="the run's",
)
"""Option that replaces a run's --max-wcu."""
new_max_cost = writing_option(
    "--max-cost",
    metavar="DOLLARS|none",
    type=_number_or(DOLLARS, UNLIMITED),
    help="Stop before the write units of the whole run cost more.",
    show_default="the run's",
)
"""Option that replaces a run's --max-cost."""


QUIET = "Do not print the run id, progress and summary."


def output_options(
    json: str = "Print the result as one JSON object on stdout.",
    *,
    show_all: str | None = None,
    quiet: str | None = None,
    verbose: bool = False,
) -> Any:
    """Declare the output options of a command: those for which a help text is given."""
    steps = "Print each step on stderr, but never row data." if verbose else None
    helps = {"as_json": json, "show_all": show_all, "quiet": quiet, "verbose": steps}
    parts = {
        name: output_option(f"--{name.rpartition('_')[2]}", is_flag=True, help=text)
        for name, text in helps.items()
        if text is not None
    }
    return Gathered(Output, parts)


rejects_option = output_option(metavar="PATH", help="File for rejected rows, as JSON lines.")
ledger_option = run_option(
    metavar="PLACE",
    help="Folder or s3://bucket/prefix where runs are recorded.",
    show_default="$DDBLOAD_LEDGER, or ~/.local/state/ddbload",
)
stack_option = run_option(
    metavar="NAME", help="Name of the deployed stack.", show_default="$DDBLOAD_STACK, or ddbload"
)
processes_option, import_processes_option = (
    run_option(
        metavar="N", type=click.IntRange(1, 256), help="Worker processes.", show_default=default
    )
    for default in ("one per core", "one")
)
yes_option = run_option(
    is_flag=True, common=False, help="Agree to the price of --prewarm, and to --create-table."
)
once_option = run_option(
    is_flag=True,
    help="Skip objects that were loaded into this table before, read and written the same way.",
)
detach_option = run_option(
    is_flag=True, help="Return once the run has started, without waiting for its end."
)
aws_options: Any = Gathered(
    AwsSettings,
    {
        "profile": _aws_option(metavar="NAME", help="Profile of the shared AWS config."),
        "region": _aws_option(metavar="NAME", help="AWS region, such as eu-west-1."),
        "endpoint_url": _aws_option(metavar="URL", help="Endpoint of DynamoDB and S3."),
        "requester_pays": _aws_option(
            is_flag=True, common=False, help="Pay for requests to buckets whose requester pays."
        ),
    },
)


sources_argument = argument(
    nargs=-1,
    required=True,
    metavar="SOURCE...",
    # The shell completes file names.
    shell_complete=lambda _context, _parameter, text: [CompletionItem(text, type="file")],
)


def parse_sample(text: str, counted: str, example: str) -> float:
    """Parse a number such as `1000`, or a share such as `5%`, which gives 0.05.

    `counted` (noun of the things counted) and `example` (of a share) are used in the error. Raises
    `InvalidUsage`.
    """
    sample: float = 0
    with suppress(ValueError):
        sample = float(text[:-1]) / 100 if text.endswith("%") else int(text)
    if not sample > 0 or (text.endswith("%") and sample > 1):
        raise InvalidUsage(
            f"--sample {text!r}: write a number of {counted}, or a share such as {example}"
        )
    return sample


def cores() -> int:
    """Count the CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_given(parameter: str) -> bool:
    """Return whether the user gave a parameter of the current command; false for a default."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
