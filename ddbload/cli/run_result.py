"""Result of a run, as text for a terminal and as the JSON of `--json`."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ddbload.cli import terminal
from ddbload.cli.run_location import NamedRun
from ddbload.cli.terminal import Output
from ddbload.context import Context
from ddbload.contracts import results
from ddbload.contracts.column_mapping import join_names
from ddbload.contracts.results import Failure, Report
from ddbload.contracts.run_record import RunRecord, amount_text
from ddbload.contracts.source import ARRAY, AUTO, OBJECT, UNCOMPRESSED, VALUES
from ddbload.dynamodb.modes import mode_of
from ddbload.errors import Cancelled, DdbloadError, Interrupted, visible
from ddbload.items.row_attributes import item_layout
from ddbload.records import Record
from ddbload.runs.progress import RunProgress
from ddbload.steps.report import finished_report

TOP_CAUSES = 5
"""Causes of rejects listed in a result; `ddbload rejects RUN --summary` lists all."""
_USUAL_FORMAT = "csv, ',' between fields"
"""Most common format, which is not printed."""
LAYOUT_NAMES = {
    ARRAY: "%s, an array",
    OBJECT: "%s, an array in an object",
    VALUES: "%s, values over several lines",
}
"""Description of each JSON layout; other layouts are described as lines."""
_DELIMITER_NAMES = {"\t": "a tab", " ": "a space"}

RankedCauses = Sequence[tuple[tuple[str, str | None], int]]
"""Rejected rows by cause and column, the most frequent first."""


def rank_causes(causes: Counter[tuple[str, str | None]]) -> RankedCauses:
    """Sort causes by frequency, then by name."""
    return sorted(causes.items(), key=lambda each: (-each[1], each[0][0], each[0][1] or ""))


def cause_text(cause: str, column: str | None) -> str:
    """Describe a cause and its column for a terminal."""
    return f"{cause} in {visible(column or 'the row')}"


def causes_json(causes: RankedCauses) -> list[dict[str, Any]]:
    """Return causes as `--json` prints them."""
    return [{"cause": cause, "column": column, "rows": rows} for (cause, column), rows in causes]


def cause_lines(causes: RankedCauses) -> list[str]:
    """Return the lines of a summary that name the causes."""
    return [
        f"  {'' if place else 'causes':10}{cause_text(*cause)}: {count:,}"
        for place, (cause, count) in enumerate(causes)
    ]


def rate_of(rows: int, seconds: float) -> float:
    """Return rows per second; 0 if `seconds` is 0."""
    return rows / seconds if seconds > 0 else 0.0


class Result(Record):
    """Result of an attempt of a run."""

    report: Report
    seconds: float
    """Duration of this attempt, in seconds."""
    adopted_rows: int = 0
    """Rows settled by earlier attempts; excluded from the speed."""
    read_as: str | None = None
    """Description of the source's format."""

    @classmethod
    def from_error(
        cls, run: str, mode: str, error: DdbloadError, seconds: float, last: RunProgress | None
    ) -> Result:
        """Make the result of a run that left no report; `last` is its last known progress."""
        stopped = {Interrupted: results.INTERRUPTED, Cancelled: results.CANCELLED}
        status = stopped.get(type(error), results.FAILED)
        report = Report(run, status, error=Failure.of(error), mode=mode)
        if last is None:
            return cls(report, seconds)
        done = last.totals
        report = replace(report, rows=done.rows, work=done.work, bytes=done.bytes)
        return cls(report, seconds, last.adopted_rows)

    @property
    def rows_per_second(self) -> float:
        """Rows that this attempt settled, per second."""
        return rate_of(max(0, self.report.rows.read - self.adopted_rows), self.seconds)

    @property
    def exit_code(self) -> int:
        """Exit status: 0 done, 1 failed or not done, 3 done with rejects, 130 interrupted."""
        return terminal.exit_status(self.report.status)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        report = self.report
        rows, work, price = report.rows, report.work, report.write_price
        loaded = report.loaded_before
        return {
            "run": report.run,
            "status": report.status,
            "rows": {"read": rows.read, **rows.outcomes},
            "bytes": report.bytes,
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(self.rows_per_second, 1),
            "consumed_wcu": round(work.consumed_wcu, 1),
            "requests": work.requests,
            "throttled": work.throttled,
            "retries": work.retries,
            "rejects": report.rejects,
            "error": None if report.error is None else report.error.shown(),
            "dollars": None if report.dollars is None else round(report.dollars, 6),
            "write_price": None if price is None else price.to_json(),
            **({} if report.identical is None else {"identical": report.identical}),
            "uncertain": report.uncertain,
            **({"repeated": report.repeated} if report.repeated else {}),
            **({} if loaded is None else {"loaded_before": loaded.to_json()}),
            **({"skipped_lines": report.skipped_lines} if report.skipped_lines else {}),
            **({"look_like_numbers": list(likely)} if (likely := report.look_like_numbers) else {}),
        }

    def _units(self) -> str:
        """Describe the consumed write units and their price."""
        consumed, price = self.report.work.consumed_wcu, self.report.write_price
        said = f"{consumed:,.0f} WCU used"
        if price is None or not consumed:
            return said
        if not price.dollars_per_million:
            return f"{said} ({price.text})"
        dollars = amount_text(price.dollars(consumed))
        about = "" if dollars.startswith("less") else "about "
        return f"{said}, {about}{dollars} at {price.text}"

    def lines(self, named: NamedRun | None = None) -> list[str]:
        """Return the lines of the summary; those with commands only if the run is `named`."""
        report = self.report
        first = f"run {report.run}: {report.status}"
        if report.status == results.ALREADY_LOADED:
            return [first, *self._loaded_lines(named)]
        rows, work = report.rows, report.work
        skipped = "skipped: their condition was false, or the table has no such item"
        if report.identical is not None:
            skipped = f"skipped because an item was there ({report.identical:,} identical)"
        if not mode_of(report.mode).writes:
            skipped = "would be written (mode plan sends nothing)"
        explained = {
            "superseded": mode_of(report.mode).superseded,
            "skipped": skipped,
            "filtered": "left out",
        }
        parts = [report.written_text]
        parts += [
            f"{count:,} {explained.get(name, name)}"
            for name, count in rows.outcomes.items()
            if count and name != "written"
        ]
        source = [] if self.read_as in (None, _USUAL_FORMAT) else [f"  read as   {self.read_as}"]
        lines = [
            first,
            *source,
            f"  rows      {rows.read:,} read: {', '.join(parts)}",
            (
                f"  time      {self.seconds:,.1f} s, {self.rows_per_second:,.0f} rows/s,"
                f" {report.bytes:,} bytes"
            ),
            (
                f"  requests  {work.requests:,}, {work.throttled:,} throttled,"
                f" {work.retries:,} retried"
            ),
            f"  units     {self._units()}",
        ]
        if report.repeated:
            lines.append(f"  keys      {results.repeated_keys(report.repeated)}")
        if report.rejects:
            lines.append(f"  rejects   {report.rejects}")
        if rows.rejected:
            lines += self._cause_lines()
            if named is not None:
                lines.append(f"  show      {named.command('rejects', report.run)}")
        return [*lines, *self._loaded_lines(named)]

    def _loaded_lines(self, named: NamedRun | None) -> Iterator[str]:
        """Yield lines on skipped objects, the run that loaded them, and that run's rejects."""
        loaded = self.report.loaded_before
        if loaded is None:
            return
        yield f"  loaded    before: {loaded.text}"
        if loaded.rejected and named is not None:
            yield f"  show      {named.command('rejects', loaded.run)}"

    def _cause_lines(self) -> list[str]:
        """Return a line with the most frequent causes of rejects; empty if not counted."""
        causes = list((self.report.causes or {}).items())
        words = [f"{rows:,} {visible(cause)}" for cause, rows in causes[:TOP_CAUSES]]
        if len(causes) > TOP_CAUSES:
            words.append(f"{sum(rows for _, rows in causes[TOP_CAUSES:]):,} of other causes")
        uncounted = self.report.rows.rejected - sum(rows for _, rows in causes)
        if causes and uncounted > 0:
            words.append(f"{uncounted:,} not counted by cause")
        return [f"  causes    {', '.join(words)}"] if words else []


