"""`ddbload run`: the loads of a job file, each as the command that would do it.

A job file is TOML. Each `[load.NAME]` has `source`, `table`, and options of the commands by their
names; `[defaults]` has options of all loads.
"""

from __future__ import annotations

import io
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from ddbload.cli import options, terminal
from ddbload.cli.payload import build_payload, import_options
from ddbload.cli.run_setup import parse_table_keys
from ddbload.cli.tables import draw, make_table, status_style
from ddbload.cli.terminal import Output, print_json, print_stderr
from ddbload.contracts.column_mapping import join_names
from ddbload.contracts.run_record import amount_text
from ddbload.contracts.source import AUTO
from ddbload.errors import InvalidUsage, did_you_mean
from ddbload.records import Record

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_COMMANDS = ("import", "start", "plan", "verify")
"""Commands whose options a load may have."""
_OF_THE_JOB = ("as_json", "quiet", "verbose", "show_all", "dry_run")
"""Options that `ddbload run` has itself."""
_JOINED = ("types", "rename", "drop", "add", "columns", "ignore")
"""Options that take several entries in one text, as one row of CSV."""
_PATHS = ("source", "ledger", "rejects", "out")
_WORST = (0, terminal.EXIT_REJECTS, terminal.EXIT_FAILED, 2, terminal.EXIT_INTERRUPTED)
"""Exit statuses, the worst last."""


class Load(Record):
    """A load of a job file."""

    name: str
    sources: tuple[str, ...]
    table: str
    given: Mapping[str, Any]
    """Values of its options, by name."""

    def words(self, command: click.Command) -> list[str]:
        """Return the words of a command on this load, with those options that the command has.

        Raises `InvalidUsage` for a value that an option cannot have.
        """
        found = [command.name or ""]
        for each in command.params:
            if isinstance(each, click.Option) and each.name in self.given:
                found += self._option(each, self.given[each.name])
        # After `--` nothing is an option, whatever its first character is.
        return [*found, "--", *self.sources, self.table]

    def _option(self, option: click.Option, value: Any) -> Iterator[str]:
        name, where = option.opts[0], f"load.{self.name}.{option.name}"
        if isinstance(value, bool) != option.is_flag:
            raise InvalidUsage(f"{where} must{'' if option.is_flag else ' not'} be true or false")
        if isinstance(value, bool):
            yield from (option.opts if value else option.secondary_opts)[:1]
            return
        if isinstance(value, Mapping):
            odd = {"set": value, "rename": value.values()}.get(option.name or "", ())
            if any("=" in str(each) for each in odd):
                raise InvalidUsage(f"{where}: a name with '=' can be given in Python alone")
            value = [f"{key}={_text(each, f'{where}.{key}')}" for key, each in value.items()]
        texts = [_text(each, where) for each in (value if isinstance(value, list) else [value])]
        if option.name in _JOINED and isinstance(value, list):
            texts = [join_names(texts)] if texts else []
        if len(texts) > 1 and not option.multiple:
            raise InvalidUsage(f"{where} must be one value, not a list")
        for text in texts:
            yield f"{name}={text}"


def _text(value: Any, where: str) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise InvalidUsage(f"{where} must be text or a number, not {type(value).__name__}")


