"""The first step: check everything, pin the source, and cut it into chunks of whole rows."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from ddbload.contracts import (
    Chunk,
    Cursor,
    Payload,
    PreflightCursor,
    PreflightResult,
    PreflightTask,
    Resume,
    RunRecord,
    Table,
    run_id,
)
from ddbload.errors import (
    DdbloadError,
    Interrupted,
    NoProgress,
    RunMismatch,
    SourceChanged,
    UnterminatedQuote,
)
from ddbload.modes import DELETE
from ddbload.pipeline.context import Context
from ddbload.pipeline.header import read_header
from ddbload.pipeline.ledger import Ledger, ManifestPart
from ddbload.pipeline.tables import check_names, check_position, column_types, describe
from ddbload.rows.blocks import Block, BlockCutter
from ddbload.rows.dialect import Dialect
from ddbload.rows.split import RowEnds, row_ends
from ddbload.source.base import ByteSource

MAX_CHUNKS = 20_000


def preflight(task: PreflightTask, context: Context) -> PreflightResult:
    """Scan until the manifest is whole, or the deadline is near.

    The first invocation checks the payload, the table and the header, and writes `run.json`;
    nothing is written before all is well. Whatever is wrong is raised by name.
    """
    if task.cursor is None:
        payload = _payload(task, context)
        run = run_id(payload.run or task.run)
        ledger = context.ledger(run)
        context.permitted.check(payload)
        with closing(context.open(payload.source)) as file:
            record = _begin(run, payload, file, ledger, context)
        if task.execution is not None:
            ledger.put_execution(task.execution)
        first = record.data_start
        cursor = PreflightCursor(first.byte, first.line, 0)
        whole = ledger.find_manifest()
        if whole is not None:
            return _result(record, None, ledger, len(whole))
    else:
        ledger = context.ledger(run_id(task.run))
        record, cursor = ledger.record(), task.cursor
    part = ledger.find_part(cursor.byte)
    if part is None:
        with closing(context.reopen(record)) as file:
            part = ledger.put_part(cursor.byte, _Scan(record, context).run(file, cursor))
    chunks = cursor.chunk + len(part.chunks)
    if part.cursor is None:
        _join(record, ledger)
    return _result(record, part.cursor, ledger, chunks)


def _payload(task: PreflightTask, context: Context) -> Payload:
    resume = Resume.asked_for(task.input)
    if resume is None:
        return Payload.from_json(task.input)
    return resume.payload(context.ledger(resume.run).record())


def _result(
    record: RunRecord, cursor: PreflightCursor | None, ledger: Ledger, chunks: int
) -> PreflightResult:
    return PreflightResult(record.run, cursor, ledger.manifest_name, chunks, record.workers)


def _begin(
    run: str, payload: Payload, file: ByteSource, ledger: Ledger, context: Context
) -> RunRecord:
    source = payload.source
    Dialect.of(source)
    if source.columns is not None:
        check_names(source.columns)
    table = describe(context.clients.dynamodb, payload.table, sleep=context.sleep, rng=context.rng)
    record = record_of(run, payload, file, table, context.now())
    if ledger.begin(record):
        return record
    existing = ledger.record()
    _require_same(existing, record)
    size = record.size - record.data_start.byte
    workers = max(1, min(payload.options.workers, -(-size // existing.chunk_bytes)))
    record = existing.with_options(replace(record, workers=workers))
    ledger.put_record(record)
    return record


def record_of(
    run: str, payload: Payload, file: ByteSource, table: Table, created: float
) -> RunRecord:
    """What a run of this source into this table would begin with. Writes nothing.

    Raises whatever is wrong with the header, the columns and their types by name.
    """
    source, options = payload.source, payload.options
    header = read_header(file, source, options.max_row_bytes)
    check_names(header.columns)
    # A file without any row has nothing to contradict the table.
    checked = replace(table, index_keys=()) if options.mode == DELETE else table
    types = column_types(header.columns, payload.types, checked) if header.columns else ()
    check_position(options.position_attribute, header.columns, table)
    size = file.size - header.data_start.byte
    chunk_bytes = max(options.chunk_bytes, -(-size // MAX_CHUNKS))
    return RunRecord(
        run=run,
        payload=replace(payload, run=run),
        pinned=file.pinned,
        size=file.size,
        data_start=header.data_start,
        columns=header.columns,
        types=types,
        table=table,
        chunk_bytes=chunk_bytes,
        workers=max(1, min(options.workers, -(-size // chunk_bytes))),
        created=created,
    )


def _require_same(existing: RunRecord, record: RunRecord) -> None:
    if existing.configuration == record.configuration:
        return
    run = record.run
    if dict(existing.pinned) != dict(record.pinned):
        raise SourceChanged(
            f"run {run} began with another version of {existing.payload.source.uri} (or another"
            " source); start a new run for this one"
        )
    then, now = existing.payload.options, record.payload.options
    differing = [
        name
        for name, one, other in (
            ("table", existing.table.id, record.table.id),
            ("columns", existing.columns, record.columns),
            ("types", existing.types, record.types),
            ("mode", then.mode, now.mode),
            ("position attribute", then.position_attribute, now.position_attribute),
        )
        if one != other
    ]
    if "table" in differing:
        # Most often of the same name, deleted and made again: what was written is gone.
        raise RunMismatch(
            f"run {run} wrote to another table (or to an earlier one of the same name, since"
            " deleted): start a new run for this one"
        )
    what = ", ".join(differing) or "format, delimiter, quote or header"
    raise RunMismatch(f"run {run} began with another {what}; give the same, or another run id")


def _join(record: RunRecord, ledger: Ledger) -> None:
    chunks: list[Chunk] = []
    byte = record.data_start.byte
    while (part := ledger.find_part(byte)) is not None:
        chunks += part.chunks
        if part.cursor is None:
            break
        byte = part.cursor.byte
    ledger.put_manifest(chunks)


def refuse_unterminated(ends: RowEnds, block: Block) -> None:
    """Raise `UnterminatedQuote` for a source's last block that ends inside a quoted field."""
    if block.terminated:
        return
    last = ends.last(block.data, final=True)
    if not ends.closes(block.data[last:]):
        line = block.start.line + ends.count_lines(block.data, 0, last)
        raise UnterminatedQuote(
            f"the row at line {line}, byte {block.start.byte + last} has a quoted field that"
            " is never closed: mend it; or, if the file does not quote its fields, say so"
            " (--quote none; in a payload, quote null)"
        )


