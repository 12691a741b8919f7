"""From a source's rows to items as lines of DynamoDB's JSON. Without a table, where need be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ddbload.contracts.payload import Payload
from ddbload.contracts.results import RowCounts, WriteStats
from ddbload.contracts.run_record import RunRecord
from ddbload.convert.sinks import Sink
from ddbload.errors import NothingWritten, TooManyRejects
from ddbload.items.encode.request_json import batch_request
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context, RunTotals
from ddbload.pipeline.importing.row_feeder import PIECE_BYTES
from ddbload.pipeline.preflight.prepare import prepare_run
from ddbload.pipeline.preflight.table_checks import NO_TABLE
from ddbload.pipeline.reading.row_batches import RowBatch, iter_row_batches
from ddbload.pipeline.reading.row_blocks import RunReader
from ddbload.pipeline.reading.source_objects import expected_bytes
from ddbload.pipeline.table_description import describe_table
from ddbload.rows.reject_lines import Defect

_PUT, _ITEM = '{"PutRequest":', slice(len('{"PutRequest":'), -1)
_EMPTY = '{"Item":{}}'
_NOTHING = Defect("no_attributes", "nothing is in it, and an item has at least one attribute")
_DELETION = Defect("deletion", "it deletes an item, and what is written here are items")


@dataclass(slots=True)
class ConvertResult:
    """What became of the rows, so far."""

    read: int = 0
    written: int = 0
    bytes: int = 0
    """Of the source: its header, and the rows."""
    causes: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    """Rejected rows, by cause and column."""

    @property
    def rows(self) -> RowCounts:
        """In the words of an import."""
        return RowCounts(read=self.read, written=self.written, rejected=self.causes.total())


def convertible(payload: Payload, table: str | None, ledger: Ledger, context: Context) -> RunRecord:
    """Find out how a source's rows are to be read.

    `table`: whose keys the items are to have, if they are meant for one. Raises what preflight
    raises.
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
    watch: Callable[[RunTotals], None] = lambda _: None,
) -> None:
    """Write all rows' items to a sink, in the source's order, and count them in `converted`.

    `ledger`: that the record was prepared with.
    `reject` gets the line of each reject. Finishing the sink is left to the caller. Raises
    `TooManyRejects`, `NothingWritten`, and what reading and writing raise.
    """
    limit = record.payload.options.max_rejects
    converted.bytes = record.data_start.byte
    for walked in iter_row_batches(RunReader(record), ledger, context, piece_bytes=PIECE_BYTES):
        lines = _lines(walked, record, converted, reject)
        converted.read += walked.count
        converted.written += len(lines)
        converted.bytes += walked.bytes
        if converted.causes.total() > limit:
            raise TooManyRejects(
                f"more than {limit} rows were rejected, and max_rejects is {limit}: look at them"
                " (--rejects keeps them), then mend the file, or allow more (--max-rejects)"
            )
        sink.write(lines)
        watch(RunTotals(converted.rows, WriteStats(), converted.bytes, expected_bytes(record), 0))
    if converted.rows.all_rejected:
        raise NothingWritten.of(
            converted.read, "their causes say why, and --rejects keeps the rows"
        )


def _lines(
    walked: RowBatch, record: RunRecord, converted: ConvertResult, reject: Callable[[bytes], object]
) -> list[str]:
    """The rows' items in octets; those that are none are rejected."""
    window = walked.window
    if not window.odd:
        lines = [put[_ITEM] for put in window.puts if put.startswith(_PUT)]
        if len(lines) == len(window) and _EMPTY not in lines:
            return lines
    lines = []
    for row in range(len(window)):
        line = _line(walked, row)
        if isinstance(line, Defect):
            reject(walked.reject_line(row, line))
            converted.causes[line.cause, line.column_of(record.columns)] += 1
        else:
            lines.append(line)
    return lines


def _line(walked: RowBatch, row: int) -> str | Defect:
    put = walked.window.puts[row]
    if row in walked.window.odd:
        built = walked.build(row)
        if isinstance(built, Defect):
            return built
        put = batch_request(built)
    if not put.startswith(_PUT):
        return _DELETION
    line = put[_ITEM]
    return _NOTHING if line == _EMPTY else line
