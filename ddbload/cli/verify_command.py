"""`ddbload verify`: compare a source's items with a table's."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

import click

from ddbload.aws.clients import AwsSettings
from ddbload.cli.convert_command import RankedCauses, cause_lines, causes_json, rank_causes
from ddbload.cli.options import (
    MAX_WCU,
    GroupedCommand,
    aws_options,
    cores,
    json_option,
    output_option,
    parse_sample,
    processes_option,
    run_option,
    sources_argument,
)
from ddbload.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_REJECTS,
    ask_to_agree,
    error_json,
    keep_result,
    live_reading,
    print_error,
    print_json,
    print_notice,
    print_stderr,
    print_stdout,
    printable,
)
from ddbload.cli.payload import build_payload, check_order, source_options
from ddbload.cli.run_result import print_detected, source_format
from ddbload.cli.run_setup import spooled
from ddbload.context import reading_context
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure
from ddbload.contracts.write_price import amount_text
from ddbload.errors import DdbloadError, InvalidUsage, OutputUnwritable
from ddbload.ledger.ledger import temporary_ledger
from ddbload.verify.verify import ReadEstimate, Verdict, Verification, VerifySettings

FREE_DOLLARS = 0.10
"""Price up to which nobody is asked."""
MOST_OVER_ESTIMATE = 2.0
"""Read units, as a multiple of those that were said, after which a comparison stops."""
_SHOWN_ATTRIBUTES = 10
_EQUAL, _DIFFERENT, _FAILED = "EQUAL", "DIFFERENT", "FAILED"


@click.command(
    "verify",
    cls=GroupedCommand,
    examples=(
        "ddbload verify books.csv books --types year=N",
        "ddbload verify s3://my-bucket/books/ books --sample 1000",
        "ddbload verify books.csv books --types year=N --out differences",
    ),
)
@sources_argument
@click.argument("table")
@source_options
@run_option(
    "--sample",
    metavar="N|P%",
    help="Look up only N keys of the source, or P percent, chosen at random. Finds no extra items.",
    show_default="compare everything, by a scan of the table",
)
@run_option(
    "--ignore",
    metavar="A,B,...",
    multiple=True,
    help="Leave these attributes out of the comparison. May be repeated.",
)
@run_option(
    "--ignore-extra-attributes",
    is_flag=True,
    help="Compare only the attributes that a row has, as after --mode update.",
)
@run_option(
    "--consistent-read/--no-consistent-read",
    "consistent",
    default=True,
    show_default=True,
    help="Read what was written up to now, or for half the price maybe not the last second's.",
)
@run_option(
    "--max-rcu",
    metavar="N|N%",
    type=MAX_WCU,
    help="Use at most N read capacity units a second, or N percent of the table's capacity.",
    show_default="50% of a provisioned table; as many as an on-demand table gives",
)
@run_option("--yes", is_flag=True, help="Agree to the price, which is otherwise asked about.")
@processes_option
@output_option(
    "--out",
    metavar="FOLDER",
    help="Write missing.jsonl, different.jsonl and extra.jsonl there, and print the commands that"
    " would mend the table.",
)
@aws_options
@json_option
@output_option("--quiet", is_flag=True, help="Do not print price, progress and summary.")
def verify_command(
    sources: tuple[str, ...],
    table: str,
    sample: str | None,
    ignore: tuple[str, ...],
    ignore_extra_attributes: bool,
    consistent: bool,
    max_rcu: float | str | None,
    yes: bool,
    processes: int | None,
    out: str | None,
    aws: AwsSettings,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Compare the items of SOURCE with those of TABLE, without writing to it.

    Give the options of the import. Rows become items as by ddbload import; then the table is
    scanned, or a --sample of keys is looked up. Items are equal if all their attributes are:
    numbers by value, sets in any order. The price is printed first, and asked about above $0.10.

    Exit status: 0 if the table has the same items, 3 if not, 1 if they could not be compared.
    """
    settings = VerifySettings(
        None if sample is None else parse_sample(sample, "keys", "1%"),
        frozenset(name for text in ignore for name in text.split(",") if name),
        ignore_extra_attributes,
        consistent,
        max_rcu,
    )
    check_order(sources, table)
    payload = build_payload(sources, table, None, 1, given)
    named = Payload.from_json(payload).source.uri
    with ExitStack() as stack:
        stack.enter_context(spooled(payload))
        folder = None if out is None else stack.enter_context(DifferenceFolder(out))
        outcome = _verify(payload, settings, aws, folder, processes or cores(), yes, quiet)
        if folder is not None and outcome.error is None:
            folder.finish(keep_extra=settings.sample is None)
            outcome.commands = folder.commands(table, aws)
    print_error(outcome.error)
    with keep_result(f"the comparison ended as {outcome.status}"):
        if as_json:
            print_json(outcome.to_json())
        elif outcome.error is None and not quiet:
            print_stdout(*outcome.lines(named, table))
        if not as_json and outcome.commands:
            print_stdout("Commands that would mend the table:", *outcome.commands)
    return outcome.exit_code


