"""Signatures: the first bytes that tell compressions, encodings and other kinds of files."""

from __future__ import annotations

import codecs

from ddbload.contracts.source import GZIP, UNCOMPRESSED, ZSTD
from ddbload.errors import UnsupportedFormat

BYTE_ORDER_MARK = codecs.BOM_UTF8
PARQUET_SIGNATURE = b"PAR1"
GZIP_SIGNATURE = b"\x1f\x8b"
ZSTD_SIGNATURE = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE_SIGNATURES = tuple(bytes([0x50 + low]) + b"\x2a\x4d\x18" for low in range(16))
"""First bytes of metadata frames, with which Zstandard data may begin, too (RFC 8878)."""
LONGEST_COMPRESSION_SIGNATURE = 4
_COMPRESSED_NAMES = {(".gz", ".gzip", ".bgz"): GZIP, (".zst", ".zstd"): ZSTD}
LONGEST_BYTE_ORDER_MARK = 4
# UTF-32 before UTF-16: its little-endian mark begins with UTF-16's.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHER_KINDS = (
    (GZIP_SIGNATURE, "gzip data; decompress it first, or say --compression gzip"),
    (ZSTD_SIGNATURE, "Zstandard data; decompress it first, or say --compression zstd"),
    (b"PK\x03\x04", "a ZIP archive (or a spreadsheet); unpack it, or save the sheet as CSV"),
    (PARQUET_SIGNATURE, "a Parquet file"),
    (codecs.BOM_UTF16_LE, "UTF-16 text; say --encoding utf-16"),
    (codecs.BOM_UTF16_BE, "UTF-16 text; say --encoding utf-16"),
    (b"BZh", "bzip2 data; decompress it first"),
    (b"\xfd7zXZ\x00", "xz data; decompress it first"),
    (b"\x04\x22\x4d\x18", "LZ4 data; decompress it first"),
    (b"\xff\x06\x00\x00sNaPpY", "Snappy data; decompress it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old spreadsheet; save the sheet as CSV"),
    (b"Obj\x01", "an Avro file"),
    (b"ORC\n\x03", "an ORC file"),
    (b"ORC\x00", "an ORC file"),
    (b"ARROW1\x00\x00", "an Arrow file"),
    (b"\xe0\x01\x00\xea", "Amazon Ion"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"%PDF-", "a PDF document"),
)
_BZIP2 = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
# The header of the first file in a tar archive has these bytes at this offset.
_TAR, _TAR_AT = b"ustar", 257
LONGEST_SIGNATURE = _TAR_AT + len(_TAR)


def compression_of(start: bytes) -> str:
    """Detect gzip, zstd or none by `LONGEST_COMPRESSION_SIGNATURE` bytes or more."""
    if start.startswith(GZIP_SIGNATURE):
        return GZIP
    return ZSTD if start.startswith((ZSTD_SIGNATURE, *ZSTD_SKIPPABLE_SIGNATURES)) else UNCOMPRESSED


def compression_by_name(name: str) -> str | None:
    """Return the compression that a file's name ends with; None if it says nothing."""
    return next(
        (kind for ends, kind in _COMPRESSED_NAMES.items() if name.lower().endswith(ends)), None
    )


def is_unwritten(start: bytes) -> bool:
    """Tell whether a file ends within a compression's signature, or begins with zeros alone.

    `start`: its first bytes, `LONGEST_COMPRESSION_SIGNATURE` unless it has fewer. Copies that were
    not written to their end look like this.
    """
    is_cut = GZIP_SIGNATURE.startswith(start) or ZSTD_SIGNATURE.startswith(start)
    return is_cut or not start.strip(b"\0")


def encoding_of(start: bytes) -> str | None:
    """Detect an encoding by the byte order mark, in `LONGEST_BYTE_ORDER_MARK` bytes or more."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if start.startswith(mark)), None)


def refuse_binary_files(start: bytes) -> None:
    """Raise `UnsupportedFormat` for a file whose first bytes show that it is not UTF-8 text."""
    kind = next((kind for mark, kind in _OTHER_KINDS if start.startswith(mark)), None)
    if start.startswith(b"BZh") and not start.startswith(_BZIP2, 4):
        # Plain text may begin with these three letters.
        kind = None
    if start.startswith(_TAR, _TAR_AT):
        kind = "a tape archive (tar); unpack it"
    if kind is not None:
        raise UnsupportedFormat(f"not UTF-8 text: the first bytes are those of {kind}")
