"""File signatures: first bytes that identify compressions, encodings and other kinds of files."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ddbload.contracts.source import BZIP2, GZIP, UNCOMPRESSED, XZ, ZIP, ZSTD
from ddbload.contracts.text_encodings import is_single_byte, known_codec
from ddbload.errors import UnsupportedFormat

BYTE_ORDER_MARK = codecs.BOM_UTF8
PARQUET_SIGNATURE = b"PAR1"
GZIP_SIGNATURE = b"\x1f\x8b"
ZSTD_SIGNATURE = b"\x28\xb5\x2f\xfd"
XZ_SIGNATURE = b"\xfd7zXZ\x00"
ZSTD_SKIPPABLE_SIGNATURES = tuple(bytes([0x50 + low]) + b"\x2a\x4d\x18" for low in range(16))
"""First bytes of skippable frames, with which Zstandard data may also begin (RFC 8878)."""
LONGEST_COMPRESSION_SIGNATURE = 10
_COMPRESSED_NAMES = {
    (".gz", ".gzip", ".bgz"): GZIP,
    (".zst", ".zstd"): ZSTD,
    (".bz2",): BZIP2,
    (".xz",): XZ,
    (f".{ZIP}",): ZIP,
}
LONGEST_BYTE_ORDER_MARK = 4
# UTF-32 before UTF-16: its little-endian mark begins with UTF-16's.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONVERT = "ddbload does not read it: write it as Parquet, CSV or JSON Lines"
_EXPORT = "export the table again as JSON (--export-format DYNAMODB_JSON)"
_OTHER_KINDS: tuple[tuple[bytes | tuple[bytes, ...], str], ...] = (
    (GZIP_SIGNATURE, "gzip data; decompress it first, or say --compression gzip"),
    (ZSTD_SIGNATURE, "Zstandard data; decompress it first, or say --compression zstd"),
    (PARQUET_SIGNATURE, "a Parquet file; leave out --format, or say --format parquet"),
    (
        (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
        "UTF-16 text; say --encoding utf-16, or, of one of several objects, import it by itself",
    ),
    (b"BZh", "bzip2 data; decompress it first, or say --compression bzip2"),
    (XZ_SIGNATURE, "xz data; decompress it first, or say --compression xz"),
    (b"\x04\x22\x4d\x18", "LZ4 data; pipe it in: lz4 -dc FILE | ddbload import - TABLE"),
    (b"\xff\x06\x00\x00sNaPpY", "Snappy data; decompress it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it: 7z x FILE"),
    (b"Rar!\x1a\x07", "a RAR archive; unpack it: unrar x FILE"),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "an old spreadsheet (.xls) or another document of Office; save the sheet as CSV UTF-8",
    ),
    (b"Obj\x01", f"an Avro file; {_CONVERT}"),
    ((b"ORC\n\x03", b"ORC\x00"), f"an ORC file; {_CONVERT}"),
    (b"ARROW1\x00\x00", f"an Arrow file; {_CONVERT}"),
    (b"\xe0\x01\x00\xea", f"Amazon Ion; {_CONVERT}"),
    (
        b"SQLite format 3\x00",
        "an SQLite database; export a table: sqlite3 -csv -header FILE 'SELECT * FROM NAME'",
    ),
    (b"%PDF-", "a PDF document; extract its table to CSV first"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image; name the file with the data"),
    (b"\xff\xd8\xff", "a JPEG image; name the file with the data"),
    (b"GIF89a", "a GIF image; name the file with the data"),
    ((b"ID3\x03", b"ID3\x04"), "a recording; name the file with the data"),
    (b"\x89HDF\r\n\x1a\n", f"an HDF5 file; {_CONVERT}"),
    (b"\x93NUMPY", f"a NumPy array; {_CONVERT}"),
    ((b"\x80\x03}", b"\x80\x04\x95", b"\x80\x05\x95"), f"a Python pickle; {_CONVERT}"),
    (b"PGDMP", "a dump of pg_dump; export the table: psql -c '\\copy NAME to FILE csv header'"),
    (b"\x7fELF", "a program; name the file with the data"),
)
ZIP_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
"""First bytes of ZIP archives: with files, without any, and of the first of several parts."""
SPREADSHEET = "a spreadsheet (.xlsx or .ods); save the sheet as CSV UTF-8"
"""Description of a spreadsheet in errors, with the advice."""
_SHEET_FILES = (b"[Content_Types].xml", b"_rels/", b"xl/", b"docProps/", b"mimetypeapplication/")
"""Names of the first file in the ZIP archives of spreadsheets."""
_TEXT_KINDS: tuple[tuple[str | tuple[str, ...], str], ...] = (
    ("<?xml", "XML; ddbload does not read it: write its records as CSV or JSON Lines"),
    (("<!doctype html", "<html"), "an HTML page, as of an error or a login; fetch the file itself"),
    ("{\\rtf", "a document in RTF; save its table as CSV"),
    ("$ion_1_0", f"Amazon Ion; {_CONVERT}"),
    ("{item:{", f"Amazon Ion, as an export of DynamoDB has it; {_EXPORT}"),
    ("%yaml", "YAML; ddbload does not read it: write it as JSON Lines"),
    (("insert into ", "create table "), "SQL statements; export the table as CSV instead"),
    (
        ("-- mysql dump", "--\n-- postgresql database dump"),
        "a dump in SQL; export it as CSV instead",
    ),
    ("version https://git-lfs", "a pointer of Git LFS, and not the data: git lfs pull gets them"),
)
"""First characters, in lower case, of texts without rows."""
_XML = re.compile(r"<([a-z][\w:-]*)(?:[ \n][^<>]*)?>\s*<[a-z!]")
"""Tag followed by another tag, which no column name contains."""
_JSON = re.compile(r"\{\s*\"|\[\s*\{")
_ION_ITEM = re.compile(r"\A(\$ion_1_0\s+)?\{\s*item\s*:\s*\{")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_LOOKED_AT = 1024
_BZIP2 = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
# The header of a tar archive has these bytes at this offset.
_TAR, _TAR_AT = b"ustar", 257
LONGEST_SIGNATURE = _TAR_AT + len(_TAR)


def compression_of(start: bytes) -> str:
    """Detect the compression from `LONGEST_COMPRESSION_SIGNATURE` bytes or more."""
    if start.startswith(GZIP_SIGNATURE):
        return GZIP
    if start.startswith(XZ_SIGNATURE):
        return XZ
    if start.startswith(b"BZh") and start.startswith(_BZIP2, 4):
        return BZIP2
    return ZSTD if start.startswith((ZSTD_SIGNATURE, *ZSTD_SKIPPABLE_SIGNATURES)) else UNCOMPRESSED


def compression_by_name(name: str) -> str | None:
    """Return the compression or archive that a name's suffix stands for; None for others."""
    return next(
        (kind for ends, kind in _COMPRESSED_NAMES.items() if name.lower().endswith(ends)), None
    )