@dataclass(slots=True)
class VerifyOutcome:
    """Result of a comparison."""

    verdict: Verdict
    settings: VerifySettings
    read_as: str | None = None
    estimate: ReadEstimate | None = None
    seconds: float = 0.0
    error: Failure | None = None
    commands: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        """EQUAL, DIFFERENT or FAILED."""
        if self.error is not None:
            return _FAILED
        return _EQUAL if self.verdict.keys.are_equal else _DIFFERENT

    @property
    def exit_code(self) -> int:
        """Exit status."""
        return {_EQUAL: EXIT_DONE, _DIFFERENT: EXIT_REJECTS, _FAILED: EXIT_FAILED}[self.status]

    @property
    def causes(self) -> RankedCauses:
        """Causes of rejected rows."""
        return rank_causes(self.verdict.file.causes)

    @property
    def dollars(self) -> float:
        """Price of the read units by the list price; 0 if units are not billed."""
        return 0.0 if self.estimate is None else self.estimate.price(self.verdict.usage.units)

    @property
    def attributes_text(self) -> str:
        """The attributes that differ most often."""
        verdict = self.verdict
        found = verdict.attributes.most_common(_SHOWN_ATTRIBUTES)
        more = len(verdict.attributes) - len(found)
        words = [f"{printable(name)} {items:,}" for name, items in found]
        words += [f"{more:,} other attributes"] if more else []
        return f"{', '.join(words)} (of {verdict.looked_at:,} looked at)"

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        verdict, keys, usage = self.verdict, self.verdict.keys, self.verdict.usage
        sampled = self.settings.sample is not None
        return {
            "status": self.status,
            "read_as": self.read_as,
            "rows": {
                "read": verdict.file.read,
                "items": verdict.items,
                "rejected": verdict.file.causes.total(),
                "filtered": verdict.file.filtered,
            },
            "causes": causes_json(self.causes),
            "keys": keys.keys,
            "repeated": keys.repeated,
            "sampled": sampled,
            "compared": keys.compared,
            "table_items": verdict.table_items,
            "equal": keys.equal,
            "missing": keys.missing,
            "different": keys.different,
            "attributes": dict(verdict.attributes.most_common()),
            "looked_at": verdict.looked_at,
            "extra": None if sampled else keys.extra,
            "read_units": round(usage.units, 1),
            "dollars": round(self.dollars, 6),
            "requests": usage.requests,
            "throttled": usage.throttled,
            "seconds": round(self.seconds, 3),
            "commands": self.commands,
            "error": error_json(self.error),
        }

    def lines(self, source: str, table: str) -> list[str]:
        """Return the lines of the summary."""
        verdict, keys, usage = self.verdict, self.verdict.keys, self.verdict.usage
        rejected = verdict.file.causes.total()
        words = "equals" if keys.are_equal else "differs from"
        sampled = self.settings.sample is not None
        part = f" in a sample of {keys.compared:,} keys" if sampled else ""
        rows = f"{verdict.file.read:,} read: {verdict.items:,} items"
        lines = [f"{source}: {words} table {table}{part}", f"  read as   {self.read_as}"]
        rows += f", {rejected:,} rejected, not compared" if rejected else ""
        filtered = verdict.file.filtered
        rows += f", {filtered:,} left out by --where" if filtered else ""
        lines.append(f"  rows      {rows}")
        lines += cause_lines(self.causes)
        repeated = f", {keys.repeated:,} of them in several rows" if keys.repeated else ""
        lines.append(f"  keys      {keys.keys:,}{repeated}")
        lines.append(f"  equal     {keys.equal:,}")
        lines.append(f"  missing   {keys.missing:,}, in the source and not in the table")
        lines.append(f"  different {keys.different:,}, in both with other attributes")
        if verdict.attributes:
            lines.append(f"            {self.attributes_text}")
        if sampled:
            lines.append("  extra     not looked for: a sample cannot find them")
        else:
            uncompared = {"rejected rows": rejected, "rows left out": verdict.file.filtered}
            of = " or ".join(rows for rows, count in uncompared.items() if count)
            among = f" (maybe of {of})" if of and keys.extra else ""
            lines.append(f"  extra     {keys.extra:,}, in the table and not in the source{among}")
        billed = f", {amount_text(self.dollars)}" if self.dollars else ""
        throttled = f", {usage.throttled:,} throttled" if usage.throttled else ""
        lines.append(f"  reads     {usage.units:,.1f} read units{billed}{throttled}")
        rate = verdict.file.read / self.seconds if self.seconds > 0 else 0.0
        lines.append(f"  time      {self.seconds:,.1f} s, {rate:,.0f} rows/s")
        return lines


