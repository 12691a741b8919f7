"""How a delimited file separates and quotes its fields."""

from __future__ import annotations

from ddbload.errors import UnsupportedFormat

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OTHER_KINDS = (
    (b"\x1f\x8b", "gzip data; decompress it first, or say --compression gzip"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data; decompress it first, or say --compression zstd"),
    (b"PK\x03\x04", "a ZIP archive (or a spreadsheet); unpack it, or save the sheet as CSV"),
    (b"PAR1", "a Parquet file"),
    (b"\xff\xfe", "UTF-16 text; say --encoding utf-16"),
    (b"\xfe\xff", "UTF-16 text; say --encoding utf-16"),
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
# The header of a tape archive's first file.
_TAR, _TAR_AT = b"ustar", 257
LONGEST_SIGNATURE = _TAR_AT + len(_TAR)


def refuse_binary_files(start: bytes) -> None:
    """Raise `UnsupportedFormat` when a file's first bytes are those of no text in UTF-8."""
    kind = next((kind for mark, kind in _OTHER_KINDS if start.startswith(mark)), None)
    if start.startswith(b"BZh") and not start.startswith(_BZIP2, 4):
        # A name that begins so, as any word may.
        kind = None
    if start.startswith(_TAR, _TAR_AT):
        kind = "a tape archive (tar); unpack it"
    if kind is not None:
        raise UnsupportedFormat(f"this is no UTF-8 text: its first bytes are those of {kind}")