@options.command(
    "ddbload run books.toml",
    "ddbload run books.toml authors --plan",
    "ddbload run nightly.toml --keep-going --verify --json",
)
def run_command(
    file: str = options.argument(type=click.Path()),
    names: tuple[str, ...] = options.argument(nargs=-1, metavar="[NAME...]"),
    plan: bool = options.run_option(
        is_flag=True, help="Write nothing: plan each load, as ddbload plan does."
    ),
    verify: bool = options.run_option(
        is_flag=True, help="Compare each table with its source after its load."
    ),
    on_stack: bool = options.run_option(
        is_flag=True, help="Load on the deployed stack, as ddbload start does."
    ),
    keep_going: bool = options.run_option(
        is_flag=True, help="Go on with the next load after one that failed."
    ),
    output: Output = options.output_options(
        "Print the result of each load as one JSON object a line.",
        quiet="Do not print progress and summary.",
    ),
) -> int:
    """Run the loads of a job file in order, or those named.

    FILE is TOML: a table [load.NAME] for each load, with source, table, and every option of
    ddbload import under its own name, such as types = {year = "N"}; [defaults] has options of all
    loads. ${VARIABLE} in a text is that environment variable. Paths are relative to the file.

    The loads stop at the first that failed. The exit status is the worst of all loads.
    """
    loads = read_job(Path(file), names)
    if plan and (verify or on_stack):
        raise InvalidUsage("--plan writes nothing: leave out --verify and --on-stack")
    commands = _commands()
    command = commands["plan" if plan else "start" if on_stack else "import"]
    jobs = [
        (each, [each.words(command), *([each.words(commands["verify"])] if verify else [])])
        for each in loads
    ]
    for load, lines in jobs:
        _check(load, lines[0], command, is_alone=len(jobs) == 1 and not verify)
    results: list[dict[str, Any]] = []
    worst = terminal.EXIT_DONE
    for load, lines in jobs:
        result: dict[str, Any] = {}
        for words in lines:
            output.say(f"load {load.name}: ddbload {words[0]}, table {load.table}")
            status, value = _run(words, output)
            is_comparison = words[0] == "verify"
            result |= {"verify": value} if is_comparison else value
            if is_comparison and status == terminal.EXIT_REJECTS:
                # The table has other items than the source.
                status = terminal.EXIT_FAILED
            worst = max(worst, status, key=_WORST.index)
            if status not in (terminal.EXIT_DONE, terminal.EXIT_REJECTS):
                break
        else:
            status = terminal.EXIT_DONE
        result = {**result, "load": load.name, "table": load.table}
        results.append(result)
        if output.as_json:
            print_json(result)
        if status != terminal.EXIT_DONE and (worst == terminal.EXIT_INTERRUPTED or not keep_going):
            break
    left = [load.name for load, _ in jobs[len(results) :]]
    if left:
        print_stderr(f"ddbload: not begun: {', '.join(left)}")
    if not output.as_json and not output.quiet:
        _draw(results)
    return worst


def _commands() -> Mapping[str, click.Command]:
    root = click.get_current_context().find_root().command
    assert isinstance(root, click.Group), "the command is one of ddbload's"  # noqa: S101
    return {name: root.commands[name] for name in _COMMANDS}


def _check(load: Load, words: list[str], command: click.Command, *, is_alone: bool) -> None:
    """Raise `InvalidUsage` for what is wrong without looking at the source or the table."""
    try:
        with command.make_context(words[0], words[1:]) as context:
            given = import_options.value(context.params)
            build_payload(load.sources, load.table, None, AUTO, given)
        if "create_table" in load.given:
            parse_table_keys(load.given["create_table"])
        if not is_alone and ("-" in load.sources or "rejects" in load.given):
            raise InvalidUsage("standard input and a file of rejects are for one load by itself")
    except (click.ClickException, InvalidUsage) as error:
        raise InvalidUsage(f"load.{load.name}: {error.message}") from None


def _run(words: Sequence[str], output: Output) -> tuple[int, dict[str, Any]]:
    """Run a command of ddbload; return its exit status and the object that it prints."""
    # Imported here, because it imports this module's command.
    from ddbload.cli.commands import run

    with redirect_stdout(io.StringIO()) as printed:
        status = run([words[0], "--json", *["--quiet"] * output.quiet, *words[1:]], lambda: False)
    last = printed.getvalue().strip().rpartition("\n")[2]
    # A command that was refused has printed its error alone.
    value: dict[str, Any] = json.loads(last) if last else {"status": "FAILED"}
    return status if status in _WORST else terminal.EXIT_FAILED, value


