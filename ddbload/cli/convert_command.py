"""`ddbload convert`: write a source's items as DynamoDB JSON lines."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click

from ddbload.aws.clients import AwsSettings
from ddbload.cli import options, run_result, terminal
from ddbload.cli.payload import build_payload, is_data_file, max_rejects_option, source_options
from ddbload.cli.progress import show_record
from ddbload.cli.run_result import cause_lines, causes_json, rank_causes, rate_of, source_format
from ddbload.cli.run_setup import rejects_file, same_file, spooled
from ddbload.cli.terminal import Output
from ddbload.context import reading_context
from ddbload.contracts.messages import is_text
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import FAILED, SUCCEEDED, SUCCEEDED_WITH_REJECTS, Failure
from ddbload.contracts.source import GZIP, UNCOMPRESSED, ZSTD
from ddbload.convert.convert import OutputOptions, convert, open_sink, prepare_conversion
from ddbload.convert.sinks import Sink
from ddbload.errors import DdbloadError, InvalidUsage, RejectsNotKept
from ddbload.ledger.ledger import temporary_ledger
from ddbload.reading.parts import ReadCounts

_PART_MIB = 64
_NO_TABLE = "none"
"""Table name in the payload of a conversion, which has no table."""


@options.command(
    "ddbload convert books.csv books.json.gz --types year=N",
    "ddbload convert books.csv - --table books --first 10",
    "ddbload convert s3://my-bucket/books/ s3://my-bucket/converted/ --part-mib 128",
)
def convert_command(
    sources: tuple[str, ...] = options.sources_argument,
    out: str = options.argument(),
    first: int | None = options.first_option,
    given: Mapping[str, Any] = source_options,
    table: str | None = options.types_option(
        metavar="NAME", help="Take key types from this table, and check keys against its limits."
    ),
    out_compression: str | None = options.writing_option(
        type=click.Choice([GZIP, ZSTD, UNCOMPRESSED]),
        help="Compression of OUT.",
        show_default="gzip for parts; for a file by its name, .gz or .zst",
    ),
    part_mib: int = options.writing_option(
        metavar="N",
        type=click.IntRange(1, 4096),
        default=_PART_MIB,
        show_default=True,
        help="Maximum size of a part in MiB, before compression.",
    ),
    max_rejects: float | str = max_rejects_option,
    rejects: str | None = options.rejects_option,
    processes: int | None = options.processes_option,
    aws: AwsSettings = options.aws_options,
    output: Output = options.output_options(
        quiet="Do not print progress and summary.", verbose=True
    ),
) -> int:
    """Write the items of SOURCE to OUT as lines of DynamoDB JSON: {"Item": {...}}.

    SOURCE is the same as for ddbload import; several are converted as one.

    OUT is '-' for standard output, a file (.gz and .zst are compressed), or a folder or
    s3://bucket/prefix/ that ends with a slash. Folders and prefixes get parts of about equal size
    with all items in random order, as ImportTable and other importers need them.

    A file, folder or prefix appears only once all items are written. If a conversion to standard
    output or a pipe fails, the last line is not JSON, so that readers notice.

    Rows are read, typed and rejected as by ddbload import. The summary is printed on stdout; with
    '-', on stderr.
    """
    _check_out(out, sources, out_compression)
    given = {**given, "max_rejects": max_rejects}
    payload = build_payload(sources, table or _NO_TABLE, None, 1, given)
    source, counts = Payload.from_json(payload).source.uri, ReadCounts()
    count = processes or options.cores()
    wanted = OutputOptions(out, out_compression, part_mib << 20, count)
    with rejects_file(rejects, sources) as kept, spooled(payload):
        if kept is not None and out != "-" and same_file(out, rejects or ""):
            raise InvalidUsage(f"--rejects {rejects} is OUT itself")
        value, error = _convert(payload, table, wanted, aws, kept, first, counts, output)
    terminal.print_error(error)
    # Standard output may be OUT.
    say = terminal.print_stderr if out == "-" else terminal.print_stdout
    done = "is whole" if error is None else "was not written"
    with nullcontext() if out == "-" else terminal.keep_result(f"{out} {done}"):
        if output.as_json:
            say(json.dumps(value))
        elif not output.quiet and (error is None or counts.read):
            say(*_lines(value, source, counts))
    if error is None and counts.rows.warning:
        output.warn(counts.rows.warning)
    if counts.written and not output.as_json:
        run_result.say_numbers(output, value["look_like_numbers"])
    return terminal.exit_status(value["status"])


def _convert(
    payload: dict[str, Any],
    table: str | None,
    wanted: OutputOptions,
    aws: AwsSettings,
    kept: BinaryIO | None,
    first: int | None,
    counts: ReadCounts,
    output: Output,
) -> tuple[dict[str, Any], Failure | None]:
    """Convert a source; return the object that `--json` prints, and the error."""
    started, context = time.monotonic(), reading_context(aws)
    context.notice = output.notice
    sink: Sink | None = None
    record = failure = None
    try:
        with temporary_ledger() as ledger, ExitStack() as unfinished:
            record = prepare_conversion(Payload.from_json(payload), table, ledger, context)
            show_record(output, record, payload, writes=False)
            sink = open_sink(wanted, context)
            unfinished.callback(sink.abandon)
            with (
                terminal.live_reading(output, "converting") as watch,
                _rejects_to(kept, counts) as reject,
            ):
                convert(
                    record,
                    ledger,
                    context,
                    sink,
                    counts,
                    reject=reject,
                    watch=watch,
                    processes=wanted.threads,
                    make_context=partial(reading_context, aws),
                    first=first,
                )
            output.step(f"rows read: {counts.read:,}, items: {counts.written:,}")
            sink.finish()
            unfinished.pop_all()
    except InvalidUsage:
        raise
    except DdbloadError as error:
        failure = Failure.of(error)
    rows, seconds = counts.rows, time.monotonic() - started
    status = FAILED if failure else SUCCEEDED_WITH_REJECTS if rows.rejected else SUCCEEDED
    return {
        "status": status,
        "read_as": None if record is None else source_format(record),
        "rows": {"read": rows.read, **rows.outcomes},
        "causes": causes_json(rank_causes(counts.causes)),
        "bytes": counts.bytes,
        "seconds": round(seconds, 3),
        "rows_per_second": round(rate_of(rows.read, seconds), 1),
        "out": wanted.out,
        "out_parts": 0 if sink is None or failure else sink.parts,
        "out_bytes": 0 if sink is None or failure else sink.bytes,
        "rejects": str(Path(kept.name).absolute()) if kept is not None and rows.rejected else None,
        "first": first if rows.read == first else None,
        "error": None if failure is None else failure.shown(),
        "look_like_numbers": [] if record is None else list(record.look_like_numbers),
    }, failure


def _lines(value: Mapping[str, Any], source: str, counts: ReadCounts) -> Iterator[str]:
    """Yield the lines of the summary."""
    rows, first = counts.rows, value["first"]
    rejected = f", {rows.rejected:,} rejected" if rows.rejected else ""
    rejected += f", {rows.filtered:,} left out by --where" if rows.filtered else ""
    yield f"{source}: {'converted' if value['error'] is None else 'not converted'}"
    yield f"  read as   {value['read_as']}"
    yield f"  rows      {rows.read:,} read: {rows.written:,} items{rejected}"
    yield (
        f"  time      {value['seconds']:,.1f} s, {value['rows_per_second']:,.0f} rows/s,"
        f" {value['bytes']:,} bytes"
    )
    if first is not None:
        yield f"  cut       after the first {'row' if first == 1 else f'{first:,} rows'} (--first)"
    yield from cause_lines(rank_causes(counts.causes))
    if value["error"] is None:
        parts = f", {value['out_parts']:,} parts" if value["out_parts"] > 1 else ""
        yield f"  out       {value['out']}, {value['out_bytes']:,} bytes{parts}"
    if value["rejects"] is not None:
        yield f"  rejects   {value['rejects']}"


@contextmanager
def _rejects_to(file: BinaryIO | None, counts: ReadCounts) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes the line of a reject. Raises `RejectsNotKept`.

    Rejects of an earlier conversion stay in the file until the first row was read.
    """
    if file is None:
        yield lambda _: None
        return
    has_earlier = stat.S_ISREG(os.fstat(file.fileno()).st_mode)

    def write(line: bytes, *, last: bool = False) -> None:
        nonlocal has_earlier
        try:
            if has_earlier:
                file.truncate(0)
            has_earlier = False
            file.write(line)
            if last:
                file.flush()
        except OSError as error:
            raise RejectsNotKept(f"the rejects file: {error.strerror}") from None

    try:
        yield write
    finally:
        if counts.read:
            write(b"", last=True)


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
