"""Read a run's rejects, and turn corrected ones into the source of a new run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

from ddbload.context import Context
from ddbload.contracts.column_mapping import HMAC_KEY, Dialect, key_fingerprint
from ddbload.contracts.messages import Message, decode_json, encode_json
from ddbload.contracts.payload import EMPTY, NULL, OMIT, Payload
from ddbload.contracts.results import DONE, Report
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.contracts.source import LOCATION_FIELDS, UNCOMPRESSED, Source
from ddbload.errors import BadRetryFile, RunMismatch
from ddbload.items.row_attributes import PLAIN_TYPES, item_layout
from ddbload.ledger.counted_chunks import counted_rejects
from ddbload.reading.row_blocks import hmac_key
from ddbload.records import Record
from ddbload.rows.blocks import Block, RowBoundaries, RowPositions
from ddbload.rows.dialect_grammar import RowSplitter, row_boundaries_for
from ddbload.steps.load_history import may_begin


def iter_rejects(run: str, context: Context) -> Iterator[bytes]:
    """Iterate over a run's rejects as JSON lines, in the order of the source.

    Raises `RunNotFound` and `LedgerDamaged`.
    """
    ledger = context.ledger(run)
    if ledger.find_record() is None and ledger.find_request() is None:
        ledger.record()
    return counted_rejects(ledger)


_NULL = {"NULL": True}


RETRIES = "retries/"
"""Prefix of the objects that record which rejects each retry imports.

They are named `retries/<run>/<number>.json`. Each number is written only once, so of two retries
that begin at the same time, one finds the other.
"""
_PLACES = re.compile(r"(\d{6,})\.json", re.ASCII)
_PLACE_DIGITS = 16


class RetryPlaces(Message):
    """Rejects that a retry imports; written before the retry's run begins."""

    run: str
    """Run id of the retry."""
    at: float
    """Seconds since the epoch."""
    places: tuple[str, ...]


class EarlierRetry(Record):
    """Earlier retry that imported some of the same rejects."""

    run: str
    places: frozenset[str]
    """Places of the rejects that both retries import."""
    report: Report | None
    """Report of the earlier retry; None if it is not done."""


def earlier_retries(
    run: str, places: Iterable[str], context: Context
) -> tuple[list[EarlierRetry], str]:
    """Find the retries of a run that may have written some of these rejects.

    Also returns the name under which the next retry is recorded. Retries that ended before they
    wrote a row are left out.
    """
    wanted, prefix = frozenset(places), f"{RETRIES}{run}/"
    numbers = {
        int(match[1]): name
        for name in context.store.names(prefix)
        if (match := _PLACES.fullmatch(name.removeprefix(prefix)))
    }
    found: list[EarlierRetry] = []
    names = list(numbers.values())
    for name, data in zip(names, context.store.get_all(names), strict=True):
        advice = "delete it, unless a retry imported rejects that are now imported again"
        entry = decode_json(context.store.uri(name), data or b"", RetryPlaces.from_json, advice)
        same = wanted.intersection(entry.places)
        ledger = context.ledger(entry.run)
        if not same or (ledger.find_record() is None and not may_begin(ledger, entry.at, context)):
            continue
        report = ledger.find_report()
        if report is not None and report.status not in DONE:
            if report.rows.written == 0 and report.chunks_done == report.chunks > 0:
                # It rejected each of its rows.
                continue
            if report.work.requests == 0 and not ledger.workers():
                continue
            report = None
        found.append(EarlierRetry(entry.run, same, report))
    return found, f"{prefix}{max(numbers, default=0) + 1:06d}.json"


def put_retry(name: str, retry: str, places: Iterable[str], context: Context) -> bool:
    """Record which rejects a retry imports; return False if another retry has this `name`."""
    entry = RetryPlaces(retry, context.now(), tuple(places))
    return context.store.put_new(name, encode_json(entry.to_json()))


def write_rows(record: RunRecord, lines: Iterable[bytes], out: IO[bytes], name: str) -> list[str]:
    """Write the `raw` of each reject as a row with a line end; return the rejects' places.

    A place is a hash of the rejected row's first byte in the source, or of the row itself if the
    reject has no `byte`.

    Args:
        record: Record of the run that rejected the rows, which gives their format.
        lines: Rejects as JSON lines.
        out: File for the rows.
        name: Name of the file of rejects, for errors.

    Raises:
        BadRetryFile: If a line is not a reject, or its `raw` is not exactly one row. A row with an
            unclosed quote would include the next one.
    """
    ends = row_boundaries_for(_source_of(record))
    rewriter = _RowRewriter(record) if record.payload.source.kind.has_columns else None
    places: list[str] = []
    for number, raw, columns, place in _raws(lines, name):
        if columns is not None and rewriter is not None:
            reordered = rewriter.reorder(raw, columns)
            if reordered is None:
                raise BadRetryFile(
                    f"{name}, line {number}: its 'raw' is not a row of the {len(columns)} columns"
                    " in its 'columns': correct it, or remove the line"
                )
            raw = reordered
        if record.payload.source.kind.is_container:
            raw = _as_dynamodb_json(raw, record.payload.nulls.policy)
        text = raw.removesuffix("\n").removesuffix("\r")
        row = f"{text}\n".encode(errors="surrogateescape")
        if not _is_one_row(row, ends):
            raise BadRetryFile(
                f"{name}, line {number}: its 'raw' is not exactly one row: close its quotes, and"
                " give each row a line of its own"
            )
        out.write(row)
        places.append(place)
    out.flush()
    return places


