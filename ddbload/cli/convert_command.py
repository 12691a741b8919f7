"""Why rows were rejected, counted and told."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import click

from ddbload.cli.import_command import rejects_file, same_file, spooled, tell_guesses
from ddbload.cli.options import aws_options
from ddbload.cli.output import EXIT_DONE, EXIT_FAILED, EXIT_REJECTS, printable, read_as, tell
from ddbload.cli.payload import manifest_option, payload_of, place_named, source_options
from ddbload.cli.progress import live_progress
from ddbload.contracts.json_reader import is_text
from ddbload.contracts.payload import DEFAULT_MAX_REJECTS, DEFAULT_MAX_ROW_BYTES, Payload
from ddbload.contracts.results import FAILED, SUCCEEDED, SUCCEEDED_WITH_REJECTS, Failure, RowCounts
from ddbload.errors import DdbloadError, InvalidUsage, RejectsNotKept

if TYPE_CHECKING:
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.convert.outputs import OutputOptions
    from ddbload.convert.sinks import Sink
    from ddbload.pipeline.context import Context


Causes = Counter[tuple[str, str | None]]
"""Rows by cause and column."""
Ranked = list[tuple[str, str | None, int]]


def ranked(causes: Causes) -> Ranked:
    """The most frequent first, and of equals as the alphabet has them, wherever they stood."""
    by_name = sorted(causes.items(), key=lambda each: (each[0][0], each[0][1] or ""))
    return [
        (cause, column, rows)
        for (cause, column), rows in sorted(by_name, key=lambda each: -each[1])
    ]


def told(cause: str, column: str | None) -> str:
    """A cause and where it is, for people."""
    return f"{cause} in {printable(column or 'the row')}"


def as_json(causes: Ranked) -> list[dict[str, Any]]:
    """The same for programs."""
    return [{"cause": cause, "column": column, "rows": rows} for cause, column, rows in causes]


@dataclass(slots=True)
class Outcome:
    """What a conversion came to."""

    out: str
    read_as: str | None
    """How the source was read, in words."""
    rows: RowCounts
    causes: Ranked
    bytes: int
    seconds: float
    out_parts: int
    out_bytes: int
    rejects: str | None
    error: Failure | None

    @property
    def status(self) -> str:
        """The outcome, in the words of an import's status."""
        if self.error is not None:
            return FAILED
        return SUCCEEDED_WITH_REJECTS if self.rows.rejected else SUCCEEDED

    @property
    def exit_code(self) -> int:
        """As an import's."""
        if self.error is not None:
            return EXIT_FAILED
        return EXIT_REJECTS if self.rows.rejected else EXIT_DONE

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        rate = self.rows.read / self.seconds if self.seconds > 0 else 0.0
        return {
            "status": self.status,
            "read_as": self.read_as,
            "rows": self.rows.to_json(),
            "causes": as_json(self.causes),
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(rate, 1),
            "out": self.out,
            "out_parts": self.out_parts,
            "out_bytes": self.out_bytes,
            "rejects": self.rejects,
            "error": None
            if self.error is None
            else {"name": self.error.name, "message": self.error.message},
        }

    def lines(self, source: str) -> list[str]:
        """The same for a terminal."""
        rows, rate = self.rows, self.rows.read / self.seconds if self.seconds > 0 else 0.0
        rejected = f", {rows.rejected:,} rejected" if rows.rejected else ""
        lines = [
            f"{source}: {'converted' if self.error is None else 'not converted'}",
            f"  read as   {self.read_as}",
            f"  rows      {rows.read:,} read: {rows.written:,} items{rejected}",
            f"  time      {self.seconds:,.1f} s, {rate:,.0f} rows/s, {self.bytes:,} bytes",
        ]
        lines += [
            f"{'  causes    ' if first else ' ' * 12}{told(cause, column)}: {count:,}"
            for first, (cause, column, count) in zip(
                [True, *[False] * len(self.causes)], self.causes, strict=False
            )
        ]
        if self.error is None:
            parts = f", {self.out_parts:,} parts" if self.out_parts > 1 else ""
            lines.append(f"  out       {self.out}, {self.out_bytes:,} bytes{parts}")
        if self.rejects is not None:
            lines.append(f"  rejects   {self.rejects}")
        return lines


_PART_MIB = 64
_NO_TABLE = "none"
"""What payloads name where there is no table."""
_REJECTS_IN_MEMORY = 1024 * 1024


