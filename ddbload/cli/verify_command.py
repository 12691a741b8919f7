"""`ddbload verify`: compare a source's items with a table's."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from ddbload.aws.clients import AwsSettings
from ddbload.cli import options, terminal
from ddbload.cli.payload import build_payload, check_order, source_options
from ddbload.cli.progress import show_record
from ddbload.cli.run_location import option_words
from ddbload.cli.run_result import cause_lines, causes_json, rank_causes, rate_of, source_format
from ddbload.cli.run_setup import spooled
from ddbload.cli.terminal import Output
from ddbload.context import reading_context
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure
from ddbload.contracts.run_record import amount_text
from ddbload.convert.sinks import FileSink, disk_errors
from ddbload.errors import DdbloadError, InvalidUsage, visible
from ddbload.ledger.ledger import temporary_ledger
from ddbload.verification import verify
from ddbload.verification.verify import Verdict, VerifySettings

FREE_DOLLARS = 0.10
"""Price in dollars up to which no confirmation is asked for."""
MOST_OVER_ESTIMATE = 2.0
"""Factor above the estimated read units at which a comparison stops."""
_SHOWN_ATTRIBUTES = 10


@options.command(
    "ddbload verify books.csv books --types year=N",
    "ddbload verify s3://my-bucket/books/ books --sample 1000",
    "ddbload verify books.csv books --types year=N --out differences",
)
def verify_command(
    sources: tuple[str, ...] = options.sources_argument,
    table: str = options.argument(),
    given: Mapping[str, Any] = source_options,
    sample: str | None = options.run_option(
        metavar="N|P%",
        help="Look up only N keys of the source, or P percent, chosen at random. Finds no extra"
        " items.",
        show_default="compare everything, by a scan of the table",
    ),
    ignore: tuple[str, ...] = options.run_option(
        metavar="A,B,...",
        multiple=True,
        help="Leave these attributes out of the comparison. May be repeated.",
    ),
    ignore_extra_attributes: bool = options.run_option(
        is_flag=True, help="Compare only the attributes that a row has, as after --mode update."
    ),
    consistent: bool = options.run_option(
        "--consistent-read/--no-consistent-read",
        default=True,
        show_default=True,
        help="Read what was written up to now, or for half the price maybe not the last second's.",
    ),
    max_rcu: float | str | None = options.run_option(
        metavar="N|N%",
        type=options.MAX_WCU,
        help="Use at most N read capacity units a second, or N percent of the table's capacity.",
        show_default="50% of a provisioned table; as many as an on-demand table gives",
    ),
    yes: bool = options.run_option(
        is_flag=True, help="Agree to the price, which is otherwise asked about."
    ),
    processes: int | None = options.processes_option,
    out: str | None = options.output_option(
        metavar="FOLDER",
        help="Write missing.jsonl, different.jsonl and extra.jsonl there, and print the commands"
        " that would mend the table.",
    ),
    aws: AwsSettings = options.aws_options,
    output: Output = options.output_options(quiet="Do not print price, progress and summary."),
) -> int:
    """Compare the items of SOURCE with those of TABLE, without writing to it.

    Use the same options as for the import. Rows become items as by ddbload import; then the table
    is scanned, or a --sample of keys is looked up. Items are equal if all their attributes are:
    numbers by value, sets in any order. The price is printed first, and confirmed by you if it is
    above $0.10.

    Exit status: 0 if the table has the same items, 3 if not, 1 if they could not be compared.
    """
    settings = VerifySettings(
        None if sample is None else options.parse_sample(sample, "keys", "1%"),
        frozenset(name for text in ignore for name in text.split(",") if name),
        ignore_extra_attributes,
        consistent,
        max_rcu,
    )
    check_order(sources, table)
    payload = build_payload(sources, table, None, 1, given)
    source, verdict = Payload.from_json(payload).source.uri, Verdict()
    with ExitStack() as stack:
        stack.enter_context(spooled(payload))
        folder = None if out is None else DifferenceFolder(out, stack)
        count = processes or options.cores()
        value, error = _verify(payload, settings, aws, folder, count, verdict, output, yes=yes)
        if folder is not None and error is None:
            folder.finish(keep_extra=settings.sample is None)
            value["commands"] = folder.commands(table, aws)
    terminal.print_error(error)
    with terminal.keep_result(f"the comparison ended as {value['status']}"):
        lines = () if error is not None else _lines(value, verdict, source, table)
        output.show({**value, "dollars": round(value["dollars"], 6)}, *lines)
        if not output.as_json and value["commands"]:
            terminal.print_stdout("Commands that would mend the table:", *value["commands"])
    return terminal.exit_status(value["status"])


def _verify(
    payload: dict[str, Any],
    settings: VerifySettings,
    aws: AwsSettings,
    folder: DifferenceFolder | None,
    processes: int,
    verdict: Verdict,
    output: Output,
    *,
    yes: bool,
) -> tuple[dict[str, Any], Failure | None]:
    """Compare a source with a table; return the object that `--json` prints, and the error."""
    started, context = time.monotonic(), reading_context(aws)
    read_as = failure = None
    estimate: verify.ReadEstimate | None = None
    try:
        with temporary_ledger() as ledger:
            verification = verify.Verification(
                Payload.from_json(payload), settings, ledger, context
            )
            read_as, estimate = source_format(verification.record), verification.estimate
            show_record(output, verification.record, payload)
            agree(verification, settings, output, yes=yes)
            most = estimate.most_units(FREE_DOLLARS, MOST_OVER_ESTIMATE)
            started = time.monotonic()
            with terminal.live_reading(output) as watch:
                verification.run(
                    verdict,
                    None if folder is None else folder.write,
                    most_units=None if yes else most,
                    watch=watch,
                    processes=processes,
                    make_context=partial(reading_context, aws),
                )
            if verdict.table_items == 0 and settings.sample is None:
                output.warn(f"table {verification.table.name} is empty")
    except InvalidUsage:
        raise
    except DdbloadError as error:
        failure = Failure.of(error)
    keys, usage, sampled = verdict.keys, verdict.usage, settings.sample is not None
    dollars = 0.0 if estimate is None else estimate.price(usage.units)
    return {
        "status": "FAILED" if failure else "EQUAL" if keys.are_equal else "DIFFERENT",
        "read_as": read_as,
        "rows": {
            "read": verdict.file.read,
            "items": verdict.items,
            "rejected": verdict.file.causes.total(),
            "filtered": verdict.file.filtered,
        },
        "causes": causes_json(rank_causes(verdict.file.causes)),
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
        "dollars": dollars,
        "requests": usage.requests,
        "throttled": usage.throttled,
        "seconds": round(time.monotonic() - started, 3),
        "commands": [],
        "error": None if failure is None else failure.shown(),
    }, failure


def _lines(value: Mapping[str, Any], verdict: Verdict, source: str, table: str) -> Iterator[str]:
    """Yield the lines of the summary."""
    rows, sampled = value["rows"], value["sampled"]
    rejected, filtered = rows["rejected"], rows["filtered"]
    words = "equals" if value["status"] == "EQUAL" else "differs from"
    part = f" in a sample of {value['compared']:,} keys" if sampled else ""
    yield f"{source}: {words} table {table}{part}"
    yield f"  read as   {value['read_as']}"
    left = f", {rejected:,} rejected, not compared" if rejected else ""
    left += f", {filtered:,} left out by --where" if filtered else ""
    yield f"  rows      {rows['read']:,} read: {rows['items']:,} items{left}"
    yield from cause_lines(rank_causes(verdict.file.causes))
    repeated = f", {value['repeated']:,} of them in several rows" if value["repeated"] else ""
    yield f"  keys      {value['keys']:,}{repeated}"
    yield f"  equal     {value['equal']:,}"
    yield f"  missing   {value['missing']:,}, in the source and not in the table"
    yield f"  different {value['different']:,}, in both with other attributes"
    if verdict.attributes:
        found = verdict.attributes.most_common(_SHOWN_ATTRIBUTES)
        names = [f"{visible(name)} {items:,}" for name, items in found]
        more = len(verdict.attributes) - len(found)
        names += [f"{more:,} other attributes"] if more else []
        yield f"            {', '.join(names)} (of {verdict.looked_at:,} looked at)"
    if sampled:
        yield "  extra     not looked for: a sample cannot find them"
    else:
        uncompared = {"rejected rows": rejected, "rows left out": filtered}
        of = " or ".join(name for name, count in uncompared.items() if count)
        among = f" (maybe of {of})" if of and value["extra"] else ""
        yield f"  extra     {value['extra']:,}, in the table and not in the source{among}"
    billed = f", {amount_text(value['dollars'])}" if value["dollars"] else ""
    throttled = f", {value['throttled']:,} throttled" if value["throttled"] else ""
    yield f"  reads     {value['read_units']:,.1f} read units{billed}{throttled}"
    seconds = value["seconds"]
    yield f"  time      {seconds:,.1f} s, {rate_of(rows['read'], seconds):,.0f} rows/s"


def agree(
    verification: verify.Verification, settings: VerifySettings, output: Output, *, yes: bool
) -> None:
    """Print the price, and ask for confirmation above `FREE_DOLLARS`.

    Raises `InvalidUsage` if the user declines, and without a terminal to ask on.
    """
    estimate = verification.estimate
    text = estimate.text(verification.table.name, consistent=settings.consistent)
    if estimate.dollars <= FREE_DOLLARS or yes:
        output.say(text)
        return
    terminal.ask_to_agree(
        f"{text}. Go on?",
        unasked=f"{text}: without a terminal to ask on, give --yes to agree, or --sample 1000 to"
        " look up only some keys",
        declined="the price was declined: the table was not read",
    )


class DifferenceFolder:
    """Folder of `--out`: one file of DynamoDB JSON lines per kind of difference."""

    def __init__(self, path: str, unfinished: ExitStack) -> None:
        """Create the files. `unfinished` removes them unless they are finished."""
        self._folder = Path(path)
        with disk_errors(f"--out {path}"):
            self._folder.mkdir(parents=True, exist_ok=True)
        self._counts = dict.fromkeys((verify.MISSING, verify.DIFFERENT, verify.EXTRA), 0)
        self._sinks: dict[str, FileSink] = {}
        for kind in self._counts:
            self._sinks[kind] = FileSink(str(self._path(kind)))
            unfinished.callback(self._sinks[kind].abandon)

    def write(self, kind: str, item: Mapping[str, Any]) -> None:
        """Write an item. Raises `OutputUnwritable`."""
        line = json.dumps({"Item": item}, separators=(",", ":"))
        self._sinks[kind].write(line.encode() + b"\n")
        self._counts[kind] += 1

    def finish(self, *, keep_extra: bool) -> None:
        """Replace the files of an earlier comparison by these. Raises `OutputUnwritable`.

        A sample cannot find extra items, so it leaves no file of extra items.
        """
        for kind, sink in self._sinks.items():
            if kind != verify.EXTRA or keep_extra:
                sink.finish()
                continue
            with disk_errors(f"--out {self._folder}"):
                self._path(kind).unlink(missing_ok=True)

    def commands(self, table: str, aws: AwsSettings) -> list[str]:
        """Return ddbload commands that would make the table's items equal to the source's."""
        modes = {verify.MISSING: "insert", verify.DIFFERENT: "put", verify.EXTRA: "delete"}
        return [
            shlex.join(
                [
                    *("ddbload", "import", str(self._path(kind)), table),
                    *("--format", "dynamodb-json", "--mode", modes[kind], *option_words(aws)),
                ]
            )
            for kind, count in self._counts.items()
            if count
        ]

    def _path(self, kind: str) -> Path:
        return self._folder / f"{kind}.jsonl"
