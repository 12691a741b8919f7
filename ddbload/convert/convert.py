"""Convert a source's rows to items, as lines of DynamoDB JSON."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ddbload.aws.table_description import describe_table_with_response
from ddbload.context import Context
from ddbload.contracts.options import WHOLE
from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.contracts.source import GZIP
from ddbload.convert.sharded_sink import BucketShards, FolderShards, ShardedSink, ShardTarget
from ddbload.convert.sinks import FileSink, Sink, StreamSink, disk_errors
from ddbload.errors import NothingWritten, OutputUnwritable, TooManyRejects
from ddbload.items.item_requests import compact_json
from ddbload.ledger.ledger import Ledger
from ddbload.reading.parts import PartOutput, ReadCounts, read_parts
from ddbload.reading.row_batches import RejectLine, RowBatch, first_rows, iter_row_batches
from ddbload.reading.row_blocks import RunReader, expected_bytes, rare_gc
from ddbload.records import Record
from ddbload.rows.columns import from_octets, to_octets
from ddbload.steps.checks import NO_TABLE
from ddbload.steps.prepare import prepare_run, warn_of_reading
from ddbload.steps.row_feeder import FEED_READ_BYTES

_REJECT_BYTES = 8 * 1024 * 1024
"""Maximum bytes of rejects that a worker sends for a part."""
_BLANK_OR_ESCAPE = re.compile(r"[\s\\]")


def prepare_conversion(
    payload: Payload, table: str | None, ledger: Ledger, context: Context
) -> RunRecord:
    """Detect a source's format, columns and types; return them as a record.

    With a table, key columns take its types, and its limits apply. Raises the errors of preflight.
    """
    target = NO_TABLE
    if table is not None:
        dynamodb = context.clients.dynamodb
        policy = context.retry_policy
        target, _ = describe_table_with_response(dynamodb, table, retry_policy=policy)
    # The whole source is read anyway, so the shorter row limit of a scan by edges is not needed.
    payload = replace(payload, options=replace(payload.options, scan=WHOLE))
    prepared = prepare_run("convert", payload, ledger, context, table=target)
    warn_of_reading(prepared, context)
    return prepared.record


def convert(
    record: RunRecord,
    ledger: Ledger,
    context: Context,
    sink: Sink,
    converted: ReadCounts,
    *,
    reject: Callable[[bytes], object] = lambda _: None,
    watch: Callable[[int, int, int], None] = lambda _read, _size, _rows: None,
    processes: int = 1,
    make_context: Callable[[], Context] | None = None,
    first: int | None = None,
) -> None:
    """Write the items of all rows to a sink, in the order of the source.

    Args:
        record: Record of `prepare_conversion`.
        ledger: Ledger that the record was prepared with.
        context: Clients and clock.
        sink: Sink for the items. The caller finishes it.
        converted: Counts, updated in place.
        reject: Called with the JSON line of each reject.
        watch: Called from time to time with bytes read, bytes in all, and rows read.
        processes: Processes that read and convert. The output is the same for any number.
        make_context: Function that makes the context in another process.
        first: Number of rows to convert, as if the source ended there; None for all.

    Raises:
        TooManyRejects: If more rows are rejected than the payload allows.
        NothingWritten: If all rows are rejected.
        OutputUnwritable: If the sink cannot be written.
        WorkerDied: If a process was killed.
    """
    first_reject: list[bytes] = []

    def keep_first(line: bytes) -> None:
        if not first_reject:
            first_reject.append(line)
        reject(line)

    converted.bytes = record.data_start.byte
    if record.has_rows:
        limit = record.payload.options.reject_limit
        most = limit.rows if limit.percent is None else None
        job = _ConvertJob(most)
        conversion = _Conversion(record, job, sink, converted, keep_first, watch)
        try:
            if first is not None:
                reader = RunReader(record)
                batches = iter_row_batches(reader, ledger, context, piece_bytes=job.piece_bytes)
                with closing(batches), rare_gc():
                    conversion.read(first_rows(batches, first))
            else:
                read_parts(
                    *(record, ledger, context, job),
                    conversion,
                    processes=processes,
                    make_context=make_context,
                )
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputUnwritable(f"temporary files or output: {error.strerror}") from None
    if converted.rows.all_rejected:
        raise NothingWritten.of(
            converted.read,
            "their causes say why, and --rejects writes the rows to a file",
            converted.causes.most_common(1)[0][0][0],
            first=first_reject[0] if first_reject else None,
        )
    if record.payload.options.reject_limit.exceeded(converted.causes.total(), converted.read):
        raise _too_many(record, converted)


def _too_many(record: RunRecord, converted: ReadCounts) -> TooManyRejects:
    limit, rejected = record.payload.options.reject_limit, converted.causes.total()
    of_rows = "" if limit.percent is None else f"; {rejected:,} of {converted.read:,}"
    return TooManyRejects(
        f"more rows were rejected than max_rejects allows ({limit}{of_rows}): look at them"
        " (--rejects), then correct the file, or allow more (--max-rejects)"
    )


class _TooManyHereError(Exception):
    """Raised for a part with more rejects than a worker may send."""


_Summary = tuple[ReadCounts, list[RejectLine]]
"""Row counts and rejects of a part."""


class _ConvertJob(Record):
    """Job that converts the rows of one part."""

    max_rejects: int | None
    """Number of rejects at which a part is given up; None if the limit is a percentage."""
    piece_bytes = FEED_READ_BYTES
    """Bytes to read at a time."""

    def work(self, reader: RunReader, batches: Iterator[RowBatch], output: PartOutput) -> _Summary:  # noqa: ARG002 - a PartJob
        """Convert all batches of the part."""
        counts, rejects, reject_bytes = ReadCounts(), list[RejectLine](), 0

        def reject(line: bytes) -> None:
            nonlocal reject_bytes
            rejects.append(line)
            reject_bytes += len(line)

        for batch in batches:
            output.write(self.convert(batch, counts, reject))
            most = self.max_rejects
            if (most is not None and counts.causes.total() > most) or reject_bytes > _REJECT_BYTES:
                raise _TooManyHereError
        return counts, rejects

    def convert(
        self, batch: RowBatch, counts: ReadCounts, reject: Callable[[bytes], object]
    ) -> bytes:
        """Encode the items of a batch as lines, and count the batch's rows."""
        items = counts.add_batch(batch, lambda row, defect: reject(batch.reject_line(row, defect)))
        if not isinstance(items, str):
            if batch.reader.record.payload.source.kind.is_native:
                items = list(map(_without_blanks, items))
            items = "\n".join([*items, ""])
        return items.encode("latin-1")