def _verify(
    payload: dict[str, Any],
    settings: VerifySettings,
    aws: AwsSettings,
    folder: DifferenceFolder | None,
    processes: int,
    yes: bool,
    quiet: bool,
) -> VerifyOutcome:

    started, context = time.monotonic(), reading_context(aws)
    outcome = VerifyOutcome(Verdict(), settings)
    try:
        with temporary_ledger() as ledger:
            verification = Verification(Payload.from_json(payload), settings, ledger, context)
            outcome.read_as = source_format(verification.record)
            outcome.estimate = estimate = verification.estimate
            if not quiet:
                print_detected(verification.record, payload)
            agree(verification, settings, yes=yes, quiet=quiet)
            most = max(estimate.units * MOST_OVER_ESTIMATE, estimate.units_for(FREE_DOLLARS))
            started = time.monotonic()
            with live_reading(enabled=not quiet) as draw:
                verification.run(
                    outcome.verdict,
                    None if folder is None else folder.write,
                    most_units=None if yes or not estimate.is_billed else most,
                    watch=lambda done, size: draw(done.bytes, size, done.rows.read),
                    processes=processes,
                    make_context=partial(reading_context, aws),
                )
            if outcome.verdict.table_items == 0 and settings.sample is None and not quiet:
                print_notice(f"table {verification.table.name} is empty")
    except InvalidUsage:
        raise
    except DdbloadError as error:
        outcome.error = Failure.of(error)
    outcome.seconds = time.monotonic() - started
    return outcome


def agree(verification: Verification, settings: VerifySettings, *, yes: bool, quiet: bool) -> None:
    """Print the price, and ask whether it is agreed to if it is not small.

    Raises `InvalidUsage` if it is declined, and without a terminal to ask on.
    """
    estimate = verification.estimate
    text = estimate.text(verification.table.name, consistent=settings.consistent)
    if estimate.dollars <= FREE_DOLLARS or yes:
        if not quiet:
            print_stderr(f"ddbload: {text}")
        return
    ask_to_agree(
        f"{text}. Go on?",
        unasked=f"{text}: without a terminal to ask on, give --yes to agree, or --sample 1000 to"
        " look up only some keys",
        declined="the price was declined: the table was not read",
    )


class DifferenceFolder:
    """Folder of `--out`: a file of DynamoDB JSON lines for each kind of difference."""

    def __init__(self, path: str) -> None:
        self._folder = Path(path)
        self._counts = {"missing": 0, "different": 0, "extra": 0}
        self._files: dict[str, IO[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for kind in self._counts:
                self._files[kind] = self._new(kind).open("wb")
        except OSError as error:
            self.__exit__()
            raise self._error(error) from None
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the files unless they were finished."""
        for kind, file in self._files.items():
            file.close()
            self._new(kind).unlink(missing_ok=True)

    def write(self, kind: str, item: Mapping[str, Any]) -> None:
        """Write an item. Raises `OutputUnwritable`."""
        line = json.dumps({"Item": item}, separators=(",", ":"))
        try:
            self._files[kind].write(line.encode() + b"\n")
        except OSError as error:
            raise self._error(error) from None
        self._counts[kind] += 1

    def finish(self, *, keep_extra: bool) -> None:
        """Put the files in the place of those of an earlier comparison. Raises `OutputUnwritable`.

        A sample finds no extra items, and so leaves no file that says there are none.
        """
        try:
            for kind, file in self._files.items():
                file.close()
                if kind == "extra" and not keep_extra:
                    self._path(kind).unlink(missing_ok=True)
                else:
                    self._new(kind).replace(self._path(kind))
        except OSError as error:
            raise self._error(error) from None

    def commands(self, table: str, aws: AwsSettings) -> list[str]:
        """Return the commands that would make the table's items those of the source."""
        flags = {
            "--profile": aws.profile,
            "--region": aws.region,
            "--endpoint-url": aws.endpoint_url,
        }
        given = [word for flag, value in flags.items() if value for word in (flag, value)]
        modes = {"missing": "insert", "different": "put", "extra": "delete"}
        return [
            shlex.join(
                [
                    *("ddbload", "import", str(self._path(kind)), table),
                    *("--format", "dynamodb-json", "--mode", modes[kind], *given),
                ]
            )
            for kind, count in self._counts.items()
            if count
        ]

    def _path(self, kind: str) -> Path:
        return self._folder / f"{kind}.jsonl"

    def _new(self, kind: str) -> Path:
        return self._folder / f".{kind}.jsonl.new"

    def _error(self, error: OSError) -> OutputUnwritable:
        return OutputUnwritable(f"--out {self._folder}: {error.strerror}")