class _Scan:
    """Cuts a source into chunks, from a cursor on."""

    def __init__(self, record: RunRecord, context: Context) -> None:
        self._record = record
        self._context = context
        self._ends = row_ends(Dialect.of(record.payload.source))
        self._chunks: list[Chunk] = []
        self._number = 0
        self._start = Cursor(0, 1)

    def run(self, file: ByteSource, cursor: PreflightCursor) -> ManifestPart:
        """What lies between the cursor and the deadline, or the end. Raises `RowTooLong`."""
        size = self._record.size
        self._number = cursor.chunk
        self._start = Cursor(cursor.byte, cursor.line)
        cutter = BlockCutter(self._ends, self._start, self._record.payload.options.max_row_bytes)
        position = cursor.byte
        try:
            for piece in file.stream(position, size, cutter.piece_bytes):
                position += len(piece)
                block = cutter.feed(piece, final=position == size)
                if block is not None:
                    refuse_unterminated(self._ends, block)
                    self._cut(block)
                if position < size and self._context.must_end():
                    return self._hand_on(cutter.at, cursor)
        except DdbloadError as error:
            # What was given up for want of time, the next invocation tries again.
            if error.permanent or not self._context.must_end() or cutter.at.byte == cursor.byte:
                raise
            return self._hand_on(cutter.at, cursor)
        if self._start.byte < size:
            self._end_chunk(Cursor(size, cutter.at.line))
        return ManifestPart(tuple(self._chunks), None)

    def _cut(self, block: Block) -> None:
        data, begin = block.data, block.start.byte
        counted, line = 0, block.start.line
        row = 0
        while True:
            target = self._start.byte + self._record.chunk_bytes - begin
            if target > len(data):
                return
            end = self._ends.first_from(data, max(target, 1), start=row, final=True)
            if not end:
                return
            line += self._ends.count_lines(data, counted, end)
            counted = row = end
            self._end_chunk(Cursor(begin + end, line))

    def _end_chunk(self, end: Cursor) -> None:
        start = self._start
        self._chunks.append(Chunk(self._number, start.byte, end.byte, start.line))
        self._number += 1
        self._start = end

    def _hand_on(self, at: Cursor, cursor: PreflightCursor) -> ManifestPart:
        if not self._chunks:
            if at.byte == cursor.byte:
                if self._context.should_stop():
                    raise Interrupted(f"stopped in the row at line {cursor.line}")
                raise NoProgress(
                    f"no row's end was found between byte {cursor.byte} and the deadline; give"
                    " preflight more time, or lower max_row_bytes"
                )
            # A chunk may be shorter than asked for; an invocation may not be for nothing.
            self._end_chunk(at)
        start = self._start
        return ManifestPart(
            tuple(self._chunks), PreflightCursor(start.byte, start.line, self._number)
        )
