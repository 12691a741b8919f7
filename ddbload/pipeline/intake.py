"""A chunk's rows on their way in: read, parsed, checked, and told to the scheduler.

Keeps the rows, so that they may be asked for (as items or as a body, by place, as they stand)
until they are settled.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from ddbload.contracts import Chunk, Cursor, RunRecord
from ddbload.errors import DdbloadError, SplitMismatch
from ddbload.rows.blocks import Block, BlockCutter
from ddbload.rows.dialect import Dialect
from ddbload.rows.encode import MAX_ROW_BYTES, Cells, Encoder, Examined
from ddbload.rows.items import Attributes, Item, ItemBuilder
from ddbload.rows.parse import Defect, RowParser, Rows
from ddbload.rows.split import RowEnds
from ddbload.source.base import ByteSource
from ddbload.write.scheduler import Scheduler

MAX_REJECT_BYTES = 32 * 1024 * 1024
"""Rejects that one segment holds: with more, the segment ends and the next one goes on."""


class Reading:
    """What all chunks of a run share: made once, used for each."""

    def __init__(self, record: RunRecord) -> None:
        dialect = Dialect.of(record.payload.source)
        self.record = record
        self.ends = RowEnds(dialect)
        self.parser = RowParser(dialect, self.ends)
        self.builder = ItemBuilder(record.columns, record.types, record.table)
        self.encoder = Encoder(record.columns, record.types, record.table)


@dataclass(slots=True)
class _Parsed:
    """A block's rows, and the handle of the first of them."""

    first: int
    rows: Rows
    cells: list[Cells | None] = field(default_factory=list)
    """Of the rows that the scheduler was told of; None: the builder knows."""

    def has(self, handle: int) -> bool:
        """Whether it is one of these rows."""
        return self.first <= handle < self.first + len(self.rows.records)


