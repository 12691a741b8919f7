"""Detect format, delimiter, encoding and compression from a source's first bytes and its name."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from ddbload.contracts.dialect import Dialect, placeholder_delimiter
from ddbload.contracts.source import AUTO, CSV, DYNAMODB_JSON, JSON, PARQUET, TSV, Source
from ddbload.reading.header import detect_layout
from ddbload.reading.open_sources import compression_in, open_as_text
from ddbload.rows.file_signatures import LONGEST_BYTE_ORDER_MARK, PARQUET_SIGNATURE, encoding_of
from ddbload.rows.format_guess import Doubt
from ddbload.rows.header_doubts import HeaderEvidence
from ddbload.rows.sample_splits import SNIFFED_BYTES
from ddbload.rows.sniff import sniff
from ddbload.source.byte_source import ByteSource
from ddbload.source.decoding.decoded_source import DecodedSource

_MOST_BYTES = 4 * SNIFFED_BYTES
_PIECE_BYTES = SNIFFED_BYTES


@dataclass(frozen=True, slots=True)
class DetectedFormat:
    """Source with every `auto` replaced, and the confidence of the guess."""

    source: Source
    sure: float = 1.0
    why: str | None = None
    """Reason for the guess; None if nothing was guessed."""
    doubt: Doubt | None = None
    """Reason to doubt that the first row is a header, if the delimiter was guessed."""
    header: HeaderEvidence | None = None
    """Evidence for the first row as a header; None if it is not taken for one."""

    @property
    def header_looks_like_data(self) -> bool:
        """True if the first row is taken for a header and looks like data."""
        return self.header is not None and self.header.looks_like_data

    def to_json(self) -> dict[str, Any]:
        """Return the reading for a plan: what was detected, and how sure that is."""
        source, guessed = self.source, self.why is not None
        value: dict[str, Any] = {
            "format": source.format,
            "delimiter": source.delimiter,
            "quote": source.quote,
            "escape": source.escape,
            "comment": source.comment,
            "header": source.header,
        }
        if not source.kind.has_columns:
            # JSON has no dialect.
            value = {**dict.fromkeys(value), "format": source.format}
        if source.framed:
            value["layout"] = source.layout
        readings = () if self.doubt is None else self.doubt.readings
        return {
            **value,
            "skip_lines": source.skip_lines,
            "encoding": source.encoding,
            "compression": source.compression,
            "sure": self.sure if guessed else 1.0,
            "why": self.why if guessed else "as given",
            "header_why": None if self.header is None else self.header.why,
            "header_looks_like_data": self.header_looks_like_data,
            "readings": [asdict(each) for each in readings],
        }


def detect_format(raw: ByteSource, source: Source, wanted: Collection[str]) -> DetectedFormat:
    """Replace each `auto` of a source, by its first object.

    `wanted`: columns that the table's keys are made from. Raises errors of reading.
    """
    plain = replace(source, compression=compression_in(raw, source))
    if source.format in (AUTO, PARQUET) and _first_bytes(raw) == PARQUET_SIGNATURE:
        return DetectedFormat(replace(plain, format=PARQUET, delimiter=",", encoding="utf-8"))
    plain = _with_encoding(raw, plain)
    if source.format in (JSON, DYNAMODB_JSON):
        return _with_layout(raw, DetectedFormat(plain), wanted)
    if source.delimiter != AUTO and source.format == AUTO:
        # Only delimited text has a delimiter, so the format is known too.
        return DetectedFormat(replace(plain, format=TSV if source.delimiter == "\t" else CSV))
    if AUTO not in (source.format, source.delimiter) or source.format not in (AUTO, CSV):
        return DetectedFormat(plain)
    file = open_as_text(raw, plain)
    start, whole = _sample(file, source.skip_lines)
    guess = sniff(
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
    source = replace(plain, format=guess.format, delimiter=guess.delimiter or ",")
    detected = DetectedFormat(source, guess.sure, guess.why, guess.doubt)
    is_json = guess.format in (JSON, DYNAMODB_JSON)
    return _with_layout(raw, detected, wanted, guessed=True) if is_json else detected


def _with_layout(
    raw: ByteSource, detected: DetectedFormat, keys: Collection[str], *, guessed: bool = False
) -> DetectedFormat:
    """Detect the layout of JSON objects, and their format if it was only guessed."""
    source = detected.source
    if source.skip_lines or source.layout != AUTO:
        return detected
    found = detect_layout(open_as_text(raw, source), keys)
    if found is None:
        return detected
    layout, guess = found
    source = replace(source, layout=layout, format=guess.format if guessed else source.format)
    return DetectedFormat(source, guess.sure, guess.why)


def _first_bytes(raw: ByteSource) -> bytes:
    size = min(raw.size, len(PARQUET_SIGNATURE))
    return b"".join(raw.stream(0, size, size or 1))


def _with_encoding(raw: ByteSource, source: Source) -> Source:
    if source.encoding != AUTO:
        return source
    file = open_as_text(raw, source)
    start = _read_up_to(file.stream(0, None, LONGEST_BYTE_ORDER_MARK), LONGEST_BYTE_ORDER_MARK)
    return replace(source, encoding=encoding_of(start) or "utf-8")


def _sample(file: DecodedSource, skip_lines: int) -> tuple[bytes, bool]:
    """Read the first bytes after skipped lines; also tell whether these are all bytes."""
    start = _read_up_to(file.stream(0, None, _PIECE_BYTES), _MOST_BYTES)
    whole = len(start) < _MOST_BYTES
    if skip_lines:
        start = start.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    at = 0
    for _ in range(skip_lines):
        at = start.find(b"\n", at) + 1
        if not at:
            return b"", whole
    return start[at:], whole


def _read_up_to(pieces: Iterator[bytes], size: int) -> bytes:
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= size:
            break
    return bytes(held[:size])