def read_job(path: Path, names: Sequence[str] = ()) -> list[Load]:
    """Read the loads of a job file, all or those named, in the order of the file.

    Raises `InvalidUsage` with the place of what is wrong.
    """
    try:
        job = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidUsage(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise InvalidUsage(f"{path} is not a job file: {reason}") from None
    try:
        loads = _loads(job, path.parent)
        for name in names:
            if name not in loads:
                near = did_you_mean(name, loads)
                raise InvalidUsage(f"there is no load {name}{near}; it has {', '.join(loads)}")
    except InvalidUsage as error:
        raise InvalidUsage(f"{path}: {error.message}") from None
    return [loads[name] for name in loads if name in names or not names]


def _loads(job: Mapping[str, Any], folder: Path) -> dict[str, Load]:
    known = [
        each.name or ""
        for command in _commands().values()
        for each in command.params
        if isinstance(each, click.Option) and each.name not in _OF_THE_JOB
    ]
    for name in job:
        if name not in ("defaults", "load"):
            near = did_you_mean(name, ("defaults", "load"))
            raise InvalidUsage(f"unknown table [{name}]{near}: loads are [load.NAME]")
    loads = _table(job, "load", "load")
    if not loads:
        raise InvalidUsage("there is no load: write [load.NAME] with source and table")
    defaults = _table(job, "defaults", "defaults")
    found = {}
    for name in loads:
        where = f"load.{name}"
        given = {
            **_checked(defaults, "defaults", known, folder),
            **_checked(_table(loads, name, where), where, ["source", "table", *known], folder),
        }
        sources, table = given.pop("source", None), given.pop("table", None)
        sources = sources if isinstance(sources, list) else [sources]
        if not sources or not all(isinstance(each, str) and each for each in sources):
            raise InvalidUsage(f"{where}.source must be a path or URI, or a list of them")
        if not isinstance(table, str) or not table:
            raise InvalidUsage(f"{where}.table must be the name of a table")
        found[name] = Load(name, tuple(sources), table, given)
    return found


def _table(job: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    value = job.get(name, {})
    if not isinstance(value, dict):
        raise InvalidUsage(f"{where} must be a table, such as [load.NAME]")
    return value


def _checked(
    given: Mapping[str, Any], where: str, known: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Return options with variables and paths resolved; refuse unknown ones."""
    for name in given:
        if name not in known:
            near = did_you_mean(name, known)
            raise InvalidUsage(f"{where}: there is no option {name}{near}")
    return {
        name: _resolved(value, f"{where}.{name}", folder if name in _PATHS else None)
        for name, value in given.items()
    }


def _resolved(value: Any, where: str, folder: Path | None) -> Any:
    """Replace ${VARIABLE} in texts; texts that are paths are in `folder`."""
    if isinstance(value, dict):
        return {name: _resolved(each, f"{where}.{name}", folder) for name, each in value.items()}
    if isinstance(value, list):
        return [_resolved(each, where, folder) for each in value]
    if not isinstance(value, str):
        return value

    def variable(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise InvalidUsage(f"{where}: the environment variable {found[1]} is not set")
        return os.environ[found[1]]

    text = _VARIABLE.sub(variable, value)
    is_path = folder is not None and text not in ("", "-") and "://" not in text
    return str(folder / text) if is_path and folder is not None else text


def _draw(results: Sequence[Mapping[str, Any]]) -> None:
    def row(value: Mapping[str, Any]) -> Sequence[str | Text]:
        rows, dollars = value.get("rows") or {}, value.get("dollars")
        status, compared = str(value["status"]), value.get("verify")
        figures = [rows.get(name) for name in ("read", "written", "rejected")]
        return [
            *(str(value["load"]), str(value["table"])),
            *("" if each is None else f"{each:,}" for each in figures),
            f"{value['seconds']:,.1f}" if "seconds" in value else "",
            amount_text(dollars) if isinstance(dollars, int | float) else "",
            Text(status, status_style(status)),
            "" if compared is None else str(compared["status"]),
        ]

    head = ("load", "table", "rows", "written", "rejected", "seconds", "price", "status", "verify")
    right = ("rows", "written", "rejected", "seconds", "price")
    draw(make_table(head, map(row, results), right=right), whole_lines=True)