@click.command("convert", short_help="The items as DynamoDB JSON lines, to a file, '-' or S3.")
@click.argument("source")
@click.argument("out")
@manifest_option
@source_options
@click.option(
    "--table", metavar="NAME", help="Have the keys that this table has: their types and limits."
)
@click.option(
    "--max-rejects",
    type=click.IntRange(0),
    default=DEFAULT_MAX_REJECTS,
    show_default=True,
    help="It fails when more rows are rejected.",
)
@click.option(
    "--max-row-bytes",
    type=click.IntRange(1),
    default=DEFAULT_MAX_ROW_BYTES,
    show_default=True,
    help="It fails at a longer row: most often a quote is not closed.",
)
@click.option(
    "--out-compression",
    type=click.Choice(["gzip", "zstd", "none"]),
    help="[default: gzip for parts; for a file as its name ends, .gz or .zst]",
)
@click.option(
    "--part-mib",
    type=click.IntRange(1, 4096),
    default=_PART_MIB,
    show_default=True,
    help="MiB of a part, before compression, at most.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Another one shuffles the items of parts in another way.",
)
@click.option("--rejects", metavar="PATH", help="Where rejected rows go, as JSON lines.")
@aws_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="No progress and no summary.")
def convert_command(
    source: str,
    manifest: bool,
    out: str,
    table: str | None,
    out_compression: str | None,
    part_mib: int,
    seed: int,
    rejects: str | None,
    profile: str | None,
    region: str | None,
    endpoint_url: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Write the items of SOURCE to OUT as lines of DynamoDB's JSON: {"Item": {...}}.

    OUT is '-' for standard output, a file (.gz and .zst are compressed), or a folder or
    s3://bucket/prefix that ends with a slash: then there are parts of about equal size, with all
    items in random order, as ImportTable and other importers want them. What OUT names appears
    when all is written; of what cannot be taken back, the last line is no JSON.

    Rows are read, typed and rejected as by an import. The summary is on stdout, or with '-' on
    stderr.
    """
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.convert.outputs import OutputOptions

    _check_out(out, source, out_compression)
    payload = payload_of(place_named(source, manifest=manifest), table or _NO_TABLE, None, 1, given)
    wanted = OutputOptions(out, out_compression, part_mib << 20, seed)
    context = _context(AwsSettings(profile, region, endpoint_url))
    with rejects_file(rejects, source) as kept, spooled(source, payload):
        if kept is not None and out != "-" and same_file(out, rejects or ""):
            raise InvalidUsage(f"--rejects {rejects} is OUT itself")
        outcome = _convert(payload, table, wanted, context, kept, show_progress=not quiet)
    if outcome.error is not None:
        tell(f"ddbload: {outcome.error.name}: {outcome.error.message}")
    # Standard output may be taken.
    say = tell if out == "-" else click.echo
    if as_json:
        say(json.dumps(outcome.to_json()))
    elif not quiet and (outcome.error is None or outcome.rows.read):
        say("\n".join(outcome.lines(source)))
    return outcome.exit_code


def _convert(
    payload: dict[str, Any],
    table: str | None,
    wanted: OutputOptions,
    context: Context,
    kept: BinaryIO | None,
    *,
    show_progress: bool,
) -> Outcome:
    from ddbload.convert.convert import ConvertResult, convert, convertible
    from ddbload.convert.outputs import open_sink
    from ddbload.ledger.ledger import temporary_ledger

    converted, started = ConvertResult(), time.monotonic()
    sink: Sink | None = None
    record = failure = None
    try:
        with temporary_ledger() as ledger, _Rejects(kept) as rejects:
            checked = Payload.from_json(payload)
            record = convertible(checked, table, ledger, context)
            if show_progress:
                tell_guesses(record, payload)
            sink = open_sink(wanted, context)
            with _whole_or_nothing(sink), live_progress(enabled=show_progress) as draw:
                try:
                    convert(
                        record,
                        ledger,
                        context,
                        sink,
                        converted,
                        reject=rejects.add,
                        watch=draw,
                    )
                finally:
                    rejects.keep(converted.rows)
                sink.finish()
    except InvalidUsage:
        raise
    except DdbloadError as error:
        failure = Failure(error.name, error.message)
    rows = converted.rows
    return Outcome(
        out=wanted.out,
        read_as=None if record is None else read_as(record),
        rows=rows,
        causes=ranked(converted.causes),
        bytes=converted.bytes,
        seconds=time.monotonic() - started,
        out_parts=0 if sink is None or failure else sink.parts,
        out_bytes=0 if sink is None or failure else sink.bytes,
        rejects=str(Path(kept.name).absolute()) if kept is not None and rows.rejected else None,
        error=failure,
    )


class _Rejects:
    """Holds rejects until it is known what the file of an earlier conversion gives way to."""

    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file
        self._held = tempfile.SpooledTemporaryFile(_REJECTS_IN_MEMORY)  # noqa: SIM115 - see __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def add(self, line: bytes) -> None:
        """Hold a reject. Raises `RejectsNotKept`."""
        if self._file is not None:
            with self._disk():
                self._held.write(line)

    def keep(self, rows: RowCounts) -> None:
        """Write them to the file, if any rows were read. Raises `RejectsNotKept`."""
        file = self._file
        if file is None or not rows.read:
            return
        with self._disk():
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate(0)
            self._held.seek(0)
            shutil.copyfileobj(self._held, file)
            file.flush()

    @staticmethod
    @contextmanager
    def _disk() -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RejectsNotKept(f"the rejects' file: {error.strerror}") from None


@contextmanager
def _whole_or_nothing(sink: Sink) -> Iterator[None]:
    """Have nothing that looks like the whole where it is not, whatever ends it."""
    try:
        yield
    except BaseException:
        sink.abandon()
        raise


def _check_out(out: str, source: str, compression: str | None) -> None:
    if out == "-":
        if compression not in (None, "none"):
            raise InvalidUsage("--out-compression is for files and parts; pipe '-' through gzip")
        return
    if out.startswith("s3://"):
        bucket = out.removeprefix("s3://").partition("/")[0]
        if not bucket or not (out.endswith("/") and is_text(out)):
            raise InvalidUsage(
                f"OUT {out} is no prefix: write s3://bucket/prefix/, below which parts will lie"
            )
    elif same_file(out, source):
        raise InvalidUsage(f"OUT {out} is the source itself")


def _context(aws: AwsSettings) -> Context:
    from ddbload.aws.clients import Clients
    from ddbload.ledger.store import FolderStore
    from ddbload.pipeline.context import AccessPolicy, Context

    # There is no run, and so nothing to keep of it.
    store = FolderStore(Path(os.devnull))
    return Context(store=store, clients=Clients(aws), access=AccessPolicy(paths=True))