class _Conversion(Record):
    """Collector that writes converted parts in order, and converts those that a worker gave up."""

    record: RunRecord
    job: _ConvertJob
    sink: Sink
    converted: ReadCounts
    reject: Callable[[bytes], object]
    watch: Callable[[int, int, int], None]

    def take(self, summary: _Summary, output: PartOutput, start: Cursor) -> bool:
        """Write a converted part; return False if it exceeds the limit of rejects."""
        counts, rejects = summary
        if self._has_too_many(counts):
            return False
        shift = 0 if self.record.objects is not None else start.line - 1
        for line in rejects:
            self.reject(_with_line(line, shift) if shift else line)
        self.converted.add(counts)
        for piece in output.pieces():
            self.sink.write(piece)
        self._show()
        return True

    def read(self, batches: Iterator[RowBatch]) -> None:
        """Convert a part in this process, writing items at once. Raises `TooManyRejects`."""
        converted = self.converted
        for batch in batches:
            lines = self.job.convert(batch, converted, self.reject)
            if self._has_too_many(ReadCounts()):
                raise _too_many(self.record, converted)
            self.sink.write(lines)
            self._show()

    def _has_too_many(self, more: ReadCounts) -> bool:
        """Return whether the rejects exceed the limit, even if all remaining rows were valid.

        `more`: counts of a part that was not added yet.
        """
        done = self.converted
        return self.record.payload.options.reject_limit.surely_exceeded(
            done.causes.total() + more.causes.total(),
            done.read + more.read,
            self.record.most_rows_besides(done.bytes + more.bytes),
        )

    def _show(self) -> None:
        self.watch(self.converted.bytes, expected_bytes(self.record), self.converted.read)


def _with_line(line: bytes, shift: int) -> bytes:
    """Return a reject's JSON with its line number increased by `shift`."""
    value = json.loads(line)
    value["line"] += shift
    return json.dumps(value).encode() + b"\n"


def _without_blanks(line: str) -> str:
    """Write an item without blanks and escapes, so that equal items give equal lines.

    The item's text may be that of the source's line, which an import sends unchanged.
    """
    if _BLANK_OR_ESCAPE.search(line) is None:
        return line
    return to_octets(compact_json(json.loads(from_octets(line))))


class OutputOptions(Record):
    """Output options of a conversion."""

    out: str
    """`-`, a file, a folder (existing, or with a trailing slash), or s3://bucket/prefix/."""
    compression: str | None
    """One of `COMPRESSIONS`. The default follows the file name; parts are gzipped."""
    part_bytes: int
    threads: int = 1
    """Number of threads that compress."""


def open_sink(wanted: OutputOptions, context: Context) -> Sink:
    """Open the sink that OUT names. Raises `OutputUnwritable`, `ExtraMissing` and AWS's errors."""
    out = wanted.out
    if out == "-":
        return StreamSink(sys.stdout.buffer, "standard output")
    target: ShardTarget | None = None
    if out.startswith("s3://"):
        bucket, _, prefix = out.removeprefix("s3://").partition("/")
        policy = context.retry_policy
        target = BucketShards(context.clients.s3, bucket, prefix, retry_policy=policy)
    elif out.endswith("/") or Path(out).is_dir():
        target = FolderShards(out)
    if target is not None:
        return ShardedSink(
            target,
            compression=wanted.compression or GZIP,
            part_bytes=wanted.part_bytes,
            threads=wanted.threads,
        )
    if _is_special(out):
        with disk_errors(out):
            # Opened for appending, because /dev/stdout may be a file that a shell appends to (>>).
            return StreamSink(Path(out).open("ab"), out, close=True)
    return FileSink(out, wanted.compression, wanted.threads)


def _is_special(path: str) -> bool:
    """Return whether a path is a device, a pipe or similar, which a file must not replace."""
    if path.startswith(("/dev/", "/proc/")):
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - one call for all kinds
    except (OSError, ValueError):
        return False