def show_result(result: Result, output: Output, named: NamedRun) -> int:
    """Print the result of a run; return the exit status.

    Raises `OutputUnwritable` with the run's status.
    """
    report = result.report
    with terminal.keep_result(
        f"the run itself is not affected: it ended {report.status} (ddbload report {report.run})"
    ):
        if output.as_json:
            terminal.print_json(result.to_json())
        elif not output.quiet and (report.error is None or report.rows.read):
            terminal.print_result(result.lines(named), result.exit_code)
    if report.status in results.DONE and report.warning:
        output.warn(report.warning)
    if report.rows.written and not output.as_json:
        say_numbers(output, report.look_like_numbers)
    return result.exit_code


_MOST_NAMED = 20


def say_numbers(output: Output, names: Sequence[str]) -> None:
    """Say which attributes look like numbers and became strings, and how they become numbers."""
    look = "look like numbers and were written as strings"
    if len(names) > _MOST_NAMED:
        output.say(f"{len(names):,} columns {look}: --infer-types")
    elif names:
        if len(names) == 1:
            look = "looks like a number and was written as a string"
        types = shlex.join([join_names(f"{name}=N" for name in names)])
        text = f"{', '.join(names)} {look}: --types {types}, or --infer-types"
        output.say(visible(text))


def finished_result(run: str, context: Context, output: Output) -> Result | None:
    """Print and return the result of a run that is done; None if the run is not done."""
    report = finished_report(run, context)
    return None if report is None else already_done(report, output)