def payload_for(record: RunRecord, path: str) -> Payload:
    """Return the payload that loads the rows at `path` with the format and types of a run."""
    earlier = record.payload
    types = earlier.types
    if earlier.source.kind.has_columns:
        layout = item_layout(record.columns, earlier)
        # Declare all types, so that none is inferred from the retried rows.
        kinds = (PLAIN_TYPES.get(kind, kind) for kind in record.types)
        types = dict(zip(layout.attributes, kinds, strict=True))
    elif earlier.source.kind.is_container:
        # An import converts Parquet keys to the table's types, but not those of DynamoDB JSON.
        keys = (*record.table.index_keys, *record.table.keys)
        types = {**{key.name: key.type for key in keys}, **types}
    source = replace(_source_of(record), path=path)
    return replace(
        earlier,
        source=source,
        types=types,
        infer_types=False,
        run=None,
        once=False,
        force=False,
        retry_of=record.run,
    )


def check_hmac_key(record: RunRecord, payload: Payload) -> None:
    """Raise `RunMismatch` if a payload's templates would use another HMAC key than the run."""
    key = hmac_key(payload)
    if key is None or key_fingerprint(key, record.payload.run or "") == record.hmac_key:
        return
    raise RunMismatch(
        f"run {record.run} began with another key in {HMAC_KEY}; give the same, so that equal texts"
        " have equal pseudonyms"
    )


def _source_of(record: RunRecord) -> Source:
    """Return the source that reads the rows from a UTF-8 file without a header."""
    source = record.payload.source
    nowhere: dict[str, Any] = dict.fromkeys(LOCATION_FIELDS)
    return replace(
        source,
        format=source.kind.retry_format or source.format,
        layout=source.layout_of_lines,
        skip_lines=0,
        header=not source.kind.has_columns,
        columns=record.columns if source.kind.has_columns else None,
        encoding="utf-8",
        compression=UNCOMPRESSED,
        **nowhere,
    )


class _RowRewriter:
    """Rewriter of rows from objects whose columns are in another order than the run's."""

    def __init__(self, record: RunRecord) -> None:
        source = _source_of(record)
        self._quote, self._escape = source.quote, source.escape
        self._delimiter = source.delimiter
        dialect = Dialect.of(source)
        self._encoding = dialect.encoding
        self._splitter = RowSplitter(dialect, record.payload.nulls.markers)
        self._columns = record.columns

    def reorder(self, raw: str, columns: Sequence[str]) -> str | None:
        """Return a row with its fields in the run's order; None if it is not a row of `columns`."""
        fields, defect = self._splitter.split(raw.encode(self._encoding, "surrogateescape"))
        known = dict(zip(columns, fields, strict=False))
        if defect or len(fields) != len(columns) or len(known) < len(fields):
            return None
        if not known.keys() <= set(self._columns):
            return None
        return self._delimiter.join(self._written(known.get(name, "")) for name in self._columns)

    def _written(self, field: str) -> str:
        """Write a field so that it is read back as the same text."""
        quote, escape = self._quote, self._escape
        if not field or (quote is None and escape is None):
            return field
        if escape is not None:
            special = {escape, quote or "", *self._delimiter, "\r", "\n"}
            # Without quotes, an escape before the first character distinguishes text from a null
            # marker.
            written = "".join(escape + each if each in special else each for each in field)
            if quote is None:
                return written if written[0] == escape else escape + written
            return f"{quote}{written}{quote}"
        assert quote is not None, "without an escape there is a quote"  # noqa: S101
        return f"{quote}{field.replace(quote, 2 * quote)}{quote}"


def _raws(lines: Iterable[bytes], name: str) -> Iterator[tuple[int, str, list[str] | None, str]]:
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
                f"{name}, line {number}: not a reject, which is a JSON object with a string 'raw',"
                " as ddbload rejects --json prints it"
            )
        try:
            raw.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            raise BadRetryFile(
                f"{name}, line {number}: its 'raw' cannot be encoded in UTF-8"
            ) from None
        columns = value.get("columns") if isinstance(value, dict) else None
        is_names = isinstance(columns, list) and all(isinstance(each, str) for each in columns)
        yield number, raw, columns if is_names else None, _place(value)


def _place(reject: Mapping[str, Any]) -> str:
    byte = reject.get("byte")
    place = [reject.get("source"), byte] if isinstance(byte, int) else reject["raw"]
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()[:_PLACE_DIGITS]


def _as_dynamodb_json(raw: str, policy: str) -> str:
    """Apply the null policy to a Parquet row, whose reject is DynamoDB JSON with nulls."""
    try:
        # Keep numbers as text, so that no digit changes.
        value = json.loads(raw, parse_int=str, parse_float=str)
        item = dict(value["Item"])
    except (ValueError, RecursionError, LookupError, TypeError):
        # Not JSON: the import rejects it again, with the reason.
        return raw
    if policy == NULL or _NULL not in item.values():
        return raw
    for name in [name for name, attribute in item.items() if attribute == _NULL]:
        if policy == OMIT:
            del item[name]
        elif policy == EMPTY:
            item[name] = {"S": ""}
        else:
            # Not a valid attribute value, so the row is rejected again.
            item[name] = {}
    return json.dumps({**value, "Item": item}, ensure_ascii=False)


def _is_one_row(row: bytes, ends: RowBoundaries) -> bool:
    spans = RowPositions(Block(row, Cursor(0, 1)), ends, 1).spans
    return spans == [(0, len(row))] and ends.last(row, final=False) == len(row)
