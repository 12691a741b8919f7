"""How a delimited file separates and quotes its fields."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from ddbload.contracts import Source
from ddbload.errors import InvalidPayload, UnsupportedFormat
from ddbload.rows.encodings import UTF_8, is_single_byte, known_codec

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_LINE_ENDS = ("\r", "\n")
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


@dataclass(frozen=True, slots=True)
class Dialect:
    """RFC 4180 with marks of any characters of Unicode.

    Rows end with CR, LF or CRLF, mixed at will. A quote opens a quoted field only as the
    field's first character, and is written inside one by doubling it; elsewhere it stands
    for itself. Raises `InvalidPayload` for marks that cannot be told apart.
    """

    delimiter: str = ","
    """One character or more; where it overlaps itself, the leftmost one counts."""
    quote: str | None = '"'
    """One character. None: quotes mean nothing."""
    escape: str | None = None
    """One character, which gives the character after it its plain meaning, in quotes and outside.

    Of a line end, too; of CRLF it is the CR. A quote may still be doubled. None: doubled only.
    """
    comment: str | None = None
    """What a line begins with that is none, where a row may begin; all else in it means nothing."""
    encoding: str = UTF_8
    """UTF-8, or an encoding whose bytes are characters: see `is_single_byte`."""

    def __post_init__(self) -> None:
        if self.escape == self.quote:
            # As psql has it: the quote that escapes a quote is one that is doubled.
            object.__setattr__(self, "escape", None)
        marks = {
            name: value
            for name in ("delimiter", "quote", "escape", "comment")
            if (value := getattr(self, name)) is not None
        }
        for name, value in marks.items():
            self._check(name, value)
        for one, other in combinations(marks, 2):
            if marks[one] == marks[other]:
                raise InvalidPayload(f"'source.{one}' and 'source.{other}' are the same character")
        for name in ("quote", "escape"):
            if marks.get(name, "\n") in self.delimiter:
                raise InvalidPayload(f"'source.delimiter' cannot contain 'source.{name}'")

    def _check(self, name: str, value: str) -> None:
        if not value or (len(value) > 1 and name in ("quote", "escape")):
            raise InvalidPayload(f"'source.{name}' must be one character, not {len(value)}")
        if any(line_end in value for line_end in _LINE_ENDS):
            said = "be" if value in _LINE_ENDS else "contain"
            raise InvalidPayload(f"'source.{name}' cannot {said} a line end")
        try:
            value.encode(self.encoding)
        except UnicodeEncodeError:
            what = "UTF-8" if self.encoding == UTF_8 else self.encoding
            raise InvalidPayload(f"'source.{name}' is not a character of {what}") from None

    @property
    def is_plain(self) -> bool:
        """Whether nothing but a delimiter and a quote of one character has a meaning."""
        return len(self.delimiter) == 1 and self.escape is None and self.comment is None

    @classmethod
    def of(cls, source: Source) -> Dialect:
        """The dialect that a payload's source asks for.

        What is in no encoding that can be split has been made UTF-8 before it is read.
        """
        encoding = known_codec(source.encoding) or UTF_8
        return cls(
            source.delimiter,
            source.quote,
            source.escape,
            source.comment,
            encoding if is_single_byte(encoding) else UTF_8,
        )


def refuse_other_kinds(start: bytes) -> None:
    """Raise `UnsupportedFormat` when a file's first bytes are those of no text in UTF-8."""
    kind = next((kind for mark, kind in _OTHER_KINDS if start.startswith(mark)), None)
    if start.startswith(b"BZh") and not start.startswith(_BZIP2, 4):
        # A name that begins so, as any word may.
        kind = None
    if start.startswith(_TAR, _TAR_AT):
        kind = "a tape archive (tar); unpack it"
    if kind is not None:
        raise UnsupportedFormat(f"this is no UTF-8 text: its first bytes are those of {kind}")
