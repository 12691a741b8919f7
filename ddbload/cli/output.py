"""What a run came to, for people and for programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddbload.contracts.payload import AUTO
from ddbload.contracts.results import (
    CANCELLED,
    DONE,
    FAILED,
    INTERRUPTED,
    Failure,
    PlanTotals,
    Report,
    RowCounts,
    WriteStats,
)
from ddbload.contracts.run_record import RunRecord
from ddbload.errors import DdbloadError, Interrupted

if TYPE_CHECKING:
    from ddbload.pipeline.context import RunTotals

EXIT_DONE, EXIT_FAILED, EXIT_REJECTS = 0, 1, 3
EXIT_INTERRUPTED = Interrupted.exit_code


@contextmanager
def telling() -> Iterator[None]:
    """For writing to stderr. Where that fails there is nobody left to tell."""
    try:
        yield
    except OSError:
        # Nor may what is left in the buffer fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def tell(text: str) -> None:
    """Write a line to stderr."""
    with telling():
        click.echo(text, err=True)


def tell_run(run: str, *, ledger: str | None = None, stack: str | None = None) -> None:
    """Name a run, and where it is kept, before anything else: it may be killed at any moment."""
    if stack is not None:
        where = f"stack {stack}"
    else:
        place = ledger or ""
        where = f"ledger {place if place.startswith('s3://') else Path(place).absolute()}"
    tell(f"ddbload: run {run} ({where})")


def tell_error(result: Result) -> None:
    """Say why a run failed, if it did."""
    if result.error is not None:
        tell(f"ddbload: {result.error.name}: {result.error.message}")


def printable(text: str) -> str:
    """Nothing that a terminal would obey: whoever made the file may not move the cursor."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


USUAL = "csv, ',' between fields"
"""How most sources are read: nothing needs to be said of it."""
_SPELLED = {"\t": "a tab", " ": "a space"}


def read_as(record: RunRecord) -> str:
    """How a run's source is read, in words."""
    source = record.payload.source
    words = [source.format]
    if source.delimited:
        delimiter = source.delimiter
        words.append(f"{_SPELLED.get(delimiter, repr(delimiter))} between fields")
    if source.encoding != "utf-8":
        words.append(source.encoding)
    if source.compression not in ("none", AUTO):
        words.append(source.compression)
    if record.objects is not None:
        words.append("1 object" if record.objects == 1 else f"{record.objects:,} objects")
    return ", ".join(words)


def inferred_types(record: RunRecord) -> str:
    """The types that nobody declared, in words: `year N, ok BOOL`; the others are texts."""
    from ddbload.items.item_layout import item_layout

    payload = record.payload
    layout = item_layout(record.columns, payload)
    keys = {key.name for key in (*record.table.keys, *record.table.index_keys)}
    found = [
        f"{name} {kind}"
        for name, kind in zip(layout.attributes, record.types, strict=True)
        if kind != "S" and name not in payload.types and name not in keys
    ]
    return ", ".join(found) or "all are texts (S)"


@dataclass(frozen=True, slots=True)
class Result:
    """A run's outcome as the command line tells it."""

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
    """Skipped rows that found an identical item; None if not known."""
    read_as: str | None = None
    """How the source was read, in words."""

    @classmethod
    def of(
        cls,
        report: Report,
        *,
        seconds: float | None = None,
        adopted_rows: int = 0,
        rejects: str | None = None,
    ) -> Result:
        """From a report; `seconds` and `adopted_rows` when one attempt was watched."""
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
            rejects=rejects or report.rejects,
            error=report.error,
            planned=report.planned,
            identical=report.identical,
        )

    @classmethod
    def failed(
        cls, run: str, error: DdbloadError, seconds: float, last: RunTotals | None = None
    ) -> Result:
        """When there is no report. `last`: what was last heard of the run, if it began."""
        status = INTERRUPTED if isinstance(error, Interrupted) else FAILED
        failure = Failure(error.name, error.message)
        if last is None:
            return cls.unreported(run, status, failure, seconds)
        rate = (last.rows.read - last.adopted_rows) / seconds if seconds > 0 else 0.0
        return cls(run, status, last.rows, last.work, last.bytes, seconds, rate, None, failure)

    @classmethod
    def unreported(cls, run: str, status: str, failure: Failure | None, seconds: float) -> Result:
        """When there is nothing in the ledger yet, or never will be."""
        return cls(run, status, RowCounts(), WriteStats(), 0, seconds, 0.0, None, failure)

    @property
    def exit_code(self) -> int:
        """0 done, 1 failed or not done, 3 done with rejects, 130 interrupted or cancelled."""
        if self.status in (INTERRUPTED, CANCELLED):
            return EXIT_INTERRUPTED
        if self.status not in DONE:
            return EXIT_FAILED
        return EXIT_REJECTS if self.rows.rejected else EXIT_DONE

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        error: dict[str, Any] | None = None
        if self.error is not None:
            error = {"name": self.error.name, "message": self.error.message}
            if self.error.chunk is not None:
                error["chunk"] = self.error.chunk
        return {
            "run": self.run,
            "status": self.status,
            "rows": self.rows.to_json(),
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(self.rows_per_second, 1),
            "consumed_wcu": round(self.work.consumed_wcu, 1),
            "requests": self.work.requests,
            "throttled": self.work.throttled,
            "retries": self.work.retries,
            "rejects": self.rejects,
            "error": error,
            **({} if self.planned is None else {"planned": self.planned.to_json()}),
            **({} if self.identical is None else {"identical": self.identical}),
        }

    def lines(self) -> list[str]:
        """The same for a terminal."""
        rows, work = self.rows, self.work
        planned = self.planned
        skipped = "skipped because an item was there"
        if self.identical is not None:
            skipped += f" ({self.identical:,} identical)"
        if planned is not None:
            skipped = "would be written (mode plan sends nothing)"
        parts = [f"{rows.written:,} written"]
        parts += [
            f"{count:,} {what}"
            for count, what in (
                (rows.rejected, "rejected"),
                (rows.superseded, "superseded by a later row of the same key"),
                (rows.skipped, skipped),
            )
            if count
        ]
        source = [] if self.read_as in (None, USUAL) else [f"  read as   {self.read_as}"]
        lines = [
            f"run {self.run}: {self.status}",
            *source,
            f"  rows      {rows.read:,} read: {', '.join(parts)}",
            (
                f"  time      {self.seconds:,.1f} s, {self.rows_per_second:,.0f} rows/s,"
                f" {self.bytes:,} bytes"
            ),
            (
                f"  requests  {work.requests:,}, {work.throttled:,} throttled,"
                f" {work.retries:,} sent again; {work.consumed_wcu:,.0f} WCU used"
            ),
        ]
        if self.rejects:
            lines.append(f"  rejects   {self.rejects}")
        return lines