class Intake:
    """Feeds a scheduler with one byte range, from a cursor on."""

    def __init__(self, reading: Reading, chunk: Chunk, start: Cursor, max_rejects: int) -> None:
        self.error: DdbloadError | None = None
        """Why reading ended early. The rows before it are settled all the same."""
        self._reading = reading
        self._chunk = chunk
        self._max_rejects = max_rejects
        self._cutter = BlockCutter(
            reading.ends, start, reading.record.payload.options.max_row_bytes
        )
        self._start = start
        # Not the cutter's place: a block that is cut, and then refused, is not read.
        self._reached = start
        self._parsed: deque[_Parsed] = deque()
        self._taken = 0
        self._rejects: dict[int, bytes] = {}
        self._reject_bytes = 0
        self._blocks: Iterator[Block] = iter(())
        self._at_end = False
        self._scheduler: Scheduler | None = None

    def attach(self, source: ByteSource, scheduler: Scheduler) -> None:
        """Say where rows come from and where they go."""
        self._blocks = self._read(source)
        self._scheduler = scheduler

    @property
    def exhausted(self) -> bool:
        """Whether the chunk's last byte was reached, ended a row, and every row was told of."""
        told = not self._parsed or self._taken >= len(self._parsed[-1].rows.records)
        return self._at_end and told

    @property
    def rejected(self) -> int:
        """Rejects found so far, whether their segment will reach them or not."""
        return len(self._rejects)

    @property
    def bytes_read(self) -> int:
        """How far reading is, from the start."""
        return self._reached.byte - self._start.byte

    def feed(self, room: int) -> bool:
        """Tell the scheduler of up to `room` more rows; false when there are no more."""
        if self._scheduler is None or self.error is not None or self._enough_rejects():
            return False
        try:
            parsed = self._next_rows()
            if parsed is None:
                return False
            stop = min(len(parsed.rows.records), self._taken + room)
            self._tell(self._scheduler, parsed, self._taken, stop)
            self._taken = stop
        except DdbloadError as error:
            self.error = error
            return False
        return True

    def items(self, handles: Sequence[int]) -> list[Attributes]:
        """The items of these rows."""
        return [self._item(self._holding(handle), handle) for handle in handles]

    def body(self, handles: Sequence[int]) -> bytes:
        """The body of the request that puts these rows."""
        parsed = self._holding(handles[0])
        if parsed.has(min(handles)) and parsed.has(max(handles)):
            first, cells = parsed.first, parsed.cells
            rows = [cells[handle - first] for handle in handles]
        else:
            rows = [(each := self._holding(h)).cells[h - each.first] for h in handles]
        if None in rows:
            made = [
                self._item(self._holding(handle), handle) if row is None else row
                for handle, row in zip(handles, rows, strict=True)
            ]
            return self._reading.encoder.body(made)
        return self._reading.encoder.body(cast("list[Cells]", rows))

    def release(self, handles: Sequence[int]) -> None:
        """Note the rejects of what DynamoDB refused, of rows that are settled."""
        refused = self._scheduler.refused if self._scheduler is not None else {}
        for handle in refused.keys() & handles if refused else ():
            parsed = self._holding(handle)
            defect = Defect("refused_by_dynamodb", refused[handle])
            self._reject(parsed, handle - parsed.first, defect)

    def cursor(self, frontier: int) -> Cursor:
        """Where the row with this handle begins; where reading is, when there is none."""
        for parsed in self._parsed:
            row = frontier - parsed.first
            if 0 <= row < len(parsed.rows.records):
                return parsed.rows.position(row)
        return self._reached

    def rejects(self, frontier: int) -> list[bytes]:
        """The reject lines of the rows before a handle, in order."""
        return [line for handle, line in sorted(self._rejects.items()) if handle < frontier]

    def _read(self, source: ByteSource) -> Iterator[Block]:
        position, end = self._start.byte, self._chunk.end
        for piece in source.stream(position, end, self._cutter.piece_bytes):
            position += len(piece)
            block = self._cutter.feed(piece, final=position == end)
            if block is not None and not block.terminated and end != self._reading.record.size:
                raise SplitMismatch(
                    f"chunk {self._chunk.chunk} should end with a row at byte {end}, and does not:"
                    " the manifest does not fit the source; start a new run"
                )
            self._at_end = position == end
            if block is not None:
                yield block

    def _next_rows(self) -> _Parsed | None:
        """The block that has rows left, or a new one."""
        while not self._parsed or self._taken >= len(self._parsed[-1].rows.records):
            block = next(self._blocks, None)
            if block is None:
                return None
            self._forget_settled()
            first = self._parsed[-1].first + self._taken if self._parsed else self._known()
            self._parsed.append(_Parsed(first, self._reading.parser.parse(block)))
            self._reached = self._cutter.at
            self._taken = 0
        return self._parsed[-1]

    def _known(self) -> int:
        return 0 if self._scheduler is None else self._scheduler.settlement.known

    def _forget_settled(self) -> None:
        frontier = 0 if self._scheduler is None else self._scheduler.settlement.frontier
        parsed = self._parsed
        while parsed and parsed[0].first + len(parsed[0].rows.records) <= frontier:
            parsed.popleft()

    def _holding(self, handle: int) -> _Parsed:
        return next(parsed for parsed in self._parsed if parsed.has(handle))

    def _item(self, parsed: _Parsed, handle: int) -> Attributes:
        built = self._build(parsed, handle)
        assert isinstance(built, Item), f"row {handle} was offered, and is none"  # noqa: S101
        return built.attributes

    def _build(self, parsed: _Parsed, handle: int) -> Item | Defect:
        record = parsed.rows.records[handle - parsed.first]
        return record if isinstance(record, Defect) else self._reading.builder.build(record)

    def _tell(self, scheduler: Scheduler, parsed: _Parsed, start: int, stop: int) -> None:
        first = scheduler.know(stop - start)
        found = self._reading.encoder.examine(parsed.rows.records[start:stop])
        parsed.cells.extend(found.cells)
        if None in found.cells:
            self._tell_some(scheduler, parsed, first, found)
        else:
            handles = range(first, first + stop - start)
            scheduler.offer_all(handles, found.keys, found.units, found.row_bytes)

    def _tell_some(
        self, scheduler: Scheduler, parsed: _Parsed, first: int, found: Examined
    ) -> None:
        """Where some rows are for the builder to judge."""
        group = _Group(scheduler, found.row_bytes)
        for handle, cells in enumerate(found.cells, first):
            place = handle - first
            if cells is not None:
                units = 1 if found.units is None else found.units[place]
                group.add(handle, found.keys[place], units)
                continue
            built = self._build(parsed, handle)
            if isinstance(built, Defect):
                scheduler.reject(handle)
                self._reject(parsed, handle - parsed.first, built)
            elif built.wire_bytes <= MAX_ROW_BYTES:
                group.add(handle, built.key, -(-built.size // 1024))
            else:
                group.offer()
                scheduler.offer(handle, built.key, built.size, built.wire_bytes)
        group.offer()

    def _reject(self, parsed: _Parsed, row: int, defect: Defect) -> None:
        columns = self._reading.record.columns
        known = defect.column is not None and defect.column < len(columns)
        at = parsed.rows.position(row)
        line = {
            "line": at.line,
            "byte": at.byte,
            "column": columns[defect.column or 0] if known else None,
            "cause": defect.cause,
            "detail": defect.detail,
            "raw": parsed.rows.raw(row),
        }
        data = json.dumps(line).encode() + b"\n"
        self._rejects[parsed.first + row] = data
        self._reject_bytes += len(data)

    def _enough_rejects(self) -> bool:
        return self.rejected > self._max_rejects or self._reject_bytes > MAX_REJECT_BYTES


class _Group:
    """Rows that are offered together, in their order."""

    def __init__(self, scheduler: Scheduler, row_bytes: int) -> None:
        self._scheduler = scheduler
        self._row_bytes = row_bytes
        self._handles: list[int] = []
        self._keys: list[Hashable] = []
        self._units: list[int] = []

    def add(self, handle: int, key: Hashable, units: int) -> None:
        self._handles.append(handle)
        self._keys.append(key)
        self._units.append(units)

    def offer(self) -> None:
        """Offer those that were added since."""
        self._scheduler.offer_all(self._handles, self._keys, self._units, self._row_bytes)
        self._handles, self._keys, self._units = [], [], []
