"""Result of a run, as text for a terminal and as the JSON of `--json`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddbload.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_REJECTS,
    keep_result,
    print_json,
    print_notice,
    print_result,
    print_stderr,
    printable,
)
from ddbload.context import Context
from ddbload.contracts.results import (
    ALREADY_LOADED,
    CANCELLED,
    DONE,
    FAILED,
    INTERRUPTED,
    Failure,
    PlanTotals,
    Report,
    repeated_keys,
)
from ddbload.contracts.row_counts import RowCounts, WriteStats
from ddbload.contracts.run_record import LoadedBefore, RunRecord
from ddbload.contracts.source import ARRAY, AUTO, OBJECT, UNCOMPRESSED, VALUES
from ddbload.contracts.write_price import WritePrice, amount_text
from ddbload.dynamodb.write_modes import PUT, superseded_text, written_text
from ddbload.errors import Cancelled, DdbloadError, Interrupted
from ddbload.items.item_layout import item_layout
from ddbload.runs.progress import RunProgress
from ddbload.steps.read_run import finished_report

TOP_CAUSES = 5
"""Causes of rejects that a result names; `ddbload rejects RUN --summary` has all."""
_USUAL_FORMAT = "csv, ',' between fields"
"""The format of most sources. It is not printed."""
LAYOUT_NAMES = {
    ARRAY: "%s, an array",
    OBJECT: "%s, an array in an object",
    VALUES: "%s, values over several lines",
}
"""Formats of JSON in words, by layout; all others are lines."""
_DELIMITER_NAMES = {"\t": "a tab", " ": "a space"}


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a run."""

    run: str
    status: str
    rows: RowCounts
    work: WriteStats
    bytes: int
    seconds: float
    rows_per_second: float
    rejects: str | None
    error: Failure | None
    planned: PlanTotals | None = None
    identical: int | None = None
    """Skipped rows whose item was identical; None if unknown."""
    uncertain: int = 0
    """Written rows whose item may have been there before."""
    mode: str = PUT
    """Write mode of the run."""
    write_price: WritePrice | None = None
    """Price of the consumed write units; None if unknown."""
    read_as: str | None = None
    """Format of the source, in words."""
    causes: Mapping[str, int] | None = None
    """Rejected rows by cause, the most frequent first."""
    was_killed: bool = False
    """The run left no report: its time ends with its last sign of life."""
    repeated: int = 0
    """Rows whose key came before, as far as known."""
    loaded_before: LoadedBefore | None = None
    """Objects that the run left out, because the table had loaded them."""

    @classmethod
    def from_report(
        cls,
        report: Report,
        *,
        seconds: float | None = None,
        adopted_rows: int = 0,
        was_killed: bool = False,
    ) -> Result:
        """Make a result from a run's report.

        Args:
            report: The report of the run.
            seconds: Duration of this attempt; by default that of the run.
            adopted_rows: Rows of earlier attempts, which do not count for the speed.
            was_killed: The report was made from what a killed attempt has left.
        """
        taken = report.seconds if seconds is None else seconds
        fresh = max(0, report.rows.read - adopted_rows)
        return cls(
            run=report.run,
            status=report.status,
            rows=report.rows,
            work=report.work,
            bytes=report.bytes,
            seconds=taken,
            rows_per_second=fresh / taken if taken > 0 else 0.0,
            rejects=report.rejects,
            error=report.error,
            planned=report.planned,
            identical=report.identical,
            uncertain=report.uncertain,
            mode=report.mode,
            write_price=report.write_price,
            causes=report.causes,
            was_killed=was_killed,
            repeated=report.repeated,
            loaded_before=report.loaded_before,
        )

    @classmethod
    def from_error(
        cls, run: str, error: DdbloadError, seconds: float, last: RunProgress | None = None
    ) -> Result:
        """Make the result of a run that left no report; `last` is its last known progress."""
        stopped = {Interrupted: INTERRUPTED, Cancelled: CANCELLED}
        status = stopped.get(type(error), FAILED)
        failure = Failure.of(error)
        if last is None:
            return cls(run, status, RowCounts(), WriteStats(), 0, seconds, 0.0, None, failure)
        done = last.totals
        rate = (done.rows.read - last.adopted_rows) / seconds if seconds > 0 else 0.0
        return cls(run, status, done.rows, done.work, done.bytes, seconds, rate, None, failure)

    @property
    def exit_code(self) -> int:
        """Exit status: 0 done, 1 failed or not done, 3 done with rejects, 130 interrupted."""
        if self.status in (INTERRUPTED, CANCELLED):
            return EXIT_INTERRUPTED
        if self.status not in DONE:
            return EXIT_FAILED
        return EXIT_REJECTS if self.rows.rejected else EXIT_DONE

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        error: dict[str, Any] | None = None
        if self.error is not None:
            error = {"name": self.error.name, "message": self.error.message}
            if self.error.chunk is not None:
                error["chunk"] = self.error.chunk
        return {
            "run": self.run,
            "status": self.status,
            "rows": {"read": self.rows.read, **self.rows.outcomes},
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(self.rows_per_second, 1),
            "consumed_wcu": round(self.work.consumed_wcu, 1),
            "requests": self.work.requests,
            "throttled": self.work.throttled,
            "retries": self.work.retries,
            "rejects": self.rejects,
            "error": error,
            **self._price_json(),
            **({} if self.planned is None else {"planned": self.planned.to_json()}),
            **({} if self.identical is None else {"identical": self.identical}),
            "uncertain": self.uncertain,
            **({"repeated": self.repeated} if self.repeated else {}),
            **self._loaded_json(),
        }

    def _loaded_json(self) -> dict[str, Any]:
        loaded = self.loaded_before
        return {} if loaded is None else {"loaded_before": loaded.to_json()}

    def _price_json(self) -> dict[str, Any]:
        price = self.write_price
        if price is None:
            return {"dollars": None, "write_price": None}
        dollars = round(price.dollars(self.work.consumed_wcu), 6)
        return {"dollars": dollars, "write_price": price.to_json()}

    def _units(self) -> str:
        """Describe the consumed units and their price."""
        consumed, price = self.work.consumed_wcu, self.write_price
        said = f"{consumed:,.0f} WCU used"
        if price is None or not consumed:
            return said
        if not price.dollars_per_million:
            return f"{said} ({price.text})"
        dollars = amount_text(price.dollars(consumed))
        about = "" if dollars.startswith("less") else "about "
        return f"{said}, {about}{dollars} at {price.text}"

    def lines(self, list_rejects: str | None = None) -> list[str]:
        """Return the lines of the summary. `list_rejects`: `ddbload rejects RUN`, with options."""
        if self.status == ALREADY_LOADED:
            return [f"run {self.run}: {self.status}", *self._loaded_lines(list_rejects)]
        rows, work = self.rows, self.work
        planned = self.planned
        skipped = "skipped: their condition was false, or the table has no such item"
        if self.identical is not None:
            skipped = f"skipped because an item was there ({self.identical:,} identical)"
        if planned is not None:
            skipped = "would be written (mode plan sends nothing)"
        explained = {
            "superseded": superseded_text(self.mode),
            "skipped": skipped,
            "filtered": "left out by --where",
        }
        parts = [written_text(self.mode, rows.written, self.uncertain)]
        parts += [
            f"{count:,} {explained.get(name, name)}"
            for name, count in rows.outcomes.items()
            if count and name != "written"
        ]
        time = f"{self.seconds:,.1f} s{' until the last sign of life' if self.was_killed else ''}"
        source = [] if self.read_as in (None, _USUAL_FORMAT) else [f"  read as   {self.read_as}"]
        lines = [
            f"run {self.run}: {self.status}",
            *source,
            f"  rows      {rows.read:,} read: {', '.join(parts)}",
            (f"  time      {time}, {self.rows_per_second:,.0f} rows/s, {self.bytes:,} bytes"),
            (
                f"  requests  {work.requests:,}, {work.throttled:,} throttled,"
                f" {work.retries:,} retried"
            ),
            f"  units     {self._units()}",
        ]
        if self.repeated:
            lines.append(f"  keys      {repeated_keys(self.repeated)}")
        if self.rejects:
            lines.append(f"  rejects   {self.rejects}")
        if rows.rejected:
            lines += self._cause_lines()
            lines += [] if list_rejects is None else [f"  show      {list_rejects}"]
        return [*lines, *self._loaded_lines(list_rejects)]

    def _loaded_lines(self, list_rejects: str | None) -> Iterator[str]:
        """Name the objects that were left out, the run that loaded them, and its rejects."""
        loaded = self.loaded_before
        if loaded is None:
            return
        yield f"  loaded    before: {loaded.text}"
        if loaded.rejected and list_rejects is not None:
            words = shlex.split(list_rejects)
            yield f"  show      {shlex.join([*words[:2], loaded.run, *words[3:]])}"

    def _cause_lines(self) -> list[str]:
        """Return a line with the most frequent causes of rejects, if they are counted."""
        causes = list((self.causes or {}).items())
        words = [f"{rows:,} {printable(cause)}" for cause, rows in causes[:TOP_CAUSES]]
        if len(causes) > TOP_CAUSES:
            words.append(f"{sum(rows for _, rows in causes[TOP_CAUSES:]):,} of other causes")
        uncounted = self.rows.rejected - sum(rows for _, rows in causes)
        if causes and uncounted > 0:
            words.append(f"{uncounted:,} not counted by cause")
        return [f"  causes    {', '.join(words)}"] if words else []


