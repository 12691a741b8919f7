"""How a delimited file separates and quotes its fields."""

from __future__ import annotations

from dataclasses import dataclass

from ddbload.contracts import Source
from ddbload.errors import InvalidPayload, UnsupportedFormat

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_LINE_ENDS = ("\r", "\n")
_OTHER_KINDS = (
    (b"\x1f\x8b", "gzip data; decompress it first"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data; decompress it first"),
    (b"PK\x03\x04", "a ZIP archive (or a spreadsheet); unpack it, or save the sheet as CSV"),
    (b"PAR1", "a Parquet file"),
    (b"\xff\xfe", "UTF-16 text; convert it to UTF-8 first"),
    (b"\xfe\xff", "UTF-16 text; convert it to UTF-8 first"),
)
LONGEST_SIGNATURE = max(len(signature) for signature, _ in _OTHER_KINDS)


@dataclass(frozen=True, slots=True)
class Dialect:
    """RFC 4180 with a delimiter and a quote of one character each, any character of Unicode.

    Rows end with CR, LF or CRLF, mixed at will. A quote opens a quoted field only as the
    field's first character, and is written inside one by doubling it; elsewhere it stands
    for itself. `quote` None: quotes mean nothing.
    """

    delimiter: str = ","
    quote: str | None = '"'

    def __post_init__(self) -> None:
        for name, value in (("delimiter", self.delimiter), ("quote", self.quote)):
            if value is None:
                continue
            if len(value) != 1:
                raise InvalidPayload(f"'source.{name}' must be one character, not {len(value)}")
            if value in _LINE_ENDS:
                raise InvalidPayload(f"'source.{name}' cannot be a line end")
            if "\ud800" <= value <= "\udfff":
                raise InvalidPayload(f"'source.{name}' is not a character of UTF-8")
        if self.delimiter == self.quote:
            raise InvalidPayload("'source.delimiter' and 'source.quote' are the same character")

    @classmethod
    def of(cls, source: Source) -> Dialect:
        """The dialect that a payload's source asks for."""
        return cls(source.delimiter, source.quote)


def refuse_other_kinds(start: bytes) -> None:
    """Raise `UnsupportedFormat` when a file's first bytes are those of no text in UTF-8."""
    for signature, kind in _OTHER_KINDS:
        if start.startswith(signature):
            raise UnsupportedFormat(f"this is no UTF-8 text: its first bytes are those of {kind}")
