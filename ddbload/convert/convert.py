"""Convert a source's rows to items, as lines of DynamoDB JSON."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ddbload.contracts.control import WorkTotals
from ddbload.contracts.payload import DYNAMODB_EXPORT, DYNAMODB_JSON, GZIP, Payload
from ddbload.contracts.results import RowCounts
from ddbload.contracts.run_record import RunRecord
from ddbload.convert.sinks import FileSink, Sink, StreamSink
from ddbload.errors import NothingWritten, OutputUnwritable, TooManyRejects
from ddbload.items.encode.request_json import batch_request, compact_json
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context
from ddbload.pipeline.importing.row_feeder import FEED_READ_BYTES
from ddbload.pipeline.preflight.prepare import prepare_run
from ddbload.pipeline.preflight.table_checks import NO_TABLE
from ddbload.pipeline.reading.row_batches import RowBatch, iter_row_batches
from ddbload.pipeline.reading.row_blocks import RunReader
from ddbload.pipeline.reading.source_objects import expected_bytes
from ddbload.pipeline.table_description import describe_table
from ddbload.rows.columns import from_octets, to_octets
from ddbload.rows.reject_lines import Defect

if TYPE_CHECKING:
    from ddbload.convert.shard_targets import ShardTarget

_PUT, _ITEM = '{"PutRequest":', slice(len('{"PutRequest":'), -1)
_EMPTY = '{"Item":{}}'
_SENT_AS_WRITTEN = (DYNAMODB_JSON, DYNAMODB_EXPORT)
"""Formats whose items are encoded with the text of their lines."""
_BLANK_OR_ESCAPE = re.compile(r"[\s\\]")
_NO_ATTRIBUTES = Defect("no_attributes", "the row is empty; an item has at least one attribute")
_DELETION = Defect("deletion", "the row deletes an item, and only items can be converted")


@dataclass(slots=True)
class ConvertResult:
    """Counts of a conversion."""

    read: int = 0
    written: int = 0
    bytes: int = 0
    """Bytes read from the source, the header included."""
    causes: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    """Rejected rows by cause and column."""

    @property
    def rows(self) -> RowCounts:
        """Counts in the form of an import's."""
        return RowCounts(read=self.read, written=self.written, rejected=self.causes.total())


def prepare_conversion(
    payload: Payload, table: str | None, ledger: Ledger, context: Context
) -> RunRecord:
    """Detect a source's format, columns and types; return them as a record.

    With a table, keys take its types and limits. Raises the errors of preflight.
    """
    target = NO_TABLE
    if table is not None:
        dynamodb = context.clients.dynamodb
        target = describe_table(dynamodb, table, retry_policy=context.retry_policy)
    return prepare_run("convert", payload, ledger, context, table=target).record


def convert(
    record: RunRecord,
    ledger: Ledger,
    context: Context,
    sink: Sink,
    converted: ConvertResult,
    *,
    reject: Callable[[bytes], object] = lambda _: None,
    watch: Callable[[WorkTotals, int], None] = lambda _done, _size: None,
) -> None:
    """Write the items of all rows to a sink, in the order of the source.

    Args:
        record: Record of `prepare_conversion`.
        ledger: Ledger that the record was prepared with.
        context: Clients and the clock.
        sink: Sink for the items; the caller finishes it.
        converted: Counts, which are updated in place.
        reject: Called with the JSON line of each reject.
        watch: Called with the totals, and the bytes to read, after each batch.

    Raises:
        TooManyRejects: If more rows are rejected than the payload allows.
        NothingWritten: If all rows are rejected.
        OutputUnwritable: If the sink cannot be written.
    """
    limit = record.payload.options.max_rejects
    converted.bytes = record.data_start.byte
    public = record.public_names
    for batch in iter_row_batches(RunReader(record), ledger, context, piece_bytes=FEED_READ_BYTES):
        lines = _encode_items(batch, public, converted, reject)
        if record.payload.source.format in _SENT_AS_WRITTEN:
            lines = list(map(_without_blanks, lines))
        converted.read += batch.count
        converted.written += len(lines)
        converted.bytes += batch.bytes
        if converted.causes.total() > limit:
            raise TooManyRejects(
                f"more than {limit} rows were rejected, and max_rejects is {limit}: look at them"
                " (--rejects), then correct the file, or allow more (--max-rejects)"
            )
        sink.write(lines)
        watch(WorkTotals(converted.rows, bytes=converted.bytes), expected_bytes(record))
    if converted.rows.all_rejected:
        raise NothingWritten.of(
            converted.read, "their causes say why, and --rejects writes the rows to a file"
        )