def show_result(result: Result, *, as_json: bool, quiet: bool, list_rejects: str) -> int:
    """Print a result on stdout; return the exit status.

    `list_rejects`: the command that lists the run's rejects. Raises `OutputUnwritable` with the
    run's status.
    """
    with keep_result(
        f"the run itself is not affected: it ended {result.status} (ddbload report {result.run})"
    ):
        if as_json:
            print_json(result.to_json())
        elif not quiet and (result.error is None or result.rows.read):
            print_result(result.lines(list_rejects), result.exit_code)
    warns = result.status in DONE and result.status != ALREADY_LOADED
    if not quiet and warns and result.rows.warning:
        print_notice(result.rows.warning)
    return result.exit_code


def finished_result(run: str, context: Context, *, quiet: bool) -> Result | None:
    """Return the result of a run that is done, and print that it is; None if work is left."""
    report = finished_report(run, context)
    return None if report is None else already_done(report, quiet=quiet)


def already_done(report: Report, *, quiet: bool) -> Result:
    """Print that a run was done before; return its result."""
    if not quiet:
        print_stderr(f"ddbload: run {report.run} is already done; nothing was written")
    return Result.from_report(report)


def print_run(run: str, *, ledger: str | None = None, stack: str | None = None) -> None:
    """Print the run id and the run's ledger or stack.

    Printed before anything else: `ddbload resume` needs them if the process is killed.
    """
    if stack is not None:
        where = f"stack {stack}"
    else:
        place = ledger or ""
        where = f"ledger {place if place.startswith('s3://') else Path(place).absolute()}"
    print_stderr(f"ddbload: run {run} ({where})")


