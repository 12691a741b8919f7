"""How a source is read, where it was left open: found out from its first bytes, and its name."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from ddbload.contracts.dialect import Dialect, placeholder_delimiter
from ddbload.contracts.payload import AUTO, CSV, PARQUET, TSV, Source
from ddbload.pipeline.reading.open_sources import compression_in, open_as_text
from ddbload.rows.file_signatures import LONGEST_BYTE_ORDER_MARK, PARQUET_SIGNATURE, encoding_of
from ddbload.rows.sniff import sniff
from ddbload.rows.sniff_delimiter import SNIFFED_BYTES, Doubt
from ddbload.source.byte_source import ByteSource
from ddbload.source.decoding.decoded_source import DecodedSource

_MOST_BYTES = 4 * SNIFFED_BYTES
_PIECE_BYTES = SNIFFED_BYTES


@dataclass(frozen=True, slots=True)
class DetectedFormat:
    """A source without anything left open, and how sure that is."""

    source: Source
    sure: float = 1.0
    why: str | None = None
    """None where nothing was guessed."""
    doubt: Doubt | None = None
    """Why the first row is hardly a header, where the delimiter was guessed."""


def detect_format(raw: ByteSource, source: Source, wanted: Collection[str]) -> DetectedFormat:
    """Settle each `AUTO` of a source by its first, or only, object.

    `wanted`: the columns that the table's keys are made of. Raises what reading raises.
    """
    plain = replace(source, compression=compression_in(raw, source))
    if source.format in (AUTO, PARQUET) and _begins(raw) == PARQUET_SIGNATURE:
        return DetectedFormat(replace(plain, format=PARQUET, delimiter=",", encoding="utf-8"))
    plain = _with_encoding(raw, plain)
    if source.delimiter != AUTO and source.format == AUTO:
        # Only delimited text has a delimiter, and with it there is nothing left to guess.
        return DetectedFormat(replace(plain, format=TSV if source.delimiter == "\t" else CSV))
    if AUTO not in (source.format, source.delimiter) or source.format not in (AUTO, CSV):
        return DetectedFormat(plain)
    file = open_as_text(raw, plain)
    start, whole = _sample(file, source.skip_lines)
    found = sniff(
        start,
        name=raw.name,
        whole=whole,
        wanted=wanted,
        header=source.header,
        count=None if source.columns is None else len(source.columns),
        dialect=Dialect.of(
            replace(plain, delimiter=placeholder_delimiter(source.quote), encoding="utf-8")
        ),
        format_=None if source.format == AUTO else source.format,
    )
    settled = replace(plain, format=found.format, delimiter=found.delimiter or ",")
    return DetectedFormat(settled, found.sure, found.why, found.doubt)


def _begins(raw: ByteSource) -> bytes:
    size = min(raw.size, len(PARQUET_SIGNATURE))
    return b"".join(raw.stream(0, size, size or 1))


def _with_encoding(raw: ByteSource, source: Source) -> Source:
    if source.encoding != AUTO:
        return source
    file = open_as_text(raw, source)
    start = _first(file.stream(0, None, LONGEST_BYTE_ORDER_MARK), LONGEST_BYTE_ORDER_MARK)
    return replace(source, encoding=encoding_of(start) or "utf-8")


def _sample(file: DecodedSource, skip_lines: int) -> tuple[bytes, bool]:
    """The first bytes after the lines to be skipped, and whether they are all."""
    start = _first(file.stream(0, None, _PIECE_BYTES), _MOST_BYTES)
    whole = len(start) < _MOST_BYTES
    for _ in range(skip_lines):
        _, found, start = start.replace(b"\r\n", b"\n").replace(b"\r", b"\n").partition(b"\n")
        if not found:
            break
    return start, whole


def _first(pieces: Iterator[bytes], size: int) -> bytes:
    held = b""
    for piece in pieces:
        held += piece
        if len(held) >= size:
            break
    return held[:size]