def _encode_items(
    batch: RowBatch,
    public: frozenset[str],
    converted: ConvertResult,
    reject: Callable[[bytes], object],
) -> list[str]:
    """Encode the items of a batch, and reject the rows that are not valid items.

    Causes are counted by column if its name is `public`.
    """
    window = batch.encoded
    if not window.odd:
        lines = [put[_ITEM] for put in window.puts if put.startswith(_PUT)]
        if len(lines) == len(window) and _EMPTY not in lines:
            return lines
    lines = []
    for row in range(len(window)):
        line = _encode_item(batch, row)
        if isinstance(line, Defect):
            reject(batch.reject_line(row, line))
            column = batch.column_of(line)
            converted.causes[line.cause, column if column in public else None] += 1
        else:
            lines.append(line)
    return lines


def _without_blanks(line: str) -> str:
    """Write an item as every other input does: equal items make equal lines, whatever their input.

    An import may send the text of the line that an item was read from, with its blanks and escapes.
    """
    if _BLANK_OR_ESCAPE.search(line) is None:
        return line
    return to_octets(compact_json(json.loads(from_octets(line))))


def _encode_item(batch: RowBatch, row: int) -> str | Defect:
    put = batch.encoded.puts[row]
    if row in batch.encoded.odd:
        built = batch.build(row)
        if isinstance(built, Defect):
            return built
        put = batch_request(built)
    if not put.startswith(_PUT):
        return _DELETION
    line = put[_ITEM]
    return _NO_ATTRIBUTES if line == _EMPTY else line


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Output of a conversion: OUT, compression, size of parts, order."""

    out: str
    """`-`, a file, a folder (an existing one, or with a slash at the end), or s3://bucket/prefix/."""
    compression: str | None
    """One of `COMPRESSIONS`; by default that of the file name, and gzip for parts."""
    part_bytes: int
    seed: int


def open_sink(wanted: OutputOptions, context: Context) -> Sink:
    """Open the sink that OUT names. Raises `OutputUnwritable`, `ExtraMissing` and AWS's errors."""
    out = wanted.out
    if out == "-":
        return StreamSink(sys.stdout.buffer, "standard output")
    if out.startswith("s3://") or out.endswith("/") or Path(out).is_dir():
        from ddbload.convert.sharded_sink import ShardedSink

        return ShardedSink(
            _shard_target(out, context),
            compression=wanted.compression or GZIP,
            seed=wanted.seed,
            part_bytes=wanted.part_bytes,
        )
    if _is_special(out):
        try:
            # Appending, because /dev/stdout may be a file that a shell appends to (>>).
            return StreamSink(Path(out).open("ab"), out, close=True)
        except OSError as error:
            raise OutputUnwritable(f"{out}: {error.strerror}") from None
    return FileSink(out, wanted.compression)


def _shard_target(out: str, context: Context) -> ShardTarget:
    from ddbload.convert.shard_targets import BucketShards, FolderShards

    if not out.startswith("s3://"):
        return FolderShards(out)
    bucket, _, prefix = out.removeprefix("s3://").partition("/")
    return BucketShards(context.clients.s3, bucket, prefix, retry_policy=context.retry_policy)


def _is_special(path: str) -> bool:
    """Tell whether a path is a device, pipe or the like, which a file must not replace."""
    if path.startswith(("/dev/", "/proc/")):
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - one call for all kinds
    except (OSError, ValueError):
        return False