def print_error(result: Result) -> None:
    """Print the error of a run that failed."""
    if result.error is not None:
        print_stderr(f"ddbload: {result.error.name}: {result.error.message}")


def print_detected(record: RunRecord, payload: dict[str, Any]) -> None:
    """Print the detected format and types, unless they are the usual ones.

    `payload`: the run's input; only what it left to detection is printed.
    """
    if AUTO in payload["source"].values() and source_format(record) != _USUAL_FORMAT:
        print_stderr(f"ddbload: reading the source as {source_format(record)}")
    if record.payload.infer_types and not record.payload.source.kind.has_columns:
        print_stderr("ddbload: --infer-types has no effect: each value of this format has a type")
    elif record.payload.infer_types:
        print_stderr(f"ddbload: inferred types: {_inferred_types(record)}")


def source_format(record: RunRecord) -> str:
    """Describe format, encoding and compression of a run's source in words."""
    source = record.payload.source
    words = [LAYOUT_NAMES.get(source.layout, "%s") % source.format]
    if source.kind.has_columns:
        delimiter = source.delimiter
        words.append(f"{_DELIMITER_NAMES.get(delimiter, repr(delimiter))} between fields")
    if source.encoding != "utf-8":
        words.append(source.encoding)
    if source.compression not in (UNCOMPRESSED, AUTO):
        words.append(source.compression)
    if record.objects is not None:
        words.append("1 object" if record.objects == 1 else f"{record.objects:,} objects")
    return ", ".join(words)


def _inferred_types(record: RunRecord) -> str:
    """Describe the inferred types that are not S: `year N, ok BOOL`."""
    payload = record.payload
    layout = item_layout(record.columns, payload)
    keys = {key.name for key in (*record.table.keys, *record.table.index_keys)}
    found = [
        f"{name} {kind}"
        for name, kind in zip(layout.attributes, record.types, strict=True)
        if kind != "S" and name not in payload.types and name not in keys
    ]
    return ", ".join(found) or "all columns are S"
