"""`ddbload convert`: write a source's items as DynamoDB JSON lines."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self

import click

from ddbload.aws.clients import AwsSettings
from ddbload.cli.options import (
    GroupedCommand,
    aws_options,
    cores,
    first_option,
    json_option,
    output_option,
    processes_option,
    rejects_option,
    sources_argument,
    types_option,
    verbose_option,
    writing_option,
)
from ddbload.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_REJECTS,
    error_json,
    keep_result,
    live_reading,
    print_error,
    print_notice,
    print_stderr,
    print_stdout,
    printable,
)
from ddbload.cli.payload import build_payload, is_data_file, max_rejects_option, source_options
from ddbload.cli.progress import Steps
from ddbload.cli.run_result import print_detected, source_format
from ddbload.cli.run_setup import rejects_file, same_file, spooled
from ddbload.context import reading_context
from ddbload.contracts.messages import is_text
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import FAILED, SUCCEEDED, SUCCEEDED_WITH_REJECTS, Failure
from ddbload.contracts.row_counts import RowCounts, WorkTotals
from ddbload.contracts.source import GZIP, UNCOMPRESSED, ZSTD
from ddbload.convert.convert import OutputOptions, convert, open_sink, prepare_conversion
from ddbload.convert.sinks import Sink
from ddbload.errors import DdbloadError, InvalidUsage, RejectsNotKept
from ddbload.ledger.ledger import temporary_ledger
from ddbload.reading.parts import ReadCounts

Causes = Counter[tuple[str, str | None]]
"""Rejected rows by cause and column."""
RankedCauses = list[tuple[str, str | None, int]]


def rank_causes(causes: Causes) -> RankedCauses:
    """Sort causes by frequency, then by name."""
    by_name = sorted(causes.items(), key=lambda each: (each[0][0], each[0][1] or ""))
    return [
        (cause, column, rows)
        for (cause, column), rows in sorted(by_name, key=lambda each: -each[1])
    ]


def cause_text(cause: str, column: str | None) -> str:
    """Describe a cause and its column for a terminal."""
    return f"{cause} in {printable(column or 'the row')}"


def causes_json(causes: RankedCauses) -> list[dict[str, Any]]:
    """Return causes as `--json` prints them."""
    return [{"cause": cause, "column": column, "rows": rows} for cause, column, rows in causes]


def cause_lines(causes: RankedCauses) -> list[str]:
    """Return the lines of a summary that name the causes."""
    return [
        f"  {'' if place else 'causes':10}{cause_text(cause, column)}: {count:,}"
        for place, (cause, column, count) in enumerate(causes)
    ]


@dataclass(slots=True)
class Outcome:
    """Result of a conversion."""

    out: str
    read_as: str | None
    """Format of the source, in words; None if it could not be detected."""
    rows: RowCounts
    causes: RankedCauses
    bytes: int
    seconds: float
    out_parts: int
    out_bytes: int
    rejects: str | None
    error: Failure | None
    first: int | None = None
    """Rows after which the conversion ended; None if it read all."""

    @property
    def status(self) -> str:
        """Status, one of those of an import."""
        if self.error is not None:
            return FAILED
        return SUCCEEDED_WITH_REJECTS if self.rows.rejected else SUCCEEDED

    @property
    def exit_code(self) -> int:
        """Exit status, as that of an import."""
        if self.error is not None:
            return EXIT_FAILED
        return EXIT_REJECTS if self.rows.rejected else EXIT_DONE

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        rate = self.rows.read / self.seconds if self.seconds > 0 else 0.0
        return {
            "status": self.status,
            "read_as": self.read_as,
            "rows": {"read": self.rows.read, **self.rows.outcomes},
            "causes": causes_json(self.causes),
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(rate, 1),
            "out": self.out,
            "out_parts": self.out_parts,
            "out_bytes": self.out_bytes,
            "rejects": self.rejects,
            "first": self.first,
            "error": error_json(self.error),
        }

    def lines(self, source: str) -> list[str]:
        """Return the lines of the summary."""
        rows, rate = self.rows, self.rows.read / self.seconds if self.seconds > 0 else 0.0
        rejected = f", {rows.rejected:,} rejected" if rows.rejected else ""
        rejected += f", {rows.filtered:,} left out by --where" if rows.filtered else ""
        lines = [
            f"{source}: {'converted' if self.error is None else 'not converted'}",
            f"  read as   {self.read_as}",
            f"  rows      {rows.read:,} read: {rows.written:,} items{rejected}",
            f"  time      {self.seconds:,.1f} s, {rate:,.0f} rows/s, {self.bytes:,} bytes",
        ]
        if self.first is not None:
            first = "row" if self.first == 1 else f"{self.first:,} rows"
            lines.append(f"  cut       after the first {first} (--first)")
        lines += cause_lines(self.causes)
        if self.error is None:
            parts = f", {self.out_parts:,} parts" if self.out_parts > 1 else ""
            lines.append(f"  out       {self.out}, {self.out_bytes:,} bytes{parts}")
        if self.rejects is not None:
            lines.append(f"  rejects   {self.rejects}")
        return lines


_PART_MIB = 64
_NO_TABLE = "none"
"""Table name of a payload without a table."""
_REJECTS_IN_MEMORY = 1024 * 1024


@click.command(
    "convert",
    cls=GroupedCommand,
    examples=(
        "ddbload convert books.csv books.json.gz --types year=N",
        "ddbload convert books.csv - --table books --first 10",
        "ddbload convert s3://my-bucket/books/ s3://my-bucket/converted/ --part-mib 128",
    ),
)
@sources_argument
@click.argument("out")
@first_option
@source_options
@types_option(
    "--table",
    metavar="NAME",
    help="Take key types from this table, and check keys against its limits.",
)
@writing_option(
    "--out-compression",
    type=click.Choice([GZIP, ZSTD, UNCOMPRESSED]),
    help="Compression of OUT.",
    show_default="gzip for parts; for a file by its name, .gz or .zst",
)
@writing_option(
    "--part-mib",
    metavar="N",
    type=click.IntRange(1, 4096),
    default=_PART_MIB,
    show_default=True,
    help="Maximum size of a part in MiB, before compression.",
)
@writing_option(
    "--seed",
    metavar="N",
    type=int,
    default=0,
    show_default=True,
    help="Seed of the random order of items in parts.",
)
@max_rejects_option
@rejects_option
@processes_option
@aws_options
@json_option
@output_option("--quiet", is_flag=True, help="Do not print progress and summary.")
@verbose_option
def convert_command(
    sources: tuple[str, ...],
    out: str,
    first: int | None,
    table: str | None,
    out_compression: str | None,
    part_mib: int,
    seed: int,
    rejects: str | None,
    processes: int | None,
    aws: AwsSettings,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> int:
    """Write the items of SOURCE to OUT as lines of DynamoDB JSON: {"Item": {...}}.

    SOURCE is the same as for ddbload import; several are converted as one.

    OUT is '-' for standard output, a file (.gz and .zst are compressed), or a folder or
    s3://bucket/prefix/ that ends with a slash. Folders and prefixes get parts of about equal size
    with all items in random order, as ImportTable and other importers need them.

    A file, folder or prefix appears once all items are written. If a conversion to standard output
    or a pipe fails, the last line is not JSON, so that readers notice.

    Rows are read, typed and rejected as by ddbload import. The summary is printed on stdout; with
    '-', on stderr.
    """
    _check_out(out, sources, out_compression)
    payload = build_payload(sources, table or _NO_TABLE, None, 1, given)
    named = Payload.from_json(payload).source.uri
    count = processes or cores()
    wanted = OutputOptions(out, out_compression, part_mib << 20, seed, count)
    with rejects_file(rejects, sources) as kept, spooled(payload):
        if kept is not None and out != "-" and same_file(out, rejects or ""):
            raise InvalidUsage(f"--rejects {rejects} is OUT itself")
        outcome = _convert(
            *(payload, table, wanted, aws, kept, first),
            show_progress=not quiet,
            steps=Steps(enabled=verbose),
        )
    print_error(outcome.error)
    # Standard output may be OUT.
    say = print_stderr if out == "-" else print_stdout
    done = "is whole" if outcome.error is None else "was not written"
    with nullcontext() if out == "-" else keep_result(f"{out} {done}"):
        if as_json:
            say(json.dumps(outcome.to_json()))
        elif not quiet and (outcome.error is None or outcome.rows.read):
            say(*outcome.lines(named))
    if not quiet and outcome.error is None and outcome.rows.warning:
        print_notice(outcome.rows.warning)
    return outcome.exit_code


def _convert(
    payload: dict[str, Any],
    table: str | None,
    wanted: OutputOptions,
    aws: AwsSettings,
    kept: BinaryIO | None,
    first: int | None,
    *,
    show_progress: bool,
    steps: Steps,
) -> Outcome:

    converted, started = ReadCounts(), time.monotonic()
    context = reading_context(aws)
    context.notice = print_notice if show_progress else None
    sink: Sink | None = None
    record = failure = None
    try:
        with temporary_ledger() as ledger, _RejectBuffer(kept) as rejects:
            checked = Payload.from_json(payload)
            record = prepare_conversion(checked, table, ledger, context)
            if show_progress:
                print_detected(record, payload)
            steps.show_record(record, writes=False)
            sink = open_sink(wanted, context)
            with (
                _abandon_on_error(sink),
                live_reading(
                    enabled=show_progress and not steps.enabled, doing="converting"
                ) as draw,
            ):

                def watch(done: WorkTotals, size: int) -> None:
                    draw(done.bytes, size, done.rows.read)
                    steps.show_reading(done.bytes, size, done.rows.read)

                try:
                    convert(
                        record,
                        ledger,
                        context,
                        sink,
                        converted,
                        reject=rejects.add,
                        watch=watch,
                        processes=wanted.threads,
                        make_context=partial(reading_context, aws),
                        first=first,
                    )
                finally:
                    rejects.keep(converted.rows)
                steps.say(f"rows read: {converted.read:,}, items: {converted.written:,}")
                sink.finish()
    except InvalidUsage:
        raise
    except DdbloadError as error:
        failure = Failure.of(error)
    rows = converted.rows
    return Outcome(
        out=wanted.out,
        read_as=None if record is None else source_format(record),
        rows=rows,
        causes=rank_causes(converted.causes),
        bytes=converted.bytes,
        seconds=time.monotonic() - started,
        out_parts=0 if sink is None or failure else sink.parts,
        out_bytes=0 if sink is None or failure else sink.bytes,
        rejects=str(Path(kept.name).absolute()) if kept is not None and rows.rejected else None,
        error=failure,
        first=first if rows.read == first else None,
    )


class _RejectBuffer:
    """Buffer of rejects; the file of earlier rejects is replaced once a row was read."""

    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file
        self._buffer = tempfile.SpooledTemporaryFile(_REJECTS_IN_MEMORY)  # noqa: SIM115 - see __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._buffer.close()

    def add(self, line: bytes) -> None:
        """Buffer the line of a reject. Raises `RejectsNotKept`."""
        if self._file is not None:
            with self._disk_errors():
                self._buffer.write(line)

    def keep(self, rows: RowCounts) -> None:
        """Replace the rejects in the file if any row was read. Raises `RejectsNotKept`."""
        file = self._file
        if file is None or not rows.read:
            return
        with self._disk_errors():
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate(0)
            self._buffer.seek(0)
            shutil.copyfileobj(self._buffer, file)
            file.flush()

    @staticmethod
    @contextmanager
    def _disk_errors() -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RejectsNotKept(f"the rejects file: {error.strerror}") from None


@contextmanager
def _abandon_on_error(sink: Sink) -> Iterator[None]:
    """Discard partial output on any error."""
    try:
        yield
    except BaseException:
        sink.abandon()
        raise


def _check_out(out: str, sources: Sequence[str], compression: str | None) -> None:
    if out == "-":
        if compression not in (None, UNCOMPRESSED):
            raise InvalidUsage("--out-compression is for files and parts; pipe '-' through gzip")
        return
    if out.startswith("s3://"):
        bucket = out.removeprefix("s3://").partition("/")[0]
        if not bucket or not (out.endswith("/") and is_text(out)):
            raise InvalidUsage(
                f"OUT {out} is not a prefix: write s3://bucket/prefix/, with a slash at the end"
            )
    elif any(same_file(out, source) for source in sources):
        raise InvalidUsage(f"OUT {out} is the source itself")
    elif is_data_file(out) and Path(out).is_file() and ".json" not in out:
        raise InvalidUsage(
            f"OUT is missing: the last argument, {out}, is a file that is there, and not named like"
            " DynamoDB JSON; end with OUT, such as out.json"
        )
