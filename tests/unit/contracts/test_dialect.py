"""Tests of dialects, and of files that are not text."""

from __future__ import annotations

import bz2
import lzma

import pytest

from ddbload.contracts.column_mapping import Dialect
from ddbload.errors import InvalidPayload, UnsupportedFormat
from ddbload.rows.file_signatures import LONGEST_SIGNATURE, refuse_binary_files


@pytest.mark.parametrize(
    ("delimiter", "quote", "message"),
    [
        ("", '"', "'source.delimiter' must be one character, not 0"),
        (",", "''", "'source.quote' must be one character, not 2"),
        ("\n", '"', "'source.delimiter' cannot be a line end"),
        (":\r", '"', "'source.delimiter' cannot contain a line end"),
        (":'", "'", "'source.delimiter' cannot contain 'source.quote'"),
        (",", "\r", "'source.quote' cannot be a line end"),
        ("\udc80", '"', "'source.delimiter' is not a character of UTF-8"),
        (",", "\ud800", "'source.quote' is not a character of UTF-8"),
        ("'", "'", "'source.delimiter' and 'source.quote' are the same character"),
    ],
)
def test_dialect_refuses_ambiguous_characters(
    delimiter: str, quote: str | None, message: str
) -> None:
    with pytest.raises(InvalidPayload) as caught:
        Dialect(delimiter, quote)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"\x28\xb5\x2f\xfd\x04", "Zstandard"),
        (b"PK\x03\x04\x14", "ZIP"),
        (b"PAR1\x15", "Parquet"),
        ("\ufeffid".encode("utf-16-le"), "UTF-16"),
        ("\ufeffid".encode("utf-16-be"), "UTF-16"),
        (bz2.compress(b"id\n1\n"), "bzip2"),
        (bz2.compress(b""), "bzip2"),
        (lzma.compress(b"id\n"), "xz"),
        (b"Obj\x01\x04\x14avro.codec", "Avro"),
        (b"SQLite format 3\0", "SQLite"),
        (b"x.csv".ljust(257, b"\0") + b"ustar\x0000", "tar"),
        (b"x.csv".ljust(257, b"\0") + b"ustar  \0", "tar"),
    ],
)
def test_binary_file_is_refused_by_format(start: bytes, kind: str) -> None:
    with pytest.raises(UnsupportedFormat, match=kind):
        refuse_binary_files(start[:LONGEST_SIGNATURE])


@pytest.mark.parametrize(
    "start",
    [b"", b"P", b"PK,name\n", b"\xef\xbb\xbfid\n", b"PAR,1", b"BZh9,x\n", b"ORC\n1", b"ORC,x"],
)
def test_text_file_is_not_refused(start: bytes) -> None:
    refuse_binary_files(start)
