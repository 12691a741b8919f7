"""Rejects that were mended, on their way into a run of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import IO

from ddbload.contracts import Cursor, Payload, RunRecord
from ddbload.errors import BadRetryFile
from ddbload.rows.blocks import Block
from ddbload.rows.dialect import Dialect
from ddbload.rows.places import Places
from ddbload.rows.split import RowEnds, row_ends

_LINE_ENDS = ("\r\n", "\n", "\r")


def write_rows(record: RunRecord, lines: Iterable[bytes], out: IO[bytes], name: str) -> int:
    """Write the rows that lines of rejects have as `raw`, each with a line end; how many.

    `record`: of the run that rejected them, which says how they are read. `name`: the lines'
    file, for messages. Raises `BadRetryFile` where a line is no reject, and where its row is not
    exactly one: an open quote would swallow the next one.
    """
    ends = row_ends(Dialect.of(record.payload.source))
    count = 0
    for number, raw in _raws(lines, name):
        row = f"{_without_line_end(raw)}\n".encode(errors="surrogateescape")
        if not _is_one_row(row, ends):
            raise BadRetryFile(
                f"{name}, line {number}: its 'raw' is not exactly one row: close its quotes, and"
                " give each row a line of its own"
            )
        out.write(row)
        count += 1
    out.flush()
    return count


def payload_for(record: RunRecord, path: str) -> Payload:
    """What loads these rows, read and typed as that run's were, from a file at `path`."""
    earlier = record.payload
    source = replace(
        earlier.source,
        bucket=None,
        key=None,
        version_id=None,
        etag=None,
        path=path,
        header=False,
        columns=record.columns,
    )
    types = dict(zip(record.columns, record.types, strict=True))
    return replace(earlier, source=source, types=types, run=None)


def _raws(lines: Iterable[bytes], name: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        raw = value.get("raw") if isinstance(value, dict) else None
        if not isinstance(raw, str):
            raise BadRetryFile(
                f"{name}, line {number}: it is no reject, an object of JSON with a text 'raw', as"
                " ddbload rejects --json shows them"
            )
        try:
            raw.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            raise BadRetryFile(
                f"{name}, line {number}: its 'raw' is no text that UTF-8 can hold"
            ) from None
        yield number, raw


def _without_line_end(raw: str) -> str:
    return next((raw.removesuffix(end) for end in _LINE_ENDS if raw.endswith(end)), raw)


def _is_one_row(row: bytes, ends: RowEnds) -> bool:
    spans = Places(Block(row, Cursor(0, 1)), ends, 1).spans
    return spans == [(0, len(row))] and ends.last(row, final=False) == len(row)