def is_unwritten(start: bytes) -> bool:
    """Return whether a file ends within a compression's signature, or begins with only zeros.

    Incomplete copies look like this. `start`: first `LONGEST_COMPRESSION_SIGNATURE` bytes, or the
    whole file if it is shorter.
    """
    signatures = (GZIP_SIGNATURE, ZSTD_SIGNATURE, XZ_SIGNATURE, b"BZh")
    is_cut = any(each.startswith(start) and start != each for each in signatures)
    return is_cut or not start[:4].strip(b"\0")


def encoding_of(start: bytes) -> str | None:
    """Detect the encoding by the byte order mark, from `LONGEST_BYTE_ORDER_MARK` bytes or more."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if start.startswith(mark)), None)


def bad_byte(byte: int, encoding: str) -> str:
    """Describe a byte that is invalid in an encoding, and what may help."""
    told = f"byte 0x{byte:02X} is not {encoding} here"
    # FE and FF are the byte order mark of UTF-16.
    if encoding != "UTF-8" or byte >= 0xFE:
        return told
    return f"{told}; name the file's encoding (--encoding)"


def refuse_binary_files(start: bytes, *, is_member: bool = False) -> None:
    """Raise `UnsupportedFormat` if a file's first bytes show that it is not UTF-8 text.

    `is_member`: it is in an archive, of which no option applies to a single member.
    """
    kind = next((kind for mark, kind in _OTHER_KINDS if start.startswith(mark)), None)
    if start.startswith(b"BZh") and not start.startswith(_BZIP2, 4):
        # Plain text may begin with the same three letters.
        kind = None
    if start.startswith(ZIP_SIGNATURES):
        zipped = "a ZIP archive; unpack it, or leave out --compression and name it .zip"
        kind = SPREADSHEET if start.startswith(_SHEET_FILES, 30) else zipped
    if start.startswith(_TAR, _TAR_AT):
        kind = "a tape archive (tar); unpack it: tar -xf FILE"
    if kind is not None and is_member and "--" in kind:
        kind = f"{kind.partition(';')[0]}: unpack the archive, and import this file by itself"
    if kind is not None:
        raise UnsupportedFormat(f"not UTF-8 text: the first bytes are those of {kind}")


def refuse_control_characters(start: bytes) -> None:
    """Raise `UnsupportedFormat` if a file that is not UTF-8 begins with control characters."""
    if _CONTROL.search(start, 0, _LOOKED_AT):
        raise UnsupportedFormat(
            "not UTF-8 text: the first bytes have control characters, as files that are not text"
            " have; name the file with the data, or, if it is text, its encoding (--encoding, such"
            " as utf-16)"
        )


def refuse_other_texts(start: bytes, *, has_columns: bool) -> None:
    """Raise `UnsupportedFormat` for text that begins like XML, HTML, SQL or similar.

    `has_columns`: the text is read as rows with columns, and so is not JSON either.
    """
    text = start.removeprefix(BYTE_ORDER_MARK).lstrip().decode("latin-1").lower()
    text = text.replace("\r\n", "\n")
    # Ion allows white space between any tokens.
    text = _ION_ITEM.sub("{item:{", text)
    kind = next((kind for mark, kind in _TEXT_KINDS if text.startswith(mark)), None)
    if kind is None and _XML.match(text):
        kind = _TEXT_KINDS[0][1]
    if kind is None and has_columns and _JSON.match(text):
        kind = "JSON does: leave out --format, and import it apart from rows with columns"
    if kind is not None:
        raise UnsupportedFormat(
            f"the file begins as {kind}; if it has columns all the same, say --skip-lines N or"
            " --no-header"
        )


# Text of database dumps.

_NULL = re.compile(rb"(?<![^\t\r\n])\\N(?![^\t\r\n])|(?<![^\r\n])\\\.(?![^\r\n])")
r"""Cells of `\N`, or the line `\.` at the end of COPY."""
_NULL_OF_HIVE = re.compile(rb"(?<![^\x01\r\n])\\N(?![^\x01\r\n])")
_ESCAPED = re.compile(rb"\\([\s\S]?)([a-z]?)")
r"""Escaped byte, and a small letter after it: `\n` and `e` may begin the name of a folder."""
_WRITTEN = {"postgres": frozenset(b"\\nrtfv"), "mysql": frozenset(b"\\nrt0Z\t\n")}
r"""Bytes that a program escapes. Both also read `\b`, which is hardly ever a backspace."""
_RARE = b"fv0Z"
_ENOUGH_ESCAPES = 8
"""Escapes in the beginning of a file that show that the rest of it is escaped, too."""
_LONE = re.compile(rb"(?<![^\t\r\n])\\[nrt](?![^\t\r\n])")
"""Cells of a single escape, which may be names of delimiters."""
_UNESCAPED = re.compile(
    rb"(?<![A-Za-z])[A-Za-z]:\\[^\\]|(?<![^\t\r\n])\\\\[\w.-]+\\\w|\[\^?(?:\\[nrt])+\]"
)
r"""Paths of Windows, and patterns such as `[\r\n]`, whose backslashes are not escaped."""


def dump_program(data: bytes, *, whole: bool) -> tuple[str, bool] | None:
    """Return the program that wrote a dump, and whether that is certain; None for other text.

    `data`: beginning of a file in UTF-8; `whole`: all of it. It is not certain if words may follow
    backslashes, or if few escapes were seen and rows that were not may have other backslashes.
    Without any escape but null these decide.
    """
    if b"\\" not in data or b'"' in data:
        return None
    complete = data if whole else data[: data.rfind(b"\n") + 1]
    if b"\x01" in complete:
        others, nulls = _NULL_OF_HIVE.subn(b"", complete)
        return ("hive", True) if nulls and b"\\" not in others else None
    others, nulls = _NULL.subn(b"", complete)
    pairs = _ESCAPED.findall(others)
    if not nulls or not (pairs or whole) or _UNESCAPED.search(others):
        return None
    words = sum((bool(letter) and byte.isalnum()) or byte in _RARE for byte, letter in pairs)
    words += len(_LONE.findall(others))
    for program, written in _WRITTEN.items():
        if all(byte and byte[0] in written for byte, _ in pairs):
            return program, 2 * words <= len(pairs) and (whole or len(pairs) >= _ENOUGH_ESCAPES)
    return None


# Text that is not UTF-8.

_COMMON = ("cp1252", "cp1250", "cp1251", "mac-roman", "shift-jis", "gbk", "latin-1")
"""Encodings of public files, the most frequent first."""
_SHOWN_ENCODINGS = 7
_LEAST_BYTES = 16
"""Bytes beyond ASCII from which on a detected encoding is more than chance."""
_FIRST_C1, _LAST_C1 = "\x80", "\x9f"
_COMPARED_BYTES = 16 * 1024
_SHOWN_CHARACTERS = 60


def refuse_other_encodings(data: bytes, *, whole: bool, is_member: bool = False) -> None:
    """Raise `UnsupportedFormat` for text of which most lines beyond ASCII are not UTF-8.

    `data`: beginning of the file; `whole`: all of it; `is_member`: in an archive. A few lines of
    that kind in other text are damaged, and rejected.
    """
    if data.isascii():
        return
    lines = data.split(b"\n")
    if not whole:
        lines.pop()
    beyond = [line for line in lines if not line.isascii()]
    bad = [(number, line) for number, line in enumerate(lines, 1) if not _is_utf8(line)]
    if 2 * len(bad) <= len(beyond) or not bad:
        return
    refuse_binary_files(data, is_member=is_member)
    refuse_control_characters(data)
    number, line = bad[0]
    found = [*_texts(line, b"\n".join(line for _, line in bad)[:_COMPARED_BYTES])]
    error = UnsupportedFormat(
        f"line {number} has bytes that are not UTF-8, and so have {len(bad):,} of its first"
        f" {len(lines):,} lines: say which encoding the file has, such as"
        f" {', '.join(f'--encoding {name}' for name, _ in found)}; --encoding utf-8 rejects these"
        " rows"
    )
    error.options = tuple(_option(name, text) for name, text in found)
    raise error


def _option(name: str, text: str) -> dict[str, Any]:
    # Only a person sees which text is right, so none is marked as the best.
    return {"options": ["--encoding", name], "best": False, "names": None, "rows": [[text]]}


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _texts(line: bytes, bad: bytes) -> Iterator[tuple[str, str]]:
    """Yield encodings that read the lines, each with the text of one line: all of them differ."""
    texts: dict[str, str] = {}
    for name in (*_COMMON, *(detected := _detected(bad))):
        with suppress(UnicodeDecodeError):
            text = bad.decode(name)
            if not any(_FIRST_C1 <= character <= _LAST_C1 for character in text):
                texts[name] = text
    seen: set[str] = set()
    first = next(place for place, byte in enumerate(line) if byte > 127)
    for name in (*detected, *_COMMON):
        text = texts.get(name, "")
        if text and text not in seen and len(seen) < _SHOWN_ENCODINGS:
            seen.add(text)
            # Of encodings that read the lines alike, the most frequent one.
            usual = next(each for each in texts if texts[each] == text)
            start = max(0, len(line[:first].decode()) - _SHOWN_CHARACTERS // 2)
            shown = line.decode(usual).strip("\r")[start : start + _SHOWN_CHARACTERS]
            yield usual, shown


def _detected(bad: bytes) -> list[str]:
    """Return the encodings that charset-normalizer finds, the most likely first."""
    try:
        # Imported here, because few files need it, and the deployed functions are without it.
        from charset_normalizer import from_bytes
    except ImportError:
        return []
    if len(bad.translate(None, bytes(range(128)))) < _LEAST_BYTES:
        return []
    names = [known_codec(match.encoding) for match in from_bytes(bad)]
    return [name for name in names if name and (is_single_byte(name) or name in _COMMON)][:2]