def already_done(report: Report, output: Output) -> Result:
    """Print that a run was done before, and return its result."""
    output.say(f"run {report.run} is already done; nothing was written")
    return Result(report, report.seconds)


def print_run(run: str, output: Output, *, ledger: str = "", stack: str | None = None) -> None:
    """Print the run id, and the run's ledger or stack.

    Printed first, because `ddbload resume` needs both if the process is killed.
    """
    place = ledger if ledger.startswith("s3://") else Path(ledger).absolute()
    output.say(f"run {run} ({f'ledger {place}' if stack is None else f'stack {stack}'})")


def print_detected(record: RunRecord, payload: dict[str, Any]) -> None:
    """Print the detected format and types, unless they are the defaults.

    `payload`: input of the run; only values that it left to detection are printed.
    """
    if AUTO in payload["source"].values() and source_format(record) != _USUAL_FORMAT:
        terminal.print_stderr(f"ddbload: reading the source as {source_format(record)}")
    if record.payload.infer_types and not record.payload.source.kind.has_columns:
        terminal.print_stderr(
            "ddbload: --infer-types has no effect: each value of this format has a type"
        )
    elif record.payload.infer_types:
        terminal.print_stderr(f"ddbload: inferred types: {_inferred_types(record)}")


def source_format(record: RunRecord) -> str:
    """Describe format, encoding and compression of a run's source."""
    source = record.payload.source
    words = [LAYOUT_NAMES.get(source.layout, "%s") % source.format]
    if source.kind.has_columns:
        delimiter = source.delimiter
        words += [] if source.dialect is None else [f"text of {source.dialect}"]
        words.append(f"{_DELIMITER_NAMES.get(delimiter, repr(delimiter))} between fields")
        if source.quote != '"':
            words.append("without quotes" if source.quote is None else f"quotes {source.quote}")
        for mark, value in (("escapes", source.escape), ("comments", source.comment)):
            words += [] if value is None else [f"{mark} {value}"]
        if source.skip_lines:
            words.append(f"after {terminal.counted(source.skip_lines, 'skipped line')}")
    if source.encoding != "utf-8":
        words.append(source.encoding)
    if source.compression not in (UNCOMPRESSED, AUTO):
        words.append(source.compression)
    if record.objects is not None:
        words.append("1 object" if record.objects == 1 else f"{record.objects:,} objects")
    return ", ".join(words)


def _inferred_types(record: RunRecord) -> str:
    """Describe the inferred types other than S: `year N, ok BOOL`."""
    payload = record.payload
    layout = item_layout(record.columns, payload)
    keys = {key.name for key in (*record.table.keys, *record.table.index_keys)}
    found = [
        f"{name} {kind}"
        for name, kind in zip(layout.attributes, record.types, strict=True)
        if kind != "S" and name not in payload.types and name not in keys
    ]
    return ", ".join(found) or "all columns are S"
